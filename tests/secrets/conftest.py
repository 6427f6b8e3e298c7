from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.secrets.certificates import Authority
from tests.secrets.upstream_server import Script, UpstreamServer

from affiant.policy.model.token_exchange import TokenExchange
from affiant.secrets.broker.client.client import BrokerClient, broker_command
from affiant.secrets.broker.client.messages import (
    BrokerPart,
    BrokerStatus,
    Configuration,
    Grant,
    Limits,
    Resolution,
    ResponseHead,
    UpstreamOutcome,
    UpstreamRequest,
)
from affiant.secrets.broker.process import serve_control
from affiant.secrets.broker.tokens.tokens import Instants
from affiant.secrets.injection.body_surface import BodySurface
from affiant.secrets.injection.placeholder import Binding, Endpoint, mint_placeholder
from affiant.secrets.injection.signing_surface import SigningSurface, mint_signing_id
from affiant.secrets.injection.surface import AUTHORIZATION, QuerySurface, Surface
from affiant.secrets.names.value import SecretValue
from affiant.secrets.store.local_store_file import LocalStoreFile
from affiant.secrets.store.private_files import open_private_file

HOST = "api.example.test"


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="session")
def certificate(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return authority.leaf(tmp_path_factory.mktemp("certificates"), HOST)


@pytest.fixture
def serve(certificate: Path) -> Iterator[Callable[..., UpstreamServer]]:
    """Starts upstreams; ends them with the test."""
    servers: list[UpstreamServer] = []

    def start(script: Script, *, tls: Path | bool = True, **more: object) -> UpstreamServer:
        chosen = certificate if tls is True else tls or None
        servers.append(UpstreamServer(script, certificate=chosen, **more).__enter__())
        return servers[-1]

    yield start
    for server in servers:
        server.__exit__(None, None, None)


@dataclass
class Answer:
    head: ResponseHead
    body: bytes
    outcome: UpstreamOutcome


@dataclass
class Harness:
    """A broker as a supervisor starts and uses it, with one store and its grants."""

    folder: Path
    roots: tuple[str, ...]
    limits: Limits = Limits(connect_ms=5000, head_ms=5000, idle_ms=5000)
    grants: list[Grant] = field(default_factory=list)
    uid: int | None = None
    own_process: bool = False
    stderr: bytes = b""
    exit_status: int | None = None
    process: subprocess.Popen[bytes] | None = None
    resolution: Resolution | None = None
    instants: Instants = field(default_factory=lambda: Instants(time.monotonic, time.time, os.urandom))

    @property
    def store(self) -> LocalStoreFile:
        return LocalStoreFile(self.folder / "secrets", random_bytes=os.urandom)

    def grant(
        self,
        name: str,
        value: bytes | None,
        port: int,
        *,
        surface: Surface | QuerySurface | BodySurface | SigningSurface = AUTHORIZATION,
        host: str = HOST,
        exchange: TokenExchange | None = None,
    ) -> str:
        """Keep ``value`` and grant it for the upstream at ``port``; returns the placeholder."""
        if value is not None:
            self.store.set(name, SecretValue(value))
        signs = isinstance(surface, SigningSurface)
        placeholder = mint_signing_id(os.urandom) if signs else mint_placeholder(os.urandom)
        binding = Binding(name, placeholder, frozenset({Endpoint(host, port)}), surface)
        self.grants.append(Grant(binding, f"local:{name}", exchange=exchange))
        return placeholder

    @asynccontextmanager
    async def running(self) -> AsyncIterator[BrokerClient]:
        ours, theirs = socket.socketpair()
        async with self._process(theirs) if self.own_process else self._task(theirs):
            async with BrokerClient(ours) as client:
                await self._configure(client)
                yield client

    @asynccontextmanager
    async def _process(self, control: socket.socket) -> AsyncIterator[None]:
        user = {} if self.uid is None else {"uid": self.uid, "gid": self.uid}
        with control:
            self.process = subprocess.Popen(
                broker_command(control_fd=control.fileno(), parts=BrokerPart, **user),
                pass_fds=(control.fileno(),),
                env={},
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
        try:
            yield
        finally:
            await asyncio.to_thread(self.process.wait, 10)
            self.stderr = self.process.stderr.read()
            self.process.stderr.close()

    @asynccontextmanager
    async def _task(self, control: socket.socket) -> AsyncIterator[None]:
        """All of the broker but its process: quicker, and the same code."""
        status = BrokerStatus(pid=os.getpid(), uid=os.geteuid(), dumpable=True, memory_locked=False)
        task = asyncio.create_task(serve_control(control, status, instants=self.instants))
        try:
            yield
        finally:
            self.exit_status = await asyncio.wait_for(task, 10)

    async def _configure(self, client: BrokerClient) -> None:
        has_store = self.store.path.exists()
        paths = (self.store.path, self.store.key_path) if has_store else ()
        descriptors = tuple(map(open_private_file, paths))
        try:
            configuration = Configuration(
                grants=tuple(self.grants), roots=self.roots, local=has_store, limits=self.limits
            )
            self.resolution = await client.configure(configuration, local_store=descriptors or None)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def run(self, scenario: Callable[[BrokerClient], Awaitable[object]]) -> object:
        async def whole() -> object:
            async with asyncio.timeout(60):
                async with self.running() as client:
                    return await scenario(client)

        return asyncio.run(whole())

    def fetch(self, request: UpstreamRequest, body: list[bytes] | None = None) -> Answer:
        """One exchange through a broker of its own; raises its refusal."""

        async def scenario(client: BrokerClient) -> Answer:
            return await fetched(client, request, body)

        return self.run(scenario)


async def fetched(client: BrokerClient, request: UpstreamRequest, body: list[bytes] | None = None) -> Answer:
    async with client.exchange(request, None if body is None else pieces(body)) as exchange:
        head = await exchange.head()
        content = b"".join([chunk async for chunk in exchange.chunks()])
        return Answer(head, content, await exchange.outcome())


async def pieces(body: list[bytes]) -> AsyncIterator[bytes]:
    for piece in body:
        yield piece


def request_to(port: int, *headers: tuple[bytes, bytes], **changes) -> UpstreamRequest:
    members = {
        "id": "1",
        "scheme": "https",
        "host": HOST,
        "port": port,
        "address": "127.0.0.1",
        "method": "GET",
        "target": b"/v1/thing?x=1",
        "headers": ((b"Host", f"{HOST}:{port}".encode()), *headers),
    }
    return UpstreamRequest(**members | changes)


@pytest.fixture
def harness(tmp_path: Path, authority: Authority) -> Harness:
    return Harness(tmp_path, (authority.pem,))
