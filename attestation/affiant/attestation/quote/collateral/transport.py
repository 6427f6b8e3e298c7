"""Defines what fetching needs of an HTTP client: one whole, bounded GET."""

from __future__ import annotations

from typing import Protocol

from affiant.attestation.quote.collateral.pcs_responses import Response
from affiant.attestation.quote.collateral.service import Question

__all__ = ["Transport"]


class Transport(Protocol):
    """Asks one question. No redirects, no environment, no retries, no state that outlives it."""

    async def ask(self, question: Question) -> Response:
        """The response to a GET of ``question.url``, its body at most ``question.limit`` bytes.

        Raises:
            ServiceUnreachable: no connection, or no complete answer in time.
            ServerNotAuthentic: the server's certificate does not hold.
            ResponseRefused: more bytes than the limit.
        """
        ...
