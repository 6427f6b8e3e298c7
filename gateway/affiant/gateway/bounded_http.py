"""The server's HTTP/1.1 with two bounds that uvicorn's lacks: on what is no body, and on requests sent ahead.

A head, a trailer or a chunk's extension that never ends would otherwise be collected for as long as it comes, and
one read can hold thousands of requests, each with its own state. Whoever can connect could do either.
"""

from __future__ import annotations

from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["BoundedHTTP"]

_MAX_HEAD: Final = 64 << 10
"""Bytes of a head; and of anything else between two pieces of a body."""
_MAX_AHEAD: Final = 4
"""Requests that wait on one connection for the answer before theirs."""


class _TooMany(Exception):
    """More requests sent ahead than are kept."""


class BoundedHTTP(HttpToolsProtocol):
    """One connection; beyond a bound it is answered 400, and closed."""

    _framing = 0
    """Bytes since the last piece of a body, or the last end of a head or message."""

    def data_received(self, data: bytes) -> None:
        """As uvicorn's."""
        self._framing += len(data)
        super().data_received(data)
        if self._framing > _MAX_HEAD and not self.transport.is_closing():
            self.send_400_response("Request head too large.")

    def on_message_begin(self) -> None:
        """As uvicorn's; what is raised here is a malformed request to the parser."""
        if len(self.pipeline) >= _MAX_AHEAD:
            raise _TooMany
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """As uvicorn's."""
        self._framing = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """As uvicorn's."""
        self._framing = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """As uvicorn's."""
        self._framing = 0
        super().on_message_complete()
