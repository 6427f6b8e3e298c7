"""Chat completions as the gateway takes them from an upstream: read once, then judged."""

from __future__ import annotations

from affiant.gateway.dialects.chat.chat import Chat
from affiant.gateway.dialects.judged_calls import Judge, ToolCall
from affiant.gateway.dialects.strict_json import read_response, require_no_calls


def judged(body: bytes, allowed: Judge | None) -> tuple[ToolCall, ...]:
    return Chat().judge_response(read_response(body), allowed)


def judged_error(body: bytes) -> None:
    require_no_calls(read_response(body))
