"""One more command in a session that runs: ``true`` until its end is known, again and again in one session.

Each command has an intent that the gateway has acknowledged before it starts, and an outcome after it. Beside each, the
bare tool runs the same in a sandbox that it keeps: ``runsc exec``; for ``bwrap``, which enters no sandbox that runs,
``nsenter`` into its namespaces. 5 % are left out at each end.

``python -m benchmarks.session_exec 200`` runs 200 commands.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence

from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.session.session import Session
from benchmarks.bare_tools import Kept, Tool
from benchmarks.control_group import ControlGroup, control_group, counted
from benchmarks.sessions import PLAIN, Place, isolations, limited_to, opened, percentile, place, served
from benchmarks.timing import Figure

COMMANDS = 30
WARMING = 2
PERCENTILES = (50, 95, 99)
COMMAND = ("true",)

Taken = tuple[float, float]
"""Seconds, and seconds of processor time."""


def measure(count: int = COMMANDS) -> list[Figure]:
    figures: list[Figure] = []
    with place() as at, control_group() as services, served(at, services), counted() as group:
        for backend, tool in isolations(at.folder):
            with limited_to(backend), tool.kept() as kept:
                taken = asyncio.run(_commands(at, kept, group, count))
            figures += _figures(backend, tool, *taken)
    return figures


async def _commands(at: Place, kept: Kept, group: ControlGroup, count: int) -> tuple[list[Taken], ...]:
    """Commands in one session, and beside each one in the bare sandbox and a plain process."""
    ours, bare, plain = list[Taken](), list[Taken](), list[Taken]()
    async with opened(at) as session:
        for _ in range(count + WARMING):
            ours.append(await _ours(session, group))
            bare.append(_bare(lambda: kept.execute(COMMAND), group))
            plain.append(_bare(lambda: PLAIN.run(*COMMAND), group))
    return ours[WARMING:], bare[WARMING:], plain[WARMING:]


async def _ours(session: Session, group: ControlGroup) -> Taken:
    start, used = time.perf_counter(), group.processor_seconds()
    result = await session.run(COMMAND)
    taken = time.perf_counter() - start, group.processor_seconds() - used
    if result.exit_code != 0:
        raise RuntimeError(f"the command exited with {result.exit_code}")
    return taken


def _bare(call: Callable[[], None], group: ControlGroup) -> Taken:
    start, used = time.perf_counter(), group.processor_seconds()
    call()
    return time.perf_counter() - start, group.processor_seconds() - used


def _figures(
    backend: BackendName, tool: Tool, ours: Sequence[Taken], bare: Sequence[Taken], plain: Sequence[Taken]
) -> list[Figure]:
    name, peer = f"{backend.value}, a further exec", f"{tool.name} exec"
    figures = [_figure(f"{name}, p{part}", "ms", peer, 0, part, ours, bare, plain) for part in PERCENTILES]
    over = figures[0].value - figures[0].peer_value
    figures.append(Figure(f"{name}, more than the bare one, p50", over, "ms", peer, figures[0].peer_value))
    return [*figures, _figure(name, "ms cpu", peer, 1, 50, ours, bare, plain)]


def _figure(name: str, unit: str, peer: str, column: int, part: int, *taken: Sequence[Taken]) -> Figure:
    value, bare, plain = (percentile([each[column] for each in rows], part) * 1000 for rows in taken)
    return Figure(name, value, unit, peer, bare, {PLAIN.name: plain})


if __name__ == "__main__":
    for figure in measure(int(sys.argv[1]) if sys.argv[1:] else COMMANDS):
        print(figure)
