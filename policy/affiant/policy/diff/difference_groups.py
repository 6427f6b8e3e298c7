"""Groups differences that read alike: one of them in full, and how many more paths there are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from affiant.policy.decision.limit_words import instead_words
from affiant.policy.diff.differences import Difference, Direction, Side

__all__ = ["DifferenceGroup", "grouped", "places_of"]

_EGRESS: Final = re.compile(r"([A-Z]+) (https?://[^/]+)(/.*)\Z", re.DOTALL)
_WORDS: Final[Mapping[tuple[str, str], str]] = {
    ("deny", "allow"): "now allowed",
    ("deny", "ask"): "now allowed after approval",
    ("ask", "allow"): "no longer needs approval",
    ("allow", "deny"): "no longer allowed",
    ("ask", "deny"): "no longer allowed, not even after approval",
    ("allow", "ask"): "now needs approval",
    ("absent", "present"): "a new agent",
    ("present", "absent"): "this agent has no profile any more",
    ("may not approve", "may approve"): "now may approve",
    ("may approve", "may not approve"): "may no longer approve",
}


@dataclass(frozen=True, slots=True)
class DifferenceGroup:
    """What is told together: differences of one agent that read alike, what they are, and the requests in words."""

    alike: Sequence[Difference]
    what: str
    requests: str

    @property
    def text(self) -> str:
        """All of it on one line."""
        return f"{self.what}: {self.requests}{_with(self.first.secrets)}"

    @property
    def first(self) -> Difference:
        """One of them: in direction, plane and secrets it stands for all."""
        return self.alike[0]

    @property
    def places(self) -> Sequence[str]:
        """Of the rules that decide in the new file; where nothing does, of those that did in the old one."""
        return places_of([found.new for found in self.alike]) or places_of(
            [found.old for found in self.alike]
        )


def grouped(differences: Sequence[Difference]) -> Iterator[DifferenceGroup]:
    """Requests to one endpoint that differ alike, and for the same methods, are one line; all else stands alone."""
    paths: dict[tuple[object, ...], list[Difference]] = {}
    for found in differences:
        _, endpoint, path = _parts(found)
        if found.plane == "call":
            endpoint = found.request.partition(" ")[0]
        paths.setdefault((endpoint or found, _how(found), path), []).append(found)
    together: dict[tuple[object, ...], list[list[Difference]]] = {}
    for (where, how, _), found_at in paths.items():
        methods = tuple(sorted(_method(found) for found in found_at))
        together.setdefault((where, how, methods), []).append(found_at)
    for each in together.values():
        first = each[0][0]
        alike = [found for found_at in each for found in found_at]
        if first.plane == "limit":
            yield DifferenceGroup(alike, first.request, instead_words(first.old.says, first.new.says))
        else:
            yield DifferenceGroup(alike, _words(first), _requests(each))


def _parts(found: Difference) -> tuple[str, str, str]:
    """Method, endpoint and path of a request; empty for all else."""
    match = _EGRESS.match(found.request) if found.plane == "egress" else None
    return ("", "", "") if match is None else (match[1], match[2], match[3])


def _how(found: Difference) -> tuple[object, ...]:
    return found.direction, found.old.says, found.new.says, found.secrets


def _method(found: Difference) -> str:
    return "any other method" if found.others else _parts(found)[0]


def _words(found: Difference) -> str:
    if found.plane == "call" and found.direction is Direction.CHANGES:
        return found.new.says
    says = found.old.says, found.new.says
    return _WORDS.get(says) or f"{says[0]} becomes {says[1]}"


def _requests(each: Sequence[Sequence[Difference]]) -> str:
    first = each[0][0]
    if first.plane == "call":
        more = sum(map(len, each)) - 1
        return first.request + (f" and {more} more call{'s' * (more > 1)} like it" if more else "")
    if first.plane != "egress":
        return first.request + (" (and every other that no rule names)" if first.others else "")
    methods = sorted((_method(found) for found in each[0]), key=lambda method: (method[0].islower(), method))
    shown = "any method" if methods == ["any other method"] else ", ".join(methods)
    urls = [_parts(found_at[0])[1] + _parts(found_at[0])[2] for found_at in each]
    more = len(urls) - 1
    return f"{shown} {min(urls, key=len)}" + (f" and {more} more path{'s' * (more > 1)}" if more else "")


def _with(secrets: Sequence[str]) -> str:
    return f", with {', '.join(secrets)}" if secrets else ""


def places_of(sides: Iterable[Side]) -> Sequence[str]:
    """Where the rules of ``sides`` are in their files, each place once."""
    return list(dict.fromkeys(place for side in sides for place in side.places))
