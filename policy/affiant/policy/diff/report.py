"""Differences of policies as people and code review pages read them: text, Markdown, SARIF 2.1.0, JSON.

Requests that differ alike are told together: one of them in full, and how many more paths there are. Nothing is left
out of the JSON document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import canonical
from affiant.command_line import printable
from affiant.policy.decision.limit_words import instead_words
from affiant.policy.diff.differences import Difference, Direction, Side
from affiant.policy.diff.markup import markdown_text
from affiant.policy.diff.report_forms import sarif_location, sarif_log
from affiant.policy.loading.profile_set import ProfileSet

__all__ = [
    "Told",
    "difference_document",
    "difference_lines",
    "difference_markdown",
    "difference_sarif",
    "narrowing_digest",
    "narrowing_document",
    "told_together",
]

_NARROWING: Final = "affiant-narrowing/1"
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
_LEVEL: Final = {Direction.WIDENS: "error", Direction.CHANGES: "error", Direction.NARROWS: "note"}


@dataclass(frozen=True, slots=True)
class Told:
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
        return _places([found.new for found in self.alike]) or _places([found.old for found in self.alike])


def difference_lines(differences: Sequence[Difference]) -> Iterator[str]:
    """One block of lines for each agent; bounded, without control characters."""
    for agent, found in groupby(differences, key=_agent):
        listed = list(found)
        yield printable(f"{agent}: {_counted(listed)}")
        for line in told_together(listed):
            yield printable(f"  {_mark(line.first.direction)} {line.text}{_at(line.places)}")


def difference_markdown(differences: Sequence[Difference], *, old: ProfileSet, new: ProfileSet) -> str:
    """A table for each agent, to be put into a review's comment."""
    lines = [f"### {markdown_text(old.source)} to {markdown_text(new.source)}: {_counted(differences)}", ""]
    for agent, found in groupby(differences, key=_agent):
        lines += [f"**{markdown_text(agent)}**", "", "| | what | rule |", "|---|---|---|"]
        for line in told_together(list(found)):
            places = "<br>".join(map(markdown_text, line.places))
            lines.append(f"| {line.first.direction.value} | {markdown_text(line.text)} | {places} |")
        lines.append("")
    return "\n".join(lines) + f"\nPolicy digest before `{old.digest}`, after `{new.digest}`.\n"


def difference_sarif(differences: Sequence[Difference], *, new: ProfileSet, uri: str) -> str:
    """One result for each line of the text, at the rule of the new file that decides; narrower ones are notes."""
    results = [
        {
            "ruleId": f"policy.{line.first.direction.value}.{line.first.plane}",
            "level": _LEVEL[line.first.direction],
            "message": {"text": printable(f"{agent}: {line.text}")},
            "locations": [
                sarif_location(uri, place) for place in _places(each.new for each in line.alike)[:1] or ("",)
            ],
        }
        for agent, found in groupby(differences, key=_agent)
        for line in told_together(list(found))
    ]
    rules = sorted({str(result["ruleId"]) for result in results})
    return sarif_log(
        tool="affiant policy diff",
        rules=[{"id": rule} for rule in rules],
        results=results,
        properties={"policy": new.digest},
    )


def difference_document(
    differences: Sequence[Difference], *, old: ProfileSet, new: ProfileSet
) -> Mapping[str, object]:
    """Every difference, with both sides; ``counts`` are of groups, as in the text: differences that are told together.

    ``group`` is the same for those, and numbers them from 0.
    """
    together = _together(differences)
    groups = {id(found): number for number, told in enumerate(together) for found in told.alike}
    return {
        "old": _file(old),
        "new": _file(new),
        "counts": {direction.value: count for direction, count in _counts(together).items()},
        "differences": [{**_difference(found), "group": groups[id(found)]} for found in differences],
    }


def narrowing_document(differences: Sequence[Difference], *, old: str, new: str) -> Mapping[str, object]:
    """Every difference of two profiles, as far as their normal forms say it: whoever has both writes the same.

    So it names neither files nor places in them, nor the agent, whom a receipt hides.

    Args:
        old, new: the profiles' digests.
    """
    return {
        "typ": _NARROWING,
        "old": old,
        "new": new,
        "differences": [
            {
                "plane": found.plane,
                "direction": found.direction.value,
                "request": found.request,
                "stands_for_others": found.others,
                "old": _side(found.old, placed=False),
                "new": _side(found.new, placed=False),
            }
            for found in differences
        ],
    }


def narrowing_digest(document: Mapping[str, object]) -> str:
    """``sha256:`` name of its RFC 8785 bytes: ``dif`` of the record of a narrowing."""
    return sha256_name(canonical(document))


def _file(profiles: ProfileSet) -> Mapping[str, str]:
    return {"file": profiles.source, "digest": profiles.digest, "source_digest": profiles.source_digest}


def _difference(found: Difference) -> Mapping[str, object]:
    return {
        "agent": found.agent,
        "plane": found.plane,
        "direction": found.direction.value,
        "request": found.request,
        "stands_for_others": found.others,
        "secrets": list(found.secrets),
        "old": _side(found.old),
        "new": _side(found.new),
    }


def _side(side: Side, *, placed: bool = True) -> Mapping[str, object]:
    rules = zip(side.rules, side.places, strict=False)
    placed_rules = [{"id": rule, "where": place} for rule, place in rules]
    return {
        "says": side.says,
        "reason": side.reason,
        "rules": placed_rules if placed else list(side.rules),
    }


# -- told together -----------------------------------------------------------------------------------------------------


def told_together(differences: Sequence[Difference]) -> Iterator[Told]:
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
            yield Told(alike, first.request, instead_words(first.old.says, first.new.says))
        else:
            yield Told(alike, _words(first), _requests(each))


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


def _together(differences: Sequence[Difference]) -> Sequence[Told]:
    """Everything that is told of all agents: nothing of two agents is one line."""
    return [line for _, found in groupby(differences, key=_agent) for line in told_together(list(found))]


def _counts(lines: Iterable[Told]) -> Mapping[Direction, int]:
    """What stands first in every form of the report."""
    directions = [line.first.direction for line in lines]
    return {direction: directions.count(direction) for direction in Direction}


def _counted(differences: Sequence[Difference]) -> str:
    counts = _counts(_together(differences))
    changed = counts[Direction.CHANGES]
    parts = [f"{counts[Direction.WIDENS]} wider", f"{counts[Direction.NARROWS]} narrower"]
    return ", ".join(parts + ([f"{changed} changed"] if changed else []))


def _agent(found: Difference) -> str:
    return found.agent


def _mark(direction: Direction) -> str:
    return {Direction.WIDENS: "+", Direction.NARROWS: "-", Direction.CHANGES: "~"}[direction]


def _places(sides: Iterable[Side]) -> Sequence[str]:
    return list(dict.fromkeys(place for side in sides for place in side.places))


def _at(places: Iterable[str]) -> str:
    shown = ", ".join(places)
    return f"  [{shown}]" if shown else ""
