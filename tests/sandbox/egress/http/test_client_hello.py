"""ClientHellos of real clients, and of clients that lie (E9)."""

from __future__ import annotations

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.errors import AffiantError
from affiant.sandbox.egress.http.client_hello import MAX_CLIENT_HELLO, ClientHello, parse_client_hello
from affiant.sandbox.egress.http.errors import ClientHelloMalformed


def real_hello(name: str | None) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def extension(number: int, data: bytes) -> bytes:
    return number.to_bytes(2, "big") + len(data).to_bytes(2, "big") + data


def sni(name: bytes, kind: int = 0) -> bytes:
    entry = bytes([kind]) + len(name).to_bytes(2, "big") + name
    return extension(0, len(entry).to_bytes(2, "big") + entry)


def hello(*extensions: bytes, fragments: int = 1 << 14) -> bytes:
    body = b"\x03\x03" + bytes(32) + b"\x00" + b"\x00\x02\x13\x01" + b"\x01\x00"
    joined = b"".join(extensions)
    body += len(joined).to_bytes(2, "big") + joined
    message = b"\x01" + len(body).to_bytes(3, "big") + body
    records = b""
    for start in range(0, len(message), fragments):
        piece = message[start : start + fragments]
        records += b"\x16\x03\x01" + len(piece).to_bytes(2, "big") + piece
    return records


def test_a_real_clients_server_name_is_found() -> None:
    assert parse_client_hello(real_hello("api.example.com")) == ClientHello("api.example.com", hidden=False)


def test_a_real_client_without_a_server_name_has_none() -> None:
    assert parse_client_hello(real_hello(None)) == ClientHello(None, hidden=False)


def test_an_incomplete_hello_says_so_at_every_length() -> None:
    data = real_hello("api.example.com")
    assert all(parse_client_hello(data[:size]) is None for size in range(len(data)))


@pytest.mark.parametrize("fragments", [1, 3, 50])
def test_a_hello_split_over_records_is_joined(fragments: int) -> None:
    assert parse_client_hello(hello(sni(b"a.example"), fragments=fragments)) == ClientHello(
        "a.example", hidden=False
    )


@pytest.mark.parametrize("number", [0xFE0D, 0xFFCE])
def test_E9_encrypted_client_hello_is_seen(number: int) -> None:
    found = parse_client_hello(hello(sni(b"a.example"), extension(number, b"\x00" * 8)))
    assert found == ClientHello("a.example", hidden=True)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x15\x03\x01\x00\x02\x02\x28",
        b"\x16\x02\x00\x00\x05hello",
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\x00\x04\x02\x00\x00\x00",
        hello(sni(b"a.example"), sni(b"b.example")),
        hello(sni(b"a.example", kind=1)),
        hello(extension(0, b"")),
        hello(sni(b"a\xff.example")),
        hello(extension(0, b"\x00\x0e" + b"\x00\x00\x04a.ex" + b"\x00\x00\x04b.ex")),
    ],
)
def test_what_cannot_be_judged_is_refused(data: bytes) -> None:
    with pytest.raises(ClientHelloMalformed):
        parse_client_hello(data)


def test_a_hello_without_end_is_bounded() -> None:
    body = b"\x01\xff\xff\xff" + bytes(1 << 14)
    data = b"".join(
        b"\x16\x03\x01" + len(body[at : at + 8192]).to_bytes(2, "big") + body[at : at + 8192]
        for at in range(0, len(body), 8192)
    )
    assert len(data) > MAX_CLIENT_HELLO
    with pytest.raises(ClientHelloMalformed):
        parse_client_hello(data)


@thorough(300)
@given(st.binary(max_size=200))
def test_no_bytes_cause_anything_but_a_typed_refusal(data: bytes) -> None:
    for candidate in (data, b"\x16\x03\x01" + len(data).to_bytes(2, "big") + data):
        try:
            parse_client_hello(candidate)
        except AffiantError:
            pass
