"""The Responses API: a request is read once and never rewritten, except that tools may be removed.

As chat completions (:mod:`~..chat.chat`), with what this API adds. A response may be stored at the upstream and be
asked for by its id; a request may go on from it (``previous_response_id``) or repeat an item of it
(``item_reference``). These ids are bound to a session and an upstream
(:mod:`~affiant.gateway.sessions.stored_responses`). A ``conversation`` is not: it is another's as well, so a request
that names one is rejected.

>>> Responses().read_request(b'{"model": "m", "input": "hi", "previous_response_id": "resp_1"}').continues
'resp_1'
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from affiant.errors import AffiantError, MalformedError
from affiant.gateway.dialects.answered_models import model_in
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
from affiant.gateway.dialects.responses.response_calls import ResponsesStream, judge_whole
from affiant.gateway.dialects.responses.responses_members import ENDING, PROVIDED, RESPONSES_LISTS
from affiant.gateway.dialects.responses.responses_urls import RESPONSES_URLS
from affiant.gateway.dialects.sse import event_data
from affiant.gateway.dialects.stream_end import NO_END, StreamEnd
from affiant.gateway.dialects.strict_json import Step, folded, inexact, parse_json
from affiant.gateway.dialects.unlisted import ProviderTool, RequestMembers, read_members
from affiant.gateway.dialects.usage import Usage, count_in
from affiant.gateway.wire.errors import RequestMalformed
from affiant.gateway.wire.errors_http import error_body

__all__ = ["Responses"]

_PARAMETERS: Final = (
    "background",
    "frequency_penalty",
    "max_output_tokens",
    "max_tool_calls",
    "presence_penalty",
    "reasoning",
    "seed",
    "service_tier",
    "stop",
    "store",
    "temperature",
    "top_k",
    "top_logprobs",
    "top_p",
    "truncation",
)
"""Members that shape sampling, and where the response is kept."""
_MEMBERS: Final = folded(
    "conversation",
    "input",
    "instructions",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "stream",
    "tool_choice",
    "tools",
    *_PARAMETERS,
)
_TOOL_MEMBERS: Final = folded("format", "name", "parameters", "type")
_FORMS: Final = ("function", "custom")
_ENDS: Final = re.compile(
    rb'"type"\s*:\s*"(?:' + b"|".join(re.escape(kind.encode("ascii")) for kind in ENDING) + rb')"'
)
_APPROVES: Final = "mcp_approval_response"


@dataclass(frozen=True, slots=True)
class Responses:
    """As :class:`~..dialect.Dialect`; ``lists`` is what requests and responses are compared with."""

    lists: MemberLists = RESPONSES_LISTS
    name: str = field(init=False, default="responses")
    usage_begins: bool = field(init=False, default=False)
    terminal_has_value: bool = field(init=False, default=True)

    def with_names(self, names: Collection[str]) -> Responses:
        """As :meth:`~..dialect.Dialect.with_names`."""
        return replace(self, lists=self.lists.with_names(names))

    def read_request(self, body: bytes) -> ModelRequest:
        """As :meth:`~..dialect.Dialect.read_request`."""
        value, model, stream = read_head(body)
        _require_exact(value)
        if value.get("conversation") is not None:
            raise RequestMalformed(
                "conversations are not served: they are not bound to a session",
                where="conversation",
                hint="Use previous_response_id",
            )
        if not isinstance(value.get("input"), (str, list, type(None))):
            raise RequestMalformed("no text and no array", where="input")
        return ModelRequest(
            model=model,
            stream=stream,
            tools=tuple(map(_tool, array_in(value, "tools"))),
            parameters=spelled_parameters(value, _PARAMETERS),
            answer=response_bound(value, bounds=("max_output_tokens",)),
            members=_members(value, self.lists),
            other_models=names_other_models(value),
            urls=named_urls(value, RESPONSES_URLS),
            continues=_text(value, "previous_response_id"),
            items=tuple(_references(value)),
            stored=value.get("store") is not False,
        )

    def without_tools(self, body: bytes, allowed: Callable[[Offered], bool]) -> bytes:
        """As :meth:`~..dialect.Dialect.without_tools`.

        What would then point at nothing goes too: ``tool_choice``, ``parallel_tool_calls``.
        """
        return assembled(_without(taken_apart(body), allowed))

    def judge_response(self, value: object, judge: Judge | None) -> tuple[ToolCall, ...]:
        """As :meth:`~..dialect.Dialect.judge_response`; also of a list of items."""
        return judge_whole(value, judge, self.lists.response)

    def stream_filter(self, judge: Judge, seen: Callable[[object], None]) -> ResponsesStream:
        """As :meth:`~..dialect.Dialect.stream_filter`."""
        return ResponsesStream(judge, seen, self.lists.response)

    def stream_end(self, answers: int) -> StreamEnd:
        """As :meth:`~..dialect.Dialect.stream_end`: the terminal event alone ends a stream."""
        del answers
        return NO_END

    def is_terminal(self, event: bytes) -> bool:
        """As :meth:`~..dialect.Dialect.is_terminal`: the response is completed, failed, or incomplete."""
        if _ENDS.search(event) is None:
            return False
        try:
            value = parse_json(event_data(event) or b"")
        except RequestMalformed:
            return False  # and its filter rejects it
        return isinstance(value, dict) and value.get("type") in ENDING

    def usage_in(self, value: object, *, streamed: bool) -> Usage:
        """As :meth:`~..dialect.Dialect.usage_in`."""
        del streamed
        whole = _response(value)
        usage = whole.get("usage") if whole is not None else None
        if not isinstance(usage, dict):
            return Usage()
        return Usage(
            count_in(usage.get("input_tokens")),
            count_in(usage.get("output_tokens")),
            count_in(usage.get("total_tokens")),
        )

    def answered_model(self, value: Mapping[str, object], *, exact: bool) -> object:
        """As :meth:`~..dialect.Dialect.answered_model`."""
        if exact and inexact(value, folded("response")) is not None:
            raise MalformedError(
                "a member's name differs from a known one only in case or separators",
                expected="response",
                where="response",
                code="upstream.answer",
            )
        own = model_in(value, exact=exact)
        held = value.get("response")
        found = model_in(held, exact=exact) if isinstance(held, dict) else None
        return found if own is None else own

    def error_body(self, error: AffiantError) -> bytes:
        """As :func:`~affiant.gateway.wire.errors_http.error_body`: the form that OpenAI clients read."""
        return error_body(error)

    def error_event(self, error: AffiantError) -> bytes:
        """An event of type ``error``: as the API's types have it, and as its clients raise it (``error``)."""
        inner = json.loads(error_body(error))["error"]
        value = {"type": "error", "sequence_number": 0, **_flat(inner), "error": inner}
        return b"event: error\ndata: " + json.dumps(value, ensure_ascii=True).encode("ascii") + b"\n\n"


def _flat(error: Mapping[str, object]) -> Mapping[str, object]:
    return {name: error[name] for name in ("code", "message", "param")}


def _response(value: object) -> Mapping[str, object] | None:
    """The response that a body is or an event holds; None: neither."""
    if not isinstance(value, dict):
        return None
    held = value.get("response")
    return held if isinstance(held, dict) else value


def _text(value: Mapping[str, object], name: str) -> str | None:
    found = value.get(name)
    if found is not None and not isinstance(found, str):
        raise RequestMalformed("not a string", where=name)
    return found


def _items(value: Mapping[str, object]) -> list[tuple[int, Mapping[str, object]]]:
    """The objects in ``input``, each with its place."""
    found = value.get("input")
    if not isinstance(found, list):
        return []
    return [(at, item) for at, item in enumerate(found) if isinstance(item, dict)]


def _references(value: Mapping[str, object]) -> list[str]:
    """The ids of the stored items that ``input`` repeats."""
    found = []
    for at, item in _items(value):
        untyped = item.get("type") in (None, "") and item.get("content") is None
        if item.get("type") == "item_reference" or untyped:
            if not isinstance(item.get("id"), str):
                raise RequestMalformed("no id", where=f"input[{at}].id")
            found.append(str(item["id"]))
    return found


def _members(value: Mapping[str, object], lists: MemberLists) -> RequestMembers:
    """What the lists say; an answer to a provider's question is a wish for its tool, too."""
    found = read_members(value, lists.request)
    agreed = (
        ProviderTool(PROVIDED[_APPROVES][0], Step(Step(None, "input"), at))
        for at, item in _items(value)
        if item.get("type") == _APPROVES
    )
    return RequestMembers(found.unlisted, (*found.provider_tools, *agreed))


def _require_exact(value: Mapping[str, object]) -> None:
    """Return if every member of ``value`` that is judged has exactly its name; a tool's own schema is free."""
    found = inexact(value, _MEMBERS)
    for entry in (*array_in(value, "tools"), value.get("tool_choice")):
        if isinstance(entry, dict):
            found = found or inexact(entry, _TOOL_MEMBERS)
    if found is not None:
        raise almost_named(found)


_NAMELESS: Final = Offered(None)


def _tool(entry: object) -> Offered:
    """An entry of ``tools`` or ``tool_choice``; without a name where it names no function of the caller's."""
    if not isinstance(entry, dict):
        return _NAMELESS
    kind, name = entry.get("type"), entry.get("name")
    if kind not in _FORMS:
        return Offered(None, provider=kind) if isinstance(kind, str) else _NAMELESS
    return Offered(name, entry) if isinstance(name, str) else _NAMELESS


def _without(
    members: dict[str, msgspec.Raw], allowed: Callable[[Offered], bool]
) -> Mapping[str, msgspec.Raw]:
    names = keep_tools(members, "tools", _tool, allowed)
    if "tools" not in members:
        members.pop("tool_choice", None)
        members.pop("parallel_tool_calls", None)
    elif "tool_choice" in members:
        choice = parse_json(bytes(members["tool_choice"]))
        if isinstance(choice, dict) and _tool(choice).called not in names:
            del members["tool_choice"]
    return members
