"""Closed lists of what may be in a request and a response where a profile restricts tools. Each dialect has its own.

What is not listed could be a tool, or a way to reach one, so it is rejected (:mod:`.unlisted`).

A table maps each *place* to its members, and each member to the place of what it holds: an object, or objects in a
list. Nothing is judged below the place :data:`FREE`: settings, numbers, counts; below :data:`.strict_json.GIVEN`, not
even whether it is like a call. A place in ``kinds`` has several forms,
told apart by ``type``; each form has the members of its own place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from affiant.errors import ConfigurationError

__all__ = ["CALLED", "FREE", "MemberLists", "Table", "free"]

FREE: Final = "free"
CALLED: Final = "called"
"""The place of what a call is made with, and the form of an object that is a call by itself."""


@dataclass(frozen=True, slots=True)
class Table:
    """What may be in one direction.

    Args:
        root: the place of the whole.
        members: place -> member -> the place of what that holds.
        kinds: place -> ``type`` -> the place of that form.
        untyped: place of several forms -> the form of what has no ``type``.
        words: place -> the texts that may be there in the place of an object.
        scalars: place whose members are texts, numbers or lists of them, under any name -> the folded names that may
            not be there.
        providers: members of the root by which a provider runs a tool of its own -> that tool's name, as a profile
            lists it.
        provider_places: places where another ``type`` than the listed ones names a tool of the provider's.
        extensible: places to which an operator may add names: members, or values of ``type`` where the place has
            several forms.
    """

    root: str
    members: Mapping[str, Mapping[str, str]]
    kinds: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    untyped: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, Collection[str]] = field(default_factory=dict)
    scalars: Mapping[str, Collection[str]] = field(default_factory=dict)
    providers: Mapping[str, str] = field(default_factory=dict)
    provider_places: Collection[str] = ()
    extensible: Collection[str] = ()

    def with_name(self, place: str, name: str) -> Table:
        """The same table with one more name at ``place``, free in what it holds."""

        def added(places: Mapping[str, Mapping[str, str]]) -> Mapping[str, Mapping[str, str]]:
            return {**places, place: {**places[place], name: FREE}} if place in places else places

        return replace(self, members=added(self.members), kinds=added(self.kinds))


@dataclass(frozen=True, slots=True)
class MemberLists:
    """Both directions of one dialect."""

    request: Table
    response: Table

    def with_names(self, names: Collection[str]) -> MemberLists:
        """These lists, and names that an operator adds: ``PLACE.NAME``, each free in what it holds.

        Raises:
            ConfigurationError: a place takes no names.
        """
        request, response = self.request, self.response
        for entry in names:
            place, _, name = entry.partition(".")
            if place in request.extensible:
                request = request.with_name(place, name)
            elif place in response.extensible:
                response = response.with_name(place, name)
            else:
                raise ConfigurationError(
                    "no place that takes names",
                    expected=", ".join((*request.extensible, *response.extensible)),
                    found=place[:64],
                    code="gateway.settings",
                )
        return MemberLists(request, response)


def free(names: str) -> dict[str, str]:
    """Members, separated by white space, that are free in what they hold."""
    return dict.fromkeys(names.split(), FREE)
