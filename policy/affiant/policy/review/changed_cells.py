"""Finds the cells of the table that an exact difference is about, so that the page can mark them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from affiant.policy.authority.authority import Authority
from affiant.policy.authority.matrix import ANY_MODEL, Row
from affiant.policy.canonical.paths import covers
from affiant.policy.decision.questions import EgressQuestion, PathQuestion, ToolQuestion, parse_question
from affiant.policy.diff.differences import Difference, Direction
from affiant.policy.diff.reachable import Reach
from affiant.policy.model.profile import Scheme

__all__ = ["AGENT", "changed_cells"]

AGENT = Row("agent", "")
"""Stands for the agent itself: its profile as a whole, its bounds."""

Changed = Mapping[tuple[str, Row], frozenset[Direction]]


def changed_cells(
    differences: Iterable[Difference],
    rows: Mapping[Row, Reach | None],
    sides: Mapping[str, Iterable[Authority]],
) -> Changed:
    """The directions in which an agent's cells differ.

    Args:
        rows: of both versions.
        sides: the authorities of each agent, in both versions.
    """
    found: dict[tuple[str, Row], set[Direction]] = {}
    paths = [row.name for row in rows if row.plane == "path"]
    reached = _Reached(sides)
    for each in differences:
        for row in _rows(each, paths, reached):
            at = row if row in rows else AGENT
            found.setdefault((each.agent, at), set()).add(each.direction)
    return {key: frozenset(directions) for key, directions in found.items()}


def _rows(found: Difference, paths: Iterable[str], reached: _Reached) -> Iterator[Row]:
    match found.plane:
        case "tool" | "call":
            question = parse_question(found.request.removeprefix("arguments of "))
            if isinstance(question, ToolQuestion):
                yield Row("tool", question.name)
        case "provider_tool" | "start":
            yield Row(found.plane, found.request.removeprefix(f"{found.plane}:"))
        case "port":
            yield from reached.ports(found.agent, found.request.removeprefix("port:"))
        case "model":
            name = found.request.removeprefix("model:").partition(" ")[0]
            yield Row("model", ANY_MODEL if found.others else name)
        case "path":
            yield from _path(found, paths)
        case "egress" | "tls":
            question = parse_question(found.request)
            if isinstance(question, EgressQuestion):
                yield from reached.rows(found.agent, question)
        case "address":
            host = found.request.removeprefix("addresses of ")
            reaches = reached.of(found.agent)
            yield from (Row("egress", reach.text) for reach in reaches if reach.names.covers(host))
        case "secret":
            yield Row("secret", found.request.removeprefix("secret:").partition("@")[0])
        case "secret_setting":
            yield Row("secret", found.request.rpartition(" ")[2])
        case _:
            yield AGENT


def _path(found: Difference, paths: Iterable[str]) -> Iterator[Row]:
    """The nearest row above: what differs there differs below it."""
    question = parse_question(found.request)
    if isinstance(question, PathQuestion):
        over = [path for path in paths if covers(path, question.path)]
        yield Row("path", max(over, key=len)) if over else AGENT


class _Reached:
    """The rows of endpoints. Many requests differ at one endpoint: it is looked for once."""

    def __init__(self, sides: Mapping[str, Iterable[Authority]]) -> None:
        self._sides = sides
        self._known: dict[tuple[str, str, int, Scheme], tuple[Row, ...]] = {}

    def of(self, agent: str) -> Iterator[Reach]:
        """Every endpoint of an agent, in both versions."""
        yield from (reach for each in self._sides.get(agent, ()) for reach in each.hosts)

    def ports(self, agent: str, text: str) -> Iterator[Row]:
        """The rows of an agent, in both versions, that have one of these ports."""
        first, _, last = text.partition("-")
        for each in self._sides.get(agent, ()):
            for row in each.ports:
                if row.ports.first <= int(last or first) and int(first) <= row.ports.last:
                    yield Row("port", row.ports.text)

    def rows(self, agent: str, question: EgressQuestion) -> tuple[Row, ...]:
        """Those whose endpoint a request goes to."""
        at = (question.host, question.port, question.scheme)
        key = (agent, *at)
        if key not in self._known:
            self._known[key] = tuple(
                Row("egress", reach.text) for reach in self.of(agent) if reach.covers(*at)
            )
        return self._known[key]
