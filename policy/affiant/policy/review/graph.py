"""Builds the graph of the picture: agents in the middle, secrets and files on the left, tools and hosts on the right.

Secrets and files are on the left, tools and hosts on the right; a secret's way to a host leads through the agent that
can send it. A file or host reached by several agents is one node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from affiant.policy.authority.authority import Authority
from affiant.policy.authority.matrix import Column, rows_of
from affiant.policy.authority.words import OWNER_REACHES, PROVIDER_FETCHES, requests_words
from affiant.policy.diff.reachable import Reach
from affiant.policy.model.profile import Scheme
from affiant.policy.review.page_text import plain
from affiant.policy.review.summary import host_name

__all__ = ["KINDS", "Edge", "Graph", "Node", "graph_of"]

KINDS: Final[Mapping[str, str]] = {
    "secret": "Secrets",
    "file": "Files",
    "agent": "Agents",
    "tool": "Tools",
    "provider": "Provider tools",
    "host": "Hosts",
    "port": "Ports",
    "start": "Agents to start",
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
    agent, column = Node("agent", authority.agent), Column(authority, formats=False)
    below = {entry.path: len(entry.except_paths) for entry in authority.files}
    found: dict[str, list[tuple[Edge, Node, str]]] = {kind: [] for kind in KINDS}
    for row, reach in rows_of([authority]).items():
        cell = column.cell(row, reach)
        asks, words = cell.letter == "P", "; ".join(cell.words)
        if row.plane == "model" or cell.letter == "N":
            continue
        if reach is not None:
            node, carried = Node("host", host_name(reach)), _carried(authority, reach)
            edge, note = Edge(agent, node, asks=asks, carries=bool(carried)), _sent(reach, carried)
        elif row.plane == "tool":
            node, note = Node("tool", row.name), words.removeprefix("yes").lstrip(", ") or "any call"
            edge = Edge(agent, node, asks=asks)
        elif row.plane == "provider_tool":
            node, note = Node("provider", row.name), PROVIDER_FETCHES
            edge = Edge(agent, node, asks=asks)
        elif row.plane == "start":
            node, note = (
                Node("start", row.name),
                words.removeprefix("yes").lstrip(", ") or "any number of sessions",
            )
            edge = Edge(agent, node, asks=asks)
        elif row.plane == "port":
            node, note = Node("port", row.name), OWNER_REACHES
            edge = Edge(agent, node, asks=asks)
        elif row.plane == "path":
            node = Node("file", row.name)
            note = words.partition(",")[0] + (f", but {below[row.name]} below" if below[row.name] else "")
            edge = Edge(node, agent, back=cell.letter == "W")
        else:
            node = Node("secret", row.name)
            ends = [line.partition(",")[0] for line in cell.words if line.startswith("to ")]
            note = _ends(ends) if ends else "usable nowhere"
            edge = Edge(node, agent, asks=asks, carries=bool(ends))
        found[node.kind].append((edge, node, plain(note)))
    found["host"].sort(
        key=lambda each: not each[0].carries
    )  # those are never among the rest that is only counted
    for kind, listed in found.items():
        yield from _shortened(agent, kind, listed)


def _ends(ends: Sequence[str]) -> str:
    """``to host:port`` of each endpoint, as a note."""
    hosts = list(dict.fromkeys(end.rpartition(":")[0] for end in ends))
    if len(ends) == 1:
        return ends[0]
    return f"{hosts[0]}, {len(ends)} ports" if len(hosts) == 1 else f"to {len(hosts)} hosts"


def _shortened(
    agent: Node, kind: str, listed: Sequence[tuple[Edge, Node, str]]
) -> Iterator[tuple[Edge, Node, str]]:
    kept = listed if len(listed) <= _SHOWN else listed[: _SHOWN - 1]
    yield from kept
    more = len(listed) - len(kept)
    if more:
        rest = Node(kind, f"and {more} more", more)
        ends = (rest, agent) if kind in ("secret", "file") else (agent, rest)
        carries = any(edge.carries for edge, _, _ in listed[len(kept) :])
        yield Edge(*ends, carries=carries), rest, "in the table above"


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
