"""The first flight of a TLS client, read for one purpose: which server it names (RFC 8446, section 4.1.2).

Sans-IO and bounded. The proxy answers CONNECT, looks at the ClientHello before it terminates or passes the
connection on, and refuses one that names no server, names another than CONNECT did, or hides the name: the
Encrypted Client Hello extension is refused even where it is only GREASE, since no observer can tell
(negative test E9).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from affiant.sandbox.egress.http.errors import ClientHelloMalformed

__all__ = ["MAX_CLIENT_HELLO", "ClientHello", "parse_client_hello"]

MAX_CLIENT_HELLO: Final = 16 * 1024
"""Bytes of records that are looked at; a browser's, with post-quantum key shares, takes under 3 KiB."""

_HANDSHAKE: Final = 22
_CLIENT_HELLO: Final = 1
_SERVER_NAME: Final = 0
_HIDING: Final = frozenset({0xFE0D, 0xFFCE})
"""Encrypted Client Hello (RFC 9849) and its draft, encrypted SNI."""


@dataclass(frozen=True, slots=True)
class ClientHello:
    """What a ClientHello says about the server. ``server_name`` is as sent; None: there is none."""

    server_name: str | None
    hidden: bool
    """Whether an extension is there that hides, or pretends to hide, the server's name."""


class _Reader:
    """Big-endian integers and length-prefixed vectors from bytes; short input is malformed."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        data = self._data[self._at : self._at + size]
        if len(data) != size:
            raise ClientHelloMalformed("a ClientHello ends too early")
        self._at += size
        return data

    def integer(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> _Reader:
        return _Reader(self.take(self.integer(size)))

    @property
    def empty(self) -> bool:
        return self._at == len(self._data)


def parse_client_hello(data: bytes) -> ClientHello | None:
    """The ClientHello at the beginning of ``data``; None while it is not complete.

    Raises:
        ClientHelloMalformed: not TLS, another message, too large, or an extension twice.
    """
    message = _handshake_message(data)
    if message is None:
        if len(data) > MAX_CLIENT_HELLO:
            raise ClientHelloMalformed(
                "a ClientHello too large", expected=f"at most {MAX_CLIENT_HELLO} bytes"
            )
        return None
    reader = _Reader(message)
    reader.take(2 + 32)  # legacy_version, random
    reader.vector(1)  # legacy_session_id
    reader.vector(2)  # cipher_suites
    reader.vector(1)  # legacy_compression_methods
    extensions = {} if reader.empty else _extensions(reader.vector(2))
    if not reader.empty:
        raise ClientHelloMalformed("bytes after a ClientHello's extensions")
    name = extensions.get(_SERVER_NAME)
    return ClientHello(
        server_name=None if name is None else _server_name(name), hidden=bool(_HIDING & set(extensions))
    )


def _handshake_message(data: bytes) -> bytes | None:
    """The body of the first handshake message, joined over records (RFC 8446, section 5.1)."""
    message, at = b"", 0
    while len(data) - at >= 5:
        if data[at] != _HANDSHAKE or data[at + 1] != 3:
            raise ClientHelloMalformed("not a TLS handshake", hint="Only TLS may follow CONNECT")
        size = int.from_bytes(data[at + 3 : at + 5], "big")
        if not 0 < size <= 1 << 14:
            raise ClientHelloMalformed("not a TLS record")
        message += data[at + 5 : at + 5 + size]
        at += 5 + size
        if message[:1] and message[0] != _CLIENT_HELLO:
            raise ClientHelloMalformed("a TLS handshake that does not begin with a ClientHello")
        if len(message) >= 4 and len(message) >= 4 + (length := int.from_bytes(message[1:4], "big")):
            return message[4 : 4 + length]
    if data[:1] and data[0] != _HANDSHAKE:
        raise ClientHelloMalformed("not a TLS handshake", hint="Only TLS may follow CONNECT")
    return None


def _extensions(reader: _Reader) -> Mapping[int, bytes]:
    extensions: dict[int, bytes] = {}
    while not reader.empty:
        number = reader.integer(2)
        if number in extensions:
            raise ClientHelloMalformed("an extension appears twice", found=f"0x{number:04x}")
        extensions[number] = reader.take(reader.integer(2))
    return extensions


def _server_name(extension: bytes) -> str:
    """The one host name of a server_name extension (RFC 6066, section 3)."""
    reader = _Reader(extension)
    names = reader.vector(2)
    kind, name = names.integer(1), names.take(names.integer(2))
    if kind != 0 or not names.empty or not reader.empty or not name.isascii():
        raise ClientHelloMalformed("not one ASCII server name")
    return name.decode("ascii")
