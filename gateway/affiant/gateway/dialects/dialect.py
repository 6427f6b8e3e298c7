"""What a dialect of model requests is to the gateway: it reads, judges and ends, and never translates. Sans I/O.

A dialect is one API for models, as its clients and its upstreams speak it. The gateway passes its bytes on as they are.
An implementation says what a request asks for, which calls of tools a response holds, where a stream ends, and how that
API writes an error. All of it follows the same rules: strict JSON, closed lists, every reading of a call judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from affiant.errors import AffiantError
from affiant.gateway.dialects.judged_calls import Judge, Passed, ToolCall
from affiant.gateway.dialects.named_urls import NamedURL
from affiant.gateway.dialects.response_bound import ResponseBound
from affiant.gateway.dialects.stream_end import StreamEnd
from affiant.gateway.dialects.unlisted import RequestMembers
from affiant.gateway.dialects.usage import Usage
from affiant.policy.canonical.errors import ToolDefinitionRefused
from affiant.policy.canonical.tool_origin import tool_digest

__all__ = ["Dialect", "ModelRequest", "Offered", "StreamFilter"]


@dataclass(frozen=True)
class Offered:
    """A tool that a request offers to the model. ``name`` is None where it has none of its own."""

    name: str | None
    body: Mapping[str, object] = field(default_factory=dict)
    """What holds its name."""
    provider: str | None = None
    """The name of a tool that the provider runs by itself; then it has no other."""
    schema_member: str = "parameters"
    """The member of ``body`` that holds the JSON schema of its arguments."""

    @property
    def called(self) -> str | None:
        """What a choice of tools calls it."""
        return self.name or self.provider

    @cached_property
    def schema(self) -> str | None:
        """The digest of its definition (``tool_digest``); None where it has none."""
        described, parameters = self.body.get("description"), self.body.get(self.schema_member)
        if self.name is None or not isinstance(described, (str, type(None))):
            return None
        try:
            return (
                tool_digest(self.name, described or "", parameters) if isinstance(parameters, dict) else None
            )
        except ToolDefinitionRefused:
            return None


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What is decided about; the bytes themselves go on untouched."""

    model: str
    stream: bool
    tools: tuple[Offered, ...]
    """What it offers, in order."""
    parameters: Mapping[str, str]
    """Members that shape sampling; disclosed as ``mdl.prm``, each as it was written, cut at 64 characters."""
    answer: ResponseBound
    """How long its answers may be."""
    members: RequestMembers
    """What of it the dialect's lists do not have, and which tools of the provider's it asks for."""
    other_models: str | None = None
    """A member by which another model than ``model`` may answer."""
    urls: tuple[NamedURL, ...] = ()
    """What the upstream may fetch for it."""
    continues: str | None = None
    """The id of what an upstream keeps and the request goes on from: of this session, and at that upstream."""
    items: tuple[str, ...] = ()
    """The ids of items of what an upstream keeps, which the request repeats; bound as ``continues`` is."""
    stored: bool = False
    """Whether the upstream keeps the response under an id."""


class StreamFilter(Protocol):
    """Judges the events of one stream."""

    read: tuple[bytes, Mapping[str, object]] | None
    """The last event that says something, and its value."""

    def feed(self, event: bytes) -> Passed:
        """What may go on now that ``event`` has come; the terminal event is for :meth:`end`.

        Raises:
            ToolNotAllowedError: a call is not allowed, or something is not listed: none of what is held goes on.
            ``upstream.answer``: an event cannot be read, or something in it has no end.
        """
        ...

    def end(self, event: bytes) -> Passed:
        """All that is held, once the terminal ``event`` has come; that event is not among it.

        Raises:
            As :meth:`feed`.
        """
        ...

    def release(self) -> Passed:
        """As :meth:`end`, where the stream is complete without its terminal event.

        Raises:
            As :meth:`feed`.
        """
        ...


class Dialect(Protocol):
    """One API for models. An object holds the closed lists that it compares with, and nothing of a request."""

    @property
    def name(self) -> str:
        """``chat``, ``responses``, ``messages``; as routes name it."""
        ...

    @property
    def usage_begins(self) -> bool:
        """Whether a stream states a part of its token counts in the first event that has ``usage``."""
        ...

    @property
    def terminal_has_value(self) -> bool:
        """Whether the terminal event of a stream holds a value, with a model and token counts, as others do."""
        ...

    def with_names(self, names: tuple[str, ...]) -> Dialect:
        """The same dialect with names of an operator's in its lists: ``PLACE.NAME`` each."""
        ...

    def read_request(self, body: bytes) -> ModelRequest:
        """Read a request.

        Raises:
            RequestMalformed: not strict JSON, or no request of this dialect.
        """
        ...

    def without_tools(self, body: bytes, allowed: Callable[[Offered], bool]) -> bytes:
        """``body`` with only the tools that are ``allowed``; every other member keeps its bytes.

        Raises:
            RequestMalformed: not one JSON object.
        """
        ...

    def judge_response(self, value: object, judge: Judge | None) -> tuple[ToolCall, ...]:
        """The calls in a whole response, all of them allowed; without a judge, only that it is an object.

        Raises:
            ToolNotAllowedError: one is not, or something in it is not in the lists (``upstream.unlisted``).
            ``upstream.answer``: the response cannot be read, or readers could read it differently.
        """
        ...

    def stream_filter(self, judge: Judge, seen: Callable[[object], None]) -> StreamFilter:
        """What judges one stream.

        Args:
            seen: called with the value of each event before anything else in it is judged; may raise.
        """
        ...

    def stream_end(self, answers: int) -> StreamEnd:
        """What says whether a stream is complete that ends with its framed body, without its terminal event.

        Args:
            answers: how many answers the request asked for.
        """
        ...

    def is_terminal(self, event: bytes) -> bool:
        """Whether ``event`` ends a stream, as this dialect's clients judge it."""
        ...

    def usage_in(self, value: object, *, streamed: bool) -> Usage:
        """The token counts of a response as it was read, or of an event of a stream."""
        ...

    def answered_model(self, value: Mapping[str, object], *, exact: bool) -> object:
        """The model that a response, or an event, names; None where it names none.

        Args:
            exact: whether a member that some reader could take for it is an error.

        Raises:
            ``upstream.answer``: ``exact``, and there is such a member.
        """
        ...

    def error_body(self, error: AffiantError) -> bytes:
        """The body of a response that reports ``error``, in this API's own form: ASCII JSON."""
        ...

    def error_event(self, error: AffiantError) -> bytes:
        """The event that ends a stream instead."""
        ...
