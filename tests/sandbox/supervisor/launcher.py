"""A small launcher for the tests: real platform, real gateway, real supervisor; each fact can be told wrongly."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.session_client import Gateway

from affiant.attestation.bundle.bundle import Bundle
from affiant.attestation.encoding.binary_text import b64u, sha256_name
from affiant.attestation.records.receipt import VerifiedReceipt, parse_receipt, verify_receipt
from affiant.attestation.records.sealed_disclosures import recipient
from affiant.attestation.release.boot import Image
from affiant.attestation.release.manifest import load_release
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.simulated.served.reference import simulated_reference
from affiant.attestation.statements.gateway_config import parse_gateway_config
from affiant.attestation.statements.manifest import (
    GatewayIdentity,
    agent_commitment,
    make_activation,
    make_manifest,
    mrconfigid,
)
from affiant.attestation.statements.statement import parse_statement
from affiant.policy.loading.load import load_profiles
from affiant.sandbox.base.exposure import Need
from affiant.sandbox.base.privileges import SUPERVISOR_USER, is_root
from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.processes.service_process import ServiceProcess, ServiceSpec, start_service
from affiant.sandbox.session_state.bundle_out import open_bundle, parse_sealed_bundle
from affiant.sandbox.supervisor.launch.control import ControlChannel

OPENINGS = X25519PrivateKey.generate()
FIRST_COMMAND = 1000
"""Above the numbers that tests give requests of their own."""


class Refused(Exception):
    """The supervisor refused; ``code`` is its stable code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass
class Output:
    code: int
    stdout: bytes
    stderr: bytes


@dataclass
class Link:
    """A supervisor that was provisioned."""

    channel: ControlChannel
    service: ServiceProcess
    folder: Path
    session: str
    progress: list[str] = field(default_factory=list)
    commands: int = 0
    """Commands so far; the next one's act has the number after :data:`FIRST_COMMAND` and these."""

    async def expect(self, event: str, *, within_s: float = 30) -> Mapping[str, object]:
        async with asyncio.timeout(within_s):
            while (message := await self.channel.receive()) is not None:
                match message.members:
                    case {"event": "progress", "step": str(step)}:
                        self.progress.append(step)
                    case {"event": "refused", "code": str(code), "message": str(text)}:
                        raise Refused(code, text)
                    case {"event": found} if found == event:
                        return message.members
        raise AssertionError(f"the supervisor ended: {self.service.last_words}")

    async def expect_progress(self, step: str) -> None:
        while step not in self.progress:
            message = await self.channel.receive()
            assert message is not None
            self.progress.append(str(message.members.get("step")))

    async def start(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, stdin: bytes | None = None
    ):
        """Run a command; returns the read ends of its outputs."""
        outputs = [os.pipe(), os.pipe()]
        read_end, write_end = os.pipe()
        if stdin is not None:
            os.write(write_end, stdin)
        os.close(write_end)
        await self.channel.send(
            {
                "op": "run",
                "id": self._next_command(),
                "argv": list(argv),
                "env": dict(env or {}),
                "cwd": None,
            },
            {"stdin": read_end, "stdout": outputs[0][1], "stderr": outputs[1][1]},
        )
        for descriptor in (read_end, outputs[0][1], outputs[1][1]):
            os.close(descriptor)
        return outputs[0][0], outputs[1][0]

    async def run(self, argv: Sequence[str], **more) -> Output:
        readers = await self.start(argv, **more)
        texts = [asyncio.create_task(asyncio.to_thread(read_all, reader)) for reader in readers]
        exited = await self.expect("exited")
        stdout, stderr = await asyncio.gather(*texts)
        return Output(int(exited["code"]), stdout, stderr)

    async def signal(self, number: int) -> None:
        """Send a signal to the last command."""
        last = FIRST_COMMAND + self.commands
        await self.channel.send({"op": "signal", "id": last, "number": number})

    def _next_command(self) -> int:
        self.commands += 1
        return FIRST_COMMAND + self.commands

    async def finish(self, why: str = "done") -> Story:
        await self.channel.send({"op": "finish", "why": why})
        await self.expect("finished")
        return self.story()

    def story(self) -> Story:
        sealed = parse_sealed_bundle((self.folder / "bundle.json").read_bytes())
        return Story(open_bundle(sealed, OPENINGS), self.session)


def read_all(descriptor: int) -> bytes:
    with open(descriptor, "rb") as file:
        return file.read()


@dataclass
class Story:
    """A session's bundle, every receipt verified under the keyset that the bundle carries."""

    bundle: Bundle
    session: str

    @property
    def records(self) -> list[VerifiedReceipt]:
        statements = [parse_statement(raw) for raw in self.bundle.keysets.values()]
        found = []
        for text in self.bundle.receipts:
            receipt = parse_receipt(text)
            statement = next(known for known in statements if known.receipt_kid == receipt.split.kid)
            found.append(verify_receipt(receipt, statement))
        return found

    @property
    def own(self) -> list[VerifiedReceipt]:
        """The supervisor's records, in the order of their chain."""
        records = sorted((r for r in self.records if r.role == "session"), key=lambda record: record.seq)
        assert [record.seq for record in records] == list(range(len(records)))
        assert all(after.prev == before.rh for before, after in zip(records, records[1:], strict=False))
        return records

    @property
    def kinds(self) -> list[str]:
        return [f"{r.kind}.{r.member('ph') or r.member('rsn') or ''}".rstrip(".") for r in self.own]

    @property
    def close(self) -> VerifiedReceipt:
        (record,) = (
            r for r in self.records if r.kind == "session-close" and r.member("agt", "ses") == self.session
        )
        return record


@dataclass
class Launcher:
    """Starts supervisors against one platform and one gateway."""

    platform: PlatformClient
    platform_home: Path
    gateway: Gateway
    folder: Path
    backend: BackendName = BackendName.BUBBLEWRAP

    @asynccontextmanager
    async def session(
        self,
        profile: str,
        *,
        hosts: Mapping[str, Sequence[str]] | None = None,
        roots: Sequence[bytes] = (),
        expires_in: int = 600,
        tamper: Callable[[dict], None] | None = None,
        manifest_of: Callable[[dict], None] | None = None,
        mrconfig: bytes | None = None,
        secrets: Sequence[int] | None = None,
        arguments: Sequence[str] = (),
        td_seen: Callable[[int], None] = lambda _td: None,
        decisions: int | None = None,
    ) -> AsyncIterator[Link]:
        """A provisioned supervisor.

        Args:
            tamper: changes the provision message. manifest_of: changes what the manifest is made of.
            mrconfig: what the TD is launched with, if not the manifest's.
            arguments: more of the supervisor's.
            td_seen: shown the descriptor of the TD before the supervisor has it. decisions: of a decision log.
        """
        text = "agent_configs:\n  dev:\n" + "".join(f"    {line}\n" for line in profile.strip().splitlines())
        loaded = load_profiles(text.encode()).profile("dev")
        config = parse_gateway_config(self.gateway.ask("GET", "/.well-known/affiant/config").body)
        _, reference = simulated_reference(self.platform_home, now=datetime.now(UTC), random_bytes=os.urandom)
        parts = {
            "cls": "simulated",
            "profile_digest": loaded.digest,
            "file_digest": sha256_name(text.encode()),
            "supervisor": load_release().images[Image.SESSION].digest,
            "rootfs": "host-usr",
            "runtime": None,
            "isolation_floor": "namespace",
            "gateway": GatewayIdentity(config.origin, config.reference, config.digest, "simulated"),
            "hosts": hosts or {},
            "upstream_roots": [sha256_name(root) for root in roots],
        }
        if manifest_of is not None:
            manifest_of(parts)
        manifest = make_manifest(**parts)
        session, salt = b64u(os.urandom(16)), os.urandom(16)
        activation = make_activation(
            session=session,
            agent=agent_commitment(salt, "dev"),
            input_digest=None,
            isolation=self.backend.value,
            challenge=b64u(os.urandom(32)),
            expires=int(datetime.now(UTC).timestamp()) + expires_in,
            starter={"iss": "local", "method": "uid", "sub": agent_commitment(salt, "0")},
            openings=recipient(OPENINGS),
        )
        folder = self.folder / session
        folder.mkdir(mode=0o700, parents=True)
        if is_root():
            os.chown(folder, SUPERVISOR_USER, SUPERVISOR_USER)
        message = {
            "op": "provision",
            "manifest": b64u(manifest.raw),
            "activation": b64u(activation.raw),
            "policy": b64u(loaded.normal_form),
            "reference": b64u(reference),
            "gateway_config": b64u(config.raw),
            "collateral": b64u(self.platform.collateral().to_bytes()),
            "gateway_url": self.gateway.url,
            "agent": {"name": "dev", "salt": salt.hex(), "user": "alice", "rules_source": "test"},
            "roots": [b64u(root) for root in roots],
            "session_dir": str(folder),
            "workspace": [],
            "runtime": None,
            "rootfs": "host-usr",
            "isolation": "gvisor" if self.backend is BackendName.GVISOR else "bwrap",
            "openings": None,
        }
        if tamper is not None:
            tamper(message)
        td = self.platform.create_td(image=Image.SESSION, mrconfigid=mrconfig or mrconfigid(manifest))
        td_seen(td)
        given = dict(zip(("secret_store", "secret_key"), secrets or (), strict=False))
        if decisions is not None:
            message["decisions"], given["decisions"] = True, decisions
        link = self._start(folder, session, td, arguments)
        try:
            await link.channel.send(message, given)
            yield link
        finally:
            link.channel.close()
            try:
                await asyncio.wait_for(link.service.wait(), 8)
            finally:
                await link.service.stop(grace_s=0)

    def _start(self, folder: Path, session: str, td: int, arguments: Sequence[str]) -> Link:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            service = start_service(
                ServiceSpec(
                    name="supervisor",
                    argv=(
                        "affiant.sandbox.supervisor",
                        "--control-fd",
                        str(theirs.fileno()),
                        "--td-fd",
                        str(td),
                        *arguments,
                    ),
                    home=folder,
                    needs=(Need(str(folder), writable=True),),
                    fds=(theirs.fileno(), td),
                )
            )
        os.close(td)
        return Link(ControlChannel(ours), service, folder, session)
