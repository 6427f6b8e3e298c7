"""Writes authorities as Markdown tables with agents as columns, so that they can be compared.

A row is a name that some agent's profile gives; each agent's cell says what holds *for that agent* there, also where
another rule of its profile gives it (a path through the folder above, a host through a wildcard).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from affiant.policy.authority.authority import Authority, FileAuthority
from affiant.policy.authority.token_exchange_words import exchange_words
from affiant.policy.authority.tool_words import call_words, rate_words, tool_words
from affiant.policy.authority.tools import ToolAuthority
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
    place_words,
    queue_words,
    requests_words,
    rule_limit_words,
    unrestricted_words,
)
from affiant.policy.canonical.paths import covers
from affiant.policy.decision.decide import Effect
from affiant.policy.diff.reachable import Reach
from affiant.policy.loading.profile_set import ProfileSet
from affiant.policy.model.profile import PathMode
from affiant.policy.model.share import share_words
from affiant.policy.rendering.markup import markdown_page, markdown_table, markdown_text

__all__ = ["authority_markdown"]

_COLUMNS: Final = 5
"""Agents beside each other; more make another table."""
_Lines = Sequence[str]
_Cell = Callable[[Authority], _Lines]


def authority_markdown(authorities: Sequence[Authority], *, profiles: ProfileSet) -> str:
    """Tables to be put into a review's comment; nothing in a name is markup."""
    lines: list[str] = []
    for first in range(0, len(authorities), _COLUMNS):
        lines += _tables(authorities[first : first + _COLUMNS])
    if any(authority.asks for authority in authorities):
        lines += [markdown_text(f"{NOBODY_APPROVES}."), ""]
    return markdown_page(f"Authority of {profiles.source}", [*lines, f"Policy digest `{profiles.digest}`."])


def _tables(authorities: Sequence[Authority]) -> Iterator[str]:
    tools = {tool.name for each in authorities for tool in (*each.tools, *each.denied_tools)}
    paths = {path for each in authorities for entry in each.files for path in _paths(entry)}
    yield from _table("tools", authorities, [(name, _tool(name)) for name in sorted(tools)])
    yield from _table("models", authorities, _models(authorities))
    yield from _table("files", authorities, [(path, _path(path)) for path in sorted(paths)])
    yield from _table("hosts", authorities, _hosts(authorities))
    yield from _table("secret to host", authorities, _secrets(authorities))
    limited = {name for each in authorities for name, _ in limit_lines(each)}
    yield from _table("limits of a session", authorities, [(name, _limit(name)) for name in sorted(limited)])
    if any(queue_words(authority) for authority in authorities):
        yield from _table("queue for an upstream", authorities, [("share", _share)])
    if any(authority.asks for authority in authorities):
        yield from _table("approval", authorities, [("by", _approval)])
    yield from _table("bounds", authorities, [(name, _bound(name)) for name in BOUNDS])


def _table(title: str, authorities: Sequence[Authority], rows: Sequence[tuple[str, _Cell]]) -> Iterator[str]:
    head = [title, *(authority.agent for authority in authorities)]
    cells = [[name, *("\n".join(cell(each)) for each in authorities)] for name, cell in rows]
    yield from markdown_table(head, cells)


def _at(authority: Authority, rules: Sequence[str]) -> _Lines:
    return [f"{rule} at {authority.where(rule)}" for rule in rules]


# -- cells -------------------------------------------------------------------------------------------------------------


def _tool(name: str) -> _Cell:
    def cell(authority: Authority) -> _Lines:
        every = (*authority.tools, *authority.denied_tools)
        found = [tool for tool in every if tool.name == name]
        return [line for tool in found for line in (_may(tool), *_at(authority, tool.rules))] or ["no"]

    return cell


def _share(authority: Authority) -> _Lines:
    return [share_words(authority.compiled.share)]


def _approval(authority: Authority) -> _Lines:
    return [approval_words(authority).partition(": ")[2] or "not needed"]


def _may(tool: ToolAuthority) -> str:
    if tool.effect is Effect.DENY:
        return tool_words(tool) if tool.vain else "never"
    return f"yes{call_words(tool)}{approved(tool.effect)}{rate_words(tool)}"


def _models(authorities: Sequence[Authority]) -> Sequence[tuple[str, _Cell]]:
    named = {model.name for each in authorities for model in each.models or ()}
    return [
        *((name, _model(name)) for name in sorted(named)),
        ("any other that the gateway serves", _any_model),
    ]


def _model(name: str) -> _Cell:
    def cell(authority: Authority) -> _Lines:
        found = next((model for model in authority.models or () if model.name == name), None)
        if found is None:
            return _any_model(authority)
        return [f"yes{model_words(found)}", *_at(authority, found.rules)]

    return cell


def _any_model(authority: Authority) -> _Lines:
    return ["yes" if authority.models is None else "no"]


def _paths(entry: FileAuthority) -> Sequence[str]:
    return [entry.path, *(carved.path for carved in entry.except_paths)]


def _path(path: str) -> _Cell:
    def cell(authority: Authority) -> _Lines:
        for mode in (PathMode.READ_WRITE, PathMode.READ):
            decision = authority.compiled.decide_path(path, mode)
            if decision.effect is Effect.ALLOW:
                return [mode.value, *_at(authority, decision.rules)]
        carved = [each for entry in authority.files for each in entry.except_paths if covers(each.path, path)]
        return ["never", *_at(authority, carved[0].rules)] if carved else ["no"]

    return cell


def _hosts(authorities: Sequence[Authority]) -> Sequence[tuple[str, _Cell]]:
    rows = {reach.text: reach for each in authorities for reach in each.hosts}
    return [(text, _host(reach)) for text, reach in sorted(rows.items())]


def _host(row: Reach) -> _Cell:
    def cell(authority: Authority) -> _Lines:
        own = [reach for reach in authority.hosts if reach.text == row.text]
        over = [each for each in authority.hosts if each.covers(row.names.sample, row.port, row.scheme)]
        return [line for reach in own or over for line in _reach_lines(authority, reach, own=bool(own))] or [
            "no"
        ]

    return cell


def _reach_lines(authority: Authority, reach: Reach, *, own: bool) -> Iterator[str]:
    if not own:
        yield f"as {reach.text}"
        return
    yield from filter(None, (names_words(reach.names), unrestricted_words(reach), endpoint_words(reach)))
    for group in reach.requests:
        yield requests_words(group) + rule_limit_words(authority, group.rules)
        yield from _at(authority, group.rules)
    yield from (f"denial {place}" for place in _at(authority, reach.denials))


def _secrets(authorities: Sequence[Authority]) -> Sequence[tuple[str, _Cell]]:
    flows = {
        (secret.grant.name, sink.host, sink.port)
        for each in authorities
        for secret in each.secrets
        for sink in secret.sinks
    }
    return [(f"{name} to {host}:{port}", _flow(name, host, port)) for name, host, port in sorted(flows)] + [
        (f"{name}, nowhere", _vain(name))
        for name in sorted(
            {secret.grant.name for each in authorities for secret in each.secrets if not secret.sinks}
        )
    ]


def _flow(name: str, host: str, port: int) -> _Cell:
    def cell(authority: Authority) -> _Lines:
        for secret in authority.secrets:
            for sink in secret.sinks:
                if (secret.grant.name, sink.host, sink.port) == (name, host, port):
                    words = f"{place_words(secret.grant.inject)}{approved(sink.effect)}"
                    words += rule_limit_words(authority, (secret.rule,))
                    exchange = secret.grant.inject.exchange
                    beside = [] if exchange is None else [exchange_words(exchange)]
                    return [words, *beside, *_at(authority, sink.rules)]
        return ["no"]

    return cell


def _vain(name: str) -> _Cell:
    def cell(authority: Authority) -> _Lines:
        found = [each for each in authority.secrets if each.grant.name == name and not each.sinks]
        return [
            line for each in found for line in ("granted, and usable nowhere", *_at(authority, (each.rule,)))
        ] or [""]

    return cell


def _limit(name: str) -> _Cell:
    return lambda authority: [dict(limit_lines(authority)).get(name, "none")]


def _bound(name: str) -> _Cell:
    return lambda authority: [bound_words(authority, name)]
