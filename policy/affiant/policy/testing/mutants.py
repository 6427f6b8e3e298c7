"""Makes policies that are wrong in one place each, as a slip of a profile's author would make them.

Each rule is dropped. Each allow is also loosened: any arguments, any value of one, any server or definition, any
method, any path, any port; an exact path becomes its subtree too, an exact host every name beside it; read becomes
read-write; approval is no longer needed; a model need not be attested; a secret goes to every https host of the
profile. What no profile may say is no mutant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from affiant.errors import ConfigurationError, MalformedError
from affiant.policy.canonical.hosts import is_canonical_host, is_wildcard
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.questions import EgressQuestion, Question, SecretQuestion
from affiant.policy.loading.sections import https_endpoints
from affiant.policy.model.arguments import AnyValue
from affiant.policy.model.profile import (
    Approval,
    EgressRule,
    Endpoint,
    ModelRule,
    PathGrant,
    PathMode,
    Policy,
    PortGrant,
    Rule,
    SecretGrant,
    TLSMode,
    ToolRule,
)

__all__ = ["Mutant", "mutants_of", "mutated"]

_OTHER_PORT: Final = 8443
"""Of any port: this one, and those that tests ask for."""
_MAX_SECRET_HOSTS: Final = 64
_MAX_PORT: Final = 65535

_Change = tuple[str, Callable[[], tuple[Rule, ...]]]
"""In words, and the rules that are then there; making them refuses what no rule may say."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one policy.

    Args:
        rule: the id of the rule that is changed; None for what is no rule (approval, any model).
        section: the member of ``Policy`` that is changed.
        change: in words.
        put: what takes the rule's place: nothing, or other rules.
        approval: in the place of the profile's.
    """

    rule: str | None
    section: str
    change: str
    put: tuple[Rule, ...] = ()
    approval: Approval | None = None


def mutants_of(policy: CompiledPolicy, asked: Sequence[Question]) -> Iterator[Mutant]:
    """Every mutant of a policy, in the order of its rules.

    Args:
        asked: what the tests ask: of the ports and hosts that a looser rule would reach, those are enough.
    """
    ports = _ports(asked)
    endpoints = _endpoints(policy, asked)
    for name, rule in policy.policy.rules.items():
        section = name.partition("/")[0]
        yield Mutant(name, section, "dropped")
        for change, put in _legal(_loosened(rule, ports, endpoints)):
            yield Mutant(name, section, change, put)
    approval = policy.policy.approval
    if approval.everything:
        yield Mutant(None, "approval", "nothing needs approval", approval=replace(approval, everything=False))
    for method in approval.methods:
        rest = tuple(other for other in approval.methods if other != method)
        yield Mutant(
            None, "approval", f"{method} needs no approval", approval=replace(approval, methods=rest)
        )
    if policy.policy.models is not None:
        yield Mutant(None, "models", "any model may be called")


def mutated(policy: Policy, mutant: Mutant) -> Policy | None:
    """``policy`` with that change; None where no profile may say so."""
    try:
        if mutant.approval is not None:
            return replace(policy, approval=mutant.approval)
        if mutant.rule is None:
            return replace(policy, models=None)
        position = int(mutant.rule.rpartition("/")[2])
        rules = getattr(policy, mutant.section)
        changed: dict[str, Any] = {mutant.section: (*rules[:position], *mutant.put, *rules[position + 1 :])}
        return replace(policy, **changed)
    except (MalformedError, ConfigurationError):
        return None


def _legal(changes: Iterable[_Change]) -> Iterator[tuple[str, tuple[Rule, ...]]]:
    for change, make in changes:
        try:
            yield change, make()
        except (MalformedError, ConfigurationError):
            continue


def _loosened(rule: Rule, ports: Sequence[int], endpoints: Sequence[Endpoint]) -> Iterator[_Change]:
    match rule:
        case ToolRule():
            yield from _loosened_tool(rule)
        case PathGrant(mode=PathMode.READ):
            yield "read becomes read-write", partial(_with, rule, mode=PathMode.READ_WRITE)
        case EgressRule():
            yield from _loosened_egress(rule, ports)
        case SecretGrant():
            more = [endpoint for endpoint in endpoints if endpoint not in rule.hosts]
            hosts = (*rule.hosts, *more)[:_MAX_SECRET_HOSTS]
            if len(hosts) > len(rule.hosts):
                yield "at every https host of the profile", partial(_with, rule, hosts=hosts)
        case PortGrant():
            yield "any port", partial(_with, rule, first=1, last=_MAX_PORT)
        case ModelRule(attested=True):
            yield "at any upstream", partial(_with, rule, attested=False)
        case _:  # a denial, or an allow with nothing to loosen
            return


def _loosened_tool(rule: ToolRule) -> Iterator[_Change]:
    if rule.approval:
        yield "without approval", partial(_with, rule, approval=False)
    if rule.arguments is not None:
        yield "any arguments", partial(_with, rule, arguments=None)
    if rule.server is not None:
        yield "at any server", partial(_with, rule, server=None)
    if rule.schema is not None:
        yield "with any definition", partial(_with, rule, schema=None)
    for position, argument in enumerate(rule.arguments or ()):
        if not isinstance(argument.constraint, AnyValue):
            others = (rule.arguments or ())[:position], (rule.arguments or ())[position + 1 :]
            looser = (*others[0], replace(argument, constraint=AnyValue()), *others[1])
            yield f"any value of '{argument.name}'", partial(_with, rule, arguments=looser)


def _with(rule: Rule, **members: Any) -> tuple[Rule, ...]:
    return (replace(rule, **members),)


def _loosened_egress(rule: EgressRule, ports: Sequence[int]) -> Iterator[_Change]:
    if rule.methods is not None:
        yield "any method", partial(_with, rule, methods=None)
    if rule.paths is not None:
        yield "any path", partial(_with, rule, paths=None)
        yield from _with_subtrees(rule, rule.paths)
    parent = rule.host.partition(".")[2]
    if not is_wildcard(rule.host) and parent:
        yield f"every name under {parent}", partial(_with, rule, host=f"*.{parent}")
    others = [port for port in ports if port != rule.port]
    yield "any port", lambda: (rule, *(replace(rule, port=port) for port in others))


def _with_subtrees(rule: EgressRule, paths: tuple[str, ...]) -> Iterator[_Change]:
    for path in paths:
        subtree = f"{path.rstrip('/')}/**"
        if not path.endswith("/**") and subtree not in paths:
            yield f"all below {path}", partial(_with, rule, paths=(*paths, subtree))


def _ports(asked: Iterable[Question]) -> Sequence[int]:
    found = {question.port for question in asked if isinstance(question, EgressQuestion)}
    return sorted({port for port in found if 1 <= port <= 65535} | {_OTHER_PORT, _OTHER_PORT + 1})


def _endpoints(policy: CompiledPolicy, asked: Iterable[Question]) -> Sequence[Endpoint]:
    """Where a secret could go too: the hosts that tests ask for come first, because there is a bound."""
    uses = [question for question in asked if isinstance(question, SecretQuestion)]
    hosts = [Endpoint(use.host, use.port) for use in uses if is_canonical_host(use.host)]
    hosts += https_endpoints(policy.policy.egress)
    return [
        endpoint
        for endpoint in dict.fromkeys(hosts)
        if 1 <= endpoint.port <= 65535 and policy.tls_mode(*endpoint) is TLSMode.INSPECT
    ]
