"""Writes an authority as one JSON document that leaves nothing out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.policy.authority.authority import Authority, FileAuthority, SecretAuthority
from affiant.policy.authority.tools import ToolAuthority
from affiant.policy.authority.words import BOUNDS, unrestricted_words
from affiant.policy.canonical.tool_origin import ANY
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.limit_words import profile_limits
from affiant.policy.decision.questions import PathQuestion, SecretQuestion, question_text
from affiant.policy.diff.reachable import Reach
from affiant.policy.diff.request_groups import Requests
from affiant.policy.loading.profile_set import ProfileSet
from affiant.policy.model.profile_limits import rule_limits
from affiant.policy.normal_form.argument_members import argument_members
from affiant.policy.normal_form.digest import bounds_members

__all__ = ["authority_document"]


def authority_document(authorities: Iterable[Authority], *, profiles: ProfileSet) -> Mapping[str, object]:
    """Every entry, with the ids and places of its rules and one request of its kind, as ``explain`` reads it."""
    return {
        "file": profiles.source,
        "digest": profiles.digest,
        "source_digest": profiles.source_digest,
        "agents": [_agent(authority) for authority in authorities],
    }


def _agent(authority: Authority) -> Mapping[str, object]:
    approval = authority.profile.policy.approval
    return {
        "agent": authority.agent,
        "where": str(authority.profile.mark),
        "policy_digest": authority.profile.digest,
        "floor": authority.compiled.policy.floor,
        "approval": {
            "everything": approval.everything,
            "methods": list(approval.methods),
            "approvers": [each for each in approval.approvers if isinstance(each, str)],
            "identities": [
                {
                    "issuer": each.issuer,
                    "subject": each.subject,
                    "name": approval.identities.name_of(each),
                }
                for each in approval.approvers
                if not isinstance(each, str)
            ],
            "trusted_root": sha256_name(approval.trusted_root.encode()) if approval.trusted_root else None,
            "quorum": approval.quorum if approval.approvers else None,
            "ttl": approval.ttl if approval.approvers else None,
        },
        "tools": [_tool(authority, tool) for tool in authority.tools],
        "denied_tools": [_tool(authority, tool) for tool in authority.denied_tools],
        "provider_tools": [
            {
                "name": tool.name,
                "effect": tool.effect.value,
                "rules": authority.profile.placed(tool.rules),
                "sample": None if tool.effect is Effect.DENY else f"provider_tool:{tool.name}",
            }
            for tool in authority.provider_tools
        ],
        "any_model": authority.models is None,
        "models": [
            {
                "name": model.name,
                "attested_only": model.attested,
                "max_tokens": model.max_tokens,
                "rules": authority.profile.placed(model.rules),
                "sample": f"model:{model.name}",
            }
            for model in authority.models or ()
        ],
        "ports": [
            {
                "first": each.ports.first,
                "last": each.ports.last,
                "effect": each.effect.value,
                "rules": authority.profile.placed(each.rules),
                "sample": None if each.effect is Effect.DENY else f"port:{each.ports.first}",
            }
            for each in authority.ports
        ],
        "may_start": [
            {
                "agent": start.agent,
                "effect": start.effect.value,
                "at_most": start.at_most,
                "rules": authority.profile.placed(start.rules),
                "sample": None if start.effect is Effect.DENY else f"start:{start.agent}",
            }
            for start in authority.may_start
        ],
        "files": [_file(authority, entry) for entry in authority.files],
        "hosts": [_host(authority, reach) for reach in authority.hosts],
        "secrets": [_secret(authority, secret) for secret in authority.secrets],
        "limits": {
            name: bounds_members(bounds) for name, bounds in profile_limits(authority.compiled.limits)
        },
        "share": {
            "weight": authority.compiled.share.weight,
            "priority": authority.compiled.share.priority.value,
        },
        "bounds": {name: getattr(authority.compiled.resources, name) for name in BOUNDS},
    }


def _tool(authority: Authority, tool: ToolAuthority) -> Mapping[str, object]:
    denied = tool.effect is Effect.DENY
    return {
        "name": tool.name,
        "server": None if tool.origin.server == ANY else tool.origin.server,
        "schema": None if tool.origin.schema == ANY else tool.origin.schema,
        "arguments": None if tool.arguments is None else argument_members(tool.arguments),
        "effect": tool.effect.value,
        "rate": bounds_members(tool.rate),
        "rules": authority.profile.placed(tool.rules),
        "sample": None if denied else question_text(tool.question),
    }


def _limits(authority: Authority, rules: Iterable[str]) -> Sequence[Mapping[str, object]]:
    """Of each rule its own limits; a rule that has none always has room."""
    return [
        {"rule": rule, "name": name, "bounds": bounds_members(bounds)}
        for rule, name, bounds in rule_limits(authority.compiled.policy)
        if rule in rules
    ]


def _file(authority: Authority, entry: FileAuthority) -> Mapping[str, object]:
    return {
        "path": entry.path,
        "mode": entry.mode.value,
        "except": [
            {"path": carved.path, "rules": authority.profile.placed(carved.rules)}
            for carved in entry.except_paths
        ],
        "rules": authority.profile.placed(entry.rules),
        "sample": question_text(PathQuestion(entry.path, entry.mode)),
    }


def _host(authority: Authority, reach: Reach) -> Mapping[str, object]:
    return {
        "host": reach.names.pattern,
        "labels": reach.names.labels.value,
        "other_than": list(reach.names.other_than),
        "port": reach.port,
        "scheme": reach.scheme.value,
        "tls": None if reach.tls is None else reach.tls.value,
        "addresses": list(reach.addresses) or None,
        "unrestricted": reach.unrestricted,
        "text": unrestricted_words(reach),
        "requests": [_group(authority, reach, group) for group in reach.requests],
        "denials": authority.profile.placed(reach.denials),
    }


def _group(authority: Authority, reach: Reach, group: Requests) -> Mapping[str, object]:
    return {
        "methods": None if group.methods is None else list(group.methods),
        "paths": None if group.paths is None else list(group.paths),
        "except": [
            {"path": each.path, "rules": authority.profile.placed(each.rules)} for each in group.exceptions
        ],
        "effect": group.effect.value,
        "limits": _limits(authority, group.rules),
        "rules": authority.profile.placed(group.rules),
        "sample": question_text(reach.sample(group)),
    }


def _secret(authority: Authority, secret: SecretAuthority) -> Mapping[str, object]:
    grant = secret.grant
    return {
        "name": grant.name,
        "ref": grant.ref,
        "place": grant.surface,
        "format": grant.inject.format,
        "basic": grant.inject.user,
        "exchange": None if grant.inject.exchange is None else grant.inject.exchange.members,
        "shape": grant.shape,
        "max_uses": grant.max_uses,
        "rules": authority.profile.placed((secret.rule,)),
        "sinks": [
            {
                "host": sink.host,
                "port": sink.port,
                "effect": sink.effect.value,
                "rules": authority.profile.placed(sink.rules),
                "sample": question_text(SecretQuestion(grant.name, sink.host, sink.port)),
            }
            for sink in secret.sinks
        ],
        "unusable": [
            {"host": vain.host, "port": vain.port, "reason": vain.decision.reason} for vain in secret.unusable
        ],
    }
