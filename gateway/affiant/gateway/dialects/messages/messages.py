"""Anthropic's Messages API: a request is read once and never rewritten, except that tools may be removed.

The body is read as strictly as that of chat completions. What differs: system prompts are members of their own, a
response's calls are content blocks with an object as input, and a stream states its token counts in two events.
Counting the tokens of a request is the same dialect with another response (``counts``): no model writes, so it costs
the prompt alone.

>>> body = b'{"model": "m", "max_tokens": 9, "messages": [], "tools": [{"name": "a"}, {"type": "web_search_20250305"}]}'
>>> [offered.called for offered in Messages().read_request(body).tools]
['a', 'web_search_20250305']
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from affiant.errors import AffiantError
from affiant.gateway.dialects.answered_models import model_in
from affiant.gateway.dialects.dialect import ModelRequest, Offered
from affiant.gateway.dialects.judged_calls import Judge, ToolCall
from affiant.gateway.dialects.member_lists import MemberLists
from affiant.gateway.dialects.messages.message_events import MessageStream, is_message_stop, judge_message
from affiant.gateway.dialects.messages.messages_lists import CLIENT_TOOLS, MESSAGES_LISTS, MESSAGES_URLS
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
from affiant.gateway.dialects.response_bound import ResponseBound, response_bound
from affiant.gateway.dialects.stream_end import NO_END, StreamEnd
from affiant.gateway.dialects.strict_json import fold, folded, inexact, parse_json
from affiant.gateway.dialects.unlisted import kind_of, read_members
from affiant.gateway.dialects.usage import Usage, count_in
from affiant.gateway.wire.errors import RequestMalformed
from affiant.gateway.wire.errors_http import status_of
from affiant.printable import printable

__all__ = ["Messages"]

_PARAMETERS: Final = (
    "max_tokens",
    "output_config",
    "service_tier",
    "speed",
    "stop_sequences",
    "temperature",
    "thinking",
    "top_k",
    "top_p",
)
"""Members that shape sampling."""
_MEMBERS: Final = folded(
    *("container", "mcp_servers", "messages", "model", "stream", "system", "tool_choice", "tools"),
    *_PARAMETERS,
)
_TOOL_MEMBERS: Final = folded("description", "input_schema", "name", "type")
_PROMPT: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""Of ``usage``: all tokens of a prompt are their sum (Anthropic's API reference, "Messages")."""
_TYPES: Final[Mapping[int, str]] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
"""Anthropic's API reference, "Errors"; 503 is 529 there."""
_UNTHREADED: Final = {"error_code": "thread_unsupported_request"}
"""By this the clients know to send whole conversations: the tool runner of ``anthropic`` asks for a thread at first."""


@dataclass(frozen=True, slots=True)
class Messages:
    """As :class:`~..dialect.Dialect`; ``lists`` is what requests and responses are compared with.

    ``counts``: requests ask for the number of their tokens alone.
    """

    counts: bool = False
    lists: MemberLists = MESSAGES_LISTS
    name: str = field(init=False, default="messages")
    usage_begins: bool = field(init=False, default=True)
    terminal_has_value: bool = field(init=False, default=False)

    def with_names(self, names: Collection[str]) -> Messages:
        """As :meth:`~..dialect.Dialect.with_names`."""
        return replace(self, lists=self.lists.with_names(names))

    def read_request(self, body: bytes) -> ModelRequest:
        """As :meth:`~..dialect.Dialect.read_request`."""
        value, model, stream = read_head(body)
        entries = array_in(value, "tools")
        _require_exact(value, entries)
        if not isinstance(value.get("messages"), list):
            raise RequestMalformed("not an array", where="messages")
        return ModelRequest(
            model=model,
            stream=stream and not self.counts,
            tools=tuple(map(_tool, entries)),
            parameters=spelled_parameters(value, _PARAMETERS),
            answer=ResponseBound(0) if self.counts else _bound(value),
            members=read_members(value, self.lists.request),
            other_models=names_other_models(value) or _model_of_a_tool(entries),
            urls=named_urls(value, MESSAGES_URLS),
        )

    def without_tools(self, body: bytes, allowed: Callable[[Offered], bool]) -> bytes:
        """As :meth:`~..dialect.Dialect.without_tools`; a ``tool_choice`` that would point at nothing goes too."""
        members = taken_apart(body)
        names = keep_tools(members, "tools", _tool, allowed)
        raw = members.get("tool_choice")
        choice = None if raw is None else parse_json(bytes(raw))
        named = choice.get("name") if isinstance(choice, dict) and choice.get("type") == "tool" else None
        if raw is not None and ("tools" not in members or (named is not None and named not in names)):
            del members["tool_choice"]
        return assembled(members)

    def judge_response(self, value: object, judge: Judge | None) -> tuple[ToolCall, ...]:
        """As :meth:`~..dialect.Dialect.judge_response`."""
        return judge_message(value, judge, self.lists.response)

    def stream_filter(self, judge: Judge, seen: Callable[[object], None]) -> MessageStream:
        """As :meth:`~..dialect.Dialect.stream_filter`."""
        return MessageStream(judge, seen, self.lists.response)

    def stream_end(self, answers: int) -> StreamEnd:
        """As :meth:`~..dialect.Dialect.stream_end`: the terminal event alone ends a stream."""
        del answers
        return NO_END

    is_terminal = staticmethod(is_message_stop)

    def usage_in(self, value: object, *, streamed: bool) -> Usage:
        """As :meth:`~..dialect.Dialect.usage_in`. A count states the prompt's tokens alone."""
        del streamed
        if not isinstance(value, dict):
            return Usage()
        if self.counts:
            found = count_in(value.get("input_tokens"))
            return Usage() if found is None else Usage(found, 0)
        message = value.get("message")
        usage = message.get("usage") if isinstance(message, dict) else value.get("usage")
        if not isinstance(usage, dict):
            return Usage()
        parts = [count_in(usage.get(name)) for name in _PROMPT]
        prompt = None if parts[0] is None else sum(filter(None, parts))
        return Usage(prompt, count_in(usage.get("output_tokens")))

    def answered_model(self, value: Mapping[str, object], *, exact: bool) -> object:
        """As :meth:`~..dialect.Dialect.answered_model`: a stream names it in the message that its first event holds."""
        message = value.get("message")
        return model_in(message if isinstance(message, dict) else value, exact=exact)

    def error_body(self, error: AffiantError) -> bytes:
        """The form that Anthropic's clients read, and the stable ``code``."""
        status = status_of(error)
        kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
        members: dict[str, object] = {"type": kind, "message": printable(str(error), limit=1000)}
        if (error.code, error.where) == ("request.unlisted", "thread"):
            members["details"] = _UNTHREADED
        members["code"] = error.code
        return json.dumps({"type": "error", "error": members}, ensure_ascii=True).encode("ascii")

    def error_event(self, error: AffiantError) -> bytes:
        """An event ``error`` whose data is that body."""
        return b"event: error\ndata: " + self.error_body(error) + b"\n\n"


def _require_exact(value: Mapping[str, object], entries: Collection[object]) -> None:
    """Return if every member of ``value`` that is judged has exactly its name; a tool's own schema is free."""
    found = inexact(value, _MEMBERS)
    for entry in (*entries, value.get("tool_choice")):
        if isinstance(entry, dict):
            found = found or inexact(entry, _TOOL_MEMBERS)
    if found is not None:
        raise almost_named(found)


def _tool(entry: object) -> Offered:
    """An entry of ``tools``; one that Anthropic defines has one name alone, and one of the provider's its type."""
    if not isinstance(entry, dict):
        return Offered(None)
    kind, name = kind_of(entry, "custom"), entry.get("name")
    if not isinstance(kind, str):
        return Offered(None)
    if kind != "custom" and kind not in CLIENT_TOOLS:
        return Offered(None, entry, provider=kind)
    if not isinstance(name, str) or CLIENT_TOOLS.get(kind, name) != name:
        return Offered(None)
    return Offered(name, entry, schema_member="input_schema")


def _bound(value: Mapping[str, object]) -> ResponseBound:
    """How long the answer may be; a summary of the conversation is written beside it, and has no bound."""
    management = value.get("context_management")
    edits = management.get("edits") if isinstance(management, dict) else None
    kinds = [edit.get("type") for edit in edits if isinstance(edit, dict)] if isinstance(edits, list) else []
    if value.get("compaction") is not None or any(fold(str(kind)).startswith("compact") for kind in kinds):
        return ResponseBound(None, why=": a compaction may write more")
    return response_bound(value, bounds=("max_tokens",))


def _model_of_a_tool(entries: Collection[object]) -> str | None:
    """The first tool that brings a model of its own (``advisor_20260301``)."""
    for at, entry in enumerate(entries):
        if isinstance(entry, dict) and entry.get("model") is not None:
            return f"tools[{at}].model"
    return None
