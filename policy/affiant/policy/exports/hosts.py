"""Finds which denials overlap an allowed host and port, for targets that judge only those."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from affiant.policy.canonical.hosts import covering_patterns, is_wildcard, suffix_of
from affiant.policy.model.profile import Approval, EgressDenial, EgressRule

__all__ = [
    "covers_all",
    "meet",
    "needs_approval",
    "numbered_allows",
    "numbered_denials",
    "taken",
    "unseen",
]


def numbered_allows(rules: Sequence[EgressRule | EgressDenial]) -> Iterator[tuple[str, EgressRule]]:
    """The allows with their ids."""
    return ((f"egress/{n}", rule) for n, rule in enumerate(rules) if isinstance(rule, EgressRule))


def numbered_denials(rules: Sequence[EgressRule | EgressDenial]) -> Iterator[tuple[str, EgressDenial]]:
    """The denials with their ids."""
    return ((f"egress/{n}", rule) for n, rule in enumerate(rules) if isinstance(rule, EgressDenial))


def meet(one: str, other: str) -> bool:
    """Whether some host matches both patterns.

    >>> meet("*.b.c", "a.b.c"), meet("*.b.c", "**.c"), meet("*.b.c", "**.a.b.c"), meet("**.c.d", "**.b.c.d")
    (True, True, False, True)
    """
    if not is_wildcard(one):
        return one == other or other in covering_patterns(one)
    if not is_wildcard(other):
        return meet(other, one)
    name, above = suffix_of(one), suffix_of(other)
    if name == above:
        return True
    if not one.startswith(
        "**"
    ):  # exactly one label more than its name: that name is above or below the other
        return other.startswith("**") and name.endswith(f".{above}")
    return above.endswith(f".{name}") or (other.startswith("**") and name.endswith(f".{above}"))


def covers_all(denial: str, allow: str) -> bool:
    """Whether every host that the pattern ``allow`` covers is covered by ``denial``."""
    if not is_wildcard(allow):
        return denial in covering_patterns(allow)
    if denial == allow:
        return True
    name, above = suffix_of(allow), suffix_of(denial)
    return denial.startswith("**") and (name == above or name.endswith(f".{above}"))


def taken(rule: EgressRule, rules: Sequence[EgressRule | EgressDenial]) -> tuple[bool, tuple[str, ...]]:
    """Whether denials take all of an allow; and the ids of those that take a part of it."""
    parts = []
    for denial_id, denial in numbered_denials(rules):
        if denial.port in (None, rule.port) and meet(denial.host, rule.host):
            if denial.methods is None and denial.paths is None and covers_all(denial.host, rule.host):
                return True, ()
            parts.append(denial_id)
    return False, tuple(parts)


def needs_approval(approval: Approval, rule: EgressRule) -> bool:
    """Whether some request that the rule allows needs a person's approval."""
    named = rule.methods is None or not set(rule.methods).isdisjoint(approval.methods)
    return approval.everything or (bool(approval.methods) and named)


def unseen(rule: EgressRule, approval: Approval) -> Mapping[str, str]:
    """What more than the rule a target says that judges a host and a port alone, by kind."""
    more = {
        "protocol": f"a host and a port are judged, not what is sent there: {rule.scheme.value} cannot be demanded"
    }
    if rule.methods is not None or rule.paths is not None:
        more["requests"] = "methods and paths are not judged: any request would pass"
    if needs_approval(approval, rule):
        more["approval"] = "nobody can be asked first"
    return more
