"""Requests as the server hands them over: headers that may stand once, the exact target."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final

from affiant.attestation.records.proof import PROOF_HEADER, RequestHead
from affiant.gateway.wire.errors import (
    ContentEncodingRefused,
    ContentTypeRefused,
    RequestMalformed,
)

__all__ = [
    "ClientGone",
    "Receive",
    "Scope",
    "Send",
    "header",
    "header_values",
    "proof_head",
    "target_of",
]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

NONCE_HEADER: Final = "Affiant-Nonce"


class ClientGone(Exception):
    """The client closed its connection; nobody is there to be answered."""


def header_values(scope: Scope, name: bytes) -> list[bytes]:
    """Every value of the header ``name`` (lower case)."""
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    return [value for found, value in headers if found == name]


def header(scope: Scope, name: str) -> str | None:
    """The value of a header that may stand once; None if absent.

    Raises:
        RequestMalformed: it stands more than once, or is not ASCII.
    """
    values = header_values(scope, name.lower().encode("ascii"))
    if len(values) > 1:
        raise RequestMalformed("a header stands twice", where=name)
    if not values:
        return None
    if not values[0].isascii():
        raise RequestMalformed("a header is not ASCII", where=name)
    return values[0].decode("ascii")


def target_of(scope: Scope) -> str:
    """The origin-form target as in the request line, query included."""
    raw: bytes = scope["raw_path"]
    query: bytes = scope["query_string"]
    return (raw + b"?" + query if query else raw).decode("latin-1")


def proof_head(scope: Scope) -> RequestHead:
    """What a proof for this request must cover, beside its body."""
    return RequestHead(
        method=scope["method"],
        target=target_of(scope),
        content_type=header(scope, "Content-Type"),
        nonce=header(scope, NONCE_HEADER),
    )


def require_proof(scope: Scope) -> str | None:
    """The proof's text, if there is one."""
    return header(scope, PROOF_HEADER)


def require_media_type(scope: Scope, expected: str) -> None:
    """Return if the body is of the ``expected`` media type and not encoded.

    Raises:
        ContentTypeRefused, ContentEncodingRefused: as named.
    """
    encoding = header(scope, "Content-Encoding")
    if encoding is not None and encoding.strip().lower() != "identity":
        raise ContentEncodingRefused("the body is encoded", expected="identity", found=encoding[:40])
    found = (header(scope, "Content-Type") or "").partition(";")[0].strip().lower()
    if found != expected:
        raise ContentTypeRefused("not such a body", expected=expected, found=found[:80] or "no Content-Type")
