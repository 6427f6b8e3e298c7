"""The proxy's upstream is the secret broker: it alone holds values, so it alone speaks to hosts.

The proxy reads what a hostile agent sends, so it never holds a secret. It hands an allowed request over, with the
checked address and the uses it recorded. The broker's process checks the bindings once more, substitutes, dials,
verifies TLS, sends, and redacts the answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.errors import AffiantError
from affiant.sandbox.egress.decision import AllowedRequest
from affiant.secrets.broker.client.client import BrokerClient, BrokeredRequest
from affiant.secrets.broker.client.messages import ResponseHead, UpstreamRequest
from affiant.secrets.broker.client.token_client import fetch_token, token_is_fresh

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


class UpstreamAnswer:
    """An answer, redacted. Must be closed."""

    def __init__(self, exchange: BrokeredRequest, head: ResponseHead) -> None:
        self._exchange = exchange
        self.status = head.status
        self.headers = head.headers
        """As they may reach the agent."""

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes.

        Raises:
            AffiantError: the upstream failed, or the broker refuses to pass the rest on.
        """
        return self._exchange.chunks()

    async def sent(self) -> Sent:
        """What was sent, once the body has ended."""
        outcome = await self._exchange.outcome()
        return Sent(_name(outcome.sent_digest), _name(outcome.spki_sha256))

    async def close(self) -> None:
        """Release it; an exchange that has not ended is interrupted."""
        await self._exchange.__aexit__(None, None, None)


class Upstream:
    """Sends allowed requests through one broker."""

    def __init__(self, client: BrokerClient, *, random_bytes: Callable[[int], bytes]) -> None:
        self._client = client
        self._random_bytes = random_bytes

    async def exchange(
        self, allowed: AllowedRequest, address: str, body: AsyncIterator[bytes]
    ) -> UpstreamAnswer:
        """Send ``allowed`` to ``address`` and return when the answer's head is there.

        Raises:
            AffiantError: refused or failed before there was an answer.
        """
        request = UpstreamRequest(
            id=b64u(self._random_bytes(16)),
            scheme=allowed.origin.scheme,
            host=allowed.origin.host,
            port=allowed.origin.port,
            address=address,
            method=allowed.method,
            target=allowed.target.encode("ascii"),
            headers=allowed.headers,
            uses=tuple((granted.use.name, granted.use.surface) for granted in allowed.uses),
            has_body=allowed.length != 0,
        )
        exchange = self._client.exchange(request, body if request.has_body else None)
        await exchange.__aenter__()
        try:
            return UpstreamAnswer(exchange, await exchange.head())
        except BaseException:  # released whatever happened, and raised again
            await exchange.__aexit__(None, None, None)
            raise

    async def token_is_fresh(self, name: str) -> bool:
        """Whether there is a token for the secret ``name`` that can be used now.

        Raises:
            AffiantError: no use of it is left, or the broker does not answer.
        """
        return await token_is_fresh(self._client, name)

    async def fetch_token(self, name: str, address: str) -> Fetched:
        """Exchange the secret ``name`` for a token, at the checked address of its token endpoint.

        Raises:
            AffiantError: it is not known what came of it.
        """
        outcome = await fetch_token(self._client, name, address)
        return Fetched(Sent(_name(outcome.sent_digest), _name(outcome.spki_sha256)), outcome.refusal)


def _name(digest: str | None) -> str | None:
    """A digest of 43 characters as the ``sha256:`` name that records carry."""
    return None if digest is None else f"sha256:{from_b64u(digest, size=32).hex()}"
