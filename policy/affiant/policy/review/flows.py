"""Where each secret can flow: which agent can send it to which host, in which requests, and in which place of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from affiant.policy.authority.authority import Authority, SecretAuthority, Sink
from affiant.policy.authority.token_exchange_words import SENT_FOR_TOKEN
from affiant.policy.authority.words import ANYTHING, SIGNING_WORDS, requests_words
from affiant.policy.decision.decide import Effect
from affiant.policy.model.profile import Injection, Scheme
from affiant.policy.model.token_exchange import TokenExchange
from affiant.policy.review.elements import NOTHING, Html, element, heading, joined, name, text
from affiant.policy.review.review import Review

__all__ = ["flows", "place_said"]

_PLAIN_FORMATS = frozenset({"{}", "Bearer {}", "Basic {}", "token {}", "Token {}"})


def flows(review: Review) -> Html:
    """One table for those that can go somewhere, and one for those that cannot."""
    every = [(each, secret) for each in review.new.agents for secret in each.secrets]
    every.sort(key=lambda each: each[1].grant.name)
    going = [(each, secret) for each, secret in every if secret.sinks]
    vain = [(each, secret) for each, secret in every if secret.unusable or not secret.sinks]
    lead = (
        "A secret's value never reaches an agent: a placeholder stands for it, in the one place of a request that "
        "is named here, over inspected https only. What a host stores, an agent can read back. A secret that is "
        "exchanged for a token goes to its token endpoint only, and the token to the other hosts."
        if every
        else "The profiles name no secrets."
    )
    return element(
        "section",
        heading(2, text("Where each secret can flow"), anchor="secrets"),
        element("p", text(lead), cls="dim"),
        _going(review, going),
        _vain(review, vain),
        aria_labelledby="secrets",
    )


def _table(title: str, columns: Sequence[str], rows: Sequence[Html], cls: str) -> Html:
    if not rows:
        return NOTHING
    head = element("tr", *(element("th", text(each), scope="col") for each in columns))
    return element(
        "section",
        heading(3, text(title)),
        element("table", element("thead", head), element("tbody", *rows), cls=cls),
    )


def _going(review: Review, found: Sequence[tuple[Authority, SecretAuthority]]) -> Html:
    rows = chain.from_iterable(
        (
            *(_exchanged(review, authority, secret, each) for each in [secret.grant.inject.exchange] if each),
            *(_flow(review, authority, secret, sink) for sink in secret.sinks),
        )
        for authority, secret in found
    )
    columns = ("Secret", "Agent", "Host and port", "In which requests", "In which place", "Rules")
    return _table("Can be sent", columns, list(rows), "flows")


def _flow(review: Review, authority: Authority, secret: SecretAuthority, sink: Sink) -> Html:
    ask = element("span", text("after approval"), cls="tag warn") if sink.effect is Effect.ASK else NOTHING
    return element(
        "tr",
        element("th", name(secret.grant.name), scope="row"),
        element("td", name(authority.agent)),
        element("td", name(f"{sink.host}:{sink.port}")),
        element("td", joined(_requests(authority, sink), "; "), text(" ") if ask else NOTHING, ask),
        element("td", place_said(secret.grant.inject)),
        element("td", review.new.rules(authority, sink.rules), cls="where"),
    )


def _exchanged(
    review: Review, authority: Authority, secret: SecretAuthority, exchange: TokenExchange
) -> Html:
    """The one place to which what is exchanged for a token goes: the agent cannot get there by this."""
    return element(
        "tr",
        element("th", name(secret.grant.name), scope="row"),
        element("td", text("the broker, not "), name(authority.agent)),
        element("td", name(f"{exchange.host}:{exchange.port}")),
        element("td", text("POST "), name(exchange.path), text(", for a token")),
        element("td", text(f"{SENT_FOR_TOKEN[exchange.grant]} ({exchange.grant.value})")),
        element("td", review.new.rules(authority, (secret.rule,)), cls="where"),
    )


def _requests(authority: Authority, sink: Sink) -> Iterator[Html]:
    reach = next(each for each in authority.hosts if each.covers(sink.host, sink.port, Scheme.HTTPS))
    if reach.unrestricted:
        but = ", except what a rule denies" if reach.denials else ""
        yield text(f"any: the agent {ANYTHING}{but}")
        return
    for group in reach.requests:
        yield text(requests_words(group))


def place_said(inject: Injection) -> Html:
    """The place of a placeholder. A format's own text is shown where it is a well-known word, and no pasted value."""
    if inject.exchange is not None:
        return Html(
            text("header ") + name(inject.header or "") + text(", as Bearer, where a token stands for it")
        )
    if inject.query is not None:
        return Html(text("parameter ") + name(inject.query) + text(" of the query, as its whole value"))
    if inject.json is not None:
        return Html(text("the body's JSON at ") + name(inject.json) + text(", as the whole text"))
    if inject.form is not None:
        return Html(text("field ") + name(inject.form) + text(" of the body's form, as its whole value"))
    if inject.sigv4 is not None:
        signed = Html(text("signatures of requests to ") + name(inject.sigv4.service))
        return Html(signed + text(" in ") + name(inject.sigv4.region) + text(f", {SIGNING_WORDS}"))
    where = Html(text("header ") + name(inject.header or ""))
    if inject.user is not None:
        return Html(where + text(", as the Basic password of ") + name(inject.user))
    if inject.format is None:
        return Html(where + text(", as the whole credential"))
    if inject.format in _PLAIN_FORMATS:
        return Html(where + text(", as ") + name(inject.format))
    return Html(where + text(", within a text of its own"))


def _vain(review: Review, found: Sequence[tuple[Authority, SecretAuthority]]) -> Html:
    rows = [
        element(
            "tr",
            element("th", name(secret.grant.name), scope="row"),
            element("td", name(authority.agent)),
            element("td", _to(host)),
            element("td", text(reason)),
            element("td", review.new.rules(authority, (secret.rule,)), cls="where"),
        )
        for authority, secret in found
        for host, reason in _reasons(authority, secret)
    ]
    columns = ("Secret", "Agent", "Host and port", "Why not", "Rule")
    return _table("Granted, and usable nowhere or not there", columns, rows, "vain")


def _to(host: str) -> Html:
    return name(host) if host else element("span", text("none"), cls="dim")


def _reasons(authority: Authority, secret: SecretAuthority) -> Iterator[tuple[str, str]]:
    if not secret.grant.hosts:
        yield "", "the profile has no https host at which it may be used"
    for each in secret.unusable:
        reached = any(reach.covers(each.host, each.port, Scheme.HTTPS) for reach in authority.hosts)
        reason = each.decision.text if reached else "no rule of the profile reaches this host and port"
        yield f"{each.host}:{each.port}", reason
