"""How a figure is taken: several rounds, the median, and both sides interleaved so that noise hits both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table. ``ratio``: ours over the peer's, in the unit's own sense."""

    name: str
    value: float
    unit: str
    peer: str
    peer_value: float

    @property
    def ratio(self) -> float:
        return self.value / self.peer_value


def seconds(call: Callable[[], object], count: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds per call over ``count`` calls, by ``clock``."""
    start = clock()
    for _ in range(count):
        call()
    return (clock() - start) / count


def interleaved(
    ours: Callable[[], object],
    peer: Callable[[], object],
    *,
    count: int,
    rounds: int = 7,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float]:
    """Median seconds per call of both, measured in alternating rounds."""
    ours(), peer()
    pairs = [(seconds(ours, count, clock), seconds(peer, count, clock)) for _ in range(rounds)]
    return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs)
