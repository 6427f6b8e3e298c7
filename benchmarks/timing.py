"""How a figure is taken: several rounds, the median, and both sides interleaved so that noise hits both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table. ``ratio``: ours over the peer's, in the unit's own sense. ``beside``: what others took."""

    name: str
    value: float
    unit: str
    peer: str
    peer_value: float
    beside: Mapping[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        return self.value / self.peer_value

    def __str__(self) -> str:
        others = "".join(f", {name} {value:.1f}" for name, value in self.beside.items())
        return (
            f"{self.name:<52}{self.value:>12.1f} {self.unit:<11}"
            f"{self.ratio:>7.2f} x {self.peer} ({self.peer_value:.1f}{others})"
        )


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
