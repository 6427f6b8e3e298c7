from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import time
from pathlib import Path

import pytest
from tests.raising import raises_code
from tests.secrets.conftest import HOST, fetched, pieces, request_to
from tests.secrets.upstream_server import answer, chunked

from affiant.attestation.encoding.binary_text import b64u
from affiant.secrets.broker.client.client import BrokerClient
from affiant.secrets.broker.client.messages import Limits
from affiant.secrets.injection.body_surface import MAX_HELD_BODY, BodySurface
from affiant.secrets.injection.surface import QuerySurface, Surface
from affiant.secrets.names.errors import (
    BrokerGone,
    PlaceholderMisplaced,
    SecretBodyTooLarge,
    SecretNotBound,
    SecretValueInvalid,
    UpstreamCertificateInvalid,
    UpstreamMalformed,
    UpstreamTimedOut,
    UpstreamTruncated,
    UpstreamUnreachable,
)

VALUE = b"ghp_9sX2kQ7vLm4TzR1bYwE6"
USE = (("TOKEN", "header:authorization"),)


def bearer(placeholder: str) -> tuple[bytes, bytes]:
    return (b"Authorization", b"Bearer " + placeholder.encode())


def echo(received):
    """Everything back: head in a header and the body, body too."""
    credential = received.header("authorization") or b""
    return answer(received.head + b"\r\n\r\n" + received.body, b"X-Echo: " + credential)


def test_the_upstream_gets_the_value_and_the_agent_its_placeholder(harness, serve) -> None:
    server = serve(echo)
    placeholder = harness.grant("TOKEN", VALUE, server.port)
    got = harness.fetch(request_to(server.port, bearer(placeholder), uses=USE))
    assert server.received[0].header("authorization") == b"Bearer " + VALUE
    assert got.head.status == 200
    assert dict(got.head.headers)[b"x-echo"] == b"Bearer " + placeholder.encode()
    assert b"Bearer " + placeholder.encode() in got.body
    assert VALUE not in got.body + repr(got).encode()
    assert got.outcome.redactions == 2
    assert got.outcome.refusal is None
    assert harness.resolution.resolved == {"TOKEN": "1"}


def test_the_request_is_sent_as_decided(harness, serve) -> None:
    server = serve(echo)
    harness.fetch(
        request_to(
            server.port,
            (b"X-One", b"1"),
            (b"Connection", b"keep-alive, X-Two"),
            (b"X-Two", b"2"),
            (b"Proxy-Authorization", b"Basic eDp5"),
            (b"Accept-Encoding", b"gzip, br"),
            (b"TE", b"trailers"),
            (b"Expect", b"100-continue"),
        )
    )
    assert server.received[0].head.split(b"\r\n") == [
        b"GET /v1/thing?x=1 HTTP/1.1",
        f"Host: {HOST}:{server.port}".encode(),
        b"X-One: 1",
        b"Accept-Encoding: identity",
        b"Connection: close",
    ]


@pytest.mark.parametrize(
    "surface", [Surface.injected("X-Api-Key", "{}"), Surface.injected("Authorization", "Key {}")]
)
def test_an_injected_header_is_filled(harness, serve, surface) -> None:
    server = serve(echo)
    placeholder = harness.grant("TOKEN", VALUE, server.port, surface=surface)
    value = surface.format.format(placeholder).encode()
    got = harness.fetch(
        request_to(server.port, (surface.header.encode(), value), uses=(("TOKEN", surface.label),))
    )
    assert server.received[0].header(surface.header) == surface.format.format(VALUE.decode()).encode()
    assert VALUE not in got.body


def test_a_parameter_of_the_query_is_filled_and_recorded_with_its_placeholder(harness, serve) -> None:
    def with_line(received):
        return answer(received.head, b"Location: /next?key=" + VALUE)

    server = serve(with_line)
    placeholder = harness.grant("TOKEN", VALUE, server.port, surface=QuerySurface("key"))
    target = f"/v1?a=1&key={placeholder}&b=2".encode()
    got = harness.fetch(request_to(server.port, uses=(("TOKEN", "query:key"),), target=target))
    received = server.received[0]
    assert received.head.startswith(b"GET /v1?a=1&key=" + VALUE + b"&b=2 HTTP/1.1\r\n")
    assert VALUE not in got.body + repr(got).encode()
    assert target in got.body and dict(got.head.headers)[b"location"] == b"/next?key=" + placeholder.encode()
    recorded = received.head.replace(VALUE, placeholder.encode()) + b"\r\n\r\n"
    assert got.outcome.sent_digest == b64u(hashlib.sha256(recorded).digest())


def test_a_value_with_structure_stays_one_value_and_its_echo_is_redacted(harness, serve) -> None:
    value = b"k9!&admin=1#/../%41+x y"
    server = serve(echo)
    placeholder = harness.grant("TOKEN", value, server.port, surface=QuerySurface("key"))
    target = f"/v1?key={placeholder}".encode()
    got = harness.fetch(request_to(server.port, uses=(("TOKEN", "query:key"),), target=target))
    escaped = b"k9%21%26admin%3D1%23%2F..%2F%2541%2Bx%20y"
    assert server.received[0].head.startswith(b"GET /v1?key=" + escaped + b" HTTP/1.1\r\n")
    assert escaped not in got.body and placeholder.encode() in got.body


JSON = (b"Content-Type", b"application/json")
FORM = (b"Content-Type", b"application/x-www-form-urlencoded")
IN_JSON = BodySurface(json="/auth/token")
IN_FORM = BodySurface(form="client_secret")


def with_body(port: int, *headers, surface: BodySurface = IN_JSON, uses=None):
    used = (("TOKEN", surface.label),) if uses is None else uses
    return request_to(port, *headers, uses=used, method="POST", has_body=True)


@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize(
    ("surface", "kind", "text", "value", "spelled"),
    [
        (
            IN_JSON,
            JSON,
            b'{"a": 1.50, "auth" : {"token":"%s"}} ',
            b'q"9\\k2/vLm4TzR1bYwE6 ',
            b'q\\"9\\\\k2/vLm4TzR1bYwE6 ',
        ),
        (
            IN_FORM,
            FORM,
            b"a=1&client_secret=%s&b=%%20",
            b"q&9=k2/vLm+4Tz 7R1bYw",
            b"q%269%3Dk2%2FvLm%2B4Tz%207R1bYw",
        ),
    ],
)
def test_a_place_of_the_body_is_filled_measured_and_recorded_with_its_placeholder(
    harness, serve, surface, kind, text, value, spelled, sized
) -> None:
    server = serve(echo)
    placeholder = harness.grant("TOKEN", value, server.port, surface=surface).encode()
    body = text % placeholder
    length = [(b"Content-Length", b"%d" % len(body))] if sized else []
    got = harness.fetch(with_body(server.port, kind, *length, surface=surface), [body[:7], body[7:]])
    assert got.outcome.refusal is None
    received = server.received[0]
    assert received.body == body.replace(placeholder, spelled)
    assert received.header("content-length") == (b"%d" % len(received.body) if sized else None)
    assert value not in got.body and spelled not in got.body and placeholder in got.body
    length_of = b"Content-Length: %d\r\n"
    head = received.head.replace(length_of % len(received.body), length_of % len(body)) + b"\r\n\r\n"
    assert got.outcome.sent_digest == b64u(hashlib.sha256(head + body).digest())
    assert got.outcome.bytes_out == len(head + body)
    assert got.outcome.request_complete


def test_a_secret_of_the_head_and_one_of_the_body_go_together(harness, serve) -> None:
    server = serve(echo)
    other = b"xoxb-2384957-9sX2kQ7vLm4T"
    first = harness.grant("TOKEN", VALUE, server.port, surface=IN_JSON).encode()
    second = harness.grant("OTHER", other, server.port, surface=BodySurface(json="/b")).encode()
    third = harness.grant("HEAD", b"zz-99X2kQ7vLm4TzR1bYwE6", server.port)
    uses = (("HEAD", "header:authorization"), ("TOKEN", IN_JSON.label), ("OTHER", "body:json:/b"))
    body = b'{"b": "%s", "auth": {"token": "%s"}}' % (second, first)
    got = harness.fetch(with_body(server.port, JSON, bearer(third), uses=uses), [body])
    assert got.outcome.refusal is None
    assert server.received[0].body == b'{"b": "%s", "auth": {"token": "%s"}}' % (other, VALUE)
    assert first in got.body and second in got.body


@pytest.mark.parametrize(
    ("headers", "body", "refusal"),
    [
        ([JSON], b'{"auth": {"token": "Bearer %s"}}', PlaceholderMisplaced.code),
        ([JSON], b'{"auth": {"token": "%s"}, "other": "%s"}', PlaceholderMisplaced.code),
        ([JSON], b'{"auth": {"token": "%s", "token": 1}}', PlaceholderMisplaced.code),
        ([FORM], b'{"auth": {"token": "%s"}}', SecretNotBound.code),
        ([], b'{"auth": {"token": "%s"}}', SecretNotBound.code),
        ([JSON, (b"Content-Encoding", b"gzip")], b'{"auth": {"token": "%s"}}', SecretNotBound.code),
        ([JSON], b'{"auth": {"token": "x"}}', SecretNotBound.code),
        ([JSON, (b"Content-Length", b"9")], b'{"auth": {"token": "%s"}}', "broker.request"),
        ([JSON], b'{"auth": {"token": "%s"}, "x": "' + b"x" * MAX_HELD_BODY + b'"}', SecretBodyTooLarge.code),
        ([JSON], b"", SecretNotBound.code),
    ],
)
def test_a_body_that_is_not_what_was_decided_is_not_sent(harness, serve, headers, body, refusal) -> None:
    server = serve(echo)
    placeholder = harness.grant("TOKEN", VALUE, server.port, surface=IN_JSON).encode()
    data = body.replace(b"%s", placeholder)
    request = with_body(server.port, *headers)
    # where nothing can be a place, the placeholder is found as anywhere else
    with raises_code(refusal, PlaceholderMisplaced.code):
        harness.fetch(request, [data[at : at + 65536] for at in range(0, len(data), 65536)])
    assert not server.received


def test_a_secret_in_a_body_that_was_not_decided_is_not_sent(harness, serve) -> None:
    server = serve(echo)
    placeholder = harness.grant("TOKEN", VALUE, server.port, surface=IN_JSON).encode()
    body = b'{"auth": {"token": "%s"}}' % placeholder
    with pytest.raises(PlaceholderMisplaced):
        harness.fetch(with_body(server.port, JSON, uses=()), [body])
    with raises_code("broker.request"):
        harness.fetch(request_to(server.port, JSON, uses=(("TOKEN", IN_JSON.label),)))
    assert not any(placeholder in each.body or VALUE in each.body for each in server.received)


def test_a_value_that_json_cannot_hold_is_refused_without_being_told(harness, serve) -> None:
    server = serve(echo)
    value = b"\xff\xfe9sX2kQ7vLm4TzR1bYwE6"
    placeholder = harness.grant("TOKEN", value, server.port, surface=IN_JSON).encode()
    with pytest.raises(SecretValueInvalid) as refused:
        harness.fetch(with_body(server.port, JSON), [b'{"auth": {"token": "%s"}}' % placeholder])
    assert "9sX2k" not in repr(refused.value) and not server.received


def test_basic_credentials_are_filled_and_their_echo_redacted(harness, serve) -> None:
    server = serve(echo)
    placeholder = harness.grant("TOKEN", VALUE, server.port)
    header = (b"authorization", b"Basic " + base64.b64encode(b"git:" + placeholder.encode()))
    got = harness.fetch(request_to(server.port, header, uses=USE))
    sent = server.received[0].header("authorization")
    assert sent == b"Basic " + base64.b64encode(b"git:" + VALUE)
    assert sent not in got.body
    assert placeholder.encode() in got.body


def test_the_digest_is_of_the_request_with_placeholders(harness, serve) -> None:
    server = serve(echo)
    placeholder = harness.grant("TOKEN", VALUE, server.port)
    body = [b"abc", b"", b"def" * 1000]
    got = harness.fetch(
        request_to(server.port, bearer(placeholder), uses=USE, method="POST", has_body=True), body
    )
    received = server.received[0]
    assert received.body == b"".join(body)
    recorded = received.head.replace(VALUE, placeholder.encode()) + b"\r\n\r\n" + received.body
    assert got.outcome.sent_digest == b64u(hashlib.sha256(recorded).digest())
    assert got.outcome.bytes_out == len(recorded)
    assert got.outcome.request_complete
    assert received.header("transfer-encoding") == b"chunked"


def test_a_body_of_known_length_is_sent_as_it_is(harness, serve) -> None:
    server = serve(echo)
    request = request_to(server.port, (b"Content-Length", b"6"), method="PUT", has_body=True)
    harness.fetch(request, [b"abc", b"def"])
    assert server.received[0].body == b"abcdef"
    assert server.received[0].header("transfer-encoding") is None


@pytest.mark.parametrize("body", [[b"abc"], [b"abcdefg"]])
def test_a_body_of_another_length_is_refused(harness, serve, body) -> None:
    server = serve(echo)
    with raises_code("broker.request", match="length"):
        harness.fetch(request_to(server.port, (b"Content-Length", b"6"), method="PUT", has_body=True), body)


def test_the_peers_key_is_told(harness, serve, certificate: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    server = serve(echo)
    got = harness.fetch(request_to(server.port))
    pem = certificate.read_bytes()
    key = x509.load_pem_x509_certificate(pem[pem.index(b"-----BEGIN CERT") :]).public_key()
    spki = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert got.outcome.spki_sha256 == b64u(hashlib.sha256(spki).digest())


# --- what the broker checks again -------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"uses": ()},
        {"uses": USE + USE},
        {"uses": (("OTHER", "header:authorization"),)},
        {"uses": (("TOKEN", "header:x-api-key"),)},
        {"host": "other.example.test", "headers": ()},
        {"scheme": "http"},
    ],
)
def test_a_use_that_is_not_decided_or_not_bound_is_refused(harness, serve, changes) -> None:
    server = serve(echo)
    placeholder = harness.grant("TOKEN", VALUE, server.port)
    members = {"uses": USE} | changes
    members["headers"] = (bearer(placeholder),)
    with pytest.raises(SecretNotBound) as refusal:
        harness.fetch(request_to(server.port, **members))
    assert placeholder not in str(refusal.value)
    assert server.connections == 0


def test_a_use_that_was_decided_and_is_not_in_the_request_is_refused(harness, serve) -> None:
    server = serve(echo)
    harness.grant("TOKEN", VALUE, server.port)
    with pytest.raises(SecretNotBound):
        harness.fetch(request_to(server.port, uses=USE))
    assert server.connections == 0


def test_another_port_is_refused(harness, serve) -> None:
    server, other = serve(echo), serve(echo)
    placeholder = harness.grant("TOKEN", VALUE, server.port)
    with pytest.raises(SecretNotBound):
        harness.fetch(request_to(other.port, bearer(placeholder), uses=USE))
    assert other.connections == 0


def test_a_placeholder_in_the_body_is_never_forwarded(harness, serve) -> None:
    server = serve(lambda _: [1.0], read_body=False)
    placeholder = harness.grant("TOKEN", VALUE, server.port)
    body = [b"x" * 100, placeholder[:20].encode(), placeholder[20:].encode(), b"y" * 5000]

    async def scenario(client: BrokerClient) -> None:
        async with client.exchange(
            request_to(server.port, method="POST", has_body=True), pieces(body)
        ) as exchange:
            with pytest.raises(PlaceholderMisplaced):
                await exchange.head()
            outcome = await exchange.outcome()
            assert outcome.error_code == "secret.placeholder_misplaced"
            assert not outcome.request_complete

    harness.run(scenario)
    assert placeholder.encode() not in b"".join(each.head + each.body for each in server.received)


@pytest.mark.parametrize("encoding", [b"br", b"zstd"])
def test_a_body_that_cannot_be_searched_is_refused(harness, serve, encoding: bytes) -> None:
    server = serve(echo)
    harness.grant("TOKEN", VALUE, server.port)
    with raises_code("secret.placeholder_hidden"):
        harness.fetch(
            request_to(server.port, (b"Content-Encoding", encoding), method="POST", has_body=True), [b"x"]
        )
    assert server.connections == 0


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"method": "TRACE"}, "broker.request"),
        ({"method": "CONNECT"}, "broker.request"),
        ({"method": "get"}, "broker.request"),
        ({"method": "GET /"}, "broker.request"),
        ({"scheme": "ftp"}, "broker.request"),
        ({"target": b"/a b"}, "broker.request"),
        ({"target": b"/a\r\nX: y"}, "broker.request"),
        ({"target": b"http://evil.example/"}, "broker.request"),
        ({"target": b"*"}, "broker.request"),
        ({"target": b"/a#b"}, "broker.request"),
        ({"headers": ((b"Host", b"evil.example"),)}, "broker.request"),
        ({"headers": ((b"X", b"a\r\nY: b"),)}, "broker.request"),
        ({"headers": ((b"X Y", b"a"),)}, "broker.request"),
        ({"headers": ((b"Content-Length", b"1"), (b"Content-Length", b"2"))}, "broker.request"),
        ({"headers": ((b"Upgrade", b"websocket"), (b"Connection", b"Upgrade"))}, "upstream.upgrade"),
        ({"headers": ((b"Connection", b"keep-alive, Upgrade"),)}, "upstream.upgrade"),
    ],
)
def test_a_request_that_is_not_sent_at_all_is_refused(harness, serve, changes, code) -> None:
    server = serve(echo)
    with raises_code(code):
        harness.fetch(request_to(server.port, **changes))
    assert server.connections == 0


# --- what comes back --------------------------------------------------------------------------------


def test_an_echo_anywhere_in_the_answer_is_redacted(harness, serve) -> None:
    def script(_):
        body = b"<p>" + VALUE + b"</p>" + VALUE.hex().encode() + base64.b64encode(b"u:" + VALUE)
        return answer(
            body,
            b"Location: https://elsewhere.example/?t=" + VALUE,
            b"Set-Cookie: s=" + VALUE + b"; HttpOnly",
            b"X-" + VALUE.replace(b"_", b"-") + b": name",
            status=b"302 " + VALUE,
        )

    server = serve(script)
    placeholder = harness.grant("TOKEN", VALUE, server.port)
    got = harness.fetch(request_to(server.port, bearer(placeholder), uses=USE))
    headers = dict(got.head.headers)
    assert got.head.status == 302
    assert headers[b"location"] == b"https://elsewhere.example/?t=" + placeholder.encode()
    assert headers[b"set-cookie"] == b"s=" + placeholder.encode() + b"; HttpOnly"
    assert b"content-length" not in headers
    assert VALUE not in got.body
    assert got.body.count(placeholder.encode()) == 3
    assert server.connections == 1, "the redirect was not followed"


def test_an_echo_split_across_chunks_and_in_trailers_is_redacted(harness, serve) -> None:
    server = serve(
        lambda _: chunked(
            [b"data: " + VALUE[:7], VALUE[7:20], VALUE[20:] + b"\n\n"],
            trailers=b"X-Trailer: " + VALUE + b"\r\n",
            pause=0.02,
        )
    )
    placeholder = harness.grant("TOKEN", VALUE, server.port)
    got = harness.fetch(request_to(server.port, bearer(placeholder), uses=USE))
    assert got.body == b"data: " + placeholder.encode() + b"\n\n"
    assert got.outcome.trailers == ((b"x-trailer", placeholder.encode()),)
    assert got.outcome.redactions == 2


def test_a_secret_that_was_not_used_in_this_request_is_redacted_too(harness, serve) -> None:
    """What a host was told before, it can say later."""
    server = serve(lambda _: answer(VALUE))
    placeholder = harness.grant("TOKEN", VALUE, server.port)
    assert harness.fetch(request_to(server.port)).body == placeholder.encode()


def test_an_answer_streams_while_it_comes(harness, serve) -> None:
    server = serve(lambda _: chunked([b"a" * 5000, b"b" * 5000], pause=0.5))
    harness.grant("TOKEN", VALUE, server.port)

    async def scenario(client: BrokerClient) -> float:
        async with client.exchange(request_to(server.port)) as exchange:
            await exchange.head()
            start = time.monotonic()
            async for chunk in exchange.chunks():
                assert chunk.startswith(b"aaa")
                return time.monotonic() - start
        raise AssertionError

    assert harness.run(scenario) < 0.4


@pytest.mark.parametrize("encoding", [b"gzip", b"br", b"zstd", b"deflate", b"identity, gzip"])
def test_an_encoded_answer_is_refused(harness, serve, encoding: bytes) -> None:
    server = serve(lambda _: answer(gzip.compress(VALUE), b"Content-Encoding: " + encoding))
    placeholder = harness.grant("TOKEN", VALUE, server.port)
    with raises_code("upstream.encoding"):
        harness.fetch(request_to(server.port, bearer(placeholder), uses=USE))


def test_without_secrets_an_encoded_answer_passes(harness, serve) -> None:
    body = gzip.compress(b"hello")
    server = serve(lambda _: answer(body, b"Content-Encoding: gzip"))
    got = harness.fetch(request_to(server.port, (b"Range", b"bytes=0-3")))
    assert got.body == body
    assert dict(got.head.headers)[b"content-length"] == b"%d" % len(body)
    assert server.received[0].header("range") == b"bytes=0-3"


SLICING = (
    "Range",
    "If-Range",
    "Request-Range",
    "X-MS-Range",
    "X-Range",
    "X_Range",
    "x-ms-range-get-content-md5",
    "Ranges",
    "X-ByteRange",
    "ByteRange",
    "Resource-Range",
    "RequestRange",
    "XRange",
    "X-Subranges",
    "X-IORange",
    "A-IM",
)


def test_no_slice_is_asked_for_where_an_echo_could_be_sliced(harness, serve) -> None:
    """Two requests, each for a half of what a host echoes, had the whole value in them."""
    server = serve(echo)
    placeholder = harness.grant("TOKEN", VALUE, server.port)
    asked = [(name.encode(), b"bytes=0-3") for name in SLICING]
    kept = (  # all but the first four are of what is uploaded or copied
        (b"X-Arrange", b"by name"),
        (b"Orange-Id", b"7"),
        (b"X-Strange", b"yes"),
        (b"Accept-Ranges", b"none"),
        (b"Content-Range", b"bytes 0-3/9"),
        (b"X-Content-Range", b"bytes 0-3/9"),
        (b"X-Upload-Content-Range", b"bytes 0-3/9"),
        (b"ContentRange", b"bytes 0-3/9"),
        (b"x-ms-source-range", b"bytes=0-3"),
    )
    harness.fetch(request_to(server.port, bearer(placeholder), *kept, *asked, uses=USE))
    assert [name for name in SLICING if server.received[0].header(name.lower()) is not None] == []
    assert [server.received[0].header(name.decode().lower()) for name, _ in kept] == [
        value for _, value in kept
    ]


@pytest.mark.parametrize(
    ("status", "field"),
    [
        (206, b"Content-Range: bytes 0-3/40"),
        (206, b"Content-Type: text/plain"),
        (226, b"IM: range"),
        (200, b"Content-Range: bytes 0-3/40"),
        (200, b"Content-Range: Bytes=0-3/40"),
        (200, b"Content-Type: Multipart/ByteRanges; boundary=x"),
    ],
)
def test_a_slice_that_comes_anyway_is_rejected(harness, serve, status: int, field: bytes) -> None:
    head = b"HTTP/1.1 %d OK\r\n%s\r\nContent-Length: 4\r\n\r\n" % (status, field)
    server = serve(lambda _: [head, VALUE[:4]])
    placeholder = harness.grant("TOKEN", VALUE, server.port)
    with raises_code("upstream.partial"):
        harness.fetch(request_to(server.port, bearer(placeholder), uses=USE))


def test_rows_of_a_table_are_no_slice(harness, serve) -> None:
    """PostgREST says with every 200 which rows it holds."""
    server = serve(lambda _: answer(b"[1,2]", b"Content-Range: 0-14/*"))
    placeholder = harness.grant("TOKEN", VALUE, server.port)
    got = harness.fetch(request_to(server.port, bearer(placeholder), uses=USE))
    assert (got.body, dict(got.head.headers)[b"content-range"]) == (b"[1,2]", b"0-14/*")


def test_without_secrets_a_slice_passes(harness, serve) -> None:
    server = serve(lambda _: [b"HTTP/1.1 206 OK\r\nContent-Length: 4\r\n\r\n", b"hell"])
    assert harness.fetch(request_to(server.port, (b"Range", b"bytes=0-3"))).body == b"hell"


def test_informational_answers_are_skipped(harness, serve) -> None:
    server = serve(lambda _: [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\n\r\n", *answer(b"ok")])
    assert harness.fetch(request_to(server.port)).body == b"ok"


def test_an_answer_until_the_end_of_the_connection_is_read(harness, serve) -> None:
    server = serve(lambda _: [b"HTTP/1.0 200 OK\r\n\r\nhello"])
    assert harness.fetch(request_to(server.port)).body == b"hello"


def test_head_and_empty_answers_keep_their_length(harness, serve) -> None:
    server = serve(lambda _: [b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n"])
    harness.grant("TOKEN", VALUE, server.port)
    got = harness.fetch(request_to(server.port, method="HEAD"))
    assert (dict(got.head.headers)[b"content-length"], got.body) == (b"999", b"")


# --- upstreams that misbehave -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "options", "says"),
    [
        (("other.example.test",), {}, "another host"),
        ((HOST,), {"expired": True}, "expired"),
        ((HOST,), {"self_signed": True}, "self-signed"),
    ],
)
def test_a_certificate_that_does_not_hold_is_refused(
    harness, serve, authority, tmp_path, names, options, says
) -> None:
    server = serve(echo, tls=authority.leaf(tmp_path, *names, **options))
    placeholder = harness.grant("TOKEN", VALUE, server.port)
    with pytest.raises(UpstreamCertificateInvalid, match=says):
        harness.fetch(request_to(server.port, bearer(placeholder), uses=USE))
    assert server.received == [], "nothing was sent"


def test_another_root_is_refused(harness, serve) -> None:
    server = serve(echo)
    harness.roots = ()
    with pytest.raises(UpstreamCertificateInvalid):
        harness.fetch(request_to(server.port))


def test_plain_http_where_tls_was_decided_is_refused(harness, serve) -> None:
    server = serve(lambda _: [b"HTTP/1.1 400 Bad Request\r\n\r\n"], tls=False, read_body=None)
    with pytest.raises(UpstreamUnreachable):
        harness.fetch(request_to(server.port))


def test_plain_http_carries_requests_without_secrets(harness, serve) -> None:
    server = serve(echo, tls=False)
    got = harness.fetch(request_to(server.port, scheme="http"))
    assert got.head.status == 200
    assert got.outcome.spki_sha256 is None


def test_a_closed_port_is_refused(harness, serve) -> None:
    server = serve(echo)
    server.__exit__(None, None, None)
    server.__exit__ = lambda *_: None
    with pytest.raises(UpstreamUnreachable):
        harness.fetch(request_to(server.port))


GARBAGE = [
    b"garbage " + VALUE + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX" + VALUE + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70000,
    b"HTTP/1.1 100 Continue\r\n\r\n" * 20,
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_is_refused_and_not_repeated(harness, serve, garbage: bytes) -> None:
    server = serve(lambda _: [garbage, 0.2])
    placeholder = harness.grant("TOKEN", VALUE, server.port)
    with pytest.raises(UpstreamMalformed) as refusal:
        harness.fetch(request_to(server.port, bearer(placeholder), uses=USE))
    assert VALUE.decode() not in str(refusal.value)


@pytest.mark.parametrize(
    "pieces_",
    [
        [],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel"],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"],
    ],
)
def test_a_truncated_answer_is_refused(harness, serve, pieces_) -> None:
    server = serve(lambda _: pieces_)
    with pytest.raises(UpstreamTruncated):
        harness.fetch(request_to(server.port))


def test_a_change_of_protocol_is_refused(harness, serve) -> None:
    server = serve(lambda _: [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"])
    with pytest.raises(UpstreamMalformed):
        harness.fetch(request_to(server.port))


@pytest.mark.parametrize("script", [[2.0], [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe", 2.0]])
def test_a_slow_upstream_is_given_up(harness, serve, script) -> None:
    server = serve(lambda _: script)
    harness.limits = Limits(connect_ms=300, head_ms=300, idle_ms=300)
    start = time.monotonic()
    with pytest.raises(UpstreamTimedOut):
        harness.fetch(request_to(server.port))
    assert time.monotonic() - start < 2


def test_a_silent_tls_peer_is_given_up(harness, serve) -> None:
    import socket

    harness.limits = Limits(connect_ms=300, head_ms=300, idle_ms=300)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(UpstreamTimedOut):
            harness.fetch(request_to(silent.getsockname()[1]))


def test_an_early_answer_ends_the_exchange(harness, serve) -> None:
    """The host refuses the body while it is still being sent."""
    server = serve(lambda _: [*answer(b"too large", status=b"413 No"), 0.5], read_body=False)

    async def endless():
        while True:
            yield b"x" * 10000
            await asyncio.sleep(0.001)

    async def scenario(client: BrokerClient) -> None:
        async with client.exchange(
            request_to(server.port, method="POST", has_body=True), endless()
        ) as exchange:
            assert (await exchange.head()).status == 413
            assert b"".join([chunk async for chunk in exchange.chunks()]) == b"too large"
            outcome = await exchange.outcome()
            assert outcome.refusal is None
            assert not outcome.request_complete

    harness.run(scenario)


def test_a_large_body_and_answer_pass_with_back_pressure(harness, serve) -> None:
    server = serve(lambda received: answer(received.body))
    harness.grant("TOKEN", VALUE, server.port)
    body = [bytes([at % 251]) * 65536 for at in range(64)]
    got = harness.fetch(request_to(server.port, method="POST", has_body=True), body)
    assert got.body == b"".join(body)
    assert got.outcome.bytes_in == 64 * 65536


def test_many_exchanges_at_once_do_not_mix(harness, serve) -> None:
    server = serve(echo)
    placeholder = harness.grant("TOKEN", VALUE, server.port)

    async def scenario(client: BrokerClient) -> None:
        requests = [
            request_to(server.port, bearer(placeholder), (b"X-Id", b"%d" % at), uses=USE, id=str(at))
            for at in range(40)
        ]
        for at, got in enumerate(await asyncio.gather(*(fetched(client, request) for request in requests))):
            assert b"X-Id: %d\r\n" % at in got.body
            assert VALUE not in got.body

    harness.run(scenario)


def test_leaving_early_cuts_the_upstream(harness, serve) -> None:
    server = serve(lambda _: chunked([b"x" * 1000] * 200, pause=0.02))

    async def scenario(client: BrokerClient) -> None:
        async with client.exchange(request_to(server.port)) as exchange:
            await exchange.head()
        assert await asyncio.to_thread(server.hung_up.wait, 3)
        assert (await fetched(client, request_to(server.port, method="HEAD"))).head.status == 200

    harness.run(scenario)


def test_a_failing_body_of_the_caller_is_raised_and_cuts_the_upstream(harness, serve) -> None:
    server = serve(lambda _: [])

    async def broken():
        yield b"abc"
        raise ValueError("the agent hung up")

    async def scenario(client: BrokerClient) -> None:
        with pytest.raises(ValueError, match="hung up"):
            async with client.exchange(
                request_to(server.port, method="POST", has_body=True), broken()
            ) as exchange:
                await exchange.head()
        assert await asyncio.to_thread(server.hung_up.wait, 3)

    harness.run(scenario)


def test_a_broker_killed_in_the_middle_is_noticed(harness, serve) -> None:
    server = serve(lambda _: chunked([b"x" * 1000] * 100, pause=0.05))

    harness.own_process = True

    async def scenario(client: BrokerClient) -> None:
        async with client.exchange(request_to(server.port)) as exchange:
            await exchange.head()
            harness.process.kill()
            with pytest.raises(BrokerGone):
                async for _ in exchange.chunks():
                    pass
            with pytest.raises(BrokerGone):
                await exchange.outcome()
        await client.gone()
        with pytest.raises(BrokerGone):
            await fetched(client, request_to(server.port))

    harness.run(scenario)


def test_a_slow_upload_is_not_taken_for_a_slow_host(harness, serve) -> None:
    server = serve(echo)
    harness.limits = Limits(connect_ms=1000, head_ms=300, idle_ms=300)

    async def slowly():
        for _ in range(8):
            yield b"x" * 100
            await asyncio.sleep(0.1)

    async def scenario(client: BrokerClient) -> None:
        async with client.exchange(
            request_to(server.port, method="POST", has_body=True), slowly()
        ) as exchange:
            assert (await exchange.head()).status == 200

    harness.run(scenario)
    assert len(server.received[0].body) == 800
