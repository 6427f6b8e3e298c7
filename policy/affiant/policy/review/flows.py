"""Lists where each secret can flow: which agent can send it to which host, in which requests and where in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from affiant.policy.authority.authority import Authority, SecretAuthority, Sink
from affiant.policy.authority.token_exchange_words import SENT_FOR_TOKEN
from affiant.policy.authority.words import place_words, requests_words, unrestricted_words
from affiant.policy.decision.decide import Effect
from affiant.policy.model.profile import Scheme
from affiant.policy.review.edition import Edition
from affiant.policy.review.review import Review

__all__ = ["flows"]


def flows(review: Review) -> Mapping[str, object]:
    """The ways that secrets can go, and the grants that lead nowhere."""
    every = [(each, secret) for each in review.new.agents for secret in each.secrets]
    every.sort(key=lambda each: each[1].grant.name)
    return {
        "named": bool(every),
        "sent": [row for agent, secret in every if secret.sinks for row in _sent(review.new, agent, secret)],
        "unused": [row for agent, secret in every for row in _unused(review.new, agent, secret)],
    }


def _sent(edition: Edition, authority: Authority, secret: SecretAuthority) -> Iterator[Mapping[str, object]]:
    exchange = secret.grant.inject.exchange
    if (
        exchange is not None
    ):  # the one place to which what is exchanged for a token goes: the agent cannot get there
        yield {
            "secret": secret.grant.name,
            "agent": authority.agent,
            "by_broker": True,
            "host": f"{exchange.host}:{exchange.port}",
            "requests": [f"POST {exchange.path}, for a token"],
            "asks": False,
            "place": f"{SENT_FOR_TOKEN[exchange.grant]} ({exchange.grant.value})",
            "where": edition.rules(authority, (secret.rule,)),
        }
    for sink in secret.sinks:
        yield {
            "secret": secret.grant.name,
            "agent": authority.agent,
            "by_broker": False,
            "host": f"{sink.host}:{sink.port}",
            "requests": _requests(authority, sink),
            "asks": sink.effect is Effect.ASK,
            "place": place_words(secret.grant.inject, formats=False),
            "where": edition.rules(authority, sink.rules),
        }


def _requests(authority: Authority, sink: Sink) -> Sequence[str]:
    reach = next(each for each in authority.hosts if each.covers(sink.host, sink.port, Scheme.HTTPS))
    if reach.unrestricted:
        return [f"any: the agent {unrestricted_words(reach)}"]
    return list(map(requests_words, reach.requests))


def _unused(
    edition: Edition, authority: Authority, secret: SecretAuthority
) -> Iterator[Mapping[str, object]]:
    for host, reason in _reasons(authority, secret):
        yield {
            "secret": secret.grant.name,
            "agent": authority.agent,
            "host": host,
            "reason": reason,
            "where": edition.rules(authority, (secret.rule,)),
        }


def _reasons(authority: Authority, secret: SecretAuthority) -> Iterator[tuple[str, str]]:
    if not secret.grant.hosts:
        yield "", "the profile has no https host at which it may be used"
    for each in secret.unusable:
        reached = any(reach.covers(each.host, each.port, Scheme.HTTPS) for reach in authority.hosts)
        reason = each.decision.text if reached else "no rule of the profile reaches this host and port"
        yield f"{each.host}:{each.port}", reason
