"""Describes a token exchange to a reviewer: where the secret itself goes, and what comes back for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from affiant.policy.model.token_exchange import GrantType, TokenExchange

__all__ = ["SENT_FOR_TOKEN", "exchange_words"]

SENT_FOR_TOKEN: Final[Mapping[GrantType, str]] = {
    GrantType.CLIENT_CREDENTIALS: "the secret itself, as the client's",
    GrantType.JWT_BEARER: "an assertion that is signed with the secret",
    GrantType.TOKEN_EXCHANGE: "the secret itself, as the subject's token",
}
"""What goes to the token endpoint."""


def exchange_words(exchange: TokenExchange) -> str:
    """What the broker sends to the token endpoint, and for what."""
    named = [
        f"{name} {exchange.members[name]!r}"
        for name in ("client_id", "issuer", "subject", "audience", "resource", "scope")
        if name in exchange.members and exchange.members[name] != exchange.url
    ]
    told = f"; {', '.join(named)}" if named else ""
    return f"for the token {SENT_FOR_TOKEN[exchange.grant]} goes to {exchange.url} ({exchange.grant.value}{told})"
