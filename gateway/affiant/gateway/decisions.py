"""The gateway's decision log, if one was asked for: which models and tools its sessions asked for, offered and called.

Models and tools of chat completions, and calls at the tool gate; not what the gate lists.

Each line is in the file before what it tells of happens (:mod:`affiant.policy.decision_file`); a decision that cannot
be written is not taken, and none after it. The gateway is not told whom it serves: its lines have the session and the
digest of the profile, and whoever reads them knows the agent by the file that has such a profile. Arguments of calls
are judged, and not told.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from affiant.gateway.sessions import Session
from affiant.policy.decide import Decision
from affiant.policy.decision_file import DecisionFile
from affiant.policy.decision_record import DecidedBy, decision_line
from affiant.policy.questions import Question

__all__ = ["SILENT", "GatewayDecisions", "Note"]


class Note(Protocol):
    """Takes one decision, or raises what keeps it from being taken."""

    def __call__(self, question: Question, decision: Decision, *, offered: bool = False) -> None:
        """Take a decision; ``offered``: a tool was offered to a model, not called."""
        ...


_KEPT_OFFERS: Final = 1024
"""Tools of one session whose offer is told once. A conversation offers the same ones in every request."""


def _silent(question: Question, decision: Decision, *, offered: bool = False) -> None:
    del question, decision, offered


SILENT: Final[Note] = _silent
"""Nobody asked for a decision log."""


class GatewayDecisions:
    """Writes the decisions of all sessions into one file.

    Args:
        clock: the present time, UTC.
    """

    def __init__(self, file: DecisionFile | None, clock: Callable[[], datetime]) -> None:
        self._file = file
        self._clock = clock
        self._offered: WeakKeyDictionary[Session, set[Question]] = WeakKeyDictionary()

    def of(self, session: Session) -> Note:
        """What takes the decisions about one session.

        It raises :class:`~affiant.policy.decision_file.DecisionsUnavailable` where the file does not take one.
        """
        file = self._file
        if file is None:
            return SILENT
        by = DecidedBy(session.id, session.admitted.policy.digest)

        def note(question: Question, decision: Decision, *, offered: bool = False) -> None:
            if not (offered and self._was_offered(session, question)):
                ts = int(self._clock().timestamp())
                file.append(decision_line(by, question, decision, ts=ts, offered=offered))

        return note

    def _was_offered(self, session: Session, question: Question) -> bool:
        """Whether this was told; a profile does not change while a session lasts, so the decision is the same."""
        told = self._offered.setdefault(session, set())
        known = question in told
        if len(told) < _KEPT_OFFERS:
            told.add(question)
        return known
