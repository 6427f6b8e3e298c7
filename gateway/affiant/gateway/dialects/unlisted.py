"""Finds what of a request or a response is not in the lists of its dialect (:mod:`.member_lists`). Sans I/O.

Tools that a provider runs by itself are found here too, by name: a profile alone allows them.

>>> from affiant.gateway.dialects.chat.chat_members import CHAT_LISTS
>>> read_members({"model": "m", "messages": [{"role": "user", "tools": []}]}, CHAT_LISTS.request).unlisted
'messages[0].tools'
>>> read_members({"tools": [{"type": "web_search"}]}, CHAT_LISTS.request).provider_tools[0].name
'web_search'
>>> require_listed_response({"choices": [{"message": {"content": "hi"}}], "usage": {}}, CHAT_LISTS.response)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from affiant.gateway.dialects.member_lists import CALLED, FREE, Table
from affiant.gateway.dialects.strict_json import GIVEN, Step, fold, is_call, written
from affiant.gateway.wire.errors import ToolNotAllowedError

__all__ = ["ProviderTool", "RequestMembers", "kind_of", "read_members", "require_listed_response"]

_NAMING: Final = ("type", "name", "tool")
_ACTS: Final = ("action", "actions", "arguments", "commands", "input", "parameters")
"""Folded names of members that say what an item of a response is to do."""


class ProviderTool(NamedTuple):
    """A tool that a request lets the provider run. ``step``: the last one of the path to what asks for it.

    Servers that such a tool names (``server_url``) are found with all other URLs (:mod:`.named_urls`).
    """

    name: str
    step: Step | None

    @property
    def where(self) -> str:
        """That path."""
        return written(self.step)


class RequestMembers(NamedTuple):
    """What the lists say of a request. ``unlisted``: the path of the first thing that they do not have."""

    unlisted: str | None
    provider_tools: tuple[ProviderTool, ...]


def kind_of(value: Mapping[str, object], untyped: str | None) -> object:
    """The ``type`` of an object of several forms; ``untyped`` where it has none: left out, null, or an empty text."""
    kind = value.get("type")
    return untyped if kind in (None, "") else kind


def read_members(value: Mapping[str, object], table: Table) -> RequestMembers:
    """Compare a request with the list of its dialect: members, entries of tools, parts of messages."""
    walk = _Walk(table)
    return RequestMembers(walk.unlisted(value), tuple(walk.provider_tools))


def require_listed_response(value: Mapping[str, object], table: Table) -> None:
    """Return if every object in a response, or in one event of it, is listed, and none is like a call.

    A member that is not listed passes where it holds no object and is not named like a call: servers add
    numbers and texts as they go. Where members are free, an object must not name a type or a tool together with
    what that is called with: some client could run it.

    Raises:
        ``upstream.unlisted``: one is not.
    """
    where = _Walk(table, held_only=True).unlisted(value)
    if where is not None:
        raise ToolNotAllowedError(
            "the response has something that the gateway does not know, and the profile restricts tools",
            where=where,
            hint="If it is no call of a tool, let the operator list it: affiant gateway serve --allow-member",
            code="upstream.unlisted",
        )


@dataclass(slots=True)
class _Walk:
    table: Table
    held_only: bool = False
    """Of a response: members are listed that hold objects, and no object is like a call, wherever it is."""
    provider_tools: list[ProviderTool] = field(default_factory=list)
    left: list[tuple[object, str, Step | None]] = field(default_factory=list)

    def unlisted(self, root: Mapping[str, object]) -> str | None:
        self.left.append((root, self.table.root, None))  # no recursion: the depth is another's
        while self.left:
            value, place, path = self.left.pop()
            if place == GIVEN:
                continue
            if isinstance(value, list):
                for at, entry in enumerate(value):
                    if isinstance(entry, (dict, list)):
                        self.left.append((entry, place, Step(path, at)))
            elif isinstance(value, dict) and (found := self._object(value, place, path)) is not None:
                return written(found)
        return None

    def _object(self, value: Mapping[str, object], place: str, path: Step | None) -> Step | None:
        """Take in one object; the step to what of it is not listed."""
        if place in self.table.scalars:
            return self._scalars(value, place, path)
        form, kinds, kind = place, self.table.kinds.get(place), None
        if kinds is not None:
            kind = kind_of(value, self.table.untyped.get(place))
            form = kinds.get(kind, place) if isinstance(kind, str) else place
        if self.held_only and form != CALLED and (act := _act(value)) is not None:
            return Step(path, act)
        if kinds is not None:
            if not isinstance(kind, str) or (kind not in kinds and place not in self.table.provider_places):
                return Step(path, "type")
            if kind not in kinds:
                self.provider_tools.append(ProviderTool(kind, path))
                return None
        return None if form == FREE and not self.held_only else self._members(value, form, path)

    def _scalars(self, value: Mapping[str, object], place: str, path: Step | None) -> Step | None:
        for name, member in value.items():
            held = member if isinstance(member, list) else (member,)
            if fold(name) in self.table.scalars[place] or any(
                isinstance(each, (dict, list)) for each in held
            ):
                return Step(path, name)
        return None

    def _members(self, value: Mapping[str, object], place: str, path: Step | None) -> Step | None:
        listed = {} if place == FREE else self.table.members[place]
        for name, member in value.items():
            following = FREE if place == FREE else listed.get(name)
            if place == self.table.root and name in self.table.providers:
                if member is not None and member is not False:
                    self.provider_tools.append(ProviderTool(self.table.providers[name], Step(path, name)))
            elif following is None:
                said = isinstance(member, str) and is_call(name)
                if not self.held_only or (member and (said or isinstance(member, (dict, list)))):
                    return Step(path, name)
            elif (following != FREE or self.held_only) and isinstance(member, (dict, list)):
                self.left.append((member, following, Step(path, name)))
            elif isinstance(member, str) and member not in self.table.words.get(following, (member,)):
                return Step(path, name)
        return None


def _act(value: Mapping[str, object]) -> str | None:
    """The member by which an object is like a call: it says which tool, and what to do."""
    named, act = False, None
    for name, member in value.items():
        if member is not None and fold(name) in _NAMING:
            named = named or isinstance(member, str)
        elif member is not None and fold(name) in _ACTS:
            act = name
    return act if named else None
