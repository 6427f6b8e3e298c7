"""Which cells of the table an exact difference is about, so that they are marked there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from affiant.policy.authority import Authority
from affiant.policy.differences import Difference, Direction
from affiant.policy.paths import covers
from affiant.policy.questions import EgressQuestion, PathQuestion, ToolQuestion, parse_question
from affiant.policy.reachable import Reach
from affiant.policy.report.matrix import ANY_MODEL, Row

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
    for each in differences:
        for row in _rows(each, paths, sides.get(each.agent, ())):
            at = row if row in rows else AGENT
            found.setdefault((each.agent, at), set()).add(each.direction)
    return {key: frozenset(directions) for key, directions in found.items()}


def _rows(found: Difference, paths: Iterable[str], sides: Iterable[Authority]) -> Iterator[Row]:
    match found.plane:
        case "tool" | "call":
            question = parse_question(found.request.removeprefix("arguments of "))
            if isinstance(question, ToolQuestion):
                yield Row("tool", question.name)
        case "model":
            name = found.request.removeprefix("model:").partition(" ")[0]
            yield Row("model", ANY_MODEL if found.others else name)
        case "path":
            yield from _path(found, paths)
        case "egress" | "tls":
            yield from _endpoints(found, sides)
        case "address":
            host = found.request.removeprefix("addresses of ")
            reaches = (reach for each in sides for reach in each.hosts)
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


def _endpoints(found: Difference, sides: Iterable[Authority]) -> Iterator[Row]:
    question = parse_question(found.request)
    if isinstance(question, EgressQuestion):
        at = (question.host, question.port, question.scheme)
        yield from (Row("egress", reach.text) for each in sides for reach in each.hosts if reach.covers(*at))
