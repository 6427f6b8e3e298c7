"""The proxy's upstream is the secret broker: it alone holds values, so it alone speaks to hosts.

This adapter hands an allowed request over in the broker's own terms and gives the answer back in the proxy's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.sandbox.egress.decision import AllowedRequest
from affiant.sandbox.egress.http.request_head import HeaderField
from affiant.sandbox.egress.upstream import Fetched, Sent, UpstreamAnswer
from affiant.secrets.broker.client.client import BrokerClient, BrokeredRequest
from affiant.secrets.broker.client.messages import ExchangeRequest, ResponseHead
from affiant.secrets.broker.client.token_client import fetch_token, token_is_fresh

__all__ = ["BrokerUpstream"]


class BrokerUpstream:
    """Sends requests through one broker."""

    def __init__(self, client: BrokerClient, *, random_bytes: Callable[[int], bytes]) -> None:
        self._client = client
        self._random_bytes = random_bytes

    async def exchange(
        self, allowed: AllowedRequest, address: str, body: AsyncIterator[bytes]
    ) -> UpstreamAnswer:
        """See ``Upstream``."""
        request = ExchangeRequest(
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
            return _Answer(exchange, await exchange.head())
        except BaseException:  # let go of whatever happened, and raised again
            await exchange.__aexit__(None, None, None)
            raise

    async def token_is_fresh(self, name: str) -> bool:
        """See ``Upstream``."""
        return await token_is_fresh(self._client, name)

    async def fetch_token(self, name: str, address: str) -> Fetched:
        """See ``Upstream``."""
        outcome = await fetch_token(self._client, name, address)
        return Fetched(Sent(_name(outcome.sent_digest), _name(outcome.spki_sha256)), outcome.refusal)


class _Answer:
    def __init__(self, exchange: BrokeredRequest, head: ResponseHead) -> None:
        self._exchange = exchange
        self._head = head

    @property
    def status(self) -> int:
        return self._head.status

    @property
    def headers(self) -> tuple[HeaderField, ...]:
        return self._head.headers

    def chunks(self) -> AsyncIterator[bytes]:
        return self._exchange.chunks()

    async def sent(self) -> Sent:
        outcome = await self._exchange.outcome()
        return Sent(_name(outcome.sent_digest), _name(outcome.spki_sha256))

    async def close(self) -> None:
        await self._exchange.__aexit__(None, None, None)


def _name(digest: str | None) -> str | None:
    """A digest of 43 characters as the ``sha256:`` name that records carry."""
    return None if digest is None else f"sha256:{from_b64u(digest, size=32).hex()}"
