"""Makes the list of rules, agent by agent, as written and with their lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, assert_never

from affiant.policy.authority.authority import Authority
from affiant.policy.authority.token_exchange_words import exchange_words
from affiant.policy.authority.tool_words import call_words
from affiant.policy.authority.tools import ToolAuthority
from affiant.policy.authority.words import BOUNDS, bound_words, limit_lines, queue_words, rule_limit_words
from affiant.policy.canonical.tool_origin import ANY, Origin
from affiant.policy.decision.decide import Effect
from affiant.policy.model.profile import (
    EgressDenial,
    EgressRule,
    ModelRule,
    PathGrant,
    PathMode,
    Policy,
    SecretGrant,
    TLSMode,
    ToolDenial,
    ToolRule,
)
from affiant.policy.normal_form.digest import Rule
from affiant.policy.review.flows import place_said
from affiant.policy.review.phrases import LongText, Name, Phrase, joined, names, phrase
from affiant.policy.review.review import Review
from affiant.policy.review.summary import said_of

__all__ = ["rule_said", "rules"]


def rules(review: Review) -> Sequence[Mapping[str, object]]:
    """The rules of each agent, and the rest of its profile."""
    return [
        {
            "agent": each.agent,
            "says": joined(said_of(each), " "),
            "rules": list(_rows(review, each)),
            "rest": joined(_rest(each), " "),
        }
        for each in review.new.agents
    ]


def _rows(review: Review, authority: Authority) -> Iterator[Mapping[str, object]]:
    before = None if review.old is None else review.old.profiles.profiles.get(authority.agent)
    known = frozenset(() if before is None else (rule for _, rule in _by_id(before.compiled.policy)))
    for rule_id, rule in _by_id(authority.profile.compiled.policy):
        yield {
            "id": rule_id,
            "says": (*rule_said(rule), rule_limit_words(authority, (rule_id,))),
            "is_new": review.old is not None and rule not in known,
            "where": review.new.rules(authority, (rule_id,)),
        }


def _by_id(policy: Policy) -> Iterator[tuple[str, Rule]]:
    sections: Mapping[str, Iterable[Rule]] = {
        "tools": policy.tools,
        "models": policy.models or (),
        "filesystem": policy.filesystem,
        "egress": policy.egress,
        "secrets": policy.secrets,
    }
    for section, found in sections.items():
        yield from ((f"{section}/{position}", rule) for position, rule in enumerate(found))


def _rest(authority: Authority) -> Iterator[Phrase]:
    """What is no rule and has no place of its own."""
    approval = authority.profile.approval
    if approval.everything:
        yield phrase("Approval is required for every tool and request.")
    elif approval.methods:
        yield phrase(f"Approval is required for requests with {', '.join(approval.methods)}.")
    yield from _approvers(authority)
    limits = "; ".join(f"{each} {words}" for each, words in limit_lines(authority))
    yield phrase(f"Limits of a session: {limits or 'none'}.")
    if words := queue_words(authority):
        yield phrase(f"In the queue for an upstream: {words}.")
    bounds = ", ".join(f"{each} {bound_words(authority, each)}" for each in BOUNDS)
    yield phrase(f"Bounds: {bounds}.")
    if authority.models is None:
        yield phrase("Any model that the gateway serves.")


def _approvers(authority: Authority) -> Iterator[Phrase]:
    """All approvers, how many must agree, and for how long; or that there is none, where something needs approval."""
    approval = authority.profile.approval
    if approval.approvers:
        yield phrase(f"To approve takes {approval.quorum} of")
        yield (*joined((phrase(Name(str(each))) for each in approval.approvers), ", "), ".")
        yield phrase(f"A request waits {approval.ttl} s, and an approval of it holds no longer.")
    elif authority.asks:
        yield phrase("Nobody may approve: what needs approval is denied.")


def rule_said(rule: Rule) -> Phrase:
    """One rule, in words; its limits are said beside it."""
    match rule:
        case ToolRule():
            origin = Origin(rule.server or ANY, rule.schema or ANY)
            tool = ToolAuthority(rule.name, rule.arguments, Effect.ALLOW, (), origin=origin)
            after = ", after approval" if rule.approval else ""
            return phrase("allow tool ", Name(rule.name), LongText(f"{call_words(tool)}{after}"))
        case ToolDenial():
            return phrase("deny tool ", Name(rule.name))
        case ModelRule():
            only = ", at an attested upstream only" if rule.attested else ""
            return phrase("allow model ", Name(rule.name), only)
        case PathGrant():
            return phrase(_VERBS[rule.mode], Name(rule.path), " and below")
        case EgressRule():
            return joined(_allowed(rule))
        case EgressDenial():
            port = "" if rule.port is None else f" on port {rule.port}"
            denied = phrase("deny ", Name(rule.host), port)
            return joined([denied, *_methods_and_paths(rule.methods, rule.paths)])
        case SecretGrant():
            return joined(_granted(rule))
        case _:
            assert_never(rule)


_VERBS: Final = {
    PathMode.NONE: "never ",
    PathMode.READ: "read ",
    PathMode.READ_WRITE: "read and write ",
}


def _allowed(rule: EgressRule) -> Iterator[Phrase]:
    yield phrase("allow ", Name(f"{rule.scheme.value}://{rule.host}:{rule.port}"))
    yield from _methods_and_paths(rule.methods, rule.paths) or [phrase("any request")]
    if rule.tls is TLSMode.PASSTHROUGH:
        yield phrase("TLS passed through")
    if rule.address:
        yield phrase("at ", *names(rule.address))


def _methods_and_paths(methods: tuple[str, ...] | None, paths: tuple[str, ...] | None) -> list[Phrase]:
    found = [] if methods is None else [phrase(" ".join(methods))]
    return found + ([] if paths is None else [phrase("paths ", *names(paths))])


def _granted(rule: SecretGrant) -> Iterator[Phrase]:
    hosts = names(f"{at.host}:{at.port}" for at in rule.hosts) if rule.hosts else phrase("no host")
    yield phrase("secret ", Name(rule.name), " at ", *hosts)
    yield phrase("in ", *place_said(rule.inject))
    if rule.inject.exchange is not None:
        yield phrase(exchange_words(rule.inject.exchange))
    if rule.ref is not None:
        yield phrase("kept at ", Name(rule.ref))
