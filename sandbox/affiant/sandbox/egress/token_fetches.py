"""Tokens that the broker fetches for requests, each fetch recorded like any request that carries a secret.

The order is that of ``forward``: the request that needs a token was decided and recorded before; here the use of
the secret at its token endpoint is recorded and acknowledged, then the endpoint's name is looked up and its address
checked, then the broker sends, then the outcome is recorded. The agent has no part in it: it cannot reach the token
endpoint by it, choose anything of the request, or see anything of the answer.

Requests that need the same token wait for one fetch. One that failed is not tried again at once, so that an agent that
asks again and again has no credential locked by its issuer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from affiant.attestation.schema.trace_context import TraceContext
from affiant.errors import AffiantError, MalformedError, NotAllowedError
from affiant.policy.canonical.addresses import CIDR
from affiant.policy.model.token_exchange import TokenExchange
from affiant.sandbox.egress.decision import GrantedUse
from affiant.sandbox.egress.http.origin import Origin
from affiant.sandbox.egress.records_of_egress import Action, EgressRecords, Outcome
from affiant.sandbox.egress.resolver import Resolver
from affiant.sandbox.egress.upstream import Sent, Upstream
from affiant.secrets.names.errors import TokenRejected, TokenResponseInvalid, TokenUnavailable

__all__ = ["TokenFetch", "TokenFetches"]

_AFTER_FAILURE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class TokenFetch:
    """A secret that a request uses by a token.

    Args:
        version: of the secret, as records name it.
        within: the addresses at which the profile has the endpoint's host dialled; None: it does not say.
        trace: of the request that needs the token.
    """

    granted: GrantedUse
    exchange: TokenExchange
    version: str
    within: Sequence[CIDR] | None
    trace: TraceContext | None

    @property
    def name(self) -> str:
        """The secret's."""
        return self.granted.use.name

    @property
    def action(self) -> Action:
        """How records name the request to the token endpoint."""
        origin = Origin("https", self.exchange.host, self.exchange.port)
        return Action(origin, "POST", self.exchange.path, self.trace)

    def outcome(self, end: str, sent: Sent) -> Outcome:
        """How records name the end of it; the answer holds the token, so that even its digest is left out."""
        use = {"ref": self.granted.ref, "rule": self.granted.rule, "ver": self.version}
        return Outcome(end=end, sent=sent.request, spki=sent.spki, uses=(use,))


class TokenFetches:
    """The fetches of one session: for each secret one at a time."""

    def __init__(self) -> None:
        self._turns: dict[str, asyncio.Lock] = {}
        self._failed: dict[str, tuple[float, str]] = {}

    async def have(
        self, fetch: TokenFetch, upstream: Upstream, resolver: Resolver, records: EgressRecords
    ) -> None:
        """Return once the broker has a token for the secret.

        Raises:
            AffiantError: it has none, and none came.
        """
        name = fetch.name
        async with self._turns.setdefault(name, asyncio.Lock()):
            if await upstream.token_is_fresh(name):
                return
            now = asyncio.get_running_loop().time()
            until, code = self._failed.get(name, (now, ""))
            if until > now:
                raise TokenUnavailable(
                    "the token endpoint was asked just now, in vain", where=name, found=code
                )
            try:
                await _fetched(fetch, upstream, resolver, records)
            except (TokenResponseInvalid, TokenRejected, TokenUnavailable) as error:
                failed_at = asyncio.get_running_loop().time()
                self._failed[name] = failed_at + _AFTER_FAILURE_S, error.code
                raise


async def _fetched(fetch: TokenFetch, upstream: Upstream, resolver: Resolver, records: EgressRecords) -> None:
    """Record the intent, send, record the outcome, whatever it is."""
    intent = await records.secret(
        fetch.action, name=fetch.name, rule=fetch.granted.rule, ref=fetch.granted.ref, version=fetch.version
    )
    end, sent = "aborted", Sent(None, None)
    try:
        address = await resolver.resolve(fetch.exchange.host, fetch.exchange.port, within=fetch.within)
        fetched = await upstream.fetch_token(fetch.name, address)
        sent = fetched.sent
        if fetched.refusal is not None:
            raise fetched.refusal
        end = "complete"
    except AffiantError as error:
        end = "refused" if isinstance(error, (NotAllowedError, MalformedError)) else "failed"
        raise
    finally:
        outcome = fetch.outcome(end, sent)
        await records.outcome(fetch.action, (fetch.granted.rule,), outcome, intents=(intent,))
