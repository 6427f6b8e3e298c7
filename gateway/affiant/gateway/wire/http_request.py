"""Requests as the server hands them over, with headers that are there once and the exact target; and their responses.

Every response to a session names the keyset and, where there is one, the receipt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, Final

from affiant.attestation.records.proof import FORWARDED_HEADERS, RequestHead
from affiant.errors import MalformedError
from affiant.gateway.wire.errors import RequestMalformed

__all__ = [
    "ClientGone",
    "ClientResponse",
    "Header",
    "Receive",
    "Scope",
    "Send",
    "forwardable",
    "header",
    "header_values",
    "proof_head",
    "target_of",
]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

Header = tuple[bytes, bytes]

NONCE_HEADER: Final = "Affiant-Nonce"


class ClientGone(Exception):
    """The client closed its connection; there is no one to answer."""


def header_values(scope: Scope, name: bytes) -> list[bytes]:
    """Every value of the header ``name`` (lower case)."""
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    values = []
    for found, value in headers:
        if found == name:
            values.append(value)
    return values


def header(scope: Scope, name: str) -> str | None:
    """The value of a header that may be there once; None if absent.

    Raises:
        RequestMalformed: it is there more than once, or is not ASCII.
    """
    values = header_values(scope, name.lower().encode("ascii"))
    if len(values) > 1:
        raise RequestMalformed("a header is duplicated", where=name)
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
        forwarded=forwardable(scope),
    )


def forwardable(scope: Scope) -> Mapping[str, str]:
    """The headers of a request that a gateway may forward: name in lower case -> value.

    Raises:
        RequestMalformed: as :func:`header`.
    """
    found = {}
    for name in FORWARDED_HEADERS:
        value = header(scope, name)
        if value is not None:
            found[name] = value
    return found


def require_media_type(scope: Scope, expected: str) -> None:
    """Return if the body is of the ``expected`` media type and not encoded.

    Raises:
        ``request.content_type``, ``request.content_encoding``: as named.
    """
    encoding = header(scope, "Content-Encoding")
    if encoding is not None and encoding.strip().lower() != "identity":
        raise MalformedError(
            "the body is encoded", expected="identity", found=encoding[:40], code="request.content_encoding"
        )
    found = (header(scope, "Content-Type") or "").partition(";")[0].strip().lower()
    if found != expected:
        raise MalformedError(
            "not such a body",
            expected=expected,
            found=found[:80] or "no Content-Type",
            code="request.content_type",
        )


class ClientResponse:
    """One response. ``status`` is 0 until its head was sent; ``ended``: so was its last byte.

    Args:
        keyset: digest of the gateway's keyset. receipt: id of the request's receipt.
    """

    __slots__ = ("_keyset", "_receipt", "_send", "ended", "status")

    def __init__(self, send: Send, *, keyset: str, receipt: str) -> None:
        self._send = send
        self._keyset = keyset
        self._receipt = receipt
        self.status = 0
        self.ended = False

    @property
    def started(self) -> bool:
        """Whether a byte may have left."""
        return self.status != 0

    async def start(
        self, status: int, media_type: str, headers: Sequence[Header] = (), *, receipt: bool = True
    ) -> None:
        """Send the head.

        Args:
            receipt: false where there is none that could be asked for.
        """
        ours = [(b"affiant-keyset", self._keyset.encode("ascii"))]
        if receipt:
            ours.append((b"affiant-receipt-id", self._receipt.encode("ascii")))
        self.status = status
        kind = (b"content-type", media_type.encode("ascii"))
        await self._send(
            {"type": "http.response.start", "status": status, "headers": [kind, *headers, *ours]}
        )

    async def body(self, data: bytes, *, more: bool) -> None:
        """Send a part of the body; the last one ends the response."""
        await self._send({"type": "http.response.body", "body": data, "more_body": more})
        self.ended = not more

    async def whole(
        self,
        status: int,
        body: bytes,
        headers: Sequence[Header] = (),
        *,
        receipt: bool = True,
        more: bool = False,
    ) -> None:
        """Send head and body of a JSON answer.

        Args:
            more: whether the caller ends the response; all its bytes are sent.
        """
        length = (b"content-length", str(len(body)).encode("ascii"))
        await self.start(status, "application/json", [length, *headers], receipt=receipt)
        await self.body(body, more=more)
