"""A client that takes nothing of its answer is given up like one that went away; a slow one is not."""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
import uvicorn
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.in_process import InProcess, in_process
from tests.gateway.inference.test_inference import DONE, records_of
from tests.gateway.session_client import SessionClient
from tests.gateway.upstream_server import Received, Step, completion, scripted_upstream, streamed, whole

from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.gateway.process.launch import UpstreamChoice, upstream_configs
from affiant.gateway.wire.bounded_http import BoundedHTTP
from affiant.gateway.wire.http_request import Receive, Scope, Send
from affiant.gateway.wire.tls import make_tls_identity

CHAT = "/v1/chat/completions"
STALLED_S = 0.9
WAIT_S = 20.0


def large_event(number: int) -> bytes:
    delta = {"content": f"{number} " + "x" * (64 << 10)}
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


EVENTS = [large_event(number) for number in range(40)]


class Hurried(BoundedHTTP):
    stalled_s = STALLED_S


@dataclass
class Door:
    """The gateway behind a real socket whose buffers are small, and its upstream, which takes one request at a time."""

    gateway: InProcess
    platform: PlatformClient
    port: int
    tls: bool
    key: X25519PrivateKey = field(default_factory=X25519PrivateKey.generate)
    handed: list[bytes] = field(default_factory=list)
    """Parts of bodies that the server wrote."""

    def session(self) -> SessionClient:
        return SessionClient.start(self.gateway, self.platform, openings=self.key)

    @contextmanager
    def asked(self, *requests: bytes) -> Iterator[socket.socket]:
        """A client that has asked, and has read nothing."""
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(WAIT_S)
            client.connect(("127.0.0.1", self.port))
            if not self.tls:
                client.sendall(b"".join(requests))
                yield client
                return
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with context.wrap_socket(client) as wrapped:
                wrapped.sendall(b"".join(requests))
                yield wrapped

    @property
    def under_way(self) -> int:
        (report,) = self.gateway.service.upstreams.report().values()
        return report["under_way"]

    def ended(self, session: SessionClient) -> VerifiedReceipt:
        """The record of the only request, once it has ended and its turn is free."""
        until(lambda: self.under_way == 0)
        found: list[VerifiedReceipt] = []

        def recorded() -> bool:
            found[:] = [each for each in records_of(session, self.key) if each.kind == "inference"]
            return bool(found) and bool(found[0].disclosed.values)  # kept after the record itself

        until(recorded)
        (record,) = found
        return record


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def chat(session: SessionClient, *, stream: bool = True) -> bytes:
    """The bytes of a request."""
    body = json.dumps({"model": "m", "messages": [], "stream": stream}).encode()
    proof = session.proof("POST", CHAT, body, content_type="application/json", counted=True)
    head = f"POST {CHAT} HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nAffiant-Proof: {proof}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def answer(received: Received) -> Sequence[Step]:
    return streamed(*EVENTS, DONE) if received.json["stream"] else whole(completion())


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, platform: PlatformClient) -> Iterator[InProcess]:
    with scripted_upstream(answer) as upstream:
        configs = upstream_configs([UpstreamChoice(upstream.url, concurrent=1)])
        with in_process(platform, tmp_path_factory.mktemp("store"), upstreams=configs, drain_s=1) as made:
            yield made


@contextmanager
def served(gateway: InProcess, platform: PlatformClient, *, tls: bool) -> Iterator[Door]:
    handed: list[bytes] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await gateway.app(scope, receive, send)

    class Watched(Hurried):
        def connection_made(self, transport: asyncio.Transport) -> None:
            write = transport.write

            def noted(data: bytes) -> None:
                handed.append(bytes(data))
                write(data)

            transport.write = noted
            super().connection_made(transport)

    identity = make_tls_identity(now=datetime.now(UTC), lifetime=timedelta(days=1)) if tls else None
    config = uvicorn.Config(application, http=Watched, ws="none", lifespan="off", log_config=None)
    config.load()
    config.ssl = None if identity is None else identity.context
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 << 10)
        serving = asyncio.run_coroutine_threadsafe(server._serve([listener]), gateway.loop)
        try:
            yield Door(gateway, platform, listener.getsockname()[1], tls, handed=handed)
        finally:
            server.should_exit = server.force_exit = True
            serving.result(WAIT_S)


@pytest.fixture(params=["tls", "plain"])
def door(gateway: InProcess, platform: PlatformClient, request: pytest.FixtureRequest) -> Iterator[Door]:
    with served(gateway, platform, tls=request.param == "tls") as made:
        yield made


@pytest.fixture
def tls_door(gateway: InProcess, platform: PlatformClient) -> Iterator[Door]:
    with served(gateway, platform, tls=True) as made:
        yield made


def test_who_takes_nothing_of_a_stream_loses_its_turn_and_the_record_says_what_was_handed_over(
    door: Door,
) -> None:
    session, other = door.session(), door.session()
    with door.asked(chat(session)) as client:
        until(lambda: door.under_way == 1)
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
        begun = time.monotonic()
        record = door.ended(session)
        assert time.monotonic() - begun >= STALLED_S / 2  # not before: it stalls only once buffers are full
        assert other.chat({"model": "m", "messages": [], "stream": False}).status == 200
    count = b"".join(door.handed).count(b"data: ")
    assert 0 < count < len(EVENTS)
    assert (record.member("res", "end"), record.member("agt", "cseq")) == ("client_abort", 0)
    passed = b"".join(EVENTS[:count])
    assert record.disclosed.get("res.evs") == count
    assert record.disclosed.get("res.len") == len(passed)
    assert record.disclosed.get("res.dig") == f"sha256:{hashlib.sha256(passed).hexdigest()}"


def test_who_sends_requests_ahead_and_takes_nothing_is_given_up_too(tls_door: Door) -> None:
    session = tls_door.session()
    with tls_door.asked(chat(session), chat(session)):
        record = tls_door.ended(session)
    assert record.member("res", "end") == "client_abort"
    assert 0 < record.disclosed.get("res.evs") < len(EVENTS)


def test_who_sends_requests_ahead_and_leaves_is_recorded_as_gone(tls_door: Door) -> None:
    session = tls_door.session()
    with tls_door.asked(chat(session), chat(session)):
        until(lambda: tls_door.under_way == 1)
    assert tls_door.ended(session).member("res", "end") == "client_abort"


def test_who_reads_slowly_gets_everything(tls_door: Door) -> None:
    """A record of TLS at a time: what waits for it stays above the mark at which the server would write on."""
    session, data = tls_door.session(), b""
    with tls_door.asked(chat(session)) as client:
        begun = time.monotonic()
        while time.monotonic() - begun < 3 * STALLED_S:
            time.sleep(STALLED_S / 3)
            data += client.recv(16 << 10)
        assert len(data) < 200 << 10
        while not data.endswith(b"\r\n0\r\n\r\n"):
            part = client.recv(65536)
            assert part, len(data)
            data += part
    record = tls_door.ended(session)
    assert record.member("res", "end") == "complete"
    assert record.disclosed.get("res.len") == len(b"".join(EVENTS) + DONE)
    assert all(data.count(b'"content": "%d x' % number) == 1 for number in range(len(EVENTS)))
