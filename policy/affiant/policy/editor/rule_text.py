"""Writes rules as one line of YAML each; the strict reader reads them back as the same rules."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, assert_never

from affiant.policy.decision.limit_words import size_words
from affiant.policy.model.arguments import AnyValue, Argument
from affiant.policy.model.limits import NO_LIMITS, WINDOWS, Bound, Bounds, EgressLimits, Limits
from affiant.policy.model.profile import (
    Approval,
    Approver,
    EgressDenial,
    EgressRule,
    Endpoint,
    Injection,
    ModelRule,
    PathGrant,
    Policy,
    PortDenial,
    PortGrant,
    ProviderTool,
    ProviderToolDenial,
    Resources,
    Rule,
    Scheme,
    SecretGrant,
    StartDenial,
    StartGrant,
    TLSMode,
    ToolDenial,
    ToolRule,
)
from affiant.policy.normal_form.argument_members import constraint_members
from affiant.policy.normal_form.digest import inject_members
from affiant.policy.rendering.terminal import middle_cut

__all__ = [
    "approval_text",
    "brief_rule_text",
    "egress_members",
    "flow",
    "limits_text",
    "resources_text",
    "rule_text",
    "texts_by_id",
]

_PLAIN: Final = re.compile(r"[A-Za-z/_](?:[A-Za-z0-9_./-]*[A-Za-z0-9_/-])?(?:/\*\*)?\Z")
_WORDS: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
"""What some reader of YAML takes for something other than text."""


def flow(value: object) -> str:
    """Text, numbers, truth values, lists and mappings of them, on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, _Verbatim):
        return str(value)
    if isinstance(value, str):
        plain = _PLAIN.match(value) is not None and value.lower() not in _WORDS
        return value if plain else json.dumps(value, ensure_ascii=not value.isprintable())
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(name)}: {flow(each)}" for name, each in value.items()) + "}"
    assert isinstance(value, Iterable), type(value)
    return "[" + ", ".join(flow(each) for each in value) + "]"


def texts_by_id(policy: Policy) -> Callable[[str], str]:
    """For the id of a rule of an arranged ``policy``, or of a limit, what a profile says there."""
    rules = policy.rules

    def text(rule: str) -> str:
        section, _, name = rule.partition("/")
        if section == "limits":
            return limits_text(replace(NO_LIMITS, **{name: getattr(policy.limits, name)}))
        return rule_text(rules[rule])

    return text


def rule_text(rule: Rule) -> str:
    """``rule`` as an entry of its section."""
    return flow(_members(rule))


def brief_rule_text(rule: Rule, *, most: int) -> str:
    """:func:`rule_text` in about ``most`` characters: parts of long lists and texts are left out, visibly.

    So every argument and every member is named, however long another is.
    """
    members = _members(rule)
    shown = flow(members)
    for entries, characters in ((32, 160), (8, 80), (2, 40)):
        if len(shown) > most:
            shown = flow(_brief(members, entries, characters))
    return shown


def _brief(value: object, entries: int, characters: int) -> object:
    if isinstance(value, str):
        return middle_cut(value, most=characters)
    if isinstance(value, Mapping):
        return {name: _brief(each, entries, characters) for name, each in value.items()}
    if not isinstance(value, (list, tuple)):
        return value
    more = len(value) - entries
    shown = [_brief(each, entries, characters) for each in value[:entries]]
    return shown + ([_Verbatim(f"... and {more} more")] if more > 0 else [])


class _Verbatim(str):
    """A note among values, which is none: it is written without quotes."""

    __slots__ = ()


def _members(rule: Rule) -> object:
    match rule:
        case ToolRule():
            members = _tool(rule)
            return rule.name if len(members) == 1 else members
        case ProviderTool(name):
            return name
        case ToolDenial(name) | ProviderToolDenial(name) | StartDenial(name):
            return {"deny": name}
        case StartGrant(agent, most):
            return agent if most is None else {"agent": agent, "at_most": most}
        case PortGrant() | PortDenial():
            ports = _Verbatim(rule.text)
            return ports if isinstance(rule, PortGrant) else {"deny": ports}
        case PathGrant(path, mode):
            return {"path": path, "mode": mode.value}
        case EgressRule():
            return egress_members(rule)
        case EgressDenial():
            return _written(deny=rule.host, port=rule.port, methods=rule.methods, paths=rule.paths)
        case SecretGrant():
            return _secret(rule)
        case ModelRule(name, attested, most):
            model = _written(name=name, upstream="attested" if attested else None, max_tokens=most)
            return name if len(model) == 1 else model
        case _:
            assert_never(rule)


def egress_members(rule: EgressRule) -> dict[str, object]:
    """The members of a rule for a host; what is the default is left out."""
    standard = 443 if rule.scheme is Scheme.HTTPS else 80
    return _written(
        host=rule.host,
        port=None if rule.port == standard else rule.port,
        scheme=None if rule.scheme is Scheme.HTTPS else rule.scheme.value,
        tls=None if rule.tls is TLSMode.INSPECT else rule.tls.value,
        address=rule.address or None,
        methods=rule.methods,
        paths=rule.paths,
        limits=_egress_limits(rule.limits) or None,
    )


def limits_text(limits: Limits) -> str:
    """``limits`` of a profile, each that there is."""
    members = {name: _bounds(getattr(limits, name)) for name in ("tool_calls", "requests", "tokens")}
    members["bytes_out"] = _bounds(limits.bytes_out, size_words)
    members["wall"] = None if limits.wall is None else f"{limits.wall}s"
    return flow(_written(**members))


def _approver(approver: Approver) -> object:
    if isinstance(approver, str):
        return approver
    return {"issuer": approver.issuer, "subject": approver.subject}


def approval_text(approval: Approval) -> str:
    """``requires_human_approval``, without the tools, which say it themselves."""
    named = bool(approval.approvers)
    members = _written(
        everything=approval.everything or None,
        egress=approval.methods or None,
        approvers=[_approver(each) for each in approval.approvers] or None,
        trusted_root=approval.trusted_root or None,
        quorum=approval.quorum if named else None,
        ttl=f"{approval.ttl}s" if named else None,
    )
    return "true" if members == {"everything": True} else flow(members)


def resources_text(resources: Resources) -> str:
    """``resources``, each bound that there is."""
    sizes = {"memory": resources.memory, "disk": resources.disk}
    shown = {name: None if size is None else size_words(size) for name, size in sizes.items()}
    return flow(_written(cpus=resources.cpus, pids=resources.pids, **shown))


def _written(**members: object) -> dict[str, object]:
    return {name: value for name, value in members.items() if value is not None}


def _tool(rule: ToolRule) -> dict[str, object]:
    return _written(
        name=rule.name,
        server=rule.server,
        schema=rule.schema,
        approval=rule.approval or None,
        rate=_bounds(rule.rate),
        args=None if rule.arguments is None else {each.name: _argument(each) for each in rule.arguments},
    )


def _argument(argument: Argument) -> object:
    if isinstance(argument.constraint, AnyValue):
        return {"optional": True} if argument.optional else "any"
    return {
        **_short(constraint_members(argument.constraint)),
        **({"optional": True} if argument.optional else {}),
    }


def _short(members: Mapping[str, object]) -> dict[str, object]:
    """Members of the normal form without those that say nothing."""
    return {
        name: _short(value) if isinstance(value, Mapping) else value
        for name, value in members.items()
        if value is not None and value is not False
    }


def _secret(grant: SecretGrant) -> dict[str, object]:
    return _written(
        name=grant.name,
        ref=grant.ref,
        hosts=[_endpoint(each) for each in grant.hosts],
        inject=None if grant.inject == Injection() else _short(inject_members(grant.inject)),
        shape=grant.shape,
        max_uses=grant.max_uses,
    )


def _egress_limits(limits: EgressLimits) -> dict[str, object]:
    return _written(requests=_bounds(limits.requests), bytes_out=_bounds(limits.bytes_out, size_words))


def _bounds(bounds: Bounds, amount: Callable[[int], object] = int) -> object:
    """One bound, or a list of several; None for none."""
    found = [_bound(each, amount(each.most)) for each in bounds]
    return found[0] if len(found) == 1 else found or None


def _bound(bound: Bound, amount: object) -> object:
    if bound.per is None:
        return amount
    return f"{amount}/{next(name for name, length in WINDOWS.items() if length == bound.per)}"


def _endpoint(endpoint: Endpoint) -> str:
    return endpoint.host if endpoint.port == 443 else f"{endpoint.host}:{endpoint.port}"
