"""A whole session whose profile is narrowed while its agent works: allowed before, denied after, and both recorded."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conftest import Running, serving_gateway
from tests.sandbox.supervisor.launcher import Launcher, Link, Refused
from tests.secrets.certificates import Authority
from tests.secrets.upstream_server import UpstreamServer, answer

from affiant.attestation.encoding.binary_text import b64u, sha256_name
from affiant.attestation.simulated.served.client import SimulatedTD
from affiant.attestation.tdx.event_log.eventlog import Event
from affiant.policy.loading.load import load_profiles
from affiant.secrets.names.value import SecretValue
from affiant.secrets.store.local_store_file import LocalStoreFile
from affiant.secrets.store.private_files import open_private_file

HOST = "api.example.test"
VALUE = b"ghp_9sX2kQ7vLm4TzR1bYwE6"

WIDE = """
tools: [read_file, deploy]
network_egress: [{{host: {host}, port: {port}, methods: [GET, POST]}}]
secrets_access: [{{name: TOKEN, hosts: ['{host}:{port}']}}]
models: [affiant-dev-echo]
"""
NARROW = """
tools: [read_file]
network_egress: [{{host: {host}, port: {port}, methods: [GET]}}]
models: []
"""

AGENT = """
import http.client, json, os, ssl, sys, urllib.error, urllib.request
from urllib.parse import urlsplit
port = int(sys.argv[1])
proxy = urlsplit(os.environ["HTTPS_PROXY"])
held = http.client.HTTPSConnection(proxy.hostname, proxy.port, context=ssl.create_default_context())
held.set_tunnel("api.example.test", port)
token = os.environ["TOKEN"]

def over(method, **headers):
    held.request(method, "/v1", body=b"x" if method == "POST" else None, headers=headers)
    reply = held.getresponse()
    body = reply.read()
    return reply.status if reply.status == 200 else json.loads(body)["error"]["code"]

def chat():
    body = json.dumps({"model": "affiant-dev-echo", "messages": [{"role": "user", "content": "x"}],
        "tools": [{"type": "function", "function": {"name": "deploy", "parameters": {}}}]}).encode()
    asked = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", data=body,
        headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(asked) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return json.load(error)["error"]["code"]

for _ in sys.stdin:
    print(json.dumps([over("GET"), over("POST"), over("GET", Authorization="Bearer " + token), chat()]), flush=True)
"""


@dataclass
class Place:
    """A host that the agent may reach, a store with the secret for it, and a way to start sessions."""

    launcher: Launcher
    upstream: UpstreamServer
    store: LocalStoreFile

    def profile(self, text: str) -> str:
        return text.format(host=HOST, port=self.upstream.port)

    @asynccontextmanager
    async def agent(self, profile: str = WIDE, *, script: str = AGENT, **given: Any) -> AsyncIterator[Agent]:
        files = [open_private_file(path) for path in (self.store.path, self.store.key_path)]
        try:
            more = {"hosts": {HOST: ["127.0.0.1"]}, "roots": [self.upstream.root], "secrets": files, **given}
            async with self.launcher.session(self.profile(profile), **more) as link:
                await link.expect("ready")
                read_end, write_end = os.pipe()
                outputs = [os.pipe(), os.pipe()]
                await link.channel.send(
                    {
                        "op": "run",
                        "id": 1000,
                        "argv": ["python3", "-uc", script, str(self.upstream.port)],
                        "env": {},
                        "cwd": None,
                    },
                    {"stdin": read_end, "stdout": outputs[0][1], "stderr": outputs[1][1]},
                )
                for descriptor in (read_end, outputs[0][1], outputs[1][1]):
                    os.close(descriptor)
                agent = Agent(self, link, write_end, outputs[0][0])
                try:
                    yield agent
                finally:
                    agent.leave()
                    for reader, _ in outputs:
                        os.close(reader)
        finally:
            for descriptor in files:
                os.close(descriptor)


class Agent:
    """One that works whenever it is told to, and says what became of it."""

    def __init__(self, place: Place, link: Link, stdin: int, stdout: int) -> None:
        self._place = place
        self.link = link
        self._stdin: int | None = stdin
        self._stdout = stdout
        self._number = 0

    async def works(self) -> list[object]:
        assert self._stdin is not None
        os.write(self._stdin, b"\n")
        return json.loads(await asyncio.to_thread(_line, self._stdout))

    def leave(self) -> None:
        if self._stdin is not None:
            os.close(self._stdin)
            self._stdin = None

    async def narrow(self, text: str, **changes: object) -> Mapping[str, object]:
        """Ask as a launcher does; the event that answers."""
        return await self.answered(await self.ask(text, **changes))

    async def ask(self, text: str, **changes: object) -> int:
        lines = "".join(f"    {line}\n" for line in self._place.profile(text).strip().splitlines())
        file = f"agent_configs:\n  dev:\n{lines}".encode()
        self._number += 1
        await self.link.channel.send(
            {
                "op": "narrow",
                "id": self._number,
                "policy": b64u(load_profiles(file).profile("dev").normal_form),
                "file": sha256_name(file),
                "signature": None,
                **changes,
            }
        )
        return self._number

    async def answered(self, number: int) -> Mapping[str, object]:
        async with asyncio.timeout(30):
            while (message := await self.link.channel.receive()) is not None:
                match message.members:
                    case {"event": "narrowed" | "narrow-refused", "id": found} if found == number:
                        return message.members
                    case {"event": "refused", "code": str(code), "message": str(text)}:
                        raise Refused(code, text)
        raise AssertionError(f"the supervisor ended: {self.link.service.last_words}")

    async def finish(self):
        self.leave()
        await self.link.expect("exited")
        return await self.link.finish()


def _line(descriptor: int) -> bytes:
    line = b""
    while not line.endswith(b"\n") and (data := os.read(descriptor, 1)):
        line += data
    return line


@pytest.fixture
def place(launcher: Launcher, tmp_path: Path) -> Iterator[Place]:
    authority = Authority()
    store = LocalStoreFile(tmp_path / "secrets", random_bytes=os.urandom)
    store.set("TOKEN", SecretValue(VALUE))

    def echo(received):
        return answer(b"seen: " + (received.header("authorization") or b"nothing"))

    with UpstreamServer(echo, certificate=authority.leaf(tmp_path, HOST)) as server:
        server.root = ssl.PEM_cert_to_DER_cert(authority.pem)
        yield Place(launcher, server, store)


def run(scenario) -> object:
    async def whole() -> object:
        async with asyncio.timeout(60):
            return await scenario

    return asyncio.run(whole())


BEFORE = [200, 200, 200, 200]
AFTER = [200, "method_not_listed", "secret.not_bound", "model.not_allowed"]


@pytest.mark.slow
def test_what_was_allowed_is_denied_from_the_narrowing_on_and_the_receipts_say_so(
    place: Place, tmp_path: Path
) -> None:
    log = tmp_path / "decisions.jsonl"
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    async def scenario():
        async with place.agent(decisions=descriptor) as agent:
            before = await agent.works()
            narrowed = await agent.narrow(NARROW)
            after = await agent.works()
            again = await agent.narrow(NARROW)
            wider = await agent.narrow(WIDE)
            last = await agent.works()
            return before, narrowed, after, again, wider, last, await agent.finish()

    before, narrowed, after, again, wider, last, story = run(scenario())
    assert (before, after, last) == (BEFORE, AFTER, AFTER)
    assert (narrowed["event"], narrowed["epoch"], narrowed["changed"]) == ("narrowed", 1, True)
    assert (again["event"], again["epoch"], again["changed"]) == ("narrowed", 1, False)
    assert (wider["event"], wider["code"]) == ("narrow-refused", "policy.not_narrower")
    assert [each.header("authorization") for each in place.upstream.received].count(b"Bearer " + VALUE) == 1
    kinds = [record.kind for record in story.own]
    at = kinds.index("policy")
    assert kinds.count("policy") == 1
    evidence = [record.member("evd") for record in story.own]
    assert len({*evidence[:at]}) == len({*evidence[at:]}) == 1
    assert evidence[0] != evidence[at]
    for number, record in enumerate(story.own):
        if record.member("agt") is not None:
            assert record.member("agt", "evd") == evidence[number]
        if record.member("pol") is not None:
            assert record.member("pol", "epoch") == (number >= at)
            assert record.member("pol", "bind") == ("rtmr3" if number >= at else "mrconfigid")
    epochs = [
        record.member("pol", "epoch")
        for record in sorted(story.records, key=lambda record: record.seq)
        if record.role == "gateway" and record.member("pol") and record.member("agt", "ses") == story.session
    ]
    assert epochs == sorted(epochs)
    assert {*epochs} == {0, 1}
    assert story.own[at].disclosed.text("pol.id") == "dev"
    os.close(descriptor)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    decided = [(line["policy_digest"], line["decision"]) for line in lines if line["plane"] == "egress"]
    digests = list(dict.fromkeys(digest for digest, _ in decided))
    assert len(digests) == 2
    assert [digest for digest, _ in decided] == sorted((digest for digest, _ in decided), key=digests.index)
    assert {digest for digest, decision in decided if decision == "deny"} == {digests[1]}


@pytest.mark.slow
def test_an_event_that_nobody_logged_ends_the_session_at_its_next_narrowing(place: Place) -> None:
    """Whoever reaches the TD extends RTMR3 behind the supervisor: the gateway sees it in the quote, and refuses."""
    seen: list[int] = []

    async def scenario() -> tuple[object, str, object]:
        async with place.agent(td_seen=lambda td: seen.append(os.dup(td))) as agent:
            before = await agent.works()
            with SimulatedTD(seen[0]) as td:
                td.extend(Event("affiant-policy", {"x": 1}))
            refused = await agent.narrow(NARROW)
            with pytest.raises(Refused) as ended:
                await agent.link.expect("finished")
            return before, str(refused["code"]), (ended.value.code, agent.link.story())

    before, code, (ended, story) = run(scenario())
    assert (before, code, ended) == (BEFORE, "session.narrowing_failed", "session.narrowing_failed")
    assert story.close.member("why") == "policy"
    assert "policy" not in [record.kind for record in story.own]
    (refusal,) = [record for record in story.records if record.member("rsn") == "eventlog.replay"]
    assert refusal.role == "gateway"


@pytest.mark.slow
def test_a_gateway_that_is_gone_ends_the_session_whatever_was_begun(
    place: Place, platform, platform_home: Path, tmp_path: Path
) -> None:
    async def scenario(gateway: Running) -> str:
        place.launcher.gateway = gateway.gateway
        async with place.agent() as agent:
            assert await agent.works() == BEFORE
            gateway.kill()
            with pytest.raises(Refused) as ended:
                with suppress(OSError):  # it had noticed before it was asked
                    answer = await agent.narrow(NARROW)
                    assert answer["event"] == "narrow-refused"
                await agent.link.expect("finished")
            return ended.value.code

    with serving_gateway(tmp_path / "gateway-home", platform_home) as gateway:
        assert run(scenario(gateway)) in {"gateway.lost", "session.narrowing_failed"}


@pytest.mark.slow
def test_a_wall_that_comes_with_a_narrowing_counts_from_the_sessions_start(place: Place) -> None:
    async def scenario() -> str:
        async with place.agent() as agent:
            await agent.works()
            await asyncio.sleep(1)
            assert (await agent.narrow(WIDE.strip() + "\nlimits: {{wall: 1s}}"))["changed"]
            with pytest.raises(Refused) as ended:
                await agent.link.expect("finished", within_s=5)
            return ended.value.code

    assert run(scenario()) == "limit_wall"
