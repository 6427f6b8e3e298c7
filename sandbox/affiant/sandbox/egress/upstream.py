"""What the proxy needs of whoever sends a request upstream: the secret broker's side of an exchange.

The proxy reads what a hostile agent sends, so it never holds a secret. It hands an allowed request over, with
the checked address and the uses it recorded; the broker's process checks the bindings once more, substitutes,
dials, verifies TLS, sends, redacts the answer and gives it back in this shape.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from affiant.errors import AffiantError
from affiant.sandbox.egress.decision import AllowedRequest
from affiant.sandbox.egress.http.request_head import HeaderField

__all__ = ["Fetched", "Sent", "Upstream", "UpstreamAnswer"]


@dataclass(frozen=True, slots=True)
class Sent:
    """What the broker says about a finished exchange. ``sha256:`` names, or None where there is nothing."""

    request: str | None
    """Of the request as sent, with placeholders in the place of secrets."""
    spki: str | None
    """Of the peer's public key."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What the broker says about a token that it fetched, or did not; never the token."""

    sent: Sent
    refusal: AffiantError | None


class UpstreamAnswer(Protocol):
    """An answer, redacted. Must be closed."""

    @property
    def status(self) -> int:
        """The status code."""
        ...

    @property
    def headers(self) -> Sequence[HeaderField]:
        """The headers as they may reach the agent."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes.

        Raises:
            AffiantError: the upstream failed, or the broker refuses to pass the rest on.
        """
        ...

    async def sent(self) -> Sent:
        """What was sent, once the body has ended."""
        ...

    async def close(self) -> None:
        """Let go; an exchange that has not ended is broken off."""
        ...


class Upstream(Protocol):
    """Sends allowed requests."""

    async def exchange(
        self, allowed: AllowedRequest, address: str, body: AsyncIterator[bytes]
    ) -> UpstreamAnswer:
        """Send ``allowed`` to ``address`` and return when the answer's head is there.

        Raises:
            AffiantError: refused or failed before there was an answer.
        """
        ...

    async def token_is_fresh(self, name: str) -> bool:
        """Whether there is a token for the secret ``name`` that can be used now.

        Raises:
            AffiantError: no use of it is left, or nobody can say.
        """
        ...

    async def fetch_token(self, name: str, address: str) -> Fetched:
        """Exchange the secret ``name`` for a token, at the checked address of its token endpoint.

        Raises:
            AffiantError: nobody knows what came of it.
        """
        ...
