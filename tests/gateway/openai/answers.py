"""Answers of upstreams as the gateway takes them: read once, then judged."""

from __future__ import annotations

from affiant.gateway.openai.tool_filter import Judge, ToolCall, judge_answer, judge_error, read_answer


def judged(body: bytes, allowed: Judge | None) -> tuple[ToolCall, ...]:
    return judge_answer(read_answer(body), allowed)


def judged_error(body: bytes) -> None:
    judge_error(read_answer(body))
