"""The dialects that the gateway serves, by the names that routes have for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from affiant.gateway.dialects.chat.chat import Chat
from affiant.gateway.dialects.dialect import Dialect
from affiant.gateway.dialects.messages.messages import Messages
from affiant.gateway.dialects.plain.plain import PLAIN
from affiant.gateway.dialects.responses.responses import Responses

__all__ = ["DIALECTS"]

DIALECTS: Final[Mapping[str, Dialect]] = {
    "chat": Chat(),
    "responses": Responses(),
    "messages": Messages(),
    "count_tokens": Messages(counts=True),
    **PLAIN,
}
"""A configuration names lists by a dialect's own name: those of ``count_tokens`` are the ones of ``messages``."""
