"""A whole proxy for the tests: real listener, real broker process, real TLS upstreams, a real signed chain."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.secrets.certificates import Authority
from tests.secrets.upstream_server import Script, UpstreamServer

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.records.chain import ChainSigner
from affiant.attestation.records.receipt import VerifiedReceipt, parse_receipt, verify_receipt
from affiant.attestation.schema.records import KINDS
from affiant.attestation.statements.statement import parse_statement, session_statement
from affiant.policy.decision.compiled import CompiledPolicy, parse_normal_form
from affiant.policy.loading.load import load_profiles
from affiant.sandbox.base.errors import GatewayUnreachable
from affiant.sandbox.egress.approvals import EgressApprovals
from affiant.sandbox.egress.decision import SILENT, DecisionSink
from affiant.sandbox.egress.forward import Forwarder
from affiant.sandbox.egress.gateway_route import GatewayRoute
from affiant.sandbox.egress.http import agent_http
from affiant.sandbox.egress.http.agent_http import Timeouts
from affiant.sandbox.egress.http.errors import RecordsUnavailable
from affiant.sandbox.egress.http.session_ca import SessionCA
from affiant.sandbox.egress.limits import EgressMeters
from affiant.sandbox.egress.proxy import EgressProxy, ProxyLimits
from affiant.sandbox.egress.record_budget import RecordBudget, RecordLimits
from affiant.sandbox.egress.records_of_egress import EgressRecords, PolicyFacts
from affiant.sandbox.egress.resolver import Resolver
from affiant.sandbox.egress.sessions_route import SessionsRoute, SessionTools
from affiant.sandbox.egress.upstream import Upstream
from affiant.sandbox.supervisor.launch.grants import session_grants
from affiant.secrets.broker.client.client import BrokerClient, broker_command
from affiant.secrets.broker.client.messages import BrokerStatus, Configuration
from affiant.secrets.broker.process import serve_control
from affiant.secrets.injection.placeholder import PlaceholderTable
from affiant.secrets.names.value import SecretValue
from affiant.secrets.store.local_store_file import LocalStoreFile
from affiant.secrets.store.private_files import open_private_file

HOST = "api.example.test"
VALUE = b"ghp_9sX2kQ7vLm4TzR1bYwE6"


class Chain:
    """A session's chain in memory: every record is really signed, and verified before it counts."""

    def __init__(self) -> None:
        signer = Signer.generate()
        chn, link = b64u(os.urandom(16)), b64u(os.urandom(32))
        raw = session_statement(
            session=b64u(os.urandom(16)), cls="simulated", chn=chn, key=signer.public_key, man=link, act=link,
            gks=link, epoch_s=60, not_after=int(datetime.now(UTC).timestamp()) + 3600, nonce=link,
        )  # fmt: skip
        self._statement = parse_statement(raw)
        self._signer = ChainSigner(
            signer=signer, statement=self._statement, chn=chn, evd=link, random_bytes=os.urandom,
            clock=lambda: datetime.now(UTC),
        )  # fmt: skip
        self._agt = {
            "ses": b64u(os.urandom(16)),
            "evd": link,
            "key": signer.kid,
            "bind": "pop",
            "iso": "gvisor",
        }
        self.records: list[VerifiedReceipt] = []
        self.acknowledged: list[str] = []
        self.down = False

    async def record(self, kind, members, hidden, *, acknowledged=False, cseq=None) -> str:
        await asyncio.sleep(0)
        if self.down:
            raise RecordsUnavailable("the chain is down")
        own = (
            {"agt": self._agt if cseq is None else {**self._agt, "cseq": cseq}}
            if KINDS[kind].of_session
            else {}
        )
        issued = self._signer.issue(kind, {**members, **own}, hidden)
        verified = verify_receipt(parse_receipt(issued.sdjwt), self._statement)
        self.records.append(verified)
        if acknowledged:
            self.acknowledged.append(verified.jti)
        return verified.jti

    @property
    def kinds(self) -> list[str]:
        """Each record in a word: ``egress.intent``, ``egress.outcome.complete``, ``refusal.egress_denied`` ..."""
        return [
            ".".join(
                str(part)
                for part in (
                    record.kind,
                    record.member("ph") or record.member("rsn"),
                    record.member("act", "end") if record.kind == "egress" else None,
                )
                if part is not None
            )
            for record in self.records
        ]

    def only(self, kind: str) -> VerifiedReceipt:
        (record,) = (record for record in self.records if record.kind == kind)
        return record


class FakeGateway:
    """Stands where the session's gateway is; the real one is in the supervisor's tests."""

    def __init__(self) -> None:
        self.counter = 0
        self.seen: list[tuple[str, str, dict[bytes, bytes], bytes, int | None]] = []
        self.down = False
        self.silent: asyncio.Event | None = None
        """Set once a request is here, which is then not answered."""
        self.holds = True
        """Whether it has what it was sent, although it did not answer."""
        self.status = 200
        self.answer = (b"data: one\n\n", b"data: [DONE]\n\n")

    def take_counter(self) -> int:
        self.counter += 1
        return self.counter - 1

    async def send(self, method, target, headers, body, *, cseq):
        if self.down:
            raise GatewayUnreachable("the gateway does not answer")
        self.seen.append((method, target, {name.lower(): value for name, value in headers}, body, cseq))
        if self.silent is not None:
            self.silent.set()
            await asyncio.get_running_loop().create_future()
        return self

    def has(self, cseq: int) -> bool:
        return self.holds

    headers = (
        (b"content-type", b"text/event-stream"),
        (b"affiant-receipt-id", b"r" * 22),
        (b"connection", b"x"),
    )

    async def chunks(self) -> AsyncIterator[bytes]:
        for piece in self.answer:
            yield piece

    async def close(self) -> None:
        pass


@dataclass
class Reply:
    status: int
    headers: dict[bytes, bytes]
    body: bytes
    complete: bool
    reason: str = ""
    """The reason phrase."""


@dataclass
class Sandbox:
    """What an agent can do: speak to its proxy."""

    address: tuple[str, int]
    own_hosts: tuple[str, int]
    """Where the supervisor's own names lead."""
    authority: SessionCA
    table: PlaceholderTable
    proxy: EgressProxy
    budget: RecordBudget
    broker: subprocess.Popen[bytes] | None

    def placeholder(self, name: str) -> bytes:
        binding = self.table.binding(name)
        assert binding is not None
        return binding.placeholder.encode()

    async def plain(self, data: bytes, *, to: tuple[str, int] | None = None) -> Reply:
        """Send bytes to the proxy, read one answer."""
        reader, writer = await asyncio.open_connection(*(to or self.address))
        try:
            return await asked(reader, writer, data)
        finally:
            await closed(writer)

    @asynccontextmanager
    async def tunnel(self, port: int, *, host: str = HOST, sni: str | None = HOST):
        """CONNECT and TLS; yields reader and writer inside."""
        reader, writer = await asyncio.open_connection(*self.address)
        try:
            writer.write(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in head.split(b"\r\n")[0]:
                raise PermissionError((head + await reader.read()).decode())
            await writer.start_tls(self.client_context(sni is not None), server_hostname=sni)
            yield reader, writer
        finally:
            await closed(writer)

    def client_context(self, named: bool = True) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.authority.certificate_pem.decode())
        if not named:
            context.check_hostname = False
        return context

    async def https(self, port: int, data: bytes) -> Reply:
        async with self.tunnel(port) as (reader, writer):
            return await asked(reader, writer, data)


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        await writer.wait_closed()
    except (OSError, ssl.SSLError):
        pass


async def asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> Reply:
    writer.write(data)
    await writer.drain()
    return await answered(reader)


async def answered(reader: asyncio.StreamReader, *, bodiless: bool = False) -> Reply:
    """One answer, its framing undone."""
    head = await reader.readuntil(b"\r\n\r\n")
    while head.startswith(b"HTTP/1.1 100"):
        head = await reader.readuntil(b"\r\n\r\n")
    lines = head[:-4].split(b"\r\n")
    fields = {name.lower(): value for name, _, value in (line.partition(b": ") for line in lines[1:])}
    status = int(lines[0].split()[1])
    if bodiless or status in (204, 304):
        return Reply(status, fields, b"", True)
    body, complete = b"", True
    if fields.get(b"transfer-encoding") == b"chunked":
        complete = False
        while size_line := await reader.readline():
            size = int(size_line, 16)
            if size == 0:
                await reader.readline()
                complete = True
                break
            body += (await reader.readexactly(size + 2))[:-2]
    elif b"content-length" in fields:
        body = await reader.readexactly(int(fields[b"content-length"]))
    else:
        body = await reader.read()
    return Reply(status, fields, body, complete, lines[0].split(b" ", 2)[2].decode("ascii"))


@dataclass
class World:
    """Everything around one proxy."""

    folder: Path
    roots: tuple[str, ...]
    chain: Chain = field(default_factory=Chain)
    gateway: FakeGateway = field(default_factory=FakeGateway)
    hosts: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {HOST: ("127.0.0.1",)})
    limits: ProxyLimits = field(default_factory=lambda: ProxyLimits(16, Timeouts(idle=1, head=1, body=1)))
    lookups: list[str] = field(default_factory=list)
    record_limits: RecordLimits = field(default_factory=RecordLimits)
    own_process: bool = False
    notes: DecisionSink = SILENT
    session_tools: Callable[[EgressRecords, CompiledPolicy], SessionTools] | None = None
    approvals: Callable[[CompiledPolicy], EgressApprovals | None] | None = None
    body_max: int = 8 << 20
    expected_defects: tuple[str, ...] = ()
    """Texts of exceptions that a test puts in; any other that nobody handles fails it."""

    def keep(self, name: str, value: bytes) -> None:
        LocalStoreFile(self.folder / "secrets", random_bytes=os.urandom).set(name, SecretValue(value))

    def run(self, profile: str, scenario: Callable[[Sandbox], Awaitable[object]]) -> object:
        """Run ``scenario`` in a sandbox with ``profile`` (YAML of one agent's profile)."""
        text = "agent_configs:\n  dev:\n" + "".join(f"    {line}\n" for line in profile.strip().splitlines())
        policy = parse_normal_form(load_profiles(text.encode()).profile("dev").normal_form)

        defects: list[str] = []

        async def whole() -> object:
            asyncio.get_running_loop().set_exception_handler(
                lambda _, context: defects.append(str(context.get("exception", context["message"])))
            )
            async with asyncio.timeout(30), self.sandbox(policy) as sandbox:
                return await scenario(sandbox)

        result = asyncio.run(whole())
        assert tuple(defects) == self.expected_defects
        return result

    async def _lookup(self, host: str, port: int) -> tuple[str, ...]:
        self.lookups.append(host)
        raise OSError("no such name")

    @asynccontextmanager
    async def broker(self, policy: CompiledPolicy):
        ours, theirs = socket.socketpair()
        process, task = None, None
        if self.own_process:
            with theirs:
                process = subprocess.Popen(
                    broker_command(control_fd=theirs.fileno()),
                    pass_fds=(theirs.fileno(),),
                    env={},
                    stdin=subprocess.DEVNULL,
                )
        else:  # all of the broker but its process: quicker, and the same code
            status = BrokerStatus(pid=os.getpid(), uid=os.geteuid(), dumpable=True, memory_locked=False)
            task = asyncio.create_task(serve_control(theirs, status))
        try:
            async with BrokerClient(ours) as client:
                store = LocalStoreFile(self.folder / "secrets", random_bytes=os.urandom)
                has_store = store.path.exists()
                files = (
                    [open_private_file(path) for path in (store.path, store.key_path)] if has_store else []
                )
                grants = session_grants(policy, random_bytes=os.urandom)
                resolution = await client.configure(
                    Configuration(grants=grants, roots=self.roots, local=has_store),
                    local_store=tuple(files) or None,
                )
                for descriptor in files:
                    os.close(descriptor)
                table = PlaceholderTable(grant.binding for grant in grants)
                yield client, table.restricted_to(resolution.resolved), process
        finally:
            if process is not None:
                await asyncio.to_thread(process.wait, 10)
            if task is not None:
                await asyncio.wait_for(task, 10)

    @asynccontextmanager
    async def sandbox(self, policy: CompiledPolicy) -> AsyncIterator[Sandbox]:
        authority = SessionCA(
            session="s" * 22,
            not_after=datetime.now(UTC) + timedelta(hours=1),
            clock=lambda: datetime.now(UTC),
        )
        async with self.broker(policy) as (client, table, process):
            budget = RecordBudget(self.chain, self.record_limits, nanoseconds=time.monotonic_ns)
            records = EgressRecords(budget, PolicyFacts("dev", policy.digest, "sha256:" + "0" * 64))
            resolver = Resolver(self.hosts, lookup=self._lookup)
            proxy = EgressProxy(
                forwarder=Forwarder(
                    policy=policy,
                    table=table,
                    resolver=resolver,
                    upstream=Upstream(client, random_bytes=os.urandom),
                    records=records,
                    meters=EgressMeters(policy, nanoseconds=time.monotonic_ns),
                    notes=self.notes,
                    approvals=None if self.approvals is None else self.approvals(policy),
                ),
                gateway=GatewayRoute(self.gateway, records, budget, self.body_max),
                sessions=SessionsRoute(
                    records, None if self.session_tools is None else self.session_tools(records, policy)
                ),
                certificates=authority,
                limits=self.limits,
            )
            listener = socket.create_server(("127.0.0.1", 0))
            own_hosts = socket.create_server(("127.0.0.1", 0))
            await proxy.start(listener, own_hosts=own_hosts)
            try:
                yield Sandbox(
                    listener.getsockname(), own_hosts.getsockname(), authority, table, proxy, budget, process
                )
            finally:
                await proxy.stop()


@pytest.fixture(autouse=True)
def soon_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody here pauses amid a request but on purpose: silence after a refusal need not last a second."""
    monkeypatch.setattr(agent_http, "_QUIET_S", 0.25)


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

    def start(script: Script, *, tls: bool = True, leaf: Path | None = None) -> UpstreamServer:
        servers.append(UpstreamServer(script, certificate=(leaf or certificate) if tls else None).__enter__())
        return servers[-1]

    yield start
    for server in servers:
        server.__exit__(None, None, None)


@pytest.fixture
def world(tmp_path: Path, authority: Authority) -> World:
    return World(tmp_path, (authority.pem,))
