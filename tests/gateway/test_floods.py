"""One client cannot stop the gateway: live calls go on, and another's admission succeeds, from the same address too.

Each flood is bounded in count and ends with its test. What counts are answers and states; times are outer limits.
"""

from __future__ import annotations

import asyncio
import http.client
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.gateway.conftest import Running, serving_gateway
from tests.gateway.in_process import Held, InProcess, asgi, in_process
from tests.gateway.session_client import Answer, Gateway, SessionClient, admission_headers, draft, evidence_of

from affiant.attestation.records.proof import PROOF_HEADER
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.statements.evidence import Admission, wrap_admission
from affiant.gateway.config.keyset import Keyset
from affiant.gateway.process.server import _server, accept
from affiant.gateway.wire.bodies import MAX_ADMISSION
from affiant.gateway.wire.tls import make_tls_identity
from affiant.sandbox.supervisor.gateway.gateway_client import GatewayClient

WITHIN_S = 10.0
ATTEST, JSON = "/.well-known/affiant/attest", "application/json"


@pytest.fixture(scope="module")
def own(
    platform: PlatformClient, platform_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """A gateway that is flooded again and again, and that no other tests use."""
    with serving_gateway(tmp_path_factory.mktemp("flooded"), platform_home) as started:
        yield started


@contextmanager
def calling(session: SessionClient) -> Iterator[list[int]]:
    """While ``session`` asks its model, one call after the other; their statuses."""
    statuses: list[int] = []
    over = threading.Event()

    def call() -> None:
        while not over.is_set():
            statuses.append(session.say("hi").status)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        yield statuses
    finally:
        over.set()
        thread.join(60)


def require_served(gateway: Gateway, platform: PlatformClient, live: SessionClient) -> None:
    """Live calls work, and a newcomer is admitted in time and can call."""
    with calling(live) as statuses:
        began = time.monotonic()
        newcomer = SessionClient.start(gateway, platform)
        took = time.monotonic() - began
        assert newcomer.say("hi").status == 200
        until(lambda: len(statuses) >= 5)
    assert took < WITHIN_S
    assert set(statuses) == {200}


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_who_takes_many_nonces_stops_nobody(own: Running, platform: PlatformClient) -> None:
    live = SessionClient.start(own.gateway, platform)
    connection = own.gateway.connect()
    for _ in range(1100):
        connection.request("POST", "/v1/sessions/nonce", b"{}")
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200
    connection.close()
    require_served(own.gateway, platform, live)


def begun_admission(gateway: Gateway, nonce: str | None) -> http.client.HTTPSConnection:
    """An admission of which all but the last KiB of its body was sent."""
    connection = gateway.connect()
    connection.putrequest("POST", "/v1/sessions")
    headers = admission_headers(nonce or "")
    for name, value in headers.items():
        if value:
            connection.putheader(name, value)
    connection.putheader("Content-Length", str(MAX_ADMISSION))
    connection.endheaders()
    with suppress(OSError, ssl.SSLError):
        connection.send(b"x" * (MAX_ADMISSION - 1024))
    return connection


@pytest.mark.parametrize("number", [1, 40])
def test_who_stalls_forty_bodies_stops_nobody(own: Running, platform: PlatformClient, number: int) -> None:
    """Each is of the largest size, over a nonce of its own that the gateway gave, or all over the same one."""
    live = SessionClient.start(own.gateway, platform)
    nonces = [own.gateway.nonce() for _ in range(number)]
    with ExitStack() as stack:
        for each in range(40):
            stack.callback(begun_admission(own.gateway, nonces[each % number]).close)
        require_served(own.gateway, platform, live)


def test_no_body_is_read_before_a_nonce(own: Running, platform: PlatformClient) -> None:
    live = SessionClient.start(own.gateway, platform)
    with ExitStack() as stack:
        for nonce in (None, "A" * 43, "nothing"):
            connection = own.gateway.connect()
            stack.callback(connection.close)
            connection.putrequest("POST", "/v1/sessions")
            for name, value in admission_headers(nonce or "").items():
                if value:
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(MAX_ADMISSION))
            connection.endheaders()  # and no byte of the body
            answer = connection.getresponse()
            assert answer.status == 403 and b'"admission.nonce"' in answer.read()
        require_served(own.gateway, platform, live)


def test_evidence_over_another_nonce_than_the_request_names_is_refused(
    gateway: Gateway, platform: PlatformClient
) -> None:
    made = draft(gateway)
    body = wrap_admission(Admission(evidence_of(made, platform), made.policy))
    other = admission_headers(gateway.nonce())
    assert gateway.ask("POST", "/v1/sessions", body, other).code == "admission.nonce"
    assert gateway.ask("POST", "/v1/sessions", body, admission_headers(made.nonce)).status == 201


def flooded(inside: InProcess, held: Held, target: str, body: bytes, headers: dict[str, str]) -> list[Answer]:
    """The answers to forty requests at once from one address; no work ends before eight of them were answered."""

    async def flood() -> list[Answer]:
        asked = [asyncio.create_task(asgi(inside.app, "POST", target, body, headers)) for _ in range(40)]
        async with asyncio.timeout(20):
            while sum(task.done() for task in asked) < 8:
                await asyncio.sleep(0.01)
        held.end.set()
        return await asyncio.gather(*asked)

    return inside.run(flood())


def test_one_address_has_32_places_for_evidence(
    platform: PlatformClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with in_process(platform, tmp_path / "store") as inside:
        held = Held(inside.service.keyset.evidence_for)
        monkeypatch.setattr(Keyset, "evidence_for", lambda _, nonce: held(nonce))
        body = b'{"nonce": "%s"}' % (b"A" * 43)
        answers = flooded(inside, held, ATTEST, body, {"Content-Type": JSON})
    assert Counter(answer.status for answer in answers) == {200: 32, 429: 8}
    assert {answer.code for answer in answers if answer.status == 429} == {"gateway.crowded"}


def test_one_address_has_32_places_for_admissions(platform: PlatformClient, tmp_path: Path) -> None:
    with in_process(platform, tmp_path / "store") as inside:
        held = Held(inside.service.admissions.collateral)
        inside.service.admissions = replace(inside.service.admissions, collateral=held)
        made = draft(inside)
        body = wrap_admission(Admission(evidence_of(made, platform), made.policy))
        answers = flooded(inside, held, "/v1/sessions", body, admission_headers(made.nonce))
    codes = Counter(answer.status if answer.status == 201 else answer.code for answer in answers)
    assert codes == {201: 1, "admission.nonce": 31, "gateway.crowded": 8}


def test_who_asks_for_one_session_too_many_learns_just_that(platform: PlatformClient, tmp_path: Path) -> None:
    """A supervisor asks again where nothing was done yet: not here, where its nonce is used up."""
    with (
        in_process(platform, tmp_path / "store", sessions_max=1) as inside,
        listening(inside, most=32) as gateway,
    ):
        SessionClient.start(gateway, platform)
        made = draft(gateway)
        body = wrap_admission(Admission(evidence_of(made, platform), made.policy))
        before = inside.service.recorder.count

        async def post() -> tuple[int, bytes]:
            client = GatewayClient(gateway.url, spki=gateway.spki)
            headers = [
                (name.encode(), value.encode()) for name, value in admission_headers(made.nonce).items()
            ]
            try:
                reply, data = await client.post("/v1/sessions", headers, body, limit=1 << 16)
                return reply.status, data
            finally:
                await client.close()

        status, data = asyncio.run(post())
        assert status == 429 and b"too many open sessions" in data
        assert inside.service.recorder.count == before + 1


def idle(gateway: Gateway, source: str = "127.0.0.1") -> ssl.SSLSocket:
    """A TLS connection on which nothing is ever asked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    plain = socket.create_connection(gateway.address, 20, source_address=(source, 0))
    return context.wrap_socket(plain)


def ended(connections: list[ssl.SSLSocket]) -> int:
    """How many of them the server has closed."""
    count = 0
    for connection in connections:
        connection.setblocking(False)
        try:
            count += connection.recv(1) == b""
        except ssl.SSLWantReadError:
            continue
        except OSError:
            count += 1
    return count


@contextmanager
def crowd(gateway: Gateway, number: int) -> Iterator[list[ssl.SSLSocket]]:
    """While one client has opened so many connections and asks nothing on them."""
    made: list[ssl.SSLSocket] = []
    try:
        for _ in range(number):
            with suppress(OSError):
                made.append(idle(gateway))
        yield made
    finally:
        for each in made:
            each.close()


@contextmanager
def listening(inside: InProcess, most: int) -> Iterator[Gateway]:
    """``inside`` behind its own TLS listener, with ``most`` connections."""
    tls = make_tls_identity(now=datetime.now(UTC), lifetime=timedelta(hours=1))
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    async def start() -> tuple:
        server = _server(inside.app, drain_s=1)
        serving = asyncio.create_task(server.serve([]))
        while not server.started:
            await asyncio.sleep(0.01)
        return server, serving, accept(server, listener, tls.context, most)

    async def stop() -> None:
        accepting.close()
        server.should_exit = True
        await serving

    server, serving, accepting = inside.run(start())
    try:
        yield Gateway(f"https://127.0.0.1:{port}", tls.spki)
    finally:
        inside.run(stop())


@pytest.mark.parametrize("target", ["/v1/models", "/v1/chat/completions"])
def test_who_opens_more_connections_than_there_are_ends_its_own(
    platform: PlatformClient, tmp_path: Path, target: str
) -> None:
    with in_process(platform, tmp_path / "store") as inside, listening(inside, most=32) as gateway:
        live = SessionClient.start(gateway, platform)
        kept = gateway.connect(timeout=60)
        assert answer_on(kept, live, target) == 200
        with crowd(gateway, 100) as opened:
            assert answer_on(kept, live, target) == 200, "its connection is its session's"
            require_served(gateway, platform, live)
            until(lambda: ended(opened) >= 92)
        kept.close()


def answer_on(connection: http.client.HTTPSConnection, session: SessionClient, target: str) -> int:
    """The status of a request with the session's proof on this very connection: one that reads, or a call."""
    if target == "/v1/models":
        connection.request("GET", target, headers={PROOF_HEADER: session.proof("GET", target)})
    else:
        body = b'{"model": "affiant-dev-echo", "messages": [{"role": "user", "content": "hi"}]}'
        proof = session.proof("POST", target, body, content_type=JSON, counted=True)
        connection.request("POST", target, body, {"Content-Type": JSON, PROOF_HEADER: proof})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def test_who_comes_from_elsewhere_does_not_notice_a_crowd(platform: PlatformClient, tmp_path: Path) -> None:
    with in_process(platform, tmp_path / "store") as inside, listening(inside, most=32) as gateway:
        other = idle(gateway, "127.0.0.2")
        with crowd(gateway, 60):
            assert ended([other]) == 0
            other.setblocking(True)
            other.sendall(b"GET /healthz HTTP/1.1\r\nHost: g\r\n\r\n")
            assert other.recv(100).startswith(b"HTTP/1.1 200")
        other.close()


def test_connections_that_never_begin_tls_are_bounded_too(platform: PlatformClient, tmp_path: Path) -> None:
    with in_process(platform, tmp_path / "store") as inside, listening(inside, most=32) as gateway:
        with ExitStack() as stack:
            for _ in range(100):
                stack.enter_context(socket.create_connection(gateway.address, 20))
            assert gateway.ask("GET", "/healthz").status == 200


@pytest.mark.slow
def test_2120_idle_connections_stop_nobody(own: Running, platform: PlatformClient) -> None:
    live = SessionClient.start(own.gateway, platform)
    with crowd(own.gateway, 2120):
        require_served(own.gateway, platform, live)
