"""The picture as inline SVG: one of all agents where they are few, else one for each.

Nothing but the page's own style and shapes; no reference leads out of the drawing. What the colours say is said by
dashes, weights and words too, and all of it again by the tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from affiant.policy.authority.authority import Authority
from affiant.policy.review.elements import NOTHING, Html, element, heading, text
from affiant.policy.review.graph import Graph, graph_of
from affiant.policy.review.review import Review
from affiant.policy.review_page.layout import LINE, WIDTH, Box, Wire, laid_out

__all__ = ["picture", "pictures"]

_MAX_AGENTS: Final = 6
_MAX_BESIDE: Final = 18
"""Nodes on one side of a picture of all agents; more, and each agent has its own."""
_ARROW: Final = 7


def pictures(review: Review) -> Mapping[str, Html]:
    """A picture for each agent, by name; none where one picture holds them all."""
    if _fits(review):
        return {}
    return {
        each.agent: _drawn([each], number)
        for number, each in enumerate(review.new.agents, 1)
        if each.tools or each.files or each.hosts or each.secrets
    }


def picture(review: Review) -> Html:
    """The section: the picture of all, or where to find each agent's."""
    apart = "Too much for one picture: each agent has its own, beside its rules."
    nobody = "The file has no profiles: there is nothing to draw."
    fits = _fits(review)
    said = (
        "Secrets and files on the left, tools and hosts on the right. A secret goes to a host through an agent."
        if fits
        else apart
    )
    drawn = _drawn(review.new.agents, 0) if fits and review.new.agents else NOTHING
    return element(
        "section",
        heading(2, text("Picture"), anchor="graph"),
        element("p", text(said if review.new.agents else nobody), cls="dim"),
        _legend() if review.new.agents else NOTHING,
        drawn,
        aria_labelledby="graph",
    )


def _fits(review: Review) -> bool:
    if len(review.new.agents) > _MAX_AGENTS:
        return False
    kinds = [node.kind for node in graph_of(review.new.agents).nodes]
    left, right = ("secret", "file"), ("tool", "host")
    return all(sum(kind in side for kind in kinds) <= _MAX_BESIDE for side in (left, right))


def _legend() -> Html:
    each = (
        (_sample("wire"), "may"),
        (_sample("wire asks"), "only after approval"),
        (_sample("wire carries"), "a secret's way to a host"),
    )
    items = (element("li", line, text(f" {words}")) for line, words in each)
    return element("ul", *items, cls="legend", aria_label="What the lines mean")


def _sample(cls: str) -> Html:
    line = element("path", d="M0 5H40", cls=cls)
    return element("svg", line, viewBox="0 0 40 10", width=40, height=10, aria_hidden="true")


def _drawn(agents: Sequence[Authority], number: int) -> Html:
    graph = graph_of(agents)
    drawing = laid_out(graph)
    shapes = [
        *(_wire(wire) for wire in drawing.wires),
        *(
            element("text", text(title.text), x=title.x, y=_number(title.y), cls="kind-of")
            for title in drawing.titles
        ),
        *(_box(box) for box in drawing.boxes),
    ]
    anchor = f"g{number}"
    title = element("title", text(_title(agents, graph)), id=anchor)
    svg = element(
        "svg",
        title,
        *shapes,
        viewBox=f"-1 0 {WIDTH + 2} {drawing.height}",
        role="img",
        aria_labelledby=anchor,
    )
    return element("figure", svg, cls="graph", tabindex=0)


def _title(agents: Sequence[Authority], graph: Graph) -> str:
    who = agents[0].agent if len(agents) == 1 else f"{len(agents)} agents"
    return f"What {who} may use and reach: {len(graph.nodes)} things, {len(graph.edges)} ties"


def _box(box: Box) -> Html:
    shape = element(
        "rect",
        x=box.x,
        y=_number(box.y),
        width=box.width,
        height=box.height,
        rx=18 if box.node.kind == "tool" else 4,
        cls=f"node {box.node.kind}",
    )
    rows = len(box.lines) + bool(box.note)
    first = box.middle - LINE * rows / 2 + LINE - 4
    lines = [
        element("text", text(line), x=box.x + 12, y=_number(first + LINE * at), cls="named")
        for at, line in enumerate(box.lines)
    ]
    note = element("text", text(box.note), x=box.x + 12, y=_number(first + LINE * len(box.lines)), cls="note")
    full = element("title", text(box.node.name))
    return element("g", full, shape, *lines, note if box.note else NOTHING)


def _wire(wire: Wire) -> Html:
    """A curve that leaves and arrives level, with an arrow at the end, or at both."""
    (x1, y1), (x2, y2) = wire.start, wire.end
    bend = (x2 - x1) // 2
    start = x1 + (_ARROW if wire.edge.back else 0)
    path = f"M{start} {_number(y1)}C{x1 + bend} {_number(y1)} {x2 - bend} {_number(y2)} {x2 - _ARROW} {_number(y2)}"
    look = " ".join(
        ["wire", *(["asks"] if wire.edge.asks else []), *(["carries"] if wire.edge.carries else [])]
    )
    arrows = [_arrow(x2, y2, -_ARROW)] + ([_arrow(x1, y1, _ARROW)] if wire.edge.back else [])
    return element(
        "g", element("path", d=path), *(element("path", d=each, cls="arrow") for each in arrows), cls=look
    )


def _arrow(x: int, y: float, back: int) -> str:
    return f"M{x} {_number(y)}L{x + back} {_number(y - 4)}V{_number(y + 4)}Z"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
