"""Authorities as a graph, for Graphviz (DOT) and Mermaid: agents to tools, files and hosts; secrets to hosts.

What needs approval is dashed. A host that an agent reaches by a wildcard is the wildcard's node. No name is markup in
either language, and no name is an identifier: nodes are numbered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from affiant.policy.authority import Authority
from affiant.policy.authority_words import ANYTHING, path_words, requests_words, unrestricted_words
from affiant.policy.decide import Effect
from affiant.policy.markup import dot_text, mermaid_text
from affiant.policy.profile import Scheme
from affiant.policy.reachable import Reach
from affiant.policy.tool_words import call_words

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
    lines = ["digraph authority {", "  rankdir=LR;"]
    for node, number in numbers.items():
        lines.append(f"  n{number} [shape={_DOT_SHAPES[node.kind]}, label={dot_text(_title(node))}];")
    for edge in edges:
        style = (", style=dashed" if edge.asks else "") + f", tooltip={dot_text(edge.where)}"
        lines.append(
            f"  n{numbers[edge.start]} -> n{numbers[edge.end]} [label={dot_text(edge.label)}{style}];"
        )
    return "\n".join([*lines, "}", ""])


def authority_mermaid(authorities: Sequence[Authority]) -> str:
    """A flowchart, as forges draw it in a fenced block of the language ``mermaid``."""
    edges, numbers = _graph(authorities)
    lines = ["flowchart LR"]
    for node, number in numbers.items():
        opening, closing = _MERMAID_SHAPES[node.kind]
        lines.append(f"  n{number}{opening}{mermaid_text(_title(node))}{closing}")
    for edge in edges:
        arrow = "-.->" if edge.asks else "-->"
        label = f"|{mermaid_text(edge.label)}|" if edge.label else ""
        lines.append(f"  n{numbers[edge.start]} {arrow}{label} n{numbers[edge.end]}")
    return "\n".join([*lines, ""])


def _title(node: _Node) -> str:
    return node.name if node.kind == "host" else f"{node.kind} {node.name}"


def _graph(authorities: Sequence[Authority]) -> tuple[Sequence[_Edge], dict[_Node, int]]:
    edges = list(dict.fromkeys(edge for authority in authorities for edge in _edges(authority)))
    agents = [_Node("agent", authority.agent) for authority in authorities]
    nodes = dict.fromkeys([*agents, *sorted({node for edge in edges for node in (edge.start, edge.end)})])
    return edges, {node: number for number, node in enumerate(nodes)}


def _edges(authority: Authority) -> Iterator[_Edge]:
    agent = _Node("agent", authority.agent)
    for tool in authority.tools:
        where = _where(authority, tool.rules)
        yield _Edge(
            agent, _Node("tool", tool.name), call_words(tool).strip(), tool.effect is Effect.ASK, where
        )
    for entry in authority.files:
        but = [f"but never {path_words(carved.path)}" for carved in entry.except_paths]
        label = ", ".join([entry.mode.value, *but])
        where = _where(authority, entry.rules)
        yield _Edge(agent, _Node("file", entry.path), label, asks=False, where=where)
    for reach in authority.hosts:
        where = _where(authority, reach.rules)
        yield _Edge(agent, _Node("host", reach.text), _requests(reach), reach.effect is Effect.ASK, where)
    for secret in authority.secrets:
        node = _Node("secret", secret.grant.name)
        yield _Edge(agent, node, "", asks=False, where=_where(authority, (secret.rule,)))
        for sink in secret.sinks:
            host = _Node("host", _reached(authority.hosts, sink.host, sink.port).text)
            label = f"{authority.agent} to {sink.host}:{sink.port} in {secret.grant.surface}"
            yield _Edge(node, host, label, sink.effect is Effect.ASK, _where(authority, sink.rules))


def _where(authority: Authority, rules: Iterable[str]) -> str:
    return ", ".join(f"{rule} {authority.where(rule)}" for rule in rules)


def _requests(reach: Reach) -> str:
    """The words of a host that nothing narrows; else, or where approval differs, those of each group."""
    groups = "; ".join(requests_words(group) for group in reach.requests)
    if not reach.unrestricted:
        return groups
    plain = len(reach.requests) == 1 and not reach.denials
    return ANYTHING if plain else f"{unrestricted_words(reach)}: {groups}"


def _reached(hosts: Iterable[Reach], host: str, port: int) -> Reach:
    """The endpoint that a sink is in: a secret that can go nowhere is no sink."""
    return next(reach for reach in hosts if reach.covers(host, port, Scheme.HTTPS))
