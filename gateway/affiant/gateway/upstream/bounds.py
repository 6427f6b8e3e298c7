"""How long the queues in front of upstreams may become, and how long anybody waits in them.

The longest wait and the longest time to the head of an upstream's answer (``Timeouts``) are
together less than the ten minutes after which a session's supervisor, and most clients, give a request up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from affiant.gateway.wire.errors import SettingsRefused
from affiant.policy.model.share import Priority

__all__ = ["CONCURRENT", "BandBounds", "QueueBounds"]

CONCURRENT: Final = 256
"""Requests that an upstream is asked at once where the configuration does not say: as many sequences as vLLM computes
together by default."""


@dataclass(frozen=True, slots=True)
class BandBounds:
    """Of one priority: ``length`` is how many may wait; ``wait_s`` how many seconds each of them does, at most."""

    length: int
    wait_s: float

    def __post_init__(self) -> None:
        if self.length < 1 or self.wait_s <= 0:
            raise SettingsRefused("no queue", expected="room for one, and time to wait", where="queue")


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """Of the queue in front of one upstream."""

    interactive: BandBounds = BandBounds(512, 30.0)
    normal: BandBounds = BandBounds(512, 120.0)
    batch: BandBounds = BandBounds(512, 240.0)

    def of(self, priority: Priority) -> BandBounds:
        """Those of one priority."""
        match priority:
            case Priority.INTERACTIVE:
                return self.interactive
            case Priority.NORMAL:
                return self.normal
            case Priority.BATCH:
                return self.batch
