"""The dialects that the gateway serves, by the names that routes and the configuration have for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from affiant.gateway.dialects.chat.chat import Chat
from affiant.gateway.dialects.dialect import Dialect
from affiant.gateway.dialects.plain.plain import PLAIN
from affiant.gateway.dialects.responses.responses import Responses

__all__ = ["DIALECTS"]

DIALECTS: Final[Mapping[str, Dialect]] = {"chat": Chat(), "responses": Responses(), **PLAIN}
