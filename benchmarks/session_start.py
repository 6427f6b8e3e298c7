"""From nothing to a session's first command: by Python, by ``affiant run``, one after another and all at once.

The method of the sandbox benchmark (computesdk/benchmarks): the time from the request to create a session until its
first command, ``true``, has ended, in a process that has its libraries loaded; sequential, then a burst; 5 % left out
at each end; p50, p95 and p99. Both ways of starting are measured: an interpreter for each program, and a template
process that forks them (*template*). The bare tools run the same command, once beside each session. The services run
before; their processor time is a row of its own, and the session's is that of every other process.

``python -m benchmarks.session_start 100`` takes 100 sequential sessions and a burst of 100.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from affiant.sandbox.isolation.plan.isolation_class import BackendName
from benchmarks.bare_tools import Tool
from benchmarks.control_group import ControlGroup, control_group, counted
from benchmarks.sessions import (
    PLAIN,
    Place,
    isolations,
    limited_to,
    live,
    opened,
    percentile,
    place,
    require_started_by,
    require_supervisors_started_by,
    served,
    templated,
)
from benchmarks.timing import Figure

SEQUENTIAL = 10
BURST = 4
FROM_NOTHING = 3
PERCENTILES = (50, 95, 99)
COMMAND = ("true",)


@dataclass(frozen=True, slots=True)
class Taken:
    """Of one session or one bare command: seconds, and seconds of processor time."""

    wall: float
    processor: float
    services: float = 0.0
    whole: float = 0.0
    """Processor time of the session until it is closed."""


def measure(sequential: int = SEQUENTIAL, burst: int = BURST) -> list[Figure]:
    figures: list[Figure] = []
    with place() as at, control_group() as services, counted() as group:
        found = isolations(at.folder)
        strongest = found[0][1]
        cold = [_command_line(at, f"nothing-{number}", group) for number in range(FROM_NOTHING)]
        with served(at, services):
            for backend, tool in found:
                for name, way, template in _ways(at, services, backend):
                    with template, limited_to(backend):
                        rounds = asyncio.run(_sequential(at, way, tool, group, services, sequential))
                        together = asyncio.run(_burst(at, way, burst)), _burst_of(tool, burst)
                    figures += _start_figures(name, tool, *rounds)
                    figures += _percentiles(f"{name}, burst of {burst}", *together, tool.name)
            _require_runs_by("interpreter", at, group)
            warm = [_command_line(at, at.home.name, group) for _ in range(FROM_NOTHING)]
            with templated(at, services):
                _require_runs_by("template", at, group)
                forked = [_command_line(at, at.home.name, group) for _ in range(FROM_NOTHING)]
        bare = [_bare(strongest, group) for _ in range(FROM_NOTHING)]
    figures += _command_figures("services running", warm, bare, strongest.name)
    figures += _command_figures("services and template running", forked, bare, strongest.name)
    return figures + _command_figures("from nothing", cold, bare, strongest.name)


def _require_runs_by(way: str, at: Place, group: ControlGroup) -> None:
    """An ``affiant run`` beside those that are measured is started in the way that they are named for."""
    with live(at, group):
        require_supervisors_started_by(way, group)


def _ways(
    at: Place, services: ControlGroup, backend: BackendName
) -> tuple[tuple[str, str, AbstractContextManager[None]], ...]:
    """Both ways in which a session's programs are started: the row, the way, and what must hold meanwhile."""
    return (
        (backend.value, "interpreter", nullcontext()),
        (f"{backend.value}, template", "template", templated(at, services)),
    )


async def _sequential(
    at: Place, way: str, tool: Tool, group: ControlGroup, services: ControlGroup, count: int
) -> tuple[list[Taken], list[Taken], list[Taken]]:
    """Sessions, and beside each the bare tool and a plain process. The first round is left out."""
    ours, bare, plain = [], [], []
    for _ in range(count + 1):
        ours.append(await _first_command(at, way, group, services))
        bare.append(_bare(tool, group))
        plain.append(_bare(PLAIN, group))
    return ours[1:], bare[1:], plain[1:]


async def _first_command(at: Place, way: str, group: ControlGroup, services: ControlGroup) -> Taken:
    start, used, served_for = time.perf_counter(), group.processor_seconds(), services.processor_seconds()
    async with opened(at) as session:
        result = await session.run(COMMAND)
        wall, processor = time.perf_counter() - start, group.processor_seconds() - used
        for_us = services.processor_seconds() - served_for
        require_started_by(session, way)
    if result.exit_code != 0:
        raise RuntimeError(f"the command exited with {result.exit_code}")
    return Taken(wall, processor, for_us, group.processor_seconds() - used)


async def _burst(at: Place, way: str, count: int) -> list[float]:
    """Seconds of each of ``count`` sessions that are asked for at once."""

    async def one() -> float:
        start = time.perf_counter()
        async with opened(at) as session:
            await session.run(COMMAND)
            taken = time.perf_counter() - start
            require_started_by(session, way)
            return taken

    return await asyncio.gather(*(one() for _ in range(count)))


def _burst_of(tool: Tool, count: int) -> list[float]:
    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(lambda _: _seconds(lambda: tool.run(*COMMAND)), range(count)))


def _bare(tool: Tool, group: ControlGroup) -> Taken:
    used = group.processor_seconds()
    wall = _seconds(lambda: tool.run(*COMMAND))
    return Taken(wall, group.processor_seconds() - used)


def _command_line(at: Place, home: str, group: ControlGroup) -> Taken:
    """``affiant run -- true`` from its start to its end, with everything that it starts."""
    used = group.processor_seconds()

    def run() -> None:
        with at.affiant(
            *at.run_arguments(*COMMAND), home=at.folder / home, stdout=subprocess.DEVNULL
        ) as process:
            process.wait(120)
        if process.returncode != 0:
            raise RuntimeError(f"affiant run exited with {process.returncode}")

    wall = _seconds(run)
    return Taken(wall, group.processor_seconds() - used)


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _start_figures(
    way: str, tool: Tool, ours: Sequence[Taken], bare: Sequence[Taken], plain: Sequence[Taken]
) -> list[Figure]:
    walls = [[each.wall for each in taken] for taken in (ours, bare, plain)]
    figures = _percentiles(f"{way}, create to first command", walls[0], walls[1], tool.name, walls[2])
    peer, beside = (_p50([each.processor for each in taken]) for taken in (bare, plain))
    for name, taken in (
        ("create to first command", [each.processor for each in ours]),
        ("the services meanwhile", [each.services for each in ours]),
        ("create to closed", [each.whole for each in ours]),
    ):
        row = f"{way}, {name}"
        figures.append(Figure(row, _p50(taken), "ms cpu", tool.name, peer, {PLAIN.name: beside}))
    return figures


def _percentiles(
    name: str, ours: Sequence[float], bare: Sequence[float], peer: str, plain: Sequence[float] = ()
) -> list[Figure]:
    return [
        Figure(
            f"{name}, p{part}",
            percentile(ours, part) * 1000,
            "ms",
            peer,
            percentile(bare, part) * 1000,
            {PLAIN.name: percentile(plain, part) * 1000} if plain else {},
        )
        for part in PERCENTILES
    ]


def _command_figures(name: str, ours: Sequence[Taken], bare: Sequence[Taken], peer: str) -> list[Figure]:
    row = f"affiant run -- true, {name}"
    wall, processor = (
        [[getattr(e, what) for e in taken] for taken in (ours, bare)] for what in ("wall", "processor")
    )
    return [
        Figure(row, _p50(wall[0]), "ms", peer, _p50(wall[1])),
        Figure(row, _p50(processor[0]), "ms cpu", peer, _p50(processor[1])),
    ]


def _p50(seconds: Sequence[float]) -> float:
    return percentile(seconds, 50) * 1000


if __name__ == "__main__":
    number = int(sys.argv[1]) if sys.argv[1:] else None
    for figure in measure() if number is None else measure(number, number):
        print(figure)
