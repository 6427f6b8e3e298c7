"""The sink of the profile's decisions, for a decision log: an interface, so that the proxy writes no file.

What is told is told before anything of it happens. Only the profile's own decisions are: what is refused for its form,
its address, a placeholder out of its place or a spent budget has its record in the session's chain, and no line here.
"""

from __future__ import annotations

from typing import Final, Protocol

from affiant.policy.decision.decide import Decision
from affiant.policy.decision.questions import Question

__all__ = ["SILENT", "DecisionNotes"]


class DecisionNotes(Protocol):
    """The decision log, as far as the proxy sees it."""

    def instant(self) -> int:
        """Nanoseconds of a clock that never goes back."""
        ...

    def note(
        self,
        question: Question,
        decision: Decision,
        *,
        took_ns: int = 0,
        surface: str | None = None,
        target_hidden: bool = False,
        size: int | None = None,
    ) -> None:
        """Take one decision.

        Args:
            question: host, port and target canonical.
            surface: where a secret's placeholder stands.
            target_hidden: the target holds a placeholder.
            size: bytes of the request's body, where its head says so.

        Raises:
            AffiantError: it cannot be taken, so what was decided does not happen.
        """
        ...


class _Silent:
    """Nobody asked for a decision log."""

    def instant(self) -> int:
        return 0

    def note(
        self,
        question: Question,
        decision: Decision,
        *,
        took_ns: int = 0,
        surface: str | None = None,
        target_hidden: bool = False,
        size: int | None = None,
    ) -> None:
        del question, decision, took_ns, surface, target_hidden, size


SILENT: Final[DecisionNotes] = _Silent()
