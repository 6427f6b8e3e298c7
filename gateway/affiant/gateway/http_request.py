"""Requests as the server hands them over: headers that may stand once, the exact target, a bounded body."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

from affiant.attestation.proof import PROOF_HEADER, Request
from affiant.gateway.errors import (
    ContentEncodingRefused,
    ContentTypeRefused,
    RequestMalformed,
    RequestTooLarge,
)

__all__ = [
    "Body",
    "ClientGone",
    "Receive",
    "Scope",
    "Send",
    "header",
    "proof_request",
    "read_body",
    "target_of",
]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

NONCE_HEADER: Final = "Affiant-Nonce"
_HASHED_BEYOND: Final = 8
"""A body that is too large is still hashed up to this many times the limit, so that its proof can be judged."""


class ClientGone(Exception):
    """The client closed its connection; nobody is there to be answered."""


@dataclass(frozen=True, slots=True)
class Body:
    """A request's body. ``data`` is None where it was too large to keep."""

    data: bytes | None
    sha256: bytes
    size: int

    def require(self, limit: int) -> bytes:
        """The bytes.

        Raises:
            RequestTooLarge: they were not kept.
        """
        if self.data is None:
            raise RequestTooLarge(
                "the body is too large", expected=f"at most {limit} bytes", found=f"{self.size} bytes"
            )
        return self.data


def header(scope: Scope, name: str) -> str | None:
    """The value of a header that may stand once; None if absent.

    Raises:
        RequestMalformed: it stands more than once, or is not ASCII.
    """
    wanted = name.lower().encode("ascii")
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    values = [value for found, value in headers if found == wanted]
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


def proof_request(scope: Scope, sha256: bytes) -> Request:
    """What a proof for this request must cover."""
    return Request(
        method=scope["method"],
        target=target_of(scope),
        body_sha256=sha256,
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


async def read_body(scope: Scope, receive: Receive, *, limit: int) -> Body:
    """Read the whole body; beyond ``limit`` it is hashed and dropped, far beyond it is refused.

    Raises:
        RequestTooLarge: more than eight times ``limit``. ClientGone: it was not sent whole.
    """
    length = header(scope, "Content-Length")
    if length is not None and int(length) > _HASHED_BEYOND * limit:
        raise RequestTooLarge(
            "the body is too large", expected=f"at most {limit} bytes", found=f"{length} bytes"
        )
    parts: list[bytes] = []
    digest, size, more = hashlib.sha256(), 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        part: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        digest.update(part)
        size += len(part)
        if size > _HASHED_BEYOND * limit:
            raise RequestTooLarge("the body is too large", expected=f"at most {limit} bytes")
        if size <= limit:
            parts.append(part)
        else:
            parts.clear()
    return Body(b"".join(parts) if size <= limit else None, digest.digest(), size)
