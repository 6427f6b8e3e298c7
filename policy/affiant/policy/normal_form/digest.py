"""Writes the normal form of a policy, one sequence of bytes for one meaning, and computes its digest.

RFC 8785 JSON of a policy with every short form expanded, every default written out, every list sorted and
without repetitions, paths and hosts canonical, the baseline policy merged in; no name of an agent, no place in a file.
The digest is ``SHA-384("affiant.policy/1\\n" || bytes)``. ``FORMAT.md`` specifies the members.

``normal_form_reader.py`` reads exactly these bytes back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeVar

from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.signatures.approvers.identities import ApproverIdentity
from affiant.policy.canonical.errors import PolicyConflict
from affiant.policy.model.limits import NO_LIMITS, Bounds, EgressLimits, Limits, tightest
from affiant.policy.model.profile import (
    Approval,
    Approver,
    EgressDenial,
    EgressRule,
    Injection,
    ModelRule,
    PathGrant,
    Policy,
    PortDenial,
    PortGrant,
    ProviderTool,
    ProviderToolDenial,
    Rule,
    SecretGrant,
    StartDenial,
    StartGrant,
    ToolDenial,
    ToolRule,
    joined_ports,
)
from affiant.policy.model.share import share_members
from affiant.policy.normal_form.argument_members import argument_members, arranged_argument

__all__ = [
    "SEMANTICS",
    "arranged",
    "arranged_form",
    "arranged_rule",
    "bounds_members",
    "floor_digest",
    "holds_floor",
    "inject_members",
    "normal_form",
    "policy_digest",
    "set_digest",
]

SEMANTICS: Final = "affiant.policy/1"
"""The version of the meaning; it is inside the bytes and in front of them."""

_R = TypeVar("_R", bound=Rule)
_JSON = dict[str, object]


def normal_form(policy: Policy) -> bytes:
    """The RFC 8785 bytes of ``policy``."""
    return arranged_form(arranged(policy))


def arranged_form(policy: Policy) -> bytes:
    """:func:`normal_form` of a policy that :func:`arranged` returned."""
    resources = policy.resources
    members = {
        "approval": canonical(_approval_members(policy.approval)),
        "egress": _list_bytes(policy.egress),
        "filesystem": _list_bytes(policy.filesystem),
        "floor": canonical(policy.floor),
        **({} if policy.limits == NO_LIMITS else {"limits": canonical(_limits(policy.limits))}),
        **({"may_start": _list_bytes(policy.may_start)} if policy.may_start else {}),
        "models": b"null" if policy.models is None else _list_bytes(policy.models),
        **({"ports": _list_bytes(policy.ports)} if policy.ports else {}),
        **({"provider_tools": _list_bytes(policy.provider_tools)} if policy.provider_tools else {}),
        "resources": canonical(
            {
                "cpus": resources.cpus,
                "disk": resources.disk,
                "memory": resources.memory,
                "pids": resources.pids,
            }
        ),
        "secrets": _list_bytes(policy.secrets),
        **{name: canonical(value) for name, value in share_members(policy.share).items()},
        "semantics": canonical(SEMANTICS),
        "tools": _list_bytes(policy.tools),
    }
    return (
        b"{"
        + b",".join(b'"%b":%b' % (name.encode("ascii"), members[name]) for name in sorted(members))
        + b"}"
    )


def _list_bytes(rules: Sequence[Rule]) -> bytes:
    return b"[" + b",".join(map(_rule_bytes, rules)) + b"]"


@lru_cache(maxsize=1 << 14)
def _rule_bytes(rule: Rule) -> bytes:
    """The RFC 8785 bytes of one rule: its place in a list, and a part of the form. Profiles of a file share many."""
    return canonical(_members(rule))


def policy_digest(form: bytes) -> str:
    """``sha384:<96 hex>`` of a normal form's bytes."""
    return "sha384:" + hashlib.sha384(SEMANTICS.encode("ascii") + b"\n" + form).hexdigest()


def floor_digest(floor: Policy) -> str:
    """``sha384:<96 hex>`` of a baseline policy."""
    return "sha384:" + hashlib.sha384(b"affiant.policy-floor/1\n" + normal_form(floor)).hexdigest()


def holds_floor(policy: Policy, floor: Policy) -> bool:
    """Whether a baseline policy is merged into ``policy``: it has its digest, and merging it again changes nothing."""
    digest = floor_digest(floor)
    try:
        again = policy.merged(floor, digest)
    except PolicyConflict:
        return False
    return policy.floor == digest and normal_form(again) == normal_form(policy)


def set_digest(digests: Mapping[str, str]) -> str:
    """The digest of a file: of its profiles' names and digests, so that one profile can be shown alone."""
    return policy_digest(canonical({"profiles": digests, "semantics": SEMANTICS}))


def arranged(policy: Policy) -> Policy:
    """``policy`` with every list in the order of the normal form and without repetitions."""
    return Policy(
        tools=_arranged([_arranged_tool(rule) for rule in policy.tools]),
        filesystem=_arranged(policy.filesystem),
        egress=_arranged([_arranged_egress(rule) for rule in policy.egress]),
        secrets=_arranged([_arranged_secret(rule) for rule in policy.secrets]),
        models=None if policy.models is None else _arranged(policy.models),
        approval=_arranged_approval(policy.approval),
        resources=policy.resources,
        floor=policy.floor,
        limits=policy.limits.arranged(),
        share=policy.share,
        provider_tools=_arranged(policy.provider_tools),
        ports=_arranged(joined_ports(policy.ports)),
        may_start=_arranged(policy.may_start),
    )


def arranged_rule(rule: Rule) -> Rule:
    """``rule`` with its own lists in order: as it is in the normal form."""
    match rule:
        case ToolRule():
            return _arranged_tool(rule)
        case EgressRule() | EgressDenial():
            return _arranged_egress(rule)
        case SecretGrant():
            return _arranged_secret(rule)
        case _:
            return rule


def _arranged(rules: Sequence[_R]) -> tuple[_R, ...]:
    if len(rules) <= 1:
        return tuple(rules)
    return tuple(sorted(set(rules), key=_rule_bytes))


def _arranged_approval(approval: Approval) -> Approval:
    methods = tuple(sorted(set(approval.methods)))
    if not approval.approvers:
        return Approval(approval.everything, methods)
    approvers = tuple(sorted(set(approval.approvers), key=_approver_order))
    return replace(approval, methods=methods, approvers=approvers)


def _approver_order(approver: Approver) -> tuple[str, ...]:
    """Keys, then identities by issuer and subject: no thumbprint is empty."""
    return (approver,) if isinstance(approver, str) else ("~", approver.issuer, approver.subject)


def _arranged_tool(rule: ToolRule | ToolDenial) -> ToolRule | ToolDenial:
    if isinstance(rule, ToolDenial) or (rule.arguments is None and not rule.rate):
        return rule
    arguments = rule.arguments
    if arguments is not None:
        arguments = tuple(sorted(map(arranged_argument, arguments), key=lambda argument: argument.name))
    rate = tightest(rule.rate)
    if (arguments, rate) == (rule.arguments, rule.rate):
        return rule
    return replace(rule, arguments=arguments, rate=rate)


def _arranged_egress(rule: EgressRule | EgressDenial) -> EgressRule | EgressDenial:
    methods, paths = _texts(rule.methods), _texts(rule.paths)
    if isinstance(rule, EgressDenial):
        if (methods, paths) == (rule.methods, rule.paths):
            return rule
        return EgressDenial(rule.host, rule.port, methods, paths)
    address = tuple(sorted(set(rule.address)))
    limits = rule.limits.arranged()
    if (methods, paths, address, limits) == (rule.methods, rule.paths, rule.address, rule.limits):
        return rule
    return replace(rule, methods=methods, paths=paths, address=address, limits=limits)


def _arranged_secret(rule: SecretGrant) -> SecretGrant:
    hosts = tuple(sorted(set(rule.hosts)))
    return rule if hosts == rule.hosts else replace(rule, hosts=hosts)


def _texts(values: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(sorted(set(values)))


def _approval_members(approval: Approval) -> _JSON:
    """Approvers are a member only if there are any, and identities only if there are any: other digests stay as they
    were.
    """
    members: _JSON = {"everything": approval.everything, "methods": approval.methods}
    if not approval.approvers:
        return members
    keys = [each for each in approval.approvers if isinstance(each, str)]
    members |= {"approvers": keys, "quorum": approval.quorum, "ttl": approval.ttl}
    if not approval.trusted_root:
        return members
    identities = [
        {"issuer": each.issuer, "subject": each.subject}
        for each in approval.approvers
        if isinstance(each, ApproverIdentity)
    ]
    return members | {"identities": identities, "trusted_root": json.loads(approval.trusted_root)}


def _members(rule: Rule) -> _JSON:
    match rule:
        case ToolRule():
            arguments = {} if rule.arguments is None else {"args": argument_members(rule.arguments)}
            return {
                "approval": rule.approval,
                **arguments,
                "effect": "allow",
                "name": rule.name,
                **_where_written("rate", bounds_members(rule.rate)),
                **_where_written("schema", rule.schema),
                **_where_written("server", rule.server),
            }
        case ToolDenial() | ProviderToolDenial():
            return {"effect": "deny", "name": rule.name}
        case ProviderTool():
            return {"effect": "allow", "name": rule.name}
        case PathGrant():
            return {"mode": rule.mode.value, "path": rule.path}
        case EgressRule():
            return {
                "address": rule.address,
                "effect": "allow",
                "host": rule.host,
                **_where_written("limits", _egress_limits(rule.limits)),
                "methods": rule.methods,
                "paths": rule.paths,
                "port": rule.port,
                "scheme": rule.scheme.value,
                "tls": rule.tls.value,
            }
        case EgressDenial():
            return {
                "effect": "deny",
                "host": rule.host,
                "methods": rule.methods,
                "paths": rule.paths,
                "port": rule.port,
            }
        case SecretGrant():
            return {
                "hosts": [{"host": host, "port": port} for host, port in rule.hosts],
                "inject": inject_members(rule.inject),
                **_where_written("max_uses", rule.max_uses),
                "name": rule.name,
                "ref": rule.ref,
                "shape": rule.shape,
            }
        case ModelRule():
            most = _where_written("max_tokens", rule.max_tokens)
            return {"attested": rule.attested, **most, "name": rule.name}
        case StartGrant():
            return {"agent": rule.agent, **_where_written("at_most", rule.at_most), "effect": "allow"}
        case StartDenial():
            return {"agent": rule.agent, "effect": "deny"}
        case PortGrant() | PortDenial():
            effect = "allow" if isinstance(rule, PortGrant) else "deny"
            return {"effect": effect, "first": rule.first, "last": rule.last}


def inject_members(inject: Injection) -> Mapping[str, object]:
    """The place of a secret as the normal form says it."""
    if inject.exchange is not None:
        return {"exchange": inject.exchange.members}
    if inject.query is not None:
        return {"query": inject.query}
    if inject.json is not None or inject.form is not None:
        return {"body": _where_written("form", inject.form) or {"json": inject.json}}
    if inject.sigv4 is not None:
        return {"sigv4": {"service": inject.sigv4.service, "region": inject.sigv4.region}}
    if inject.user is not None:
        return {"basic": inject.user}
    return {"header": inject.header, "format": inject.format}


def _where_written(name: str, value: object) -> _JSON:
    """A member that stands only where the profile says something: without it, digests are what they were."""
    return {name: value} if value else {}


def bounds_members(bounds: Bounds) -> list[_JSON]:
    """Limits as the normal form has them."""
    return [{"most": bound.most, "per": bound.per} for bound in bounds]


def _limits(limits: Limits) -> _JSON:
    return {
        **_where_written("bytes_out", bounds_members(limits.bytes_out)),
        **_where_written("requests", bounds_members(limits.requests)),
        **_where_written("tokens", bounds_members(limits.tokens)),
        **_where_written("tool_calls", bounds_members(limits.tool_calls)),
        **_where_written("wall", limits.wall),
    }


def _egress_limits(limits: EgressLimits) -> _JSON:
    return {
        **_where_written("bytes_out", bounds_members(limits.bytes_out)),
        **_where_written("requests", bounds_members(limits.requests)),
    }
