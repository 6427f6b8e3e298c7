"""What a verdict comes to, on which platform, and what its reader demands of it: three facts that say different things.

The *outcome* is of the checks alone, whatever the platform is. The *platform class* says whether the evidence is of
hardware. A *demand* is what the reader wants reached beside the checks: a level, and complete sessions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["COMPLETE", "LEVELS", "NO_DEMAND", "Demand", "Outcome", "Platform", "is_below", "worst_outcome"]

LEVELS: Final = {
    "L0": "receipts are authentic under the keys that the bundle names",
    "L1": "chains and sessions are whole, without gap",
    "L2": "included in the log",
    "L3": "witnessed, and the time bounds are not empty",
    "L4": "keys are bound to appraised TDX evidence",
    "L5": "content is opened and matches",
}
"""What each level says; of L1 and L4 a verdict says more exactly what."""

COMPLETE: Final = "complete"
"""No session is open or lost, and of a whole period none is left unjudged."""


class Outcome(StrEnum):
    """What the checks come to, best to worst."""

    HOLDS = "holds"
    """Every required check was made and holds, L4 and all below it included."""
    IN_PART = "holds in part"
    """Nothing was rejected; a required check was not made, or holds with a warning."""
    UNJUDGED = "cannot be judged"
    """Nothing was rejected, and objects that the records name are not in the bundle."""
    REJECTED = "rejected"


class Platform(StrEnum):
    """What the evidence is of, best to worst."""

    HARDWARE = "hardware"
    """Every quote was appraised, under Intel's root."""
    CLAIMED = "hardware (claimed)"
    """Keysets say hardware; no appraisal says so, or not up to L4."""
    NONE = "no evidence"
    SIMULATED = "simulated"


@dataclass(frozen=True, slots=True)
class Demand:
    """What a reader wants reached. ``level``: at least this one; ``complete``: every session has its signed end."""

    level: str | None = None
    complete: bool = False

    @classmethod
    def parse(cls, text: str) -> Demand:
        """``L3``, ``complete``, or both with a comma between them.

        Raises:
            ValueError: another word, a word twice, or two levels.
        """
        level, *others = sorted(text.split(","))  # capitals come first
        if level == COMPLETE and not others:
            return cls(complete=True)
        if level not in LEVELS or others not in ([], [COMPLETE]):
            raise ValueError(text)
        return cls(level, bool(others))


NO_DEMAND: Final = Demand()


def is_below(level: str | None, wanted: str | None) -> bool:
    """Whether ``level`` is less than ``wanted``; None is less than every level, and asks for nothing."""
    order = [None, *LEVELS]
    return order.index(level) < order.index(wanted)


def worst_outcome(outcomes: Iterable[Outcome]) -> Outcome:
    """The worst; of nothing, nothing can be judged."""
    return max(outcomes, key=tuple(Outcome).index, default=Outcome.UNJUDGED)
