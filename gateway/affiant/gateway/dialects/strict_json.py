"""JSON that every reader reads alike: what is judged here is what a client, or an upstream, acts on.

Readers differ. Some match member names without regard to case (Go, .NET), some take ``toolCalls`` for
``tool_calls`` (protobuf), some end a name at its NUL, and some search a whole answer for calls. So a member whose
name is like one that is judged must be that one, spelled exactly; and a call is in its own place only.
Members that are like none of these pass, whatever they are.

>>> fold("Tool_Calls") == fold("toolCalls") == fold("tool_calls")
True
>>> inexact({"Tool_Calls": []}, folded("tool_calls"))
'tool_calls'
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, NoReturn

from affiant.errors import MalformedError
from affiant.gateway.dialects.sse import event_data, require_fields
from affiant.gateway.wire.errors import RequestMalformed
from affiant.policy.canonical.tool_messages import parse_json

__all__ = [
    "GIVEN",
    "USAGE",
    "CallPlaces",
    "Step",
    "fold",
    "folded",
    "inexact",
    "is_call",
    "object_in",
    "parse_json",
    "read_event",
    "read_response",
    "require_calls_in_place",
    "require_no_calls",
    "text_in",
    "written",
]

_LONGEST_KEPT: Final = 64
_LONGEST_WRITTEN: Final = 64
"""Characters of one name in a path."""
_DOTLESS: Final = str.maketrans({"\u0131": "i"})
"""Readers that compare letters in upper case (Java) take the dotless i for an i; case folding does not."""


class Step(NamedTuple):
    """One step of a path, and the steps before it. A walk keeps steps; only what it finds has its path written."""

    before: Step | None
    name: str | int


def written(step: Step | None) -> str:
    """The path that ends with ``step``. Names are another's text: of each its beginning, in printable ASCII.

    >>> written(Step(Step(Step(None, "messages"), 0), "content"))
    'messages[0].content'
    """
    names: list[str] = []
    while step is not None:
        names.append(f"[{step.name}]" if isinstance(step.name, int) else f".{_plain(step.name)}")
        step = step.before
    return "".join(reversed(names)).removeprefix(".")


def _plain(name: str) -> str:
    return "".join(char if "!" <= char <= "~" else "?" for char in name[:_LONGEST_WRITTEN])


def fold(name: str) -> str:
    """``name`` without what some reader overlooks: case, compatibility forms, all but letters and digits."""
    return _fold_kept(name) if len(name) <= _LONGEST_KEPT else _fold(name)


def _fold(name: str) -> str:
    text = unicodedata.normalize("NFKC", name.partition("\0")[0].casefold()).casefold()
    return "".join(filter(str.isalnum, text)).translate(_DOTLESS)


_fold_kept = lru_cache(maxsize=2048)(_fold)


def folded(*names: str) -> Mapping[str, str]:
    """What :func:`inexact` looks for: folded name -> exact name."""
    return {_fold(name): name for name in names}


_CALL_ENDINGS: Final = ("call", "calls", "tooluse")
_NO_CALLS: Final = ("recall", "recalls")

_OTHER: Final = "other"
USAGE: Final = "usage"
"""The place of token counts: names there are the upstream's own."""
GIVEN: Final = "given"
"""The place of definitions that a response repeats: of tools, and of the form of an answer. No call is below it."""
_COUNTED: Final = (USAGE, "servertooluse")
"""OpenRouter counts there what its provider's tools did."""


@dataclass(frozen=True, slots=True)
class CallPlaces:
    """Where a dialect has calls.

    Args:
        root: the place of a whole response, or of an event.
        names: members by which a client finds a call: folded name -> exact name.
        following: the one way to a call: an object's place, a member -> the place of what the member holds.
        calls: places of objects whose ``type`` may name a call.
        expected: where calls are, in words.
    """

    root: str
    names: Mapping[str, str]
    following: Mapping[tuple[str, str], str]
    calls: frozenset[str]
    expected: str


_NOWHERE: Final = CallPlaces(_OTHER, {}, {}, frozenset(), "no call in an error")


def is_call(name: str) -> bool:
    """Whether a member, or a value of ``type``, is named as some interface of some model names a call.

    >>> [name for name in ("mcp_call", "server_tool_use", "Tool-Calls", "recall", "tool_call_id") if is_call(name)]
    ['mcp_call', 'server_tool_use', 'Tool-Calls']
    """
    found = fold(name)
    return found.endswith(_CALL_ENDINGS) and not found.endswith(_NO_CALLS)


def inexact(members: Mapping[str, object], known: Mapping[str, str]) -> str | None:
    """The name in ``members`` from which a member differs only in case or separators; None if there is none.

    Args:
        known: folded name -> exact name.
    """
    for name in members:
        exact = known.get(fold(name))
        if exact is not None and exact != name:
            return exact
    return None


def require_calls_in_place(response: object, places: CallPlaces) -> None:
    """Return if every call in ``response`` is where its dialect has it, under its exact name.

    Raises:
        ``upstream.answer``: a reader could find one elsewhere, or under another name.
    """
    left: list[tuple[object, str]] = [(response, places.root)]  # no recursion: the depth is the upstream's
    while left:
        value, place = left.pop()
        if isinstance(value, list):
            for entry in value:
                if isinstance(entry, (dict, list)):
                    left.append((entry, place))  # noqa: PERF401 - a function less per response
        elif isinstance(value, dict):
            left += _members(value, place, places)


def require_no_calls(response: object) -> None:
    """Return if ``response``, which reports an error, holds no call at all.

    Raises:
        ``upstream.answer``: a reader could find one.
    """
    require_calls_in_place(response, _NOWHERE)


def _members(value: Mapping[str, object], place: str, places: CallPlaces) -> list[tuple[object, str]]:
    """What ``value``, an object at ``place``, holds, each with its place."""
    if place not in (_OTHER, USAGE) and (exact := inexact(value, places.names)) is not None:
        _reject("a member's name differs from a known one only in case or separators", exact, places)
    found: list[tuple[object, str]] = []
    for name, member in value.items():
        if isinstance(member, (dict, list)):
            following = places.following.get((place, name), _OTHER)
            if following == GIVEN:
                continue
            if following == _OTHER and member and is_call(name) and (place, fold(name)) != _COUNTED:
                _reject("a call out of its place", places.names.get(fold(name)), places)
            found.append((member, following))
        elif (
            place not in places.calls and isinstance(member, str) and fold(name) == "type" and is_call(member)
        ):
            _reject("a call out of its place", "type", places)
    return found


def _reject(problem: str, where: str | None, places: CallPlaces) -> NoReturn:
    raise MalformedError(
        problem, expected=places.expected, where=where, hint="Readers would differ", code="upstream.answer"
    )


def read_response(data: bytes) -> object:
    """The value of a whole response, or of one event's data.

    Raises:
        ``upstream.answer``: it is not strict JSON.
    """
    try:
        return parse_json(data)
    except RequestMalformed as error:
        raise MalformedError("the upstream's answer is not strict JSON", code="upstream.answer") from error


def read_event(event: bytes) -> dict[str, object] | None:
    """The object in one event's data; None where the event has no data.

    Raises:
        ``upstream.answer``: readers could read the event differently, or its data is no object.
    """
    require_fields(event)
    data = event_data(event)
    if data is None or not data.strip():
        return None
    value = read_response(data)
    if not isinstance(value, dict):
        raise MalformedError("the upstream's answer is no object", code="upstream.answer")
    return value


def object_in(value: Mapping[str, object], name: str) -> dict[str, object] | None:
    """The object that a member of a response holds; None where it is left out or null.

    Raises:
        ``upstream.answer``: it holds something else.
    """
    found = value.get(name)
    if found is None or isinstance(found, dict):
        return found
    raise MalformedError("not an object", where=name, code="upstream.answer")


def text_in(value: Mapping[str, object], name: str) -> str:
    """The text that a member of a response holds; empty where it is left out or null.

    Raises:
        ``upstream.answer``: it holds something else.
    """
    found = value.get(name)
    if found is None or isinstance(found, str):
        return found or ""
    raise MalformedError("not a string", where=name, code="upstream.answer")
