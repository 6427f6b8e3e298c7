"""Draws authorities as a graph in DOT and Mermaid: agents to tools, files and hosts; secrets to hosts.

What needs approval is dashed; limits stand where they count, at the agent or at the edge of a rule. A host that an
agent reaches by a wildcard is the wildcard's node. No name is markup in either language, and no name is an identifier:
nodes are numbered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from affiant.policy.authority.authority import Authority
from affiant.policy.authority.token_exchange_words import SENT_FOR_TOKEN
from affiant.policy.authority.tool_words import call_words, rate_words
from affiant.policy.authority.words import (
    ANYTHING,
    limit_lines,
    path_words,
    queue_words,
    requests_words,
    rule_limit_words,
    unrestricted_words,
)
from affiant.policy.decision.decide import Effect
from affiant.policy.diff.reachable import Reach
from affiant.policy.model.profile import Scheme
from affiant.policy.rendering.markup import dot_text, mermaid_text

__all__ = ["authority_dot", "authority_mermaid"]

_DOT_SHAPES: Final = {
    "agent": "box",
    "tool": "ellipse",
    "file": "folder",
    "host": "hexagon",
    "secret": "diamond",
}
_MERMAID_SHAPES: Final = {
    "agent": ("[", "]"),
    "tool": ("([", "])"),
    "file": ("[/", "/]"),
    "host": ("{{", "}}"),
    "secret": ("{", "}"),
}


@dataclass(frozen=True, slots=True, order=True)
class _Node:
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class _Edge:
    start: _Node
    end: _Node
    label: str
    asks: bool
    where: str = ""


def authority_dot(authorities: Sequence[Authority]) -> str:
    """A directed graph for ``dot -Tsvg``."""
    edges, numbers = _graph(authorities)
    titles = _titles(authorities, numbers)
    lines = ["digraph authority {", "  rankdir=LR;"]
    for node, number in numbers.items():
        lines.append(f"  n{number} [shape={_DOT_SHAPES[node.kind]}, label={dot_text(titles[node])}];")
    for edge in edges:
        style = (", style=dashed" if edge.asks else "") + f", tooltip={dot_text(edge.where)}"
        lines.append(
            f"  n{numbers[edge.start]} -> n{numbers[edge.end]} [label={dot_text(edge.label)}{style}];"
        )
    return "\n".join([*lines, "}", ""])


def authority_mermaid(authorities: Sequence[Authority]) -> str:
    """A flowchart, as forges draw it in a fenced block of the language ``mermaid``."""
    edges, numbers = _graph(authorities)
    titles = _titles(authorities, numbers)
    lines = ["flowchart LR"]
    for node, number in numbers.items():
        opening, closing = _MERMAID_SHAPES[node.kind]
        lines.append(f"  n{number}{opening}{mermaid_text(titles[node])}{closing}")
    for edge in edges:
        arrow = "-.->" if edge.asks else "-->"
        label = f"|{mermaid_text(edge.label)}|" if edge.label else ""
        lines.append(f"  n{numbers[edge.start]} {arrow}{label} n{numbers[edge.end]}")
    return "\n".join([*lines, ""])


def _of_session(authority: Authority) -> Iterator[str]:
    yield from (f"{name} {words}" for name, words in limit_lines(authority))
    if words := queue_words(authority):
        yield words


def _titles(authorities: Sequence[Authority], nodes: Iterable[_Node]) -> Mapping[_Node, str]:
    """What stands in each node: of an agent the limits of a session too, and its share of an upstream."""
    limits = {each.agent: "; ".join(_of_session(each)) for each in authorities}
    found = {node: node.name if node.kind == "host" else f"{node.kind} {node.name}" for node in nodes}
    for node in found:
        if node.kind == "agent" and limits[node.name]:
            found[node] += f" ({limits[node.name]})"
    return found


def _graph(authorities: Sequence[Authority]) -> tuple[Sequence[_Edge], dict[_Node, int]]:
    edges = list(dict.fromkeys(edge for authority in authorities for edge in _edges(authority)))
    agents = [_Node("agent", authority.agent) for authority in authorities]
    nodes = dict.fromkeys([*agents, *sorted({node for edge in edges for node in (edge.start, edge.end)})])
    return edges, {node: number for number, node in enumerate(nodes)}


def _edges(authority: Authority) -> Iterator[_Edge]:
    agent = _Node("agent", authority.agent)
    for tool in authority.tools:
        where = _where(authority, tool.rules)
        words = (call_words(tool) + rate_words(tool)).removeprefix(",").strip()
        yield _Edge(agent, _Node("tool", tool.name), words, tool.effect is Effect.ASK, where)
    for entry in authority.files:
        but = [f"but never {path_words(carved.path)}" for carved in entry.except_paths]
        label = ", ".join([entry.mode.value, *but])
        where = _where(authority, entry.rules)
        yield _Edge(agent, _Node("file", entry.path), label, asks=False, where=where)
    for reach in authority.hosts:
        where = _where(authority, reach.rules)
        words = _requests(authority, reach)
        yield _Edge(agent, _Node("host", reach.text), words, reach.effect is Effect.ASK, where)
    for secret in authority.secrets:
        node = _Node("secret", secret.grant.name)
        uses = rule_limit_words(authority, (secret.rule,)).removeprefix(", ")
        yield _Edge(agent, node, uses, asks=False, where=_where(authority, (secret.rule,)))
        exchange = secret.grant.inject.exchange
        if exchange is not None and secret.sinks:
            endpoint = _Node("host", f"token endpoint {exchange.host}:{exchange.port}")
            label = f"by the broker, for a token: {SENT_FOR_TOKEN[exchange.grant]}"
            yield _Edge(node, endpoint, label, asks=False, where=_where(authority, (secret.rule,)))
        for sink in secret.sinks:
            host = _Node("host", _reached(authority.hosts, sink.host, sink.port).text)
            label = f"{authority.agent} to {sink.host}:{sink.port} in {secret.grant.surface}"
            yield _Edge(node, host, label, sink.effect is Effect.ASK, _where(authority, sink.rules))


def _where(authority: Authority, rules: Iterable[str]) -> str:
    return ", ".join(f"{rule} {authority.where(rule)}" for rule in rules)


def _requests(authority: Authority, reach: Reach) -> str:
    """The words of a host that nothing narrows; else, or where approval differs, those of each group."""
    limits = [rule_limit_words(authority, group.rules) for group in reach.requests]
    groups = "; ".join(
        requests_words(group) + words for group, words in zip(reach.requests, limits, strict=True)
    )
    if not reach.unrestricted:
        return groups
    plain = len(reach.requests) == 1 and not reach.denials and not any(limits)
    return ANYTHING if plain else f"{unrestricted_words(reach)}: {groups}"


def _reached(hosts: Iterable[Reach], host: str, port: int) -> Reach:
    """The endpoint that a sink is in: a secret that can go nowhere is no sink."""
    return next(reach for reach in hosts if reach.covers(host, port, Scheme.HTTPS))
