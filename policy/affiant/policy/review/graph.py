"""Builds the graph of the picture: agents in the middle, secrets and files on the left, tools and hosts on the right.

Secrets and files are on the left, tools and hosts on the right; a secret's way to a host leads through the agent that
can send it. A file or host reached by several agents is one node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from affiant.policy.authority.authority import Authority
from affiant.policy.authority.tool_words import call_words
from affiant.policy.authority.words import requests_words
from affiant.policy.decision.decide import Effect
from affiant.policy.diff.reachable import Reach
from affiant.policy.model.profile import PathMode, Scheme
from affiant.policy.review.page_text import plain
from affiant.policy.review.summary import host_name

__all__ = ["KINDS", "Edge", "Graph", "Node", "graph_of"]

KINDS: Final[Mapping[str, str]] = {
    "secret": "Secrets",
    "file": "Files",
    "agent": "Agents",
    "tool": "Tools",
    "host": "Hosts",
}
_SHOWN: Final = 8
"""Nodes of one kind beside each agent; the rest is one node that counts them."""


@dataclass(frozen=True, slots=True)
class Node:
    """Something, by its kind (of :data:`KINDS`) and name; ``counts``: it stands for that many more."""

    kind: str
    name: str
    counts: int = 0


@dataclass(frozen=True, slots=True)
class Edge:
    """From left to right. ``back``: also the other way (a file that is written). ``carries``: a secret goes along."""

    start: Node
    end: Node
    asks: bool = False
    back: bool = False
    carries: bool = False


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in the order of the file, edges, and what is below a node's name: text that is harmless to look at."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    notes: Mapping[Node, str]


def graph_of(authorities: Sequence[Authority]) -> Graph:
    """The picture of some agents together."""
    edges: dict[Edge, None] = {}
    notes: dict[Node, list[str]] = {}
    for authority in authorities:
        for edge, node, note in _edges(authority):
            edges.setdefault(edge)
            notes.setdefault(node, []).append(note)
    nodes = dict.fromkeys(Node("agent", each.agent) for each in authorities)
    nodes |= dict.fromkeys(node for edge in edges for node in (edge.start, edge.end))
    return Graph(tuple(nodes), tuple(edges), {node: _note(said) for node, said in notes.items()})


def _note(said: Iterable[str]) -> str:
    different = [each for each in dict.fromkeys(said) if each]
    return different[0] if len(different) == 1 else "differs by agent" if different else ""


def _edges(authority: Authority) -> Iterator[tuple[Edge, Node, str]]:
    """Each edge, with what is to be said of the node that is not the agent."""
    agent = Node("agent", authority.agent)
    yield from _shortened(agent, "secret", _secrets(authority, agent))
    yield from _shortened(agent, "file", _files(authority, agent))
    yield from _shortened(agent, "tool", _tools(authority, agent))
    yield from _shortened(agent, "host", _hosts(authority, agent))


def _shortened(
    agent: Node, kind: str, found: Iterable[tuple[Edge, Node, str]]
) -> Iterator[tuple[Edge, Node, str]]:
    listed = list(found)
    kept = listed if len(listed) <= _SHOWN else listed[: _SHOWN - 1]
    yield from kept
    more = len(listed) - len(kept)
    if more:
        rest = Node(kind, f"and {more} more", more)
        ends = (rest, agent) if kind in ("secret", "file") else (agent, rest)
        carries = any(edge.carries for edge, _, _ in listed[len(kept) :])
        yield Edge(*ends, carries=carries), rest, "in the table above"


def _secrets(authority: Authority, agent: Node) -> Iterator[tuple[Edge, Node, str]]:
    for secret in authority.secrets:
        node = Node("secret", secret.grant.name)
        asks = bool(secret.sinks) and all(sink.effect is Effect.ASK for sink in secret.sinks)
        hosts = dict.fromkeys(sink.host for sink in secret.sinks)
        note = "usable nowhere"
        if hosts:
            note = f"to {plain(next(iter(hosts)))}" if len(hosts) == 1 else f"to {len(hosts)} hosts"
        yield Edge(node, agent, asks=asks, carries=bool(secret.sinks)), node, note


def _files(authority: Authority, agent: Node) -> Iterator[tuple[Edge, Node, str]]:
    for entry in authority.files:
        node = Node("file", entry.path)
        but = f", but {len(entry.except_paths)} below" if entry.except_paths else ""
        writes = entry.mode is PathMode.READ_WRITE
        yield Edge(node, agent, back=writes), node, f"{entry.mode.value}{but}"


def _tools(authority: Authority, agent: Node) -> Iterator[tuple[Edge, Node, str]]:
    found: dict[str, list[Effect]] = {}
    limited: dict[str, bool] = {}
    for tool in authority.tools:
        found.setdefault(tool.name, []).append(tool.effect)
        limited[tool.name] = limited.get(tool.name, True) and bool(call_words(tool))
    for name, effects in found.items():
        node = Node("tool", name)
        asks = Effect.ALLOW not in effects
        note = "some calls" if limited[name] else "any call"
        yield Edge(agent, node, asks=asks), node, note


def _hosts(authority: Authority, agent: Node) -> Iterator[tuple[Edge, Node, str]]:
    """Those to which a secret can go first: they are never among the rest that is only counted, unless all are."""
    found = [(reach, _carried(authority, reach)) for reach in authority.hosts]
    for reach, carried in sorted(found, key=lambda each: not each[1]):
        node = Node("host", host_name(reach))
        edge = Edge(agent, node, asks=reach.effect is Effect.ASK, carries=bool(carried))
        yield edge, node, _sent(reach, carried)


def _carried(authority: Authority, reach: Reach) -> Sequence[str]:
    return sorted(
        secret.grant.name
        for secret in authority.secrets
        if any(reach.covers(sink.host, sink.port, Scheme.HTTPS) for sink in secret.sinks)
    )


def _sent(reach: Reach, carried: Sequence[str]) -> str:
    first = "any request" if reach.unrestricted else plain(requests_words(reach.requests[0]))
    more = "" if reach.unrestricted or len(reach.requests) == 1 else " and other"
    if not carried:
        return first + more
    names = plain(carried[0]) if len(carried) == 1 else f"{len(carried)} secrets"
    return f"with {names}: {first}{more}"
