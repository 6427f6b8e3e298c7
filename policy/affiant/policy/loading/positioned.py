"""Keeps rules together with their places in the file, which the normal form does not have."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from affiant.policy.canonical.errors import PolicyConflict, located
from affiant.policy.canonical.strict_yaml import ListNode, MapNode, Mark, Node, ScalarNode
from affiant.policy.decision.limit_words import profile_limits
from affiant.policy.model.limits import Limits
from affiant.policy.model.profile import (
    EgressRule,
    Policy,
    PortDenial,
    PortGrant,
    Rule,
    SecretGrant,
    StartGrant,
    check_entries,
)
from affiant.policy.normal_form.digest import arranged_rule
from affiant.policy.normal_form.schema import at_member

__all__ = ["Sections", "at_approval", "entry_mark", "limit_places", "rule_places"]

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
        with located(self.found[name].mark):
            check_entries(rules)
        return tuple(rules)

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Give every conflict of two rules inside the place of the one that it is about."""
        try:
            yield
        except PolicyConflict as error:
            if error.where is None and isinstance(error.rule, (EgressRule, SecretGrant, StartGrant)):
                error.where = str(self.places[arranged_rule(error.rule)])
            raise

    def note(self, rule: Rule, mark: Mark) -> None:
        """Keep where ``rule`` was written."""
        self.places.setdefault(arranged_rule(rule), mark)


def rule_places(policy: Policy, places: Mapping[Rule, Mark]) -> dict[str, Mark]:
    """Where each rule id of an arranged ``policy`` was written."""
    known = {**places, **_port_places(policy.ports, places)}
    return {rule_id: known[rule] for rule_id, rule in policy.rules.items()}


def _port_places(rules: Sequence[PortGrant | PortDenial], places: Mapping[Rule, Mark]) -> dict[Rule, Mark]:
    """Where the first of the ranges was written that were joined into each of ``rules``."""
    found: dict[Rule, Mark] = {}
    for kind in (PortGrant, PortDenial):
        joined = sorted((rule for rule in rules if isinstance(rule, kind)), key=_first)
        for part, mark in places.items():
            if isinstance(part, kind):
                found.setdefault(joined[bisect(joined, part.first, key=_first) - 1], mark)
    return found


def _first(rule: PortGrant | PortDenial) -> int:
    return rule.first


def limit_places(limits: Limits, at: Mark | None) -> dict[str, Mark]:
    """Where the section of each limit begins, in the profile or else in the baseline policy."""
    return {} if at is None else {f"limits/{name}": at for name, bounds in profile_limits(limits) if bounds}


def entry_mark(node: Node, key: str, text: str) -> Mark:
    """Where ``text`` is in the list under ``key`` of a mapping; where the list begins if it does not."""
    entries = _values(node).get(key, node)
    listed = entries.items if isinstance(entries, ListNode) else ()
    same = (each.mark for each in listed if isinstance(each, ScalarNode) and each.text == text)
    return next(same, entries.mark)


@contextmanager
def at_approval(node: Node | None) -> Iterator[None]:
    """Give a conflict with the baseline policy the place of the profile's own words about approval, if it has any."""
    if node is None:
        yield
        return
    said = _values(node)
    said.setdefault("quorum", said.get("approvers", node))  # the baseline policy's: too few are named for it
    try:
        with located(node.mark), at_member(said, node):
            yield
    except PolicyConflict as error:
        if error.key == "approvers":
            error.where = str(entry_mark(node, "approvers", str(error.found)))
        raise


def _values(node: Node) -> dict[str, Node]:
    members = node.members if isinstance(node, MapNode) else ()
    return {member.key.text: member.value for member in members}
