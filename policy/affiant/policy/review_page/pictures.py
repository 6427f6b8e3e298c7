"""Makes the pictures as values for SVG: one of all agents if they are few, else one for each.

Nothing but the page's own style and shapes; no reference leads out of the drawing. What the colours say is said by
dashes, weights and words too, and all of it again by the tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from affiant.policy.authority.authority import Authority
from affiant.policy.review.graph import Graph, graph_of
from affiant.policy.review.review import Review
from affiant.policy.review_page.layout import LINE, WIDTH, Box, Wire, laid_out

__all__ = ["pictures"]

_MAX_AGENTS: Final = 6
_MAX_BESIDE: Final = 18
"""Nodes on one side of a picture of all agents; more, and each agent has its own."""
_ARROW: Final = 7


def pictures(review: Review) -> Mapping[str, object]:
    """``all``: the one picture of all agents, if it is readable; ``by_agent``: else one for each agent that has any."""
    if _fits(review):
        return {"all": _drawn(review.new.agents) if review.new.agents else None, "by_agent": {}}
    return {
        "all": None,
        "by_agent": {
            each.agent: _drawn([each])
            for each in review.new.agents
            if any(
                (
                    each.tools,
                    each.provider_tools,
                    each.files,
                    each.hosts,
                    each.secrets,
                    each.ports,
                    each.may_start,
                )
            )
        },
    }


def _fits(review: Review) -> bool:
    if len(review.new.agents) > _MAX_AGENTS:
        return False
    kinds = [node.kind for node in graph_of(review.new.agents).nodes]
    left, right = ("secret", "file"), ("tool", "provider", "host", "port", "start")
    return all(sum(kind in side for kind in kinds) <= _MAX_BESIDE for side in (left, right))


def _drawn(agents: Sequence[Authority]) -> Mapping[str, object]:
    graph = graph_of(agents)
    drawing = laid_out(graph)
    return {
        "title": _title(agents, graph),
        "size": f"-1 0 {WIDTH + 2} {drawing.height}",
        "wires": [_wire(wire) for wire in drawing.wires],
        "titles": [(title.text, title.x, _number(title.y)) for title in drawing.titles],
        "boxes": [_box(box) for box in drawing.boxes],
    }


def _title(agents: Sequence[Authority], graph: Graph) -> str:
    who = agents[0].agent if len(agents) == 1 else f"{len(agents)} agents"
    return f"What {who} may use and reach: {len(graph.nodes)} things, {len(graph.edges)} ties"


def _box(box: Box) -> Mapping[str, object]:
    rows = len(box.lines) + bool(box.note)
    first = box.middle - LINE * rows / 2 + LINE - 4
    return {
        "name": box.node.name,
        "kind": box.node.kind,
        "x": box.x,
        "y": _number(box.y),
        "width": box.width,
        "height": box.height,
        "corner": 18 if box.node.kind in ("tool", "provider") else 4,
        "text_x": box.x + 12,
        "lines": [(line, _number(first + LINE * at)) for at, line in enumerate(box.lines)],
        "note": (box.note, _number(first + LINE * len(box.lines))) if box.note else None,
    }


def _wire(wire: Wire) -> Mapping[str, object]:
    """A curve that leaves and arrives level, with an arrow at the end, or at both."""
    (x1, y1), (x2, y2) = wire.start, wire.end
    bend = (x2 - x1) // 2
    start = x1 + (_ARROW if wire.edge.back else 0)
    path = f"M{start} {_number(y1)}C{x1 + bend} {_number(y1)} {x2 - bend} {_number(y2)} {x2 - _ARROW} {_number(y2)}"
    arrows = [_arrow(x2, y2, -_ARROW)] + ([_arrow(x1, y1, _ARROW)] if wire.edge.back else [])
    looks = ["wire", "asks" if wire.edge.asks else "", "carries" if wire.edge.carries else ""]
    return {"look": " ".join(filter(None, looks)), "path": path, "arrows": arrows}


def _arrow(x: int, y: float, back: int) -> str:
    return f"M{x} {_number(y)}L{x + back} {_number(y - 4)}V{_number(y + 4)}Z"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
