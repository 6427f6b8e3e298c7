"""Processes and memory of live sessions: ``affiant run`` with an idle command, several at once, services running.

Memory is proportional (PSS): a page that several processes share counts in parts. *Ours* are the processes that run
Python; the rest are the isolation's and the command's. How many sessions fit into 8 GiB is computed from these and the
services; that many are not started.

``python -m benchmarks.session_memory 20`` keeps 20 sessions at once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bare_tools import Tool
from benchmarks.control_group import ControlGroup, control_group, counted, proportional_bytes
from benchmarks.sessions import (
    PLAIN,
    Place,
    isolations,
    live,
    place,
    require_supervisors_started_by,
    served,
    templated,
)
from benchmarks.timing import Figure

SESSIONS = 3
MEMORY = 8 << 30
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Size:
    """Of processes together: how many, and bytes."""

    processes: int
    pss: int


def measure(count: int = SESSIONS) -> list[Figure]:
    with place() as at, control_group() as services:
        backend, tool = isolations(at.folder)[0]
        bare, plain = _kept(tool, count), _kept(PLAIN, count)
        figures = []
        with served(at, services):
            for name, way, template in (
                (backend.value, "interpreter", nullcontext()),
                (f"{backend.value}, template", "template", templated(at, services)),
            ):
                with template, control_group() as group:
                    lived = _lived(at, way, group, services, count)
                figures += _figures(name, tool, count, lived, bare, plain)
    return figures


def _figures(
    way: str, tool: Tool, count: int, lived: tuple[Size, Size, Size], bare: Size, plain: Size
) -> list[Figure]:
    ours, whole, shared = lived
    beside = {PLAIN.name: plain.processes / count}
    memory_beside = {PLAIN.name: plain.pss / _MIB / count}
    per_bare, per_session = bare.pss / _MIB / count, whole.pss / _MIB / count
    name = f"{way}, {count} sessions"
    fit = (MEMORY - shared.pss) / (whole.pss / count)
    return [
        Figure(
            f"{name}, each: our processes",
            ours.processes / count,
            "",
            tool.name,
            bare.processes / count,
            beside,
        ),
        Figure(f"{name}, each: our PSS", ours.pss / _MIB / count, "MiB", tool.name, per_bare, memory_beside),
        Figure(
            f"{name}, each: PSS, isolation included", per_session, "MiB", tool.name, per_bare, memory_beside
        ),
        Figure(f"{way}: PSS of the services", shared.pss / _MIB, "MiB", tool.name, per_bare, memory_beside),
        Figure(f"{way}: sessions in 8 GiB, services included", fit, "", tool.name, MEMORY / _MIB / per_bare),
    ]


def _lived(
    at: Place, way: str, group: ControlGroup, services: ControlGroup, count: int
) -> tuple[Size, Size, Size]:
    """Of ``count`` live sessions: our processes, all processes, and the services."""
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(live(at, group))
        require_supervisors_started_by(way, group)
        inside = group.processes()
        return _size(filter(_is_python, inside)), _size(inside), _size(services.processes())


def _kept(tool: Tool, count: int) -> Size:
    """Of ``count`` sandboxes of a bare tool."""
    with counted() as group, ExitStack() as stack:
        before = group.processes()
        for _ in range(count):
            stack.enter_context(tool.kept())
        return _size(process for process in group.processes() if process not in before)


def _size(processes: Iterable[int]) -> Size:
    each = [proportional_bytes(process) for process in processes]
    return Size(sum(1 for size in each if size), sum(each))


def _is_python(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/exe").resolve() == Path(sys.executable).resolve()
    except OSError:  # it has ended
        return False


if __name__ == "__main__":
    for figure in measure(int(sys.argv[1]) if sys.argv[1:] else SESSIONS):
        print(figure)
