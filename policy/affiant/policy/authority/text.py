"""Writes an authority as text for a terminal of 100 columns: a block for each agent, without control characters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from affiant.command_line import printable
from affiant.policy.authority.authority import Authority
from affiant.policy.authority.token_exchange_words import exchange_words
from affiant.policy.authority.tool_words import tool_words
from affiant.policy.authority.words import (
    BOUNDS,
    NOBODY_APPROVES,
    approval_words,
    approved,
    bound_words,
    endpoint_words,
    limit_lines,
    model_words,
    names_words,
    path_words,
    place_words,
    queue_words,
    requests_words,
    rule_limit_words,
    unrestricted_words,
)
from affiant.policy.rendering.terminal import entry_lines

__all__ = ["authority_lines"]

_RULES_SHOWN: Final = 4


def authority_lines(authorities: Sequence[Authority]) -> Iterator[str]:
    """A block of lines for each agent; without control characters."""
    for authority in authorities:
        yield from entry_lines(authority.agent, indent=0, at=str(authority.profile.mark))
        for title, lines in (
            ("tools", _tool_lines(authority)),
            ("models", _model_lines(authority)),
            ("files", _file_lines(authority)),
            ("hosts", _host_lines(authority)),
            ("secrets", _secret_lines(authority)),
        ):
            found = list(lines)
            yield f"  {title}" if found else f"  {title}: none"
            yield from found
        if words := approval_words(authority):
            yield from entry_lines(words, indent=2)
        yield from entry_lines(
            "bounds: " + ", ".join(f"{name} {bound_words(authority, name)}" for name in BOUNDS), indent=2
        )
        limits = "; ".join(f"{name} {words}" for name, words in limit_lines(authority))
        yield from entry_lines(f"limits of a session: {limits or 'none'}", indent=2)
        if words := queue_words(authority):
            yield from entry_lines(f"in the queue for an upstream: {words}", indent=2)
        yield f"  policy {authority.profile.digest}"
        yield ""
    if any(authority.asks for authority in authorities):
        yield from entry_lines(NOBODY_APPROVES, indent=0)


def _at(authority: Authority, rules: Sequence[str]) -> str:
    shown = [printable(f"{rule} {authority.where(rule)}") for rule in rules]
    more = len(shown) - _RULES_SHOWN
    return ", ".join(shown[:_RULES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _tool_lines(authority: Authority) -> Iterator[str]:
    for tool in (*authority.tools, *authority.denied_tools):
        yield from entry_lines(tool_words(tool), indent=4, at=_at(authority, tool.rules))


def _model_lines(authority: Authority) -> Iterator[str]:
    if authority.models is None:
        yield "    any model the gateway serves"
        return
    for model in authority.models:
        yield from entry_lines(f"{model.name}{model_words(model)}", indent=4, at=_at(authority, model.rules))


def _file_lines(authority: Authority) -> Iterator[str]:
    for entry in authority.files:
        text = f"{entry.mode.value} {path_words(entry.path)} and below"
        yield from entry_lines(text, indent=4, at=_at(authority, entry.rules))
        for carved in entry.except_paths:
            yield from entry_lines(
                f"but never {path_words(carved.path)}", indent=6, at=_at(authority, carved.rules)
            )


def _host_lines(authority: Authority) -> Iterator[str]:
    for reach in authority.hosts:
        names = names_words(reach.names)
        yield from entry_lines(f"{reach.text}{f' ({names})' if names else ''}", indent=4)
        yield from entry_lines(endpoint_words(reach), indent=6)
        if reach.unrestricted:
            yield from entry_lines(unrestricted_words(reach), indent=6)
        for group in reach.requests:
            words = requests_words(group) + rule_limit_words(authority, group.rules)
            yield from entry_lines(words, indent=6, at=_at(authority, group.rules))
        if reach.denials:
            yield from entry_lines("denials here", indent=6, at=_at(authority, reach.denials))


def _secret_lines(authority: Authority) -> Iterator[str]:
    for secret in authority.secrets:
        grant = secret.grant
        text = f"{grant.name}: in {place_words(grant.inject)}{rule_limit_words(authority, (secret.rule,))}"
        yield from entry_lines(text, indent=4, at=_at(authority, (secret.rule,)))
        if grant.inject.exchange is not None:
            yield from entry_lines(exchange_words(grant.inject.exchange), indent=6)
        for sink in secret.sinks:
            to = f"to {sink.host}:{sink.port}{approved(sink.effect)}"
            yield from entry_lines(to, indent=6, at=_at(authority, sink.rules[1:]))
        for vain in secret.unusable:
            yield from entry_lines(f"not to {vain.host}:{vain.port}: {vain.decision.text}", indent=6)
        if not grant.hosts:
            yield from entry_lines("nowhere: the profile has no https host at which it may be used", indent=6)
