"""The answer to a client, as ASGI messages; every head names the keyset and, where there is one, the receipt."""

from __future__ import annotations

from collections.abc import Sequence

from affiant.gateway.wire.http_request import Send

__all__ = ["ClientResponse", "Header"]

Header = tuple[bytes, bytes]


class ClientResponse:
    """One response. ``status`` is 0 until its head was sent.

    Args:
        keyset: digest of the gateway's keyset. receipt: id of the request's receipt.
    """

    __slots__ = ("_keyset", "_receipt", "_send", "status")

    def __init__(self, send: Send, *, keyset: str, receipt: str) -> None:
        self._send = send
        self._keyset = keyset
        self._receipt = receipt
        self.status = 0

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
