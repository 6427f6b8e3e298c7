"""The gateway's decision log, if one was asked for: which models and tools its sessions asked for, offered and called.

Models and tools of chat completions, URLs that the upstream may fetch for them, a model that answers in place of
another, and calls at the tool gate; not what the gate lists.

Each line is in the file before what it reports happens (``file``); a decision that cannot
be written is not taken, and none after it. The gateway does not know whom it serves: its lines have the session and the
digest of the profile, and a reader finds the agent by the file that has such a profile. Arguments of calls
are judged, and not reported.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from affiant.gateway.sessions.sessions import Session
from affiant.policy.decision.decide import Decision
from affiant.policy.decision.questions import Question
from affiant.policy.decision_log.file import MAX_BYTES, DecisionFile, DecisionsUnavailable
from affiant.policy.decision_log.record import DecidedBy, decision_line

__all__ = ["SILENT", "DecisionSink", "GatewayDecisions"]


class DecisionSink(Protocol):
    """Takes one decision, or raises what keeps it from being taken."""

    def __call__(self, question: Question, decision: Decision, *, offered: bool = False) -> None:
        """Take a decision; ``offered``: a tool was offered to a model, not called."""
        ...


_KEPT_OFFERS: Final = 1024
"""Tools of one session whose offer is reported once. A conversation offers the same ones in every request."""
_SESSION_BYTES: Final = MAX_BYTES // 8
"""That one session can write: no agent shall fill the log on which all sessions depend."""


def _silent(question: Question, decision: Decision, *, offered: bool = False) -> None:
    del question, decision, offered


SILENT: Final[DecisionSink] = _silent
"""There is no decision log."""


class GatewayDecisions:
    """Writes the decisions of all sessions into one file.

    Args:
        clock: the present time, UTC.
        most: bytes of one session's lines.
    """

    def __init__(
        self, file: DecisionFile | None, clock: Callable[[], datetime], *, most: int = _SESSION_BYTES
    ) -> None:
        self._file = file
        self._clock = clock
        self._most = most
        self._offered: WeakKeyDictionary[Session, set[bytes]] = WeakKeyDictionary()
        self._written: WeakKeyDictionary[Session, int] = WeakKeyDictionary()

    def of(self, session: Session) -> DecisionSink:
        """What takes the decisions about one session.

        It raises ``DecisionsUnavailable`` where the file does not take one, or the
        session has had its part of it.
        """
        file = self._file
        if file is None:
            return SILENT
        by = DecidedBy(session.id, session.admitted.policy.digest)

        def sink(question: Question, decision: Decision, *, offered: bool = False) -> None:
            if offered and self._was_offered(
                session, decision_line(by, question, decision, ts=0, offered=True)
            ):
                return
            line = decision_line(by, question, decision, ts=int(self._clock().timestamp()), offered=offered)
            self._count(session, len(line))
            file.append(line)

        return sink

    def _count(self, session: Session, size: int) -> None:
        """Count a line; once one is beyond the bound every later one is, that the log of a session has no gaps."""
        self._written[session] = written = self._written.get(session, 0) + size
        if written > self._most:
            raise DecisionsUnavailable(
                "the session has filled its part of the decision log", expected=f"at most {self._most} bytes"
            )

    def _was_offered(self, session: Session, timeless: bytes) -> bool:
        """Whether a line was written, whenever. What is kept is the line: a name may be as large as a request."""
        offered = self._offered.setdefault(session, set())
        known = timeless in offered
        if len(offered) < _KEPT_OFFERS:
            offered.add(timeless)
        return known
