"""Dialects without tools: text completions, embeddings, rerank, moderations. One class serves all of them.

A request names a model and holds texts; a response holds texts, numbers, or both, and no call at all. What is judged is
the model that is asked for and the one that answers, URLs, and what is in no list.

>>> PLAIN["embeddings"].read_request(b'{"model": "m", "input": ["a", "b"]}').answer
ResponseBound(tokens=0, answers=1, why='')
>>> PLAIN["completions"].read_request(b'{"model": "m", "prompt": ["a", "b"], "max_tokens": 9}').answer
ResponseBound(tokens=9, answers=2, why='')
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from affiant.errors import AffiantError, MalformedError
from affiant.gateway.dialects.answered_models import model_in
from affiant.gateway.dialects.dialect import ModelRequest, Offered
from affiant.gateway.dialects.judged_calls import Judge, Passed, ToolCall
from affiant.gateway.dialects.member_lists import MemberLists, Table
from affiant.gateway.dialects.model_fallbacks import names_other_models
from affiant.gateway.dialects.named_urls import named_urls
from affiant.gateway.dialects.plain.plain_lists import (
    COMPLETIONS,
    EMBEDDINGS,
    MODERATIONS,
    RERANK,
    TEXT_URLS,
)
from affiant.gateway.dialects.request_body import almost_named, read_head, spelled_parameters
from affiant.gateway.dialects.response_bound import ResponseBound, response_bound
from affiant.gateway.dialects.sse import is_done, require_done
from affiant.gateway.dialects.stream_end import FinishedChoices, StreamEnd
from affiant.gateway.dialects.strict_json import folded, inexact, read_event, require_no_calls
from affiant.gateway.dialects.unlisted import read_members, require_listed_response
from affiant.gateway.dialects.usage import Usage, openai_usage
from affiant.gateway.wire.errors import RequestMalformed
from affiant.gateway.wire.errors_http import error_body

__all__ = ["PLAIN", "Plain"]

_PARAMETERS: Final = (
    "best_of",
    "dimensions",
    "frequency_penalty",
    "max_tokens",
    "n",
    "presence_penalty",
    "seed",
    "stop",
    "temperature",
    "top_k",
    "top_n",
    "top_p",
)
_NO_TOKENS: Final = ResponseBound(0)


@dataclass(frozen=True, slots=True)
class Plain:
    """As :class:`~..dialect.Dialect`, for one without tools.

    Args:
        needed: members that every request has, beside ``model``.
        writes: whether the model writes text: token counts of a response then have a part for it, and it may stream.
        usual_model: the model that the API takes where a request names none; None: a request must name one.
    """

    name: str
    lists: MemberLists
    needed: tuple[str, ...]
    writes: bool = False
    usual_model: str | None = None
    usage_begins: bool = field(init=False, default=False)
    terminal_has_value: bool = field(init=False, default=False)

    def with_names(self, names: Collection[str]) -> Plain:
        """As :meth:`~..dialect.Dialect.with_names`."""
        return replace(self, lists=self.lists.with_names(names))

    def read_request(self, body: bytes) -> ModelRequest:
        """As :meth:`~..dialect.Dialect.read_request`."""
        value, model, stream = read_head(body, usual_model=self.usual_model)
        found = inexact(value, folded("model", "stream", *self.needed, *_PARAMETERS))
        if found is not None:
            raise almost_named(found)
        for name in self.needed:
            if value.get(name) is None:
                raise RequestMalformed("a member is missing", where=name)
        return ModelRequest(
            model=model,
            stream=stream and self.writes,
            tools=(),
            parameters=spelled_parameters(value, _PARAMETERS),
            answer=_bound(value) if self.writes else _NO_TOKENS,
            members=read_members(value, self.lists.request),
            other_models=names_other_models(value),
            urls=named_urls(value, TEXT_URLS),
        )

    def without_tools(self, body: bytes, allowed: Callable[[Offered], bool]) -> bytes:
        """The body as it is: its requests offer no tools."""
        del allowed
        return body

    def judge_response(self, value: object, judge: Judge | None) -> tuple[ToolCall, ...]:
        """As :meth:`~..dialect.Dialect.judge_response`; there are no calls."""
        if not isinstance(value, dict):
            raise MalformedError("the upstream's answer is no object", code="upstream.answer")
        if judge is not None:
            require_listed_response(value, self.lists.response)
            require_no_calls(value)
        return ()

    def stream_filter(self, judge: Judge, seen: Callable[[object], None]) -> PlainStream:
        """As :meth:`~..dialect.Dialect.stream_filter`."""
        del judge
        return PlainStream(seen, self.lists.response)

    def stream_end(self, answers: int) -> StreamEnd:
        """As :meth:`~..dialect.Dialect.stream_end`."""
        return FinishedChoices(answers)

    is_terminal = staticmethod(is_done)

    def usage_in(self, value: object, *, streamed: bool) -> Usage:
        """As :meth:`~..dialect.Dialect.usage_in`. Where no text is written, the stated total is the prompt's."""
        usage = openai_usage(value, streamed=streamed)
        if self.writes or (usage.prompt is None and usage.total is None):
            return usage
        return Usage(usage.total if usage.prompt is None else usage.prompt, 0, usage.total)

    answered_model = staticmethod(model_in)

    def error_body(self, error: AffiantError) -> bytes:
        """As :func:`~affiant.gateway.wire.errors_http.error_body`: the form that OpenAI clients read."""
        return error_body(error)

    def error_event(self, error: AffiantError) -> bytes:
        """An event whose data is that body."""
        return b"data: " + error_body(error) + b"\n\n"


class PlainStream:
    """As :class:`~..dialect.StreamFilter`; an event is listed and holds no call, or ends the stream."""

    __slots__ = ("_seen", "_table", "read")

    def __init__(self, seen: Callable[[object], None], table: Table) -> None:
        self._seen = seen
        self._table = table
        self.read: tuple[bytes, Mapping[str, object]] | None = None

    def feed(self, event: bytes) -> Passed:
        """As :meth:`~..dialect.StreamFilter.feed`."""
        value = read_event(event)
        if value is not None:
            self.read = event, value
            self._seen(value)
            require_listed_response(value, self._table)
            require_no_calls(value)
        return Passed((event,))

    def end(self, event: bytes) -> Passed:
        """As :meth:`~..dialect.StreamFilter.end`."""
        require_done(event)
        return Passed()

    def release(self) -> Passed:
        """As :meth:`~..dialect.StreamFilter.release`; nothing is held."""
        return Passed()


def _bound(value: Mapping[str, object]) -> ResponseBound:
    """How long the completions are: as many for each prompt, and each of its own length."""
    found = response_bound(value, bounds=("max_tokens",), answers="n")
    prompt = value.get("prompt")
    several = isinstance(prompt, list) and any(isinstance(each, (str, list)) for each in prompt)
    return (
        replace(found, answers=found.answers * len(prompt)) if several and isinstance(prompt, list) else found
    )


PLAIN: Final[Mapping[str, Plain]] = {
    dialect.name: dialect
    for dialect in (
        Plain("completions", COMPLETIONS, ("prompt",), writes=True),
        Plain("embeddings", EMBEDDINGS, ("input",)),
        Plain("rerank", RERANK, ("documents", "query")),
        Plain("moderations", MODERATIONS, ("input",), usual_model="omni-moderation-latest"),
    )
}
"""The dialects without tools, by name. OpenAI's API reference names the usual model of moderations."""
