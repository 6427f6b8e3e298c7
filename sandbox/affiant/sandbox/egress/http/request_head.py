"""The head of a request, taken apart by one strict grammar: sans-IO, and only what every server reads alike.

Refused wherever two servers could disagree (RFC 9112, sections 2.2, 5 and 6; negative tests E14 to E16): bare LF or
CR, white space before a colon, folded lines, NUL and other controls, bytes beyond ASCII, ``Content-Length`` twice
or beside ``Transfer-Encoding``, any coding but ``chunked``, upgrades (h2c, WebSocket), and headers by which a server
would act on another method or path than the one judged.

>>> parse_head(b"GET /a HTTP/1.1\\r\\nHost: example.com").target
'/a'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from affiant.errors import MalformedError, NotAllowedError
from affiant.policy.canonical.targets import METHODS
from affiant.sandbox.egress.http.errors import RequestTooLarge, excerpt

__all__ = ["MAX_HEAD", "HeaderField", "RequestHead", "parse_head", "refuse_foreign_bytes"]

HeaderField = tuple[bytes, bytes]

MAX_HEAD: Final = 32 * 1024
"""Bytes of request line and headers together."""

_MAX_FIELDS: Final = 128

_REQUEST_LINE: Final = re.compile(rb"([A-Za-z]{1,16}) ([\x21-\x7e]{1,8400}) HTTP/1\.([01])\Z")
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}):([\t\x20-\x7e]*)\Z")
_LENGTH: Final = re.compile(rb"(?:0|[1-9][0-9]{0,14})\Z")
_CONTROL: Final = re.compile(rb"[^\t\r\n\x20-\x7e]")

_CONNECTION_OPTIONS: Final = frozenset({b"close", b"keep-alive", b"te"})
_STEERING: Final = frozenset(
    {
        b"x-http-method-override", b"x-http-method", b"x-method-override",
        b"x-original-url", b"x-rewrite-url", b"x-forwarded-host", b"x-host", b"x-forwarded-prefix",
    }
)  # fmt: skip
"""Headers by which frameworks act on another method, path or host than the request line's (E15)."""

_FRAMING: Final = frozenset(
    {b"content-length", b"transfer-encoding", b"host", b"connection", b"upgrade", b"expect", b"trailer"}
)
"""Names that must not hide behind an underscore, which some servers read as a hyphen."""


@dataclass(frozen=True, slots=True)
class RequestHead:
    """A head in its one form. The target is exactly as in the request line and not yet judged."""

    method: str
    target: str
    version: int
    """Minor version: 0 or 1."""
    headers: tuple[HeaderField, ...]
    """In order, names as sent, values without surrounding white space."""
    length: int | None
    """Bytes of the body if they are known; None: chunked."""
    keep_alive: bool
    expects_continue: bool

    def values(self, name: bytes) -> tuple[bytes, ...]:
        """Every value of the header ``name`` (lower case)."""
        return tuple(value for field, value in self.headers if field.lower() == name)

    def value(self, name: bytes) -> bytes | None:
        """The only value of the header ``name`` (lower case).

        Raises:
            ``egress.ambiguous``: it appears more than once.
        """
        values = self.values(name)
        if len(values) > 1:
            raise MalformedError(
                "a header appears more than once", where=name.decode("ascii"), code="egress.ambiguous"
            )
        return values[0] if values else None


def parse_head(raw: bytes) -> RequestHead:
    """The head in ``raw``: request line and fields with CR LF between them, without the empty line.

    Raises:
        ``egress.request``, ``egress.ambiguous``, RequestTooLarge, ``egress.method``, ``egress.upgrade``:
            as the module says.
    """
    if len(raw) > MAX_HEAD:
        raise RequestTooLarge("request head too large", expected=f"at most {MAX_HEAD} bytes")
    refuse_foreign_bytes(raw)
    first, *lines = raw.split(b"\r\n")
    line = _REQUEST_LINE.match(first)
    if line is None:
        raise MalformedError(
            "not a request line",
            expected="METHOD target HTTP/1.1",
            found=excerpt(first),
            code="egress.request",
        )
    if len(lines) > _MAX_FIELDS:
        raise RequestTooLarge("too many header fields", expected=f"at most {_MAX_FIELDS}")
    headers = tuple(_field(text) for text in lines)
    method, target, version = line[1].decode("ascii"), line[2].decode("ascii"), int(line[3])
    _check_method(method)
    fields = _by_name(headers)
    options = _connection(fields)
    return RequestHead(
        method=method,
        target=target,
        version=version,
        headers=headers,
        length=_length(method, version, fields),
        keep_alive=b"close" not in options and (version == 1 or b"keep-alive" in options),
        expects_continue=_expectation(version, fields),
    )


def refuse_foreign_bytes(raw: bytes | bytearray) -> None:
    """Bare CR or LF, and every byte that has no place in a head (E1, E16)."""
    if (found := _CONTROL.search(raw)) is not None:
        raise MalformedError(
            "a byte that has no place in a request head", found=f"0x{found[0][0]:02x}", code="egress.request"
        )
    text = raw[:-1] if raw.endswith(b"\r") else raw  # its LF may still be on the way
    if text.count(b"\r") != text.count(b"\r\n") or text.count(b"\n") != text.count(b"\r\n"):
        raise MalformedError("a line does not end with CR LF", code="egress.ambiguous")


def _field(line: bytes) -> HeaderField:
    if line[:1] in (b" ", b"\t"):
        raise MalformedError("a folded header line", code="egress.ambiguous")
    match = _FIELD.match(line)
    if match is None:
        raise MalformedError(
            "not a header field", expected="name: value, visible ASCII", code="egress.request"
        )
    name, value = match.groups()
    if b"_" in name and name.lower().replace(b"_", b"-") in _FRAMING:
        raise MalformedError(
            "a header that some servers read as another", found=excerpt(name), code="egress.ambiguous"
        )
    return name, value.strip(b" \t")


def _by_name(headers: tuple[HeaderField, ...]) -> Mapping[bytes, list[bytes]]:
    fields: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        fields.setdefault(name.lower(), []).append(value)
    if steering := _STEERING & set(fields):
        raise NotAllowedError(
            "a header that would change the request behind the decision",
            found=excerpt(min(steering)),
            code="egress.method",
        )
    if b"upgrade" in fields or b"http2-settings" in fields:
        raise NotAllowedError(
            "upgrades are not forwarded", hint="Use plain HTTP/1.1 requests", code="egress.upgrade"
        )
    if b"trailer" in fields:
        raise MalformedError("trailers are not forwarded", code="egress.ambiguous")
    return fields


def _check_method(method: str) -> None:
    if method not in METHODS and method != "CONNECT":
        raise NotAllowedError(
            "a method that is never forwarded", found=excerpt(method, 16), code="egress.method"
        )


def _connection(fields: Mapping[bytes, list[bytes]]) -> frozenset[bytes]:
    """The options of ``Connection``; one that names a header would take it away from what was judged."""
    options = frozenset(
        option.strip(b" \t").lower()
        for name in (b"connection", b"proxy-connection")
        for value in fields.get(name, ())
        for option in value.split(b",")
    )
    if not options <= _CONNECTION_OPTIONS:
        raise MalformedError(
            "a connection option that is not forwarded",
            expected="close or keep-alive",
            code="egress.ambiguous",
        )
    return options


def _length(method: str, version: int, fields: Mapping[bytes, list[bytes]]) -> int | None:
    """Bytes of the body, or None for chunked (RFC 9112, section 6.3)."""
    lengths, codings = fields.get(b"content-length", []), fields.get(b"transfer-encoding", [])
    if len(lengths) + len(codings) > 1:
        raise MalformedError(
            "Content-Length and Transfer-Encoding: more than one gives the body's end",
            code="egress.ambiguous",
        )
    if method == "CONNECT" and (lengths or codings):
        raise MalformedError("CONNECT with a body", code="egress.ambiguous")
    if codings:
        if codings[0].lower() != b"chunked" or version == 0:
            raise MalformedError(
                "a transfer coding that is not forwarded",
                expected="chunked, in HTTP/1.1",
                code="egress.ambiguous",
            )
        return None
    if not lengths:
        return 0
    if _LENGTH.match(lengths[0]) is None:
        raise MalformedError(
            "not a length", expected="decimal digits without a leading zero", code="egress.ambiguous"
        )
    return int(lengths[0])


def _expectation(version: int, fields: Mapping[bytes, list[bytes]]) -> bool:
    expectations = fields.get(b"expect", [])
    if not expectations:
        return False
    if len(expectations) > 1 or expectations[0].lower() != b"100-continue":
        raise MalformedError(
            "an expectation that cannot be met", expected="100-continue", code="egress.request"
        )
    return version == 1
