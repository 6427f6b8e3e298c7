"""Draws authorities as a graph in DOT and Mermaid: agents to all that they use, and secrets to hosts.

What needs approval is dashed; limits stand where they count, at the agent or at the edge of a rule. A host that an
agent reaches by a wildcard is the wildcard's node. No name is markup in either language, and no name is an identifier:
nodes are numbered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from affiant.policy.authority.authority import Authority
from affiant.policy.authority.matrix import Column, rows_of
from affiant.policy.authority.token_exchange_words import SENT_FOR_TOKEN
from affiant.policy.authority.words import LIMITS, QUEUE, path_words, settings
from affiant.policy.decision.decide import Effect
from affiant.policy.diff.reachable import Reach
from affiant.policy.model.profile import Scheme
from affiant.policy.rendering.markup import dot_text, mermaid_text

__all__ = ["authority_dot", "authority_mermaid"]

_KINDS: Final = {
    "tool": "tool",
    "provider_tool": "provider tool",
    "path": "file",
    "egress": "host",
    "secret": "secret",
    "port": "port",
    "start": "agent",
}
"""The kinds of nodes, by the planes of rows."""
_DOT_SHAPES: Final = {
    "agent": "box",
    "tool": "ellipse",
    "provider tool": "ellipse",
    "file": "folder",
    "host": "hexagon",
    "secret": "diamond",
    "port": "circle",
}
_MERMAID_SHAPES: Final = {
    "agent": ("[", "]"),
    "tool": ("([", "])"),
    "provider tool": ("([", "])"),
    "file": ("[/", "/]"),
    "host": ("{{", "}}"),
    "secret": ("{", "}"),
    "port": ("((", "))"),
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
    found = settings(authority)
    for title in (LIMITS, QUEUE):
        yield from (f"{name} {words}".strip() for name, words in found[title].items())


def _titles(authorities: Sequence[Authority], nodes: Iterable[_Node]) -> Mapping[_Node, str]:
    """What is in each node: of an agent the limits of a session too, and its share of an upstream."""
    limits = {each.agent: "; ".join(_of_session(each)) for each in authorities}
    found = {node: node.name if node.kind == "host" else f"{node.kind} {node.name}" for node in nodes}
    for node in found:
        if node.kind == "agent" and limits.get(node.name):
            found[node] += f" ({limits[node.name]})"
    return found


def _graph(authorities: Sequence[Authority]) -> tuple[Sequence[_Edge], dict[_Node, int]]:
    edges = list(dict.fromkeys(edge for authority in authorities for edge in _edges(authority)))
    agents = [_Node("agent", authority.agent) for authority in authorities]
    nodes = dict.fromkeys([*agents, *sorted({node for edge in edges for node in (edge.start, edge.end)})])
    return edges, {node: number for number, node in enumerate(nodes)}


def _edges(authority: Authority) -> Iterator[_Edge]:
    agent, column = _Node("agent", authority.agent), Column(authority)
    never = {
        entry.path: [f"but never {path_words(carved.path)}" for carved in entry.except_paths]
        for entry in authority.files
    }
    for row, reach in rows_of([authority]).items():
        cell = column.cell(row, reach)
        if row.plane in _KINDS and cell.letter != "N":
            said = cell.said[:1] if row.plane == "secret" else cell.said
            words = [words for words, _ in said] + (never[row.name] if row.plane == "path" else [])
            where = _where(authority, dict.fromkeys(rule for _, rules in said for rule in rules))
            label = "; ".join(words).removeprefix("yes").lstrip(",: ")
            label = f"starts it, {label}".rstrip(", ") if row.plane == "start" else label
            yield _Edge(agent, _Node(_KINDS[row.plane], row.name), label, cell.letter == "P", where)
    for secret in authority.secrets:
        node = _Node("secret", secret.grant.name)
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


def _reached(hosts: Iterable[Reach], host: str, port: int) -> Reach:
    """The endpoint that a sink is in: a secret that can go nowhere is no sink."""
    return next(reach for reach in hosts if reach.covers(host, port, Scheme.HTTPS))
