"""Chat completions: a request is read once and never rewritten, except that tools may be removed.

The body is read strictly, because two readers must not see two requests: duplicate members anywhere, ``NaN``
and nesting without end are refused, and a member like ``Model`` that a reader without regard to case takes for
one that is judged. What is forwarded are the very bytes that came; where tools are removed,
all other members keep their bytes (:meth:`Chat.without_tools`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from affiant.errors import AffiantError
from affiant.gateway.dialects.answered_models import model_in
from affiant.gateway.dialects.chat.chat_members import CHAT_LISTS
from affiant.gateway.dialects.chat.chat_urls import CHAT_URLS
from affiant.gateway.dialects.chat.responses import ChatStream, judge_chat_response
from affiant.gateway.dialects.dialect import ModelRequest, Offered
from affiant.gateway.dialects.judged_calls import Judge, ToolCall
from affiant.gateway.dialects.member_lists import MemberLists
from affiant.gateway.dialects.model_fallbacks import names_other_models
from affiant.gateway.dialects.named_urls import named_urls
from affiant.gateway.dialects.request_body import (
    almost_named,
    array_in,
    assembled,
    keep_tools,
    read_head,
    spelled_parameters,
    taken_apart,
)
from affiant.gateway.dialects.response_bound import response_bound
from affiant.gateway.dialects.sse import is_done
from affiant.gateway.dialects.stream_end import FinishedChoices, StreamEnd
from affiant.gateway.dialects.strict_json import folded, inexact, parse_json
from affiant.gateway.dialects.unlisted import kind_of, read_members
from affiant.gateway.dialects.usage import openai_usage
from affiant.gateway.wire.errors import RequestMalformed
from affiant.gateway.wire.errors_http import error_body

__all__ = ["Chat"]

_PARAMETERS: Final = (
    "frequency_penalty",
    "logit_bias",
    "max_completion_tokens",
    "max_tokens",
    "n",
    "presence_penalty",
    "reasoning_effort",
    "seed",
    "stop",
    "temperature",
    "top_k",
    "top_p",
)
"""Members that shape sampling."""

_MEMBERS: Final = folded(
    "function_call",
    "functions",
    "messages",
    "model",
    "parallel_tool_calls",
    "stream",
    "tool_choice",
    "tools",
    *_PARAMETERS,
)
_TOOL_MEMBERS: Final = folded("custom", "function", "name", "type")
_FORMS: Final = ("function", "custom")
_BOUNDS: Final = ("max_completion_tokens", "max_tokens")


@dataclass(frozen=True, slots=True)
class Chat:
    """As :class:`~..dialect.Dialect`; ``lists`` is what requests and responses are compared with."""

    lists: MemberLists = CHAT_LISTS
    name: str = field(init=False, default="chat")
    usage_begins: bool = field(init=False, default=False)
    terminal_has_value: bool = field(init=False, default=False)

    def with_names(self, names: Collection[str]) -> Chat:
        """As :meth:`~..dialect.Dialect.with_names`."""
        return replace(self, lists=self.lists.with_names(names))

    def read_request(self, body: bytes) -> ModelRequest:
        """As :meth:`~..dialect.Dialect.read_request`."""
        value, model, stream = read_head(body)
        _require_exact(value)
        if not isinstance(value.get("messages"), list):
            raise RequestMalformed("not an array", where="messages")
        return ModelRequest(
            model=model,
            stream=stream,
            tools=(*map(_tool, array_in(value, "tools")), *map(_function, array_in(value, "functions"))),
            parameters=spelled_parameters(value, _PARAMETERS),
            answer=response_bound(value, bounds=_BOUNDS, answers="n"),
            members=read_members(value, self.lists.request),
            other_models=names_other_models(value),
            urls=named_urls(value, CHAT_URLS),
        )

    def without_tools(self, body: bytes, allowed: Callable[[Offered], bool]) -> bytes:
        """As :meth:`~..dialect.Dialect.without_tools`.

        What would then point at nothing goes too: ``tool_choice``, ``parallel_tool_calls``, ``function_call``.
        """
        return assembled(_without(taken_apart(body), allowed))

    def judge_response(self, value: object, judge: Judge | None) -> tuple[ToolCall, ...]:
        """As :meth:`~..dialect.Dialect.judge_response`."""
        return judge_chat_response(value, judge, self.lists.response)

    def stream_filter(self, judge: Judge, seen: Callable[[object], None]) -> ChatStream:
        """As :meth:`~..dialect.Dialect.stream_filter`."""
        return ChatStream(judge, seen, self.lists.response)

    def stream_end(self, answers: int) -> StreamEnd:
        """As :meth:`~..dialect.Dialect.stream_end`."""
        return FinishedChoices(answers)

    is_terminal = staticmethod(is_done)
    usage_in = staticmethod(openai_usage)
    answered_model = staticmethod(model_in)

    def error_body(self, error: AffiantError) -> bytes:
        """As :func:`~affiant.gateway.wire.errors_http.error_body`: the form that OpenAI clients read."""
        return error_body(error)

    def error_event(self, error: AffiantError) -> bytes:
        """An event whose data is that body."""
        return b"data: " + error_body(error) + b"\n\n"


def _require_exact(value: Mapping[str, object]) -> None:
    """Return if every member of ``value`` that is judged has exactly its name; a tool's own schema is free."""
    found = inexact(value, _MEMBERS)
    for entry in (
        *array_in(value, "tools"),
        *array_in(value, "functions"),
        value.get("tool_choice"),
        value.get("function_call"),
    ):
        if isinstance(entry, dict):
            for inner in (entry, *(entry.get(form) for form in _FORMS)):
                if isinstance(inner, dict):
                    found = found or inexact(inner, _TOOL_MEMBERS)
    if found is not None:
        raise almost_named(found)


_NAMELESS: Final = Offered(None)


def _tool(entry: object) -> Offered:
    """An entry of ``tools`` or ``tool_choice``; without a name where it names no function of the caller's."""
    if not isinstance(entry, dict):
        return _NAMELESS
    kind = kind_of(entry, "function")
    if kind not in _FORMS:
        return Offered(None, provider=kind) if isinstance(kind, str) else _NAMELESS
    found = _function(entry.get(kind))
    others = [form for form in _FORMS if form != kind and entry.get(form) is not None]
    return _NAMELESS if others or entry.get("name", found.name) not in (None, found.name) else found


def _function(entry: object) -> Offered:
    name = entry.get("name") if isinstance(entry, dict) else None
    return Offered(name, entry) if isinstance(name, str) and isinstance(entry, dict) else _NAMELESS


def _without(
    members: dict[str, msgspec.Raw], allowed: Callable[[Offered], bool]
) -> Mapping[str, msgspec.Raw]:
    names = keep_tools(members, "tools", _tool, allowed) | keep_tools(
        members, "functions", _function, allowed
    )
    if "tools" not in members:
        members.pop("tool_choice", None)
        members.pop("parallel_tool_calls", None)
    elif "tool_choice" in members and not _choice_stands(members["tool_choice"], names):
        del members["tool_choice"]
    if "functions" not in members or not _choice_stands(members.get("function_call"), names):
        members.pop("function_call", None)
    return members


def _choice_stands(raw: msgspec.Raw | None, names: Collection[str | None]) -> bool:
    """Whether a choice names nothing (``auto``), or one of the tools that stay."""
    choice = None if raw is None else parse_json(bytes(raw))
    if not isinstance(choice, dict):
        return True
    return (_tool(choice) if "type" in choice else _function(choice)).called in names
