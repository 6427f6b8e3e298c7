"""The pinned client: nothing goes to a peer with another key, nothing is sent twice, every end is typed."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import socket
import ssl
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.secrets.certificates import Authority
from tests.secrets.upstream_server import UpstreamServer, answer, chunked

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.statements.gateway_config import DEV_ECHO, make_gateway_config
from affiant.errors import ConfigurationError
from affiant.gateway.upstream.http1 import Timeouts
from affiant.gateway.upstream.priority_band import QueueBounds
from affiant.policy.model.profile import APPROVAL_TTL_BOUNDS, Approval
from affiant.sandbox.base.errors import GatewayNotTheOne, GatewayUnreachable
from affiant.sandbox.supervisor.gateway.gateway_client import GatewayClient, Timing

CONFIG = make_gateway_config(
    iss="i", cls="simulated", origin="o", reference="sha256:" + "0" * 64, upstreams=[DEV_ECHO]
)
APPROVER = "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"


@pytest.mark.parametrize("ttl", APPROVAL_TTL_BOUNDS)
def test_a_response_is_waited_for_as_long_as_its_profile_lets_an_approval_take(ttl: int) -> None:
    plain = Timing.of_session(CONFIG, Approval(everything=True, ttl=ttl))
    assert Timing.of_session(CONFIG, Approval(approvers=(APPROVER,), ttl=ttl)).answer == plain.answer + ttl


def test_a_response_is_waited_for_longer_than_the_gateways_configuration_lets_an_upstream_take() -> None:
    slow = replace(DEV_ECHO, total_s=9000, idle_s=4000)
    timing = Timing.of_session(replace(CONFIG, upstreams=(DEV_ECHO, slow)), Approval())
    bounds = QueueBounds()
    waiting = max(band.wait_s for band in (bounds.interactive, bounds.normal, bounds.batch))
    assert timing.answer > waiting + Timeouts().connect + 9000 and timing.piece > 4000


TIMING = Timing(connect=1, answer=0.5, piece=0.5)


@pytest.fixture
def leaf(tmp_path: Path) -> Path:
    return Authority().leaf(tmp_path, "127.0.0.1")


def spki_of(leaf: Path) -> str:
    certificate = x509.load_pem_x509_certificate(leaf.read_bytes())
    public = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return b64u(hashlib.sha256(public).digest())


def ask(script, leaf: Path, *, spki: str | None = "own", scenario=None):
    with UpstreamServer(script, certificate=leaf) as server:

        async def whole():
            client = GatewayClient(
                f"https://127.0.0.1:{server.port}",
                spki=spki_of(leaf) if spki == "own" else spki,
                timing=TIMING,
            )
            try:
                return await (scenario or fetched)(client)
            finally:
                await client.close()

        return asyncio.run(whole()), server


async def fetched(client: GatewayClient):
    reply = await client.request("POST", "/v1/x", ((b"Content-Type", b"text/plain"),), b"body")
    try:
        return reply.status, await reply.body(), reply.spki
    finally:
        await reply.close()


def test_an_answer_comes_whole_and_names_its_peers_key(leaf: Path) -> None:
    (status, body, spki), server = ask(lambda received: answer(b"hello"), leaf)
    assert (status, body, spki) == (200, b"hello", spki_of(leaf))
    assert server.received[0].line == b"POST /v1/x HTTP/1.1"
    assert server.received[0].body == b"body"


def test_a_stream_comes_byte_for_byte(leaf: Path) -> None:
    (_, body, _), _ = ask(lambda received: chunked([b"data: a\n\n", b"data: b\n\n"]), leaf)
    assert body == b"data: a\n\ndata: b\n\n"


def test_a_longer_answer_than_is_taken_whole_is_a_refusal(leaf: Path) -> None:
    with pytest.raises(GatewayUnreachable):
        ask(lambda received: answer(b"x" * ((1 << 20) + 1)), leaf)


def test_another_key_gets_no_byte_of_a_request(leaf: Path) -> None:
    with UpstreamServer(lambda received: answer(b""), certificate=leaf) as server:

        async def whole():
            client = GatewayClient(f"https://127.0.0.1:{server.port}", spki=b64u(bytes(32)), timing=TIMING)
            await client.request("GET", "/")

        with pytest.raises(GatewayNotTheOne):
            asyncio.run(whole())
        assert server.received == []


@pytest.mark.parametrize(
    "script",
    [
        lambda received: [],
        lambda received: [b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"],
        lambda received: [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"],
        lambda received: [b"garbage\r\n\r\n"],
        lambda received: [b"HTTP/1.1 200 OK\r\n"],
        lambda received: [1.5],
    ],
)
def test_every_broken_answer_is_one_refusal(leaf: Path, script) -> None:
    with pytest.raises(GatewayUnreachable):
        ask(script, leaf)


def test_nobody_there_is_a_refusal() -> None:
    async def whole():
        await GatewayClient("https://127.0.0.1:9", spki=None, timing=TIMING).request("GET", "/")

    with pytest.raises(GatewayUnreachable):
        asyncio.run(whole())


def test_a_gateway_that_speaks_no_tls_is_a_refusal() -> None:
    async def whole(port: int):
        await GatewayClient(f"https://127.0.0.1:{port}", spki=None, timing=TIMING).request("GET", "/")

    with (
        UpstreamServer(lambda received: answer(b""), certificate=None) as server,
        pytest.raises(GatewayUnreachable),
    ):
        asyncio.run(whole(server.port))


def test_a_gateway_that_is_silent_does_not_hold_up_the_end_of_its_connection(leaf: Path) -> None:
    """It reads no more, so it does not say that it closes, either."""
    over = threading.Event()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(leaf)

    def serve(listener: socket.socket) -> None:
        taken, _ = listener.accept()
        with context.wrap_socket(taken, server_side=True) as connection:
            connection.recv(1)
            over.wait(20)

    async def whole(port: int) -> None:
        client = GatewayClient(f"https://127.0.0.1:{port}", spki=spki_of(leaf), timing=TIMING)
        with pytest.raises(GatewayUnreachable):
            await asyncio.wait_for(client.request("GET", "/"), 10)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=serve, args=(listener,))
        serving.start()
        try:
            asyncio.run(whole(listener.getsockname()[1]))
            assert not over.is_set()
        finally:
            over.set()
            serving.join(5)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "https://127.0.0.1", "https://127.0.0.1:1/path", "127.0.0.1:1", ""]
)
def test_only_a_plain_https_address_is_a_gateways(url: str) -> None:
    with pytest.raises(ConfigurationError):
        GatewayClient(url, spki=None)


def test_a_finished_connection_is_used_again_and_an_unfinished_one_is_not(leaf: Path) -> None:
    async def serve_many(reader, writer):
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        except (asyncio.IncompleteReadError, OSError):
            writer.close()

    async def whole() -> list[int]:
        opened: list[int] = []

        async def counted(reader, writer):
            opened.append(1)
            await serve_many(reader, writer)

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(leaf)
        server = await asyncio.start_server(counted, "127.0.0.1", 0, ssl=context)
        client = GatewayClient(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", spki=spki_of(leaf))
        counts = []
        for take in (True, True, False, True):
            reply = await client.request("GET", "/")
            if take:
                await reply.body()
            await reply.close()
            counts.append(len(opened))
        await client.close()
        server.close()
        await server.wait_closed()
        return counts

    assert asyncio.run(whole()) == [1, 1, 1, 2]


# -- what is tried again, because the gateway did nothing yet ---------------------------------------------------------


BUSY = b'{"error": {"message": "m", "type": "t", "code": "gateway.crowded", "param": null}}'


async def posted(client: GatewayClient):
    reply, data = await client.post("/v1/x", (), b"body", limit=1000)
    return reply.status, data


def test_a_gateway_that_is_busy_is_asked_again_before_the_admission(leaf: Path) -> None:
    count = itertools.count()

    def script(received):
        return answer(b"{}") if next(count) == 2 else answer(BUSY, status=b"429 Too Many Requests")

    found, server = ask(script, leaf, scenario=posted)
    assert found == (200, b"{}")
    assert [request.body for request in server.received] == [b"body"] * 3


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, b"log.unwitnessed"), (403, b"log.unwitnessed"), (503, b"log.unwitnessed"), (429, b"gateway.busy")],
)
def test_any_other_refusal_is_final(leaf: Path, status: int, code: bytes) -> None:
    """Also of a gateway that is busy with something else: the nonce may be used up, and a second try hides why."""
    refused = BUSY.replace(b"gateway.crowded", code)
    found, server = ask(lambda received: answer(refused, status=b"%d No" % status), leaf, scenario=posted)
    assert found == (status, refused) and len(server.received) == 1


def test_a_connection_that_ends_before_its_handshake_is_made_again(leaf: Path) -> None:
    """So a crowded gateway, which ends the oldest of an address, fails no call: nothing was sent."""

    async def run() -> int:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(leaf)
        seen: list[int] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(1)
            if len(seen) <= 2:
                writer.transport.abort()
                return
            await writer.start_tls(context)

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            client = GatewayClient(f"https://127.0.0.1:{port}", spki=spki_of(leaf), timing=Timing(connect=5))
            connection = await client.connection()
            await connection.close()
            return len(seen)

    assert asyncio.run(run()) == 3
