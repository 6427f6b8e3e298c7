"""A chat completion request, read once and never rewritten, except that tools may be removed.

The body is read strictly, because two readers must not see two requests: duplicate members anywhere, ``NaN``
and nesting without end are refused, and a member like ``Model`` that a reader without regard to case takes for
one that is judged. What is forwarded are the very bytes that came; where tools are removed,
all other members keep their bytes (:func:`without_tools`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from affiant.gateway.openai.chat_members import DOCUMENTED, ChatMembers
from affiant.gateway.openai.model_fallbacks import names_other_models
from affiant.gateway.openai.named_urls import NamedURL, named_urls
from affiant.gateway.openai.passable_responses import ResponseBound, response_bound
from affiant.gateway.openai.strict_json import folded, inexact
from affiant.gateway.openai.unlisted import RequestMembers, kind_of, read_members
from affiant.gateway.wire.errors import RequestMalformed
from affiant.policy.canonical.errors import ToolDefinitionRefused
from affiant.policy.canonical.tool_messages import parse_json
from affiant.policy.canonical.tool_origin import tool_digest

__all__ = ["ChatRequest", "Offered", "parse_chat", "without_tools"]

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
"""Members that shape sampling; disclosed as ``mdl.prm``, each as it was written, cut at 64 characters."""

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

_MODEL: Final = re.compile(r"[\x21-\x7e]{1,200}\Z")


class Offered(NamedTuple):
    """A tool that a request offers to the model. ``name`` is None where it has none of its own."""

    name: str | None
    body: Mapping[str, object] = {}
    """What holds its name."""
    provider: str | None = None
    """The name of a tool that the provider runs by itself; then it has no other."""

    @property
    def called(self) -> str | None:
        """What a choice of tools calls it."""
        return self.name or self.provider

    @property
    def schema(self) -> str | None:
        """The digest of its definition (``tool_digest``); None where it has none."""
        described, parameters = self.body.get("description"), self.body.get("parameters")
        if self.name is None or not isinstance(described, (str, type(None))):
            return None
        try:
            return (
                tool_digest(self.name, described or "", parameters) if isinstance(parameters, dict) else None
            )
        except ToolDefinitionRefused:
            return None


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What is decided about; the bytes themselves go on untouched."""

    model: str
    stream: bool
    tools: tuple[Offered, ...]
    """``tools`` and ``functions`` in order."""
    parameters: Mapping[str, str]
    answer: ResponseBound
    """How long its answers may be."""
    members: RequestMembers
    """What of it the lists of chat completions do not have, and which tools of the provider's it asks for."""
    other_models: str | None = None
    """A member by which another model than ``model`` may answer."""
    urls: tuple[NamedURL, ...] = ()
    """What the upstream may fetch for it."""


def parse_chat(body: bytes, members: ChatMembers = DOCUMENTED) -> ChatRequest:
    """Read a request.

    Args:
        members: the lists that it is compared with.

    Raises:
        RequestMalformed: not strict JSON, or not a chat completion request.
    """
    value = parse_json(body)
    if not isinstance(value, dict):
        raise RequestMalformed("the body is not an object", found=type(value).__name__)
    _require_exact(value)
    model, stream = value.get("model"), value.get("stream", False)
    if not isinstance(model, str) or _MODEL.match(model) is None:
        raise RequestMalformed(
            "no usable model name", expected="1 to 200 printable ASCII characters", where="model"
        )
    if not isinstance(stream, (bool, type(None))):
        raise RequestMalformed("not a truth value", where="stream")
    if not isinstance(value.get("messages"), list):
        raise RequestMalformed("not an array", where="messages")
    return ChatRequest(
        model=model,
        stream=bool(stream),
        tools=(*map(_tool, _array(value, "tools")), *map(_function, _array(value, "functions"))),
        parameters={name: _spelled(value[name]) for name in _PARAMETERS if value.get(name) is not None},
        answer=response_bound(value),
        members=read_members(value, members),
        other_models=names_other_models(value),
        urls=named_urls(value),
    )


def _require_exact(value: Mapping[str, object]) -> None:
    """Return if every member of ``value`` that is judged has exactly its name; a tool's own schema is free."""
    held = [
        *_array(value, "tools"),
        *_array(value, "functions"),
        value.get("tool_choice"),
        value.get("function_call"),
    ]
    entries = [entry for entry in held if isinstance(entry, dict)]
    bodies = [body for entry in entries for form in _FORMS if isinstance(body := entry.get(form), dict)]
    found = inexact(value, _MEMBERS)
    for inner in (*entries, *bodies):
        found = found or inexact(inner, _TOOL_MEMBERS)
    if found is not None:
        raise RequestMalformed(
            "a member's name differs from a known one only in case or separators",
            expected=found,
            where=found,
            hint="Two readers would see two requests",
        )


def _array(value: Mapping[str, object], name: str) -> Sequence[object]:
    found = value.get(name)
    if found is None:
        return ()
    if not isinstance(found, list):
        raise RequestMalformed("not an array", where=name)
    return found


def _spelled(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=True)
    shown = "".join(char if char.isprintable() else "?" for char in text[:64])
    return shown or "?"


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


def without_tools(body: bytes, allowed: Callable[[Offered], bool]) -> bytes:
    """``body`` with only the tools that are ``allowed``; every other member keeps its bytes.

    What would then point at nothing goes too: ``tool_choice``, ``parallel_tool_calls``, ``function_call``.

    Raises:
        RequestMalformed: not one JSON object.
    """
    try:
        members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        return _assembled(_without(members, allowed))
    except (msgspec.DecodeError, UnicodeError) as error:  # what one reader takes and the other does not
        raise RequestMalformed("the body is not JSON") from error


def _without(
    members: dict[str, msgspec.Raw], allowed: Callable[[Offered], bool]
) -> Mapping[str, msgspec.Raw]:
    names: set[str | None] = set()
    for name, read in (("tools", _tool), ("functions", _function)):
        if name in members and bytes(members[name]) != b"null":
            entries = msgspec.json.decode(members[name], type=list[msgspec.Raw])
            offered = [(entry, read(parse_json(bytes(entry)))) for entry in entries]
            kept = [(entry, tool) for entry, tool in offered if tool.called is not None and allowed(tool)]
            names |= {tool.called for _, tool in kept}
            if kept:
                members[name] = msgspec.Raw(b"[" + b",".join(bytes(entry) for entry, _ in kept) + b"]")
            else:
                del members[name]
    if "tools" not in members:
        members.pop("tool_choice", None)
        members.pop("parallel_tool_calls", None)
    elif "tool_choice" in members and not _choice_stands(members["tool_choice"], names):
        del members["tool_choice"]
    if "functions" not in members or not _choice_stands(members.get("function_call"), names):
        members.pop("function_call", None)
    return members


def _assembled(members: Mapping[str, msgspec.Raw]) -> bytes:
    pairs = (msgspec.json.encode(name) + b":" + bytes(value) for name, value in members.items())
    return b"{" + b",".join(pairs) + b"}"


def _choice_stands(raw: msgspec.Raw | None, names: Collection[str | None]) -> bool:
    """Whether a choice names nothing (``auto``), or one of the tools that stay."""
    choice = None if raw is None else parse_json(bytes(raw))
    if not isinstance(choice, dict):
        return True
    return (_tool(choice) if "type" in choice else _function(choice)).called in names
