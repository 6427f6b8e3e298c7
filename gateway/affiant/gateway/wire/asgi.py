"""The application: inference first, by one dictionary lookup, everything else to the control plane."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from affiant.gateway.wire.http_request import Receive, Scope, Send

__all__ = ["Application", "GatewayApp"]

Application = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class GatewayApp:
    """ASGI 3.

    Args:
        inference: method and path -> application.
        other: what serves everything else.
    """

    inference: Mapping[tuple[str, str], Application]
    other: Application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection or request."""
        application = (
            self.inference.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        )
        await (application or self.other)(scope, receive, send)
