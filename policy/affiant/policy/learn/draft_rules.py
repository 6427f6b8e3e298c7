"""Drafts the rule for one use of a tool, a path, a model, a secret, a port or a start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from affiant.policy.canonical.tool_origin import ANY
from affiant.policy.decision.questions import (
    EgressQuestion,
    ModelQuestion,
    PathQuestion,
    PortQuestion,
    ProviderToolQuestion,
    SecretQuestion,
    StartQuestion,
    ToolQuestion,
)
from affiant.policy.diff.same_calls import names_a
from affiant.policy.learn.draft_hosts import HostEntry
from affiant.policy.learn.learned import Seen, Use
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model.arguments import Constraint, Each, Host
from affiant.policy.model.limits import NO_EGRESS_LIMITS
from affiant.policy.model.profile import (
    Approval,
    EgressRule,
    Endpoint,
    Injection,
    ModelRule,
    PathGrant,
    PortGrant,
    ProviderTool,
    Rule,
    SecretGrant,
    StartGrant,
    ToolRule,
)
from affiant.policy.model.sigv4 import parse_sigv4

__all__ = [
    "Entry",
    "demands_beside",
    "is_judged_by",
    "is_unspeakable",
    "limited_rules",
    "marked_denied",
    "model_entries",
    "most_tokens",
    "path_entries",
    "port_entries",
    "provider_tool_entries",
    "rules_behind",
    "rules_of",
    "secret_rule",
    "start_entries",
    "tool_entries",
    "with_host",
]


@dataclass(frozen=True, slots=True)
class Entry:
    """A rule of the draft. ``seen``: what it is for; None: kept as it stands. ``note``: why, if not because of use."""

    rule: Rule
    seen: Seen | None = None
    note: str = ""


_IDS: Final = {
    "tools": "tools",
    "provider_tools": "provider_tools",
    "filesystem_access": "filesystem",
    "network_egress": "egress",
    "secrets_access": "secrets",
    "models": "models",
    "ports": "ports",
    "may_start": "may_start",
}
"""What the ids of a section's rules begin with."""


def rules_of(start: Profile, section: str) -> Mapping[str, Rule]:
    """The rules of one section of a profile, by id."""
    rules = start.policy.rules.items()
    return {rule_id: rule for rule_id, rule in rules if rule_id.partition("/")[0] == _IDS[section]}


def is_judged_by(constraint: Constraint, kind: type) -> bool:
    """Whether an argument, or each of a list, must be allowed by another plane."""
    return isinstance(constraint, kind) or (
        isinstance(constraint, Each) and isinstance(constraint.item, kind)
    )


def is_unspeakable(use: Use) -> bool:
    """A request whose path holds ``*``, which in a rule would be a subtree or nothing."""
    return isinstance(use.question, EgressQuestion) and "*" in (use.question.target or "") and not use.subtree


def tool_entries(use: Use, seen: Seen) -> Iterator[Entry]:
    """The rule for a tool, from where it came as far as the log says."""
    assert isinstance(use.question, ToolQuestion)
    server, schema = (None if part in (ANY, "?") else part for part in use.question.origin)
    yield Entry(ToolRule(use.question.name, server=server, schema=schema), seen)


def demands_beside(start: Profile, allowing: Iterable[ToolRule]) -> frozenset[str]:
    """The ids of the rules for tools that can demand approval of a call that some rule of ``allowing`` lets through:
    without them that call would need none."""
    asking = {
        rule_id: rule
        for rule_id, rule in start.policy.rules.items()
        if isinstance(rule, ToolRule) and _can_ask(rule, start.policy.approval)
    }
    found: set[str] = set()
    reached = [rule for rule in allowing if not rule.approval]
    for one in reached:  # which grows: a rule that asks about some of its calls lets others through
        for rule_id, rule in asking.items():
            if rule_id not in found and _have_calls_in_common(rule, one):
                found.add(rule_id)
                reached += () if rule.approval else (rule,)
    return frozenset(found)


def _can_ask(rule: ToolRule, approval: Approval) -> bool:
    """Whether some call that fits needs approval because of this rule: a host among its arguments may."""
    return rule.approval or (bool(approval.methods) and names_a(rule, Host))


def _have_calls_in_common(one: ToolRule, other: ToolRule) -> bool:
    """Whether there may be some; by their arguments alone rules are not told apart."""
    origins = (one.server, other.server), (one.schema, other.schema)
    return one.name == other.name and all(None in pair or len({*pair}) == 1 for pair in origins)


def path_entries(use: Use, seen: Seen) -> Iterator[Entry]:
    """The rule for a path and all below it."""
    assert isinstance(use.question, PathQuestion)
    yield Entry(PathGrant(use.question.path, use.question.mode), seen)


def provider_tool_entries(use: Use, seen: Seen) -> Iterator[Entry]:
    """The rule for a tool that the model's provider runs."""
    assert isinstance(use.question, ProviderToolQuestion)
    yield Entry(ProviderTool(use.question.name), seen)


def port_entries(use: Use, seen: Seen) -> Iterator[Entry]:
    """The rule for a port of the agent's own servers."""
    assert isinstance(use.question, PortQuestion)
    yield Entry(PortGrant(use.question.number, use.question.number), seen)


def start_entries(use: Use, seen: Seen) -> Iterator[Entry]:
    """The rule for an agent that was started."""
    assert isinstance(use.question, StartQuestion)
    yield Entry(StartGrant(use.question.name), seen)


def model_entries(use: Use, seen: Seen) -> Iterator[Entry]:
    """The rule for a model."""
    assert isinstance(use.question, ModelQuestion)
    yield Entry(ModelRule(use.question.name, use.attested), seen)


def most_tokens(name: str, start: Profile | None, *, attested: bool) -> int | None:
    """What a request to this model, at an ``attested`` upstream or any, might ask for until now; None: any number."""
    rules = () if start is None or start.policy.models is None else start.policy.models
    found = [rule.max_tokens for rule in rules if rule.name == name and (attested or not rule.attested)]
    return None if None in found else max((most for most in found if most is not None), default=None)


def limited_rules(start: Profile | None, uses: Iterable[tuple[Use, Seen]]) -> dict[str, Seen]:
    """The rules for hosts that count what they let through, as far as they were used: one that is drafted anew in
    several parts would count anew in each."""
    found: dict[str, Seen] = {}
    rules = {} if start is None else start.policy.rules
    for rule_id, rule in rules.items():
        if isinstance(rule, EgressRule) and rule.limits != NO_EGRESS_LIMITS:
            for use, seen in uses:
                if rule_id in rules_behind(use, seen, start):
                    found.setdefault(rule_id, Seen()).join(seen)
    return found


def rules_behind(use: Use, seen: Seen, start: Profile | None) -> set[str]:
    """The rules for a host that let a request through; of a secret's use, those that let its connection through."""
    rules = {rule for rule in seen.rules if rule.startswith("egress/")}
    if rules or start is None or not isinstance(use.question, EgressQuestion):
        return rules
    at = use.question
    return set(start.compiled.decide_egress(host=at.host, port=at.port, scheme=at.scheme.value).rules)


def secret_rule(
    name: str, hosts: tuple[Endpoint, ...], surface: str | None, known: SecretGrant | None
) -> tuple[SecretGrant, str]:
    """A grant for these hosts, in its known place; else in the place in which the placeholder stood."""
    if known is not None:
        return replace(known, hosts=hosts), ""
    if surface is not None and surface.startswith("query:"):
        return SecretGrant(name, hosts, inject=Injection(None, query=surface.removeprefix("query:"))), ""
    if surface is not None and surface.startswith("body:"):
        return SecretGrant(name, hosts, inject=_in_body(surface)), ""
    if surface is not None and (scope := parse_sigv4(surface)) is not None:
        return SecretGrant(name, hosts, inject=Injection(None, sigv4=scope)), ""
    header = "authorization" if surface is None else surface.removeprefix("header:")
    inject = Injection(header, None if header == "authorization" else "{}")
    note = "" if header == "authorization" else "the log does not tell the format of this header"
    return SecretGrant(name, hosts, inject=inject), note


def _in_body(surface: str) -> Injection:
    if surface.startswith("body:form:"):
        return Injection(None, form=surface.removeprefix("body:form:"))
    return Injection(None, json=surface.removeprefix("body:json:"))


def with_host(entry: Entry | HostEntry, use: Use) -> Entry | HostEntry:
    """A grant of the same secret with one host more; any other entry as it is."""
    rule, question = entry.rule, use.question
    if (
        not isinstance(rule, SecretGrant)
        or not isinstance(question, SecretQuestion)
        or rule.name != question.name
    ):
        return entry
    hosts = tuple(sorted({*rule.hosts, Endpoint(question.host, question.port)}))
    note = f"DENIED until now at {question.host}"
    seen = entry.seen if isinstance(entry, Entry) else None
    return Entry(replace(rule, hosts=hosts), seen, note)


def marked_denied(entry: Entry | HostEntry, seen: Seen) -> Entry | HostEntry:
    """An entry that says that it was denied."""
    note = f"DENIED until now ({', '.join(sorted(seen.reasons))})"
    if isinstance(entry, HostEntry):
        return HostEntry(entry.rule, entry.paths, f"{note}; {entry.note}" if entry.note else note)
    return Entry(entry.rule, entry.seen, f"{note}; {entry.note}" if entry.note else note)
