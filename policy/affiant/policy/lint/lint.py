"""Warns about what a profile allows that a reviewer may not have meant.

Every warning has a stable code, and says what to do. None of them changes a decision, and a list of hosts or words is
never complete: no warning does not mean no danger.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from affiant.policy.approvals.bindable import bindable, bindable_in_response
from affiant.policy.canonical.hosts import covering_patterns, is_wildcard, suffix_of
from affiant.policy.canonical.paths import covers
from affiant.policy.canonical.tool_origin import ANYWHERE
from affiant.policy.decision.fetches import is_uncounted
from affiant.policy.diff.restriction import NotARestriction, require_no_wider
from affiant.policy.lint.alike_approvers import alike_approvers
from affiant.policy.lint.codes import WARNINGS
from affiant.policy.lint.lists import (
    CHANGING,
    HOOKS,
    PUBLIC_HOSTS,
    READING,
    SHARED_HOSTS,
    STORING_REQUESTS,
    SYSTEM,
)
from affiant.policy.loading.profile_set import Profile, ProfileSet
from affiant.policy.model.arguments import Constraint, Each, Pattern
from affiant.policy.model.limits import NO_EGRESS_LIMITS
from affiant.policy.model.profile import (
    EgressRule,
    Endpoint,
    Injection,
    PathMode,
    PortGrant,
    ProviderTool,
    Scheme,
    SecretGrant,
    StartGrant,
    TLSMode,
    ToolRule,
)
from affiant.policy.model.sigv4 import MINTING_SERVICES
from affiant.policy.rendering.terminal import some

__all__ = ["Finding", "lint_profile", "lint_profiles"]

_SYSTEM_PORTS: Final = 1024
"""RFC 6335, section 6: those below are the system ports."""
_WIDE_RANGE: Final = 100
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


@dataclass(frozen=True, slots=True)
class Finding:
    """One warning, about one rule of one profile."""

    code: str
    agent: str
    subject: str
    where: str

    @property
    def text(self) -> str:
        """The warning as a person reads it."""
        return f"{self.subject}: {WARNINGS[self.code]}"


def lint_profiles(profiles: ProfileSet) -> tuple[Finding, ...]:
    """The warnings about every profile of a file, in the order of the file."""
    listed = tuple(profiles.profiles.values())
    return tuple(
        warning
        for profile in listed
        for warning in (
            *lint_profile(profile),
            *_among(profile, [other for other in listed if other is not profile]),
        )
    )


def lint_profile(profile: Profile) -> tuple[Finding, ...]:
    """The warnings about one profile."""
    tools = (*_tools(profile), *_provider_tools(profile))
    sections = (
        tools,
        _paths(profile),
        _egress(profile),
        _secrets(profile),
        _ports(profile),
        _starts(profile),
        _whole(profile),
    )
    return tuple(warning for section in sections for warning in section)


def _warn(profile: Profile, code: str, subject: str, rule: str | None = None) -> Finding:
    return Finding(code, profile.name, subject, profile.where(rule))


def _tools(profile: Profile) -> Iterator[Finding]:
    allowed = {rule.name for rule in profile.policy.tools if isinstance(rule, ToolRule)}
    reaches_out = bool(profile.policy.secrets or _allows(profile))
    for position, rule in enumerate(profile.policy.tools):
        if rule.name not in allowed:
            yield _warn(profile, "denial_without_allow", f"tool {rule.name}", f"tools/{position}")
        if isinstance(rule, ToolRule) and rule.server is not None and rule.schema is None:
            yield _warn(profile, "tool_unpinned", f"tool {rule.name}", f"tools/{position}")
        if isinstance(rule, ToolRule):
            for argument in rule.arguments or ():
                if _is_pattern(argument.constraint):
                    yield _warn(
                        profile,
                        "argument_pattern",
                        f"{argument.name} of tool {rule.name}",
                        f"tools/{position}",
                    )
        allows = profile.compiled.decide_tool(rule.name, ANYWHERE).allowed
        if reaches_out and _changes_things(rule.name) and allows:
            yield _warn(profile, "approval_missing", f"tool {rule.name}", f"tools/{position}")
        if isinstance(rule, ToolRule) and rule.rate and _unlimited_beside(profile, rule):
            yield _warn(profile, "limit_without_effect", f"rate of tool {rule.name}", f"tools/{position}")


def _provider_tools(profile: Profile) -> Iterator[Finding]:
    allowed = {rule.name for rule in profile.policy.provider_tools if isinstance(rule, ProviderTool)}
    for position, rule in enumerate(profile.policy.provider_tools):
        subject, rule_id = f"provider tool {rule.name}", f"provider_tools/{position}"
        if rule.name not in allowed:
            yield _warn(profile, "denial_without_allow", subject, rule_id)
        if profile.compiled.decide_provider_tool(rule.name).allowed:
            yield _warn(profile, "provider_tool", subject, rule_id)


def _ports(profile: Profile) -> Iterator[Finding]:
    grants = [rule for rule in profile.policy.ports if isinstance(rule, PortGrant)]
    for position, rule in enumerate(profile.policy.ports):
        subject, rule_id = f"port {rule.text}", f"ports/{position}"
        if not isinstance(rule, PortGrant):
            if not any(grant.first <= rule.last and rule.first <= grant.last for grant in grants):
                yield _warn(profile, "denial_without_allow", subject, rule_id)
            continue
        system = range(rule.first, min(rule.last + 1, _SYSTEM_PORTS))
        if any(profile.compiled.decide_port(port).allowed for port in system):
            yield _warn(profile, "port_system", subject, rule_id)
        if rule.last - rule.first >= _WIDE_RANGE:
            yield _warn(profile, "port_range_wide", subject, rule_id)


def _starts(profile: Profile) -> Iterator[Finding]:
    allowed = {rule.agent for rule in profile.policy.may_start if isinstance(rule, StartGrant)}
    for position, rule in enumerate(profile.policy.may_start):
        subject, rule_id = f"start of {rule.agent}", f"may_start/{position}"
        if rule.agent not in allowed:
            yield _warn(profile, "denial_without_allow", subject, rule_id)
        if isinstance(rule, StartGrant) and rule.at_most is None:
            yield _warn(profile, "start_unlimited", subject, rule_id)


def _unlimited_beside(profile: Profile, rule: ToolRule) -> bool:
    """Whether another rule for the tool has no rate, and is as wide for sure."""
    return any(
        isinstance(other, ToolRule)
        and other.name == rule.name
        and not other.rate
        and other.server in (None, rule.server)
        and other.schema in (None, rule.schema)
        and other.arguments in (None, rule.arguments)
        for other in profile.policy.tools
    )


def _is_pattern(constraint: Constraint) -> bool:
    return isinstance(constraint.item if isinstance(constraint, Each) else constraint, Pattern)


def _changes_things(name: str) -> bool:
    words = {word.lower() for word in _WORDS.findall(name)}
    return not words.isdisjoint(CHANGING) and words.isdisjoint(READING)


def _paths(profile: Profile) -> Iterator[Finding]:
    for position, grant in enumerate(profile.policy.filesystem):
        if grant.mode is not PathMode.READ_WRITE:
            continue
        rule = f"filesystem/{position}"
        if any(covers(system, grant.path) for system in SYSTEM):
            yield _warn(profile, "rw_system_path", grant.path, rule)
        if any(f"{hook}/" in f"{grant.path}/" for hook in (f"/{name}" for name in HOOKS)):
            yield _warn(profile, "rw_hooks", grant.path, rule)
            continue
        hooks = [hook for hook in HOOKS if _writable(profile, f"{grant.path}/{hook}")]
        if hooks:
            yield _warn(profile, "rw_hooks", f"{grant.path} with {', '.join(hooks)}", rule)


def _writable(profile: Profile, path: str) -> bool:
    return profile.compiled.decide_path(path, PathMode.READ_WRITE).allowed


def _allows(profile: Profile) -> list[tuple[str, EgressRule]]:
    """The hosts that the profile allows, with their rules' ids."""
    return [
        (f"egress/{position}", rule)
        for position, rule in enumerate(profile.policy.egress)
        if isinstance(rule, EgressRule)
    ]


def _egress(profile: Profile) -> Iterator[Finding]:
    for position, rule in _allows(profile):
        found = {
            "host_unrestricted": rule.methods is None and rule.paths is None and rule.tls is TLSMode.INSPECT,
            "host_shared": _is_one_of(rule, SHARED_HOSTS) or _stores(profile, rule),
            "host_wildcard": is_wildcard(rule.host),
            "upstream_resolves": _upstream_resolves(profile, position, rule),
            "tls_passthrough": rule.tls is TLSMode.PASSTHROUGH,
            "scheme_http": rule.scheme is Scheme.HTTP,
            "limit_without_effect": _as_wide_without_limits(profile, rule),
        }
        for code in (code for code, holds in found.items() if holds):
            yield _warn(profile, code, f"{rule.host}:{rule.port}", position)


def _upstream_resolves(profile: Profile, rule_id: str, rule: EgressRule) -> bool:
    """Whether an agent may name URLs of a private host to a model: its server asks a name service of its own.

    That server reads from them, and sends to them for a tool of the provider.
    """
    decide = profile.compiled.decide_provider_tool
    sends = any(decide(rule.name).allowed for rule in profile.policy.provider_tools)
    methods = {"GET", "POST"} if sends else {"GET"}
    named = rule.methods is None or not methods.isdisjoint(rule.methods)
    return (
        bool(rule.address)
        and named
        and profile.policy.models != ()
        and is_uncounted(profile.compiled, rule_id)
    )


def _as_wide_without_limits(profile: Profile, rule: EgressRule) -> bool:
    """Whether another rule for the host and port has no limits, and is as wide for sure."""
    return rule.limits != NO_EGRESS_LIMITS and any(
        other.limits == NO_EGRESS_LIMITS
        and (other.host, other.port, other.scheme) == (rule.host, rule.port, rule.scheme)
        and other.methods in (None, rule.methods)
        and other.paths in (None, rule.paths)
        for _, other in _allows(profile)
    )


def _is_one_of(rule: EgressRule, hosts: tuple[str, ...]) -> bool:
    """Whether the rule covers one of ``hosts`` or a name below one."""
    own = suffix_of(rule.host)
    return any(
        own == host or own.endswith(f".{host}") or rule.host in covering_patterns(host) for host in hosts
    )


def _stores(profile: Profile, rule: EgressRule) -> bool:
    """Whether the rule's host allows a request that stores what others can then read."""
    return any(
        rule.host in covering_patterns(host)
        and profile.compiled.decide_egress(
            host=host, port=rule.port, scheme=rule.scheme, method="POST", target=target
        ).allowed
        for host, target in STORING_REQUESTS
    )


def _secrets(profile: Profile) -> Iterator[Finding]:
    for position, grant in enumerate(profile.policy.secrets):
        rule = f"secrets/{position}"
        if not grant.hosts:
            yield _warn(profile, "secret_no_sink", grant.name, rule)
        for host in grant.hosts:
            if not _reaches(profile, grant, host):
                yield _warn(
                    profile, "secret_unreachable_host", f"{grant.name} at {host.host}:{host.port}", rule
                )
        if grant.inject.exchange is not None:
            exchange = grant.inject.exchange
            yield _warn(
                profile, "secret_token_endpoint", f"{grant.name} at {exchange.host}:{exchange.port}", rule
            )
        if (scope := grant.inject.sigv4) is not None:
            what = f"{grant.name} for {scope.service} in {scope.region}"
            yield _warn(profile, "secret_signs", what, rule)
            if scope.service in MINTING_SERVICES:
                yield _warn(profile, "secret_mints", what, rule)
        elif grant.inject.header != "authorization":
            place = grant.inject.header or _place_beside_headers(grant.inject)
            yield _warn(profile, "secret_storable_sink", f"{grant.name} in {place}", rule)


def _place_beside_headers(inject: Injection) -> str:
    if inject.query is not None:
        return f"the query's {inject.query}"
    return f"the form's {inject.form}" if inject.json is None else f"JSON at {inject.json}"


def _reaches(profile: Profile, grant: SecretGrant, at: Endpoint) -> bool:
    """Whether the secret itself and a connection to the host are allowed, perhaps after approval."""
    use = profile.compiled.decide_secret(
        grant.name, host=at.host, port=at.port, scheme="https", surface=grant.surface
    )
    connection = profile.compiled.decide_egress(host=at.host, port=at.port, scheme="https")
    waiting = ("approval_no_approver", "approval_required")
    return all(found.allowed or found.reason in waiting for found in (use, connection))


def _whole(profile: Profile) -> Iterator[Finding]:
    asking = any(isinstance(rule, ToolRule) and rule.approval for rule in profile.policy.tools)
    asking = asking or profile.policy.approval.everything or bool(profile.policy.approval.methods)
    if asking and not profile.policy.approval.approvers:
        yield _warn(profile, "approval_no_approver", "requires_human_approval")
    if profile.policy.approval.approvers and not asking:
        yield _warn(profile, "approvers_unused", "requires_human_approval")
    for group in alike_approvers(profile.policy.approval.approvers):
        yield _warn(profile, "approvers_alike", some([each.subject for each in group], most=3))
    yield from _unshowable(profile)
    yield from _steered(profile)


def _unshowable(profile: Profile) -> Iterator[Finding]:
    """What needs approval, could be approved, and is denied all the same: no approver could be shown all of it."""
    if not profile.policy.approval.approvers:
        return
    for position, rule in enumerate(profile.policy.tools):
        if not isinstance(rule, ToolRule) or not (rule.approval or profile.policy.approval.everything):
            continue
        if not bindable(rule) and not bindable_in_response(rule):
            yield _warn(profile, "approval_unshowable", f"tool {rule.name}", f"tools/{position}")
    for position, each in enumerate(profile.policy.provider_tools):
        if isinstance(each, ProviderTool) and profile.policy.approval.everything:
            yield _warn(
                profile, "approval_unshowable", f"provider tool {each.name}", f"provider_tools/{position}"
            )
    for name, allow in _allows(profile):
        hidden = allow.tls is TLSMode.PASSTHROUGH
        if hidden and (profile.policy.approval.everything or profile.policy.approval.methods):
            yield _warn(profile, "approval_unshowable", f"{allow.host}:{allow.port}", name)


def _steered(profile: Profile) -> Iterator[Finding]:
    """Private data, words of strangers, and a way out, all in one agent."""
    private = [grant.path for grant in profile.policy.filesystem if grant.mode is not PathMode.NONE]
    private += [grant.name for grant in profile.policy.secrets if grant.hosts]
    if not private or profile.policy.approval.everything:
        return
    more = f" and {len(private) - 1} more" if len(private) > 1 else ""
    for position, provided in enumerate(profile.policy.provider_tools):
        if profile.compiled.decide_provider_tool(provided.name).allowed:
            subject = f"provider tool {provided.name} beside {private[0]}"
            yield _warn(profile, "outsiders_can_steer", subject + more, f"provider_tools/{position}")
    for rule_id, rule in _allows(profile):
        outside = is_wildcard(rule.host) or rule.scheme is Scheme.HTTP
        if outside or _is_one_of(rule, (*SHARED_HOSTS, *PUBLIC_HOSTS)):
            subject = f"{rule.host}:{rule.port} beside {private[0]}"
            yield _warn(profile, "outsiders_can_steer", subject + more, rule_id)


def _wider(parent: Profile, child: Profile) -> str:
    """The first that a session of ``child`` could do and one of ``parent`` may not, in words; empty: nothing."""
    try:
        require_no_wider(parent.compiled, child.compiled, agent=child.name)
    except NotARestriction as error:
        return str(error.found or "the profiles are too large to compare")
    return ""


def _among(profile: Profile, others: Sequence[Profile]) -> Iterator[Finding]:
    """What is only seen beside the other profiles of the file."""
    for position, grant in enumerate(profile.policy.secrets):
        differing = [
            other.name
            for other in others
            for theirs in other.policy.secrets
            if theirs.name == grant.name and theirs.ref == grant.ref and set(theirs.hosts) != set(grant.hosts)
        ]
        if differing:
            yield _warn(
                profile,
                "secret_shared",
                f"{grant.name}, also of {some(differing, most=3)}",
                f"secrets/{position}",
            )
    by_name = {other.name: other for other in others}
    for position, rule in enumerate(profile.policy.may_start):
        child = by_name.get(rule.agent)
        wider = "" if child is None or not isinstance(rule, StartGrant) else _wider(profile, child)
        if wider:
            yield _warn(profile, "start_wider", f"start of {rule.agent} ({wider})", f"may_start/{position}")
    twins = [other.name for other in others if other.digest == profile.digest]
    if twins:
        yield _warn(profile, "profile_twin", f"the same as {some(twins, most=3)}")
