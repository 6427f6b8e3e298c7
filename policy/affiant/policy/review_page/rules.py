"""The rules themselves, agent by agent, as written and where; and each agent's picture where they are many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

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
from affiant.policy.review.elements import NOTHING, Html, element, heading, joined, name, names, text
from affiant.policy.review.flows import place_said
from affiant.policy.review.review import Review
from affiant.policy.review.summary import said_of

__all__ = ["rule_said", "rules"]


def rules(review: Review, pictures: Mapping[str, Html]) -> Html:
    """A section for each agent.

    Args:
        pictures: by the agents' names; those that have none are in a picture of all.
    """
    sections = [
        _agent(review, number, each, pictures.get(each.agent, NOTHING))
        for number, each in enumerate(review.new.agents, 1)
    ]
    lead = (
        "As written, in the order of the normal form, whose places are their ids. What they come to together, after "
        "denials, is in the table above."
    )
    return element(
        "section",
        heading(2, text("Rules"), anchor="rules"),
        element("p", text(lead), cls="dim"),
        *sections,
        aria_labelledby="rules",
    )


def _agent(review: Review, number: int, authority: Authority, picture: Html) -> Html:
    before = None if review.old is None else review.old.profiles.profiles.get(authority.agent)
    known = (
        None if review.old is None else frozenset(() if before is None else _every(before.compiled.policy))
    )
    rows = [
        _row(review, authority, rule_id, rule, new=known is not None and rule not in known)
        for rule_id, rule in _by_id(authority.profile.compiled.policy)
    ]
    head = element("tr", *(element("th", text(each), scope="col") for each in ("Rule", "Says", "Where")))
    table = element("table", element("thead", head), element("tbody", *rows), cls="rules")
    nothing = element("p", text("No rules: everything is denied."))
    return element(
        "section",
        heading(3, name(authority.agent), anchor=f"a{number}"),
        element("p", joined(said_of(authority), " ")) if picture else NOTHING,
        picture,
        table if rows else nothing,
        element("p", joined(_rest(authority), " "), cls="dim"),
        cls="agent",
    )


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


def _every(policy: Policy) -> Iterator[Rule]:
    yield from (rule for _, rule in _by_id(policy))


def _row(review: Review, authority: Authority, rule_id: str, rule: Rule, *, new: bool) -> Html:
    tag = element("span", text("new rule"), cls="tag sim") if new else NOTHING
    return element(
        "tr",
        element("th", text(rule_id), scope="row"),
        element(
            "td",
            rule_said(rule),
            text(rule_limit_words(authority, (rule_id,))),
            text(" ") if new else NOTHING,
            tag,
        ),
        element("td", review.new.rules(authority, (rule_id,)), cls="where"),
    )


def _rest(authority: Authority) -> Iterator[Html]:
    """What is no rule and has no place of its own."""
    approval = authority.profile.approval
    if approval.everything:
        yield text("Approval is required for every tool and request.")
    elif approval.methods:
        yield text(f"Approval is required for requests with {', '.join(approval.methods)}.")
    yield from _approvers(authority)
    limits = "; ".join(f"{each} {words}" for each, words in limit_lines(authority))
    yield text(f"Limits of a session: {limits or 'none'}.")
    if words := queue_words(authority):
        yield text(f"In the queue for an upstream: {words}.")
    bounds = ", ".join(f"{each} {bound_words(authority, each)}" for each in BOUNDS)
    yield text(f"Bounds: {bounds}.")
    if authority.models is None:
        yield text("Any model that the gateway serves.")


def _approvers(authority: Authority) -> Iterator[Html]:
    """Every one of them, how many must agree, and for how long; that there is none, where something needs approval."""
    approval = authority.profile.approval
    if approval.approvers:
        yield text(f"To approve takes {approval.quorum} of")
        yield Html(joined([name(str(each)) for each in approval.approvers], ", ") + text("."))
        yield text(f"A request waits {approval.ttl} s, and an approval of it holds no longer.")
    elif authority.asks:
        yield text("Nobody may approve: what needs approval is denied.")


def rule_said(rule: Rule) -> Html:
    """One rule, in words; its limits are said beside it."""
    match rule:
        case ToolRule():
            origin = Origin(rule.server or ANY, rule.schema or ANY)
            tool = ToolAuthority(rule.name, rule.arguments, Effect.ALLOW, (), origin=origin)
            after = ", after approval" if rule.approval else ""
            return Html(
                text("allow tool ") + name(rule.name) + text(f"{call_words(tool)}{after}", limit=2000)
            )
        case ToolDenial():
            return Html(text("deny tool ") + name(rule.name))
        case ModelRule():
            only = ", at an attested upstream only" if rule.attested else ""
            return Html(text("allow model ") + name(rule.name) + text(only))
        case PathGrant():
            verb = {
                PathMode.NONE: "never ",
                PathMode.READ: "read ",
                PathMode.READ_WRITE: "read and write ",
            }
            return Html(text(verb[rule.mode]) + name(rule.path) + text(" and below"))
        case EgressRule():
            return Html(joined(_allowed(rule), ", "))
        case EgressDenial():
            port = text("") if rule.port is None else text(f" on port {rule.port}")
            narrowed = _narrowed(rule.methods, rule.paths)
            return Html(text("deny ") + name(rule.host) + port + joined([NOTHING, *narrowed], ", "))
        case SecretGrant():
            return Html(joined(_granted(rule), ", "))
        case _:
            assert_never(rule)


def _allowed(rule: EgressRule) -> Iterator[Html]:
    yield Html(text("allow ") + name(f"{rule.scheme.value}://{rule.host}:{rule.port}"))
    yield from _narrowed(rule.methods, rule.paths) or [text("any request")]
    if rule.tls is TLSMode.PASSTHROUGH:
        yield text("TLS passed through")
    if rule.address:
        yield Html(text("at ") + names(rule.address))


def _narrowed(methods: tuple[str, ...] | None, paths: tuple[str, ...] | None) -> list[Html]:
    found = [] if methods is None else [text(" ".join(methods))]
    return found + ([] if paths is None else [Html(text("paths ") + names(paths))])


def _granted(rule: SecretGrant) -> Iterator[Html]:
    hosts = names(f"{at.host}:{at.port}" for at in rule.hosts) if rule.hosts else text("no host")
    yield Html(text("secret ") + name(rule.name) + text(" at ") + hosts)
    yield Html(text("in ") + place_said(rule.inject))
    if rule.inject.exchange is not None:
        yield text(exchange_words(rule.inject.exchange))
    if rule.ref is not None:
        yield Html(text("kept at ") + name(rule.ref))
