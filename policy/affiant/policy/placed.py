"""Rules together with the places they were written at, which the normal form does not keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from affiant.policy.limit_words import profile_limits
from affiant.policy.limits import Limits
from affiant.policy.normal_form import Rule, arranged_rule
from affiant.policy.profile import Policy
from affiant.policy.strict_yaml import Mark, Node

__all__ = ["Sections", "limit_places", "rule_places"]

_R = TypeVar("_R", bound=Rule)


class Sections:
    """The sections of one mapping while they are read; ``places`` keeps the first place of each rule."""

    def __init__(self, found: Mapping[str, Node]) -> None:
        self.found = found
        self.places: dict[Rule, Mark] = {}

    def rules(self, name: str, read: Callable[[Node], Iterable[tuple[_R, Mark]]]) -> tuple[_R, ...]:
        """The rules of a section; none if it is absent."""
        if name not in self.found:
            return ()
        rules = []
        for rule, mark in read(self.found[name]):
            self.note(rule, mark)
            rules.append(rule)
        return tuple(rules)

    def note(self, rule: Rule, mark: Mark) -> None:
        """Keep where ``rule`` was written."""
        self.places.setdefault(arranged_rule(rule), mark)


def rule_places(policy: Policy, places: Mapping[Rule, Mark]) -> dict[str, Mark]:
    """Where each rule id of an arranged ``policy`` was written."""
    sections: Mapping[str, tuple[Rule, ...]] = {
        "tools": policy.tools,
        "filesystem": policy.filesystem,
        "egress": policy.egress,
        "secrets": policy.secrets,
        "models": policy.models or (),
    }
    return {
        f"{section}/{position}": places[rule]
        for section, rules in sections.items()
        for position, rule in enumerate(rules)
    }


def limit_places(limits: Limits, at: Mark | None) -> dict[str, Mark]:
    """Where the section of each limit of the profile begins; of limits of the floor alone, the floor's."""
    return {} if at is None else {f"limits/{name}": at for name, bounds in profile_limits(limits) if bounds}
