"""Places the boxes and lines of a picture in three layers: boxes do not overlap, lines leave them in order.

Left and right nodes are ordered by the mean position of their agents, which keeps lines from crossing more than they
must (the barycentre rule of layered drawings), and stay together by kind, under the kind's title. Units are those of
the SVG's ``viewBox``; a character of the names' typewriter face is :data:`CHARACTER` wide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from affiant.policy.review.graph import KINDS, Edge, Graph, Node
from affiant.policy.review.page_text import shortened

__all__ = ["CHARACTER", "LINE", "WIDTH", "Box", "Drawing", "Title", "Wire", "laid_out"]

WIDTH: Final = 940
CHARACTER: Final = 7.5
LINE: Final = 16
_COLUMNS: Final[Mapping[str, tuple[int, int]]] = {
    "secret": (0, 270),
    "file": (0, 270),
    "agent": (370, 180),
    "tool": (650, 290),
    "provider": (650, 290),
    "host": (650, 290),
    "port": (650, 290),
    "start": (650, 290),
}
"""Left edge and width of each kind's boxes."""
_SIDES: Final = (("secret", "file"), ("agent",), ("tool", "provider", "host", "port", "start"))
_GAP, _TITLE, _PADDING, _BETWEEN, _PORT, _APART = 8, 26, 8, 14, 13, 40
_MAX_LINES: Final = 2


@dataclass(frozen=True, slots=True)
class Box:
    """A node's place; ``lines`` are its name's, cut in the middle where they would not fit, and ``note`` is below."""

    node: Node
    x: int
    y: float
    width: int
    height: int
    lines: tuple[str, ...]
    note: str

    @property
    def middle(self) -> float:
        """Its centre's height."""
        return self.y + self.height / 2


@dataclass(frozen=True, slots=True)
class Title:
    """The name of a kind, above its boxes."""

    text: str
    x: int
    y: float


@dataclass(frozen=True, slots=True)
class Wire:
    """An edge's way: from the right side of one box to the left side of another."""

    edge: Edge
    start: tuple[int, float]
    end: tuple[int, float]


@dataclass(frozen=True, slots=True)
class Drawing:
    """All of it, from the top left corner."""

    height: int
    titles: tuple[Title, ...]
    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]


def laid_out(graph: Graph) -> Drawing:
    """The places of a graph's nodes and edges."""
    rank = {node: at for at, node in enumerate(node for node in graph.nodes if node.kind == "agent")}
    columns = [_ordered(graph, kinds, rank) for kinds in _SIDES]
    ports = _ports(graph.edges)
    stacks = [_Stack([_box(node, graph.notes, ports) for node in column]) for column in columns]
    height = max(stack.height for stack in stacks)
    titles: list[Title] = []
    boxes: list[Box] = []
    for stack in stacks:
        stack.place(height, titles, boxes)
    return Drawing(int(height) + 1, tuple(titles), tuple(boxes), tuple(_wires(graph.edges, boxes)))


def _ordered(graph: Graph, kinds: Sequence[str], rank: Mapping[Node, int]) -> list[Node]:
    """The nodes of one side: by kind, then by where their agents are, then as they came."""
    places: dict[Node, list[int]] = {}
    for edge in graph.edges:
        for node, agent in ((edge.start, edge.end), (edge.end, edge.start)):
            if agent in rank:
                places.setdefault(node, []).append(rank[agent])
    found = [node for node in graph.nodes if node.kind in kinds]
    return sorted(
        found, key=lambda node: (kinds.index(node.kind), node.counts > 0, _mean(places.get(node, ())))
    )


def _mean(places: Sequence[int]) -> float:
    return sum(places) / len(places) if places else 0.0


def _ports(edges: Iterable[Edge]) -> Mapping[Node, int]:
    """The most lines that meet one side of a node."""
    leaving: dict[Node, int] = {}
    coming: dict[Node, int] = {}
    for edge in edges:
        leaving[edge.start] = leaving.get(edge.start, 0) + 1
        coming[edge.end] = coming.get(edge.end, 0) + 1
    return {node: max(leaving.get(node, 0), coming.get(node, 0)) for node in {**leaving, **coming}}


def _box(node: Node, notes: Mapping[Node, str], ports: Mapping[Node, int]) -> Box:
    """Of its size, not yet at its height."""
    x, width = _COLUMNS[node.kind]
    most = int((width - 2 * _PADDING) / CHARACTER)
    lines = _fitted(node.name, most)
    note = _ended(notes.get(node, ""), most + 4)  # in the narrower face of text
    height = LINE * (len(lines) + bool(note)) + 2 * _PADDING
    return Box(node, x, 0, width, max(height, _PORT * (ports.get(node, 0) + 1)), lines, note)


def _fitted(name: str, most: int) -> tuple[str, ...]:
    """``name`` on one line or two of at most ``most`` characters."""
    shown = shortened(name, _MAX_LINES * most)
    if len(shown) <= most:
        return (shown,)
    breaks = [at + 1 for at, char in enumerate(shown[:most]) if char in "/.-_:"]
    at = breaks[-1] if breaks and len(shown) - breaks[-1] <= most else most
    return shown[:at], shown[at:]


def _ended(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}\u2026"


class _Stack:
    """The boxes of one column, kind by kind."""

    def __init__(self, boxes: Sequence[Box]) -> None:
        self._groups = [list(group) for _, group in groupby(boxes, key=lambda box: box.node.kind)]
        inside = sum(box.height for box in boxes) + _GAP * sum(len(group) - 1 for group in self._groups)
        self.height = inside + (_TITLE * len(self._groups)) + _BETWEEN * max(0, len(self._groups) - 1)

    def place(self, height: float, titles: list[Title], boxes: list[Box]) -> None:
        """Put all into a column of that height: in its middle, a little apart where there is room."""
        gaps = sum(map(len, self._groups)) + 1
        apart = min((height - self.height) / gaps, _APART)
        y = (height - self.height - apart * (gaps - 2)) / 2
        for group in self._groups:
            kind = KINDS[group[0].node.kind]
            titles.append(
                Title(kind if len(group) > 1 else kind.removesuffix("s"), group[0].x, y + _TITLE - 10)
            )
            y += _TITLE
            for box in group:
                boxes.append(_at(box, y))
                y += box.height + _GAP + apart
            y += _BETWEEN - _GAP


def _at(box: Box, y: float) -> Box:
    return Box(box.node, box.x, y, box.width, box.height, box.lines, box.note)


def _wires(edges: Sequence[Edge], boxes: Sequence[Box]) -> list[Wire]:
    """Lines leave a box in the order of the heights to which they lead."""
    by_node = {box.node: box for box in boxes}
    leaving = _spread(edges, by_node, start=True)
    coming = _spread(edges, by_node, start=False)
    return [
        Wire(
            edge,
            (by_node[edge.start].x + by_node[edge.start].width, leaving[edge]),
            (by_node[edge.end].x, coming[edge]),
        )
        for edge in edges
    ]


def _spread(edges: Sequence[Edge], boxes: Mapping[Node, Box], *, start: bool) -> Mapping[Edge, float]:
    """The height at which each edge meets a side of its box."""
    at: dict[Node, list[Edge]] = {}
    for edge in edges:
        at.setdefault(edge.start if start else edge.end, []).append(edge)
    found: dict[Edge, float] = {}
    for node, meeting in at.items():
        meeting.sort(key=lambda edge: boxes[edge.end if start else edge.start].middle)
        box = boxes[node]
        for number, edge in enumerate(meeting, 1):
            found[edge] = box.y + box.height * number / (len(meeting) + 1)
    return found
