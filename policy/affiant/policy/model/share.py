"""A profile's share of an upstream that several sessions wait for: `weight` and `priority`.

It allows nothing and denies nothing: without waiting requests, a session of any share is served at once. What enforces
it is the gateway's queue in front of each upstream.

>>> Share(2, Priority.INTERACTIVE).includes(Share()), Share(2, Priority.BATCH).includes(Share())
(True, False)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from affiant.policy.canonical.errors import ValueRefused

__all__ = ["MOST_WEIGHT", "NO_SHARE", "PRIORITIES", "Priority", "Share", "share_members", "share_words"]

MOST_WEIGHT: Final = 100


class Priority(StrEnum):
    """Which of those who wait come first."""

    INTERACTIVE = "interactive"
    NORMAL = "normal"
    BATCH = "batch"


PRIORITIES: Final = tuple(Priority)
"""From the first to the last."""


@dataclass(frozen=True, slots=True)
class Share:
    """``weight``: how much a session gets while others of its priority wait too, of what each of them gets."""

    weight: int = 1
    priority: Priority = Priority.NORMAL

    def __post_init__(self) -> None:
        if not 1 <= self.weight <= MOST_WEIGHT:
            raise ValueRefused("'weight' out of range", expected=f"1 to {MOST_WEIGHT}", found=self.weight)

    def includes(self, other: Share) -> bool:
        """Whether a session of this share gets at least what one of the ``other`` gets."""
        earlier = PRIORITIES.index(self.priority) <= PRIORITIES.index(other.priority)
        return earlier and self.weight >= other.weight


NO_SHARE: Final = Share()
"""Of a profile that says nothing of it."""


def share_members(share: Share) -> Mapping[str, object]:
    """What ``share`` says, as the format and its normal form write it; what is the default is not written."""
    members = {"priority": share.priority.value, "weight": share.weight}
    usual = {"priority": NO_SHARE.priority.value, "weight": NO_SHARE.weight}
    return {name: value for name, value in members.items() if value != usual[name]}


def share_words(share: Share) -> str:
    """``share`` in words: ``priority batch, weight 2``."""
    return f"priority {share.priority.value}, weight {share.weight}"
