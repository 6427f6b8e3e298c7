"""Finds the calls of tools that a policy allows: each rule that some call fits, with one such call.

Arguments are judged one by one, so a rule has a call if each argument that must be there has a value which the
constraint allows, and the planes of files and hosts too. A call that fits several rules needs approval if one of them
asks for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from affiant.policy.canonical.hosts import covering_patterns
from affiant.policy.canonical.paths import covers
from affiant.policy.canonical.tool_origin import ANY, ANYWHERE, Origin
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.questions import ToolQuestion
from affiant.policy.diff.atoms import Atoms
from affiant.policy.model.arguments import (
    AnyValue,
    Argument,
    Argv,
    Constraint,
    Each,
    Host,
    Number,
    OneOf,
    Pattern,
    Text,
    Under,
)
from affiant.policy.model.limits import Bounds
from affiant.policy.model.profile import PathMode, Policy, ToolRule

__all__ = ["ToolAuthority", "tools_of"]

_NONE: Final = object()


@dataclass(frozen=True, slots=True)
class ToolAuthority:
    """What one rule says of a tool. ``arguments``: all that it may be called with; None: any.

    ``origin`` is where the rule wants it from, ``beside`` one of those that no other rule names, where others say
    more. ``effect`` is *deny* for a tool that a rule denies whatever else allows
    it, and for a rule that no call fits, because no path or host that an argument may name is allowed: the second has
    ``vain``. ``sample`` is the JSON text of the arguments of one call; None where every call may be made, or none.
    ``rate`` bounds the calls that the rule lets through.
    """

    name: str
    arguments: tuple[Argument, ...] | None
    effect: Effect
    rules: tuple[str, ...]
    sample: str | None = None
    vain: bool = False
    origin: Origin = ANYWHERE
    beside: Origin | None = None
    rate: Bounds = ()

    @property
    def question(self) -> ToolQuestion:
        """The sample as a request."""
        return ToolQuestion(self.name, self.sample, self.beside or self.origin)


def tools_of(compiled: CompiledPolicy) -> Iterator[ToolAuthority]:
    """Every rule for tools, by their names; for a denied tool its denials alone.

    Args:
        compiled: with ``asks``.
    """
    rules = [(f"tools/{position}", rule) for position, rule in enumerate(compiled.policy.tools)]
    seen: set[str] = set()
    for rule_id, rule in sorted(rules, key=lambda each: each[1].name):
        decision = compiled.decide_tool(rule.name, ANYWHERE)
        if decision.effect is Effect.DENY:
            if rule.name not in seen:
                yield ToolAuthority(rule.name, None, Effect.DENY, decision.rules)
        elif isinstance(rule, ToolRule):
            effect = Effect.ASK if _always_asks(compiled.policy, rule) else Effect.ALLOW
            sample = None if rule.arguments is None else _call(compiled, rule.arguments)
            vain = rule.arguments is not None and sample is None
            origin = Origin(rule.server or ANY, rule.schema or ANY)
            asked = compiled.decide_tool(rule.name, origin).effect is Effect.ASK
            yield ToolAuthority(
                rule.name,
                rule.arguments,
                Effect.DENY if vain else effect,
                (rule_id,),
                sample,
                vain,
                origin,
                _beside(compiled.policy, rule) if asked and effect is Effect.ALLOW else None,
                rule.rate,
            )
        seen.add(rule.name)


def _beside(policy: Policy, rule: ToolRule) -> Origin:
    """An origin that the rule allows, and no other rule names."""
    others = [each for each in policy.tools if isinstance(each, ToolRule) and each.name == rule.name]
    servers = {each.server for each in others}
    pins = {each.schema for each in others}
    free = (f"other-{number}" for number in range(len(others) + 1))
    fresh = (f"sha256:{number:064x}" for number in range(len(others) + 1))
    return Origin(
        rule.server or next(name for name in free if name not in servers),
        rule.schema or next(digest for digest in fresh if digest not in pins),
    )


def _always_asks(policy: Policy, rule: ToolRule) -> bool:
    """Whether each call that fits ``rule`` needs approval: by it, or by a rule that says no more of calls."""
    return policy.approval.everything or any(
        other.approval
        and other.name == rule.name
        and other.arguments in (None, rule.arguments)
        and other.server in (None, rule.server)
        and other.schema in (None, rule.schema)
        for other in policy.tools
        if isinstance(other, ToolRule)
    )


def _call(compiled: CompiledPolicy, arguments: Sequence[Argument]) -> str | None:
    """The arguments that must be there, each with a value that passes; None if one has no such value."""
    values = {
        argument.name: _value(compiled, argument.constraint)
        for argument in arguments
        if not argument.optional
    }
    return None if _NONE in values.values() else json.dumps(values, sort_keys=True)


def _value(compiled: CompiledPolicy, constraint: Constraint) -> object:
    match constraint:
        case AnyValue() | Text():
            return ""
        case OneOf(values):
            return values[0]
        case Pattern():
            return constraint.automaton.shortest
        case Number(least, most):
            return least if least is not None else most
        case Argv(lists):
            return list(lists[0])
        case Each():
            return []
        case Under(path, write):
            return _path(compiled, path, PathMode.READ_WRITE if write else PathMode.READ)
        case Host(pattern):
            return _host(compiled, pattern)
        case _:
            assert_never(constraint)


def _path(compiled: CompiledPolicy, path: str, mode: PathMode) -> object:
    """A path is treated as the nearest rule above it is: so that path itself, or one of a rule below, passes if any."""
    below = [grant.path for grant in compiled.policy.filesystem if covers(path, grant.path)]
    passing = (each for each in (path, *below) if compiled.decide_path(each, mode).effect is Effect.ALLOW)
    return next(passing, _NONE)


def _host(compiled: CompiledPolicy, pattern: str) -> object:
    hosts = (host for host in Atoms(compiled.policy).hosts() if pattern in covering_patterns(host))
    passing = (
        host
        for host in hosts
        if compiled.decide_egress(host=host, port=443, scheme="https").effect is not Effect.DENY
    )
    return next(passing, _NONE)
