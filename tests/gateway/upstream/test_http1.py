"""The client towards upstreams: exact bytes, and every way in which an upstream can misbehave has a code."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.gateway.upstream_server import (
    STREAM_HEAD,
    Received,
    ScriptedUpstream,
    Step,
    chunk,
    scripted_upstream,
    streamed,
    whole,
)

from affiant.errors import AffiantError
from affiant.gateway.upstream.http1 import HTTPClient, TCPConnector, Timeouts, request_head
from affiant.gateway.wire.errors import UpstreamCut
from affiant.gateway.wire.tls import certificate_spki

pytestmark = pytest.mark.anyio
PATIENT = Timeouts(connect=10, head=10, idle=10)
QUICK = Timeouts(connect=10, head=0.3, idle=0.3)
"""For what must not come; a machine under load makes others late too."""
BODY = b'{"exact": "bytes\\u00e9"}'
REQUEST = request_head("POST", "/v1/x", [(b"host", b"h"), (b"content-length", b"%d" % len(BODY))]) + BODY


def client_of(
    upstream: ScriptedUpstream, context: ssl.SSLContext | None = None, **more: object
) -> HTTPClient:
    host = "localhost" if context else "127.0.0.1"
    return HTTPClient(TCPConnector(host, upstream.port, context), **{"timeouts": PATIENT, **more})


async def fetch(client: HTTPClient, tried: list | None = None) -> tuple[int, bytes]:
    log = tried if tried is not None else []
    answer = await client.request(REQUEST, tried=lambda code, spki: log.append((code, spki)))
    body = b""
    while part := await answer.read():
        body += part
    return answer.status, body


async def outcome(
    script: Callable[[Received], list[Step]], timeouts: Timeouts = PATIENT
) -> tuple[object, list]:
    tried: list = []
    with scripted_upstream(script) as upstream:
        upstream.keep = False
        client = client_of(upstream, timeouts=timeouts)
        try:
            return await fetch(client, tried), tried
        except AffiantError as error:
            return error.code, tried
        finally:
            await client.close()


async def test_bytes_go_and_come_exactly() -> None:
    with scripted_upstream(lambda _: whole(b"\x00\xffanswer")) as upstream:
        client = client_of(upstream)
        assert await fetch(client) == (200, b"\x00\xffanswer")
        assert upstream.received[0].body == BODY
        assert upstream.received[0].head.startswith(b"POST /v1/x HTTP/1.1\r\nhost: h")
        await client.close()


async def test_a_connection_is_kept_and_used_again() -> None:
    with scripted_upstream(lambda _: whole(b"x")) as upstream:
        client = client_of(upstream)
        for _ in range(5):
            await fetch(client)
        assert upstream.connections == 1
        await asyncio.gather(*(fetch(client) for _ in range(4)))
        assert upstream.connections <= 5
        await client.close()


async def test_a_kept_connection_that_was_closed_is_replaced_and_both_attempts_are_told() -> None:
    with scripted_upstream(lambda _: whole(b"x")) as upstream:
        upstream.keep = False
        client = client_of(upstream)
        await fetch(client)
        await asyncio.sleep(0)  # the close is on its way, and not seen yet
        tried: list = []
        assert (await fetch(client, tried))[0] == 200
        assert [code for code, _ in tried] in (["upstream.cut", "ok"], ["ok"])
        await client.close()


async def test_however_many_kept_connections_are_dead_one_attempt_replaces_them() -> None:
    with scripted_upstream(lambda _: [0.1, *whole(b"x")]) as upstream:
        upstream.keep = False
        client = client_of(upstream)
        await asyncio.gather(*(fetch(client) for _ in range(4)))
        upstream.script = lambda _: []
        tried: list = []
        with pytest.raises(UpstreamCut):
            await fetch(client, tried)
        assert [code for code, _ in tried] in (["upstream.cut", "upstream.cut"], ["upstream.cut"])
        await client.close()


async def test_a_request_that_a_kept_connection_took_is_not_sent_again() -> None:
    def script(_: Received) -> list[Step]:
        upstream.keep = len(upstream.received) == 1  # it reads the second request, and closes
        return whole(b"x") if upstream.keep else []

    with scripted_upstream(script) as upstream:
        client = client_of(upstream)
        await fetch(client)
        tried: list = []
        with pytest.raises(UpstreamCut):
            await fetch(client, tried)
        assert [code for code, _ in tried] == ["upstream.cut"]
        assert upstream.connections == 1
        await client.close()


async def test_an_answer_in_pieces_is_put_together() -> None:
    data = b"".join(streamed(b"one ", b"two ", b"three"))  # type: ignore[arg-type]
    pieces = [data[i : i + 7] for i in range(0, len(data), 7)]
    result, _ = await outcome(lambda _: [step for piece in pieces for step in (piece, 0.001)])
    assert result == (200, b"one two three")


async def test_interim_answers_are_passed_over() -> None:
    result, _ = await outcome(lambda _: [b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", *whole(b"x")])
    assert result == (200, b"x")


GARBAGE: dict[str, tuple[list[Step], str]] = {
    "nothing": ([], "upstream.cut"),
    "not http": ([b"SSH-2.0-OpenSSH\r\n\r\n"], "upstream.malformed"),
    "half a head": ([b"HTTP/1.1 200 OK\r\ncontent-le"], "upstream.cut"),
    "less than promised": ([b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"], "upstream.cut"),
    "a chunk that is none": ([STREAM_HEAD, b"zz\r\nx\r\n"], "upstream.malformed"),
    "no last chunk": ([STREAM_HEAD, chunk(b"x")], "upstream.cut"),
    "until the connection closes": ([b"HTTP/1.1 200 OK\r\n\r\nbody"], "upstream.cut"),
    "an endless head": (
        [b"HTTP/1.1 200 OK\r\n", *[b"x: " + b"y" * 8000 + b"\r\n"] * 20],
        "upstream.malformed",
    ),
    "both lengths": (
        [b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(b"x")],
        "upstream.malformed",
    ),
    "two lengths": (
        [b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx"],
        "upstream.malformed",
    ),
    "an upgrade": (
        [b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"],
        "upstream.malformed",
    ),
    "no head in time": ([1.0, *whole(b"x")], "upstream.head_timeout"),
    "a stall in the body": ([STREAM_HEAD, chunk(b"x"), 1.0, b"0\r\n\r\n"], "upstream.idle_timeout"),
}


@pytest.mark.parametrize("name", GARBAGE)
async def test_a_broken_answer_has_its_code(name: str) -> None:
    steps, code = GARBAGE[name]
    result, tried = await outcome(lambda _: steps, QUICK if code.endswith("_timeout") else PATIENT)
    assert result == code
    assert tried


async def test_a_second_answer_to_one_request_is_nobodys() -> None:
    with scripted_upstream(lambda _: [whole(b"first")[0] + whole(b"second")[0]]) as upstream:  # type: ignore[operator]
        client = client_of(upstream)
        assert await fetch(client) == (200, b"first")
        assert await fetch(client) == (200, b"first")
        assert upstream.connections == 2
        await client.close()


async def test_nobody_there_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    client = HTTPClient(TCPConnector("127.0.0.1", port), timeouts=PATIENT)
    tried: list = []
    with pytest.raises(AffiantError) as refused:
        await fetch(client, tried)
    assert refused.value.code == "upstream.unreachable"
    assert tried == [("upstream.unreachable", None)]


async def test_a_slow_reader_makes_the_connection_pause() -> None:
    size = 8 << 20
    with scripted_upstream(lambda _: whole(bytes(size))) as upstream:
        client = client_of(upstream)
        answer = await client.request(REQUEST, tried=lambda *_: None)
        await asyncio.sleep(0.2)
        assert answer._buffered < 2 << 20  # the rest waits in the kernel, not in this process
        total = 0
        while part := await answer.read():
            total += len(part)
        assert total == size
        await client.close()


async def test_an_aborted_answer_closes_its_connection() -> None:
    with scripted_upstream(lambda _: [STREAM_HEAD, chunk(b"x"), 0.2]) as upstream:
        client = client_of(upstream)
        answer = await client.request(REQUEST, tried=lambda *_: None)
        await answer.read()
        answer.abort()
        with pytest.raises(AffiantError):
            await answer.read()
        await client.close()


# -- TLS ---------------------------------------------------------------------------------------------------------


def certificate(folder: Path, name: str, *, days: int = 1) -> tuple[Path, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now - timedelta(days=3))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path, made.public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize(
    ("name", "days", "trusted", "code"),
    [
        ("localhost", 1, True, None),
        ("localhost", 1, False, "upstream.unreachable"),
        ("localhost", -1, True, "upstream.unreachable"),
        ("elsewhere.example", 1, True, "upstream.unreachable"),
    ],
)
async def test_the_prompt_leaves_only_after_the_certificate_held(
    tmp_path: Path, name: str, days: int, trusted: bool, code: str | None
) -> None:
    path, der = certificate(tmp_path, name, days=days)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(path)
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if trusted:
        trusting.load_verify_locations(cadata=der)
    with scripted_upstream(lambda _: whole(b"x"), context=serving) as upstream:
        client = client_of(upstream, trusting)
        tried: list = []
        if code is None:
            assert (await fetch(client, tried))[0] == 200
            assert tried == [("ok", certificate_spki(der))]
        else:
            with pytest.raises(AffiantError) as refused:
                await fetch(client, tried)
            assert refused.value.code == code
            assert upstream.received == []
        await client.close()
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_request_that_no_peer_received_is_sent_again(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """The peer closes its side amid two requests; the client's loop has no turn to see that."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(1 << 16)
                peer.sendall(b"".join(part for part in whole(b"x") if isinstance(part, bytes)))

        async def twice() -> list:
            tried: list = []
            client = HTTPClient(TCPConnector("127.0.0.1", server.getsockname()[1], None), timeouts=PATIENT)
            for _ in range(2):
                serving = threading.Thread(target=serve)
                serving.start()
                assert await fetch(client, tried) == (200, b"x")
                serving.join()  # closed, and no await until the next request is written
            await client.close()
            return [code for code, _ in tried]

        with asyncio.Runner(loop_factory=loop) as runner:
            assert runner.run(twice()) == ["ok", "upstream.cut", "ok"]
