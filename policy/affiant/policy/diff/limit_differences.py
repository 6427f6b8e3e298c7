"""Compares the limits of two policies.

A limit of the whole profile, of a secret, and of a rule that is otherwise the same in both is compared with its own.
Rules that are in only one of the two are compared by what they let through, request by request of the atoms: such a
rule gives no more room if another let all of it through without a limit, or if one that has gone did so with the same
limit or a looser one; and what was not allowed at all before is found where requests are compared.

Where it cannot be said that there is no more room, there is: the difference *widens*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.decide import Decision, Effect
from affiant.policy.decision.effective import effective_egress
from affiant.policy.decision.limit_words import profile_limits
from affiant.policy.decision.questions import ToolQuestion
from affiant.policy.diff.atoms import Atoms
from affiant.policy.model.limits import NO_EGRESS_LIMITS, Bound, Bounds
from affiant.policy.model.profile import EgressRule, Policy, StartGrant, ToolRule
from affiant.policy.model.profile_limits import rule_limits

__all__ = ["LimitDifference", "bounds_direction", "limit_differences"]


@dataclass(frozen=True, slots=True)
class LimitDifference:
    """One limit. ``step``: 1 wider, -1 narrower, 0 neither includes the other.

    ``old`` and ``new`` are None where no such rule is; ``rule`` is the id of the rule in each policy, empty for none.
    """

    subject: str
    name: str
    step: int
    old: Bounds | None
    new: Bounds | None
    rules: tuple[str, str] = ("", "")


_Reach = frozenset[object] | None
"""The requests of the atoms that a rule lets through; None where they cannot be listed."""
_Find = Callable[[str], _Reach]
"""The reach of the rule of an id: found when it is first asked for, because most rules are in both policies."""


@dataclass(frozen=True, slots=True)
class _Limited:
    """A rule, apart from its limits, and them. ``used_up``: what one request uses is gone for the next.

    ``group``: rules of two groups let nothing through that both do.
    """

    id: str
    subject: str
    scope: object
    limits: Mapping[str, Bounds]
    find: _Find
    used_up: bool = True
    group: str = ""

    @property
    def reach(self) -> _Reach:
        return self.find(self.id)

    @property
    def unlimited(self) -> bool:
        return not any(self.limits.values())

    def covers(self, rule: _Limited) -> bool:
        """Whether it lets through all that ``rule`` does."""
        if rule.group != self.group:
            return False
        return self.reach is not None and rule.reach is not None and rule.reach <= self.reach

    def makes_up_for(self, rule: _Limited) -> bool:
        """Whether it covers ``rule``, and its limits are the same or looser."""
        return self.covers(rule) and all(
            _implied(bounds, self.limits[name]) for name, bounds in rule.limits.items()
        )


def bounds_direction(old: Bounds, new: Bounds) -> int:
    """As :attr:`LimitDifference.step`, of bounds that differ."""
    if _implied(new, old):
        return -1
    return 1 if _implied(old, new) else 0


def _implied(bounds: Bounds, others: Bounds) -> bool:
    """Whether all of ``others`` hold wherever ``bounds`` do."""
    return all(any(bound.implies(other) for bound in bounds) for other in others)


def limit_differences(old: CompiledPolicy, new: CompiledPolicy, atoms: Atoms) -> Iterator[LimitDifference]:
    """Every difference of the limits of two policies, whose requests ``atoms`` tells apart."""
    before, after = old.policy, new.policy
    pairs = zip(profile_limits(before.limits), profile_limits(after.limits), strict=True)
    for (name, was), (_, now) in pairs:
        if was != now:
            yield LimitDifference("", name, bounds_direction(was, now), was, now)
    for has_limits, collect in ((_RATES, _tools), (_MAX_TOKENS, _models), (_EGRESS, _egress)):
        if any(name in has_limits for policy in (before, after) for _, name, _ in rule_limits(policy)):
            yield from _of_rules(collect(old, atoms), collect(new, atoms))
    yield from _of_names("max_uses", _uses(before), _uses(after))
    yield from _of_names("at_most", _starts(before), _starts(after))


_Mosts = Mapping[str, tuple[str, int | None]]
"""By what a rule is for: its id, and the most that it allows in one session; None: any number."""


def _uses(policy: Policy) -> _Mosts:
    return {
        f"secret:{grant.name}": (f"secrets/{at}", grant.max_uses) for at, grant in enumerate(policy.secrets)
    }


def _starts(policy: Policy) -> _Mosts:
    return {
        f"start:{rule.agent}": (f"may_start/{at}", rule.at_most)
        for at, rule in enumerate(policy.may_start)
        if isinstance(rule, StartGrant)
    }


def _of_names(limit: str, before: _Mosts, after: _Mosts) -> Iterator[LimitDifference]:
    for name in sorted(before.keys() & after.keys()):
        rules = before[name][0], after[name][0]
        was, now = (() if most is None else (Bound(most),) for _, most in (before[name], after[name]))
        if was != now:
            yield LimitDifference(name, limit, bounds_direction(was, now), was, now, rules)


# -- rules -------------------------------------------------------------------------------------------------------------


def _of_rules(old: Sequence[_Limited], new: Sequence[_Limited]) -> Iterator[LimitDifference]:
    left_old, left_new = list(old), list(new)
    for was in old:
        same = [rule for rule in new if rule.scope == was.scope]
        if len(same) == 1 and [rule.scope for rule in old].count(was.scope) == 1:
            left_old.remove(was)
            left_new.remove(same[0])
            yield from _of_pair(was, same[0])
    for rule in _giving_room(left_new, left_old, old):
        yield from _alone(rule, 1)
    for rule in _giving_room(left_old, left_new, new):
        yield from _alone(rule, -1)


def _of_pair(was: _Limited, now: _Limited) -> Iterator[LimitDifference]:
    for name, bounds in was.limits.items():
        if bounds != now.limits[name]:
            step = bounds_direction(bounds, now.limits[name])
            yield LimitDifference(was.subject, name, step, bounds, now.limits[name], (was.id, now.id))


def _alone(rule: _Limited, step: int) -> Iterator[LimitDifference]:
    """A rule that is only in the new policy (``step`` 1), or only in the old one."""
    named = {name: bounds for name, bounds in rule.limits.items() if bounds} or dict(
        list(rule.limits.items())[:1]
    )
    for name, bounds in named.items():
        if step > 0:
            yield LimitDifference(rule.subject, name, step, None, bounds, ("", rule.id))
        else:
            yield LimitDifference(rule.subject, name, step, bounds, None, (rule.id, ""))


def _giving_room(
    rules: Sequence[_Limited], gone: Sequence[_Limited], others: Sequence[_Limited]
) -> Sequence[_Limited]:
    """Those of ``rules`` that give more room than ``others`` did.

    Args:
        gone: of ``others``, those that are not in both policies; where what is used is gone, each makes up for one.
    """
    questionable = [rule for rule in rules if not _gives_none(rule, others)]
    makers: list[_Limited | None] = [None] * len(gone)

    def place(rule: _Limited, tried: set[int]) -> bool:
        """Find a rule that makes up for ``rule``, and reassign others where that helps."""
        for at, other in enumerate(gone):
            if at not in tried and other.makes_up_for(rule):
                tried.add(at)
                taken = makers[at]
                if taken is None or not other.used_up or place(taken, tried):
                    makers[at] = rule
                    return True
        return False

    placed = [rule for rule in questionable if place(rule, set())]
    return [rule for rule in questionable if not any(rule is each for each in placed)]


def _gives_none(rule: _Limited, others: Sequence[_Limited]) -> bool:
    """Whether what ``rule`` lets through was not allowed at all, or was allowed without a limit."""
    others = [other for other in others if other.group == rule.group]
    if not others:
        return True
    if rule.reach is None:
        return False
    met = any(other.reach is None or rule.reach & other.reach for other in others)
    return not met or any(other.unlimited and other.covers(rule) for other in others)


# -- what each rule lets through ---------------------------------------------------------------------------------------

_RATES: Final = frozenset({"rate"})
_MAX_TOKENS: Final = frozenset({"max_tokens"})
_EGRESS: Final = frozenset({"requests", "bytes_out"})


def _by_rule(decided: Iterable[tuple[object, Decision]]) -> Mapping[str, frozenset[object]]:
    """The requests that each rule lets through, where nothing denies them."""
    found: dict[str, set[object]] = {}
    for request, decision in decided:
        if decision.effect is not Effect.DENY:
            for rule in decision.rules:
                found.setdefault(rule, set()).add(request)
    return {rule: frozenset(requests) for rule, requests in found.items()}


def _tools(compiled: CompiledPolicy, atoms: Atoms) -> Sequence[_Limited]:
    names = {f"tools/{at}": rule.name for at, rule in enumerate(compiled.policy.tools)}

    @cache
    def origins() -> Mapping[str, list[ToolQuestion]]:
        found: dict[str, list[ToolQuestion]] = {}
        for tool in atoms.tools():
            found.setdefault(tool.name, []).append(tool)
        return found

    @cache
    def of_tool(name: str) -> Mapping[str, frozenset[object]] | None:
        decided: list[tuple[object, Decision]] = []
        for tool in origins()[name]:
            calls = atoms.calls(tool.name, tool.origin)
            if calls is None:
                return None
            listed = list(calls)
            decided += [
                (call, compiled.decide_call(call.name, call.arguments or "", call.origin)) for call in listed
            ]
            if not listed:
                decided.append((tool, compiled.decide_tool(tool.name, tool.origin)))
        return _by_rule(decided)

    def find(rule_id: str) -> _Reach:
        reach = of_tool(names[rule_id])
        return None if reach is None else reach.get(rule_id, frozenset())

    return [
        _Limited(
            f"tools/{at}",
            f"tool:{rule.name}",
            replace(rule, rate=()),
            {"rate": rule.rate},
            find,
            group=rule.name,
        )
        for at, rule in enumerate(compiled.policy.tools)
        if isinstance(rule, ToolRule)
    ]


def _models(compiled: CompiledPolicy, atoms: Atoms) -> Sequence[_Limited]:
    asked = [(question.name, attested) for question, attested in atoms.models()]
    if compiled.policy.models is None:
        any_model = frozenset[object](asked)
        return [_Limited("", "any model", None, {"max_tokens": ()}, lambda _: any_model, used_up=False)]
    reach = _by_rule(((name, at), compiled.decide_model(name, attested=at)) for name, at in asked)
    return [
        _Limited(
            f"models/{at}",
            f"model:{rule.name}",
            replace(rule, max_tokens=None),
            {"max_tokens": () if rule.max_tokens is None else (Bound(rule.max_tokens),)},
            lambda rule_id: reach.get(rule_id, frozenset()),
            used_up=False,
        )
        for at, rule in enumerate(compiled.policy.models)
    ]


def _egress(compiled: CompiledPolicy, atoms: Atoms) -> Sequence[_Limited]:
    @cache
    def reach() -> Mapping[str, frozenset[object]]:
        asked = (*atoms.connections(), *atoms.requests())
        return _by_rule((question, effective_egress(compiled, question)) for question in asked)

    return [
        _Limited(
            f"egress/{at}",
            f"{rule.scheme.value}://{rule.host}:{rule.port}",
            replace(rule, limits=NO_EGRESS_LIMITS),
            {"requests": rule.limits.requests, "bytes_out": rule.limits.bytes_out},
            lambda rule_id: reach().get(rule_id, frozenset()),
        )
        for at, rule in enumerate(compiled.policy.egress)
        if isinstance(rule, EgressRule)
    ]
