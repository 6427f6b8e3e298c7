"""What policy decided of each session: which models and tools it asked for, offered and called.

Models and tools of chat completions, URLs that the upstream may fetch for them, a model that answers in place of
another, and calls at the tool gate; not what the gate lists. Three places take it:

- the gateway's decision log, if one was asked for: lines about all sessions, in one file;
- the session's own lines, if the session asked for them (``affiant run --decisions``): its supervisor fetches them;
- the session's denials, always: how often what was denied and why, for the summary at the session's end.

Each line is in the file before what it reports happens (``file``); a decision that cannot
be written is not taken, and none after it. The gateway does not know whom it serves: its lines have the session and the
digest of the profile, and a reader finds the agent by the file that has such a profile. Arguments of calls
are judged, and not reported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from affiant.gateway.sessions.sessions import Session
from affiant.policy.canonical.names import SPELLINGS
from affiant.policy.decision.decide import Decision, Effect
from affiant.policy.decision.questions import EgressQuestion, Question, plane_of
from affiant.policy.decision_log.file import MAX_BYTES, DecisionFile, DecisionsUnavailable
from affiant.policy.decision_log.record import NAMELESS, DecidedBy, decision_line

__all__ = ["OFFER", "SILENT", "DecisionSink", "GatewayDecisions"]


class DecisionSink(Protocol):
    """Takes one decision, or raises what keeps it from being taken."""

    def __call__(self, question: Question, decision: Decision, *, offered: bool = False) -> None:
        """Take a decision; ``offered``: a tool was offered to a model, not called."""
        ...


OFFER: Final = "tool offer"
"""The kind of a denial by which a tool was removed from a request."""

_SPELLED_AS: Final = {"provider_tool": "tool", "start": "agent"}
"""Planes whose names are those of something else."""
_KEPT_OFFERS: Final = 1024
"""Tools of one session whose offer is reported once. A conversation offers the same ones in every request."""
_SESSION_BYTES: Final = MAX_BYTES // 8
"""That one session can write: no agent shall fill the log on which all sessions depend."""


def _silent(question: Question, decision: Decision, *, offered: bool = False) -> None:
    del question, decision, offered


SILENT: Final[DecisionSink] = _silent
"""There is no decision log."""


_MAX_DENIALS: Final = 64
"""Different denials of one session that are told apart."""
_MAX_WAITING: Final = 1 << 20
"""Bytes of lines that wait for their session; it fetches them with every answer."""
_ANSWER_BYTES: Final = 32 << 10
"""Of lines in one answer; the session asks for the next ones with the next request."""


class _OfSession:
    """What is kept for one session until its supervisor asks."""

    __slots__ = ("_denials", "_first", "_lines", "_more", "_waiting", "followed", "offered", "written")

    def __init__(self) -> None:
        self.offered: set[bytes] = set()
        self.written = 0
        self.followed = False
        self._denials: dict[tuple[str, str, str], int] = {}
        self._more = 0
        self._lines: deque[bytes] = deque()
        self._first = 0
        self._waiting = 0

    def deny(self, kind: str, name: str, reason: str) -> None:
        """Count one denial."""
        key = (kind, name, reason)
        if key in self._denials or len(self._denials) < _MAX_DENIALS:
            self._denials[key] = self._denials.get(key, 0) + 1
        else:
            self._more += 1

    def keep(self, line: bytes) -> None:
        """Keep one line for the session.

        Raises:
            DecisionsUnavailable: too much waits already.
        """
        if self._waiting + len(line) > _MAX_WAITING:
            raise DecisionsUnavailable(
                "the session does not fetch its decisions", expected=f"at most {_MAX_WAITING} bytes that wait"
            )
        self._lines.append(line)
        self._waiting += len(line)

    def after(self, number: int) -> Mapping[str, object]:
        """The lines from ``number`` on, as many as an answer holds; those before are kept no longer."""
        while self._lines and self._first < number:
            self._waiting -= len(self._lines.popleft())
            self._first += 1
        shown: list[str] = []
        size = 0
        for line in self._lines:
            size += len(line)
            if shown and size > _ANSWER_BYTES:
                break
            shown.append(line.decode("utf-8").removesuffix("\n"))
        denied = [
            {"kind": kind, "name": name, "reason": reason, "count": count}
            for (kind, name, reason), count in self._denials.items()
        ]
        return {
            "denied": denied,
            "denied_more": self._more,
            "lines": shown,
            "next": self._first + len(shown),
            "waiting": len(self._lines) - len(shown),
        }


class GatewayDecisions:
    """Takes the decisions of all sessions.

    Args:
        file: the gateway's own log; None: none was asked for.
        clock: the present time, UTC.
        most: bytes of one session's lines in that log.
    """

    def __init__(
        self, file: DecisionFile | None, clock: Callable[[], datetime], *, most: int = _SESSION_BYTES
    ) -> None:
        self._file = file
        self._clock = clock
        self._most = most
        self._kept: WeakKeyDictionary[Session, _OfSession] = WeakKeyDictionary()

    def of(self, session: Session, denied: list[Decision] | None = None) -> DecisionSink:
        """What takes the decisions about one session.

        Args:
            denied: gets each denial, except of offers, once it is counted.

        It raises ``DecisionsUnavailable`` where the file does not take one, or the
        session has had its part of it.
        """
        by = DecidedBy(session.id, session.admitted.policy.digest)

        def sink(question: Question, decision: Decision, *, offered: bool = False) -> None:
            if decision.effect is Effect.DENY:
                kind = OFFER if offered else plane_of(question)
                self._of(session).deny(kind, _name_of(question), decision.reason)
                if denied is not None and not offered:
                    denied.append(decision)
            kept = self._kept.get(session)
            if self._file is None and (kept is None or not kept.followed):
                return
            kept = self._of(session)
            if offered and _was_offered(kept, decision_line(by, question, decision, ts=0, offered=True)):
                return
            self._write(
                kept,
                decision_line(by, question, decision, ts=int(self._clock().timestamp()), offered=offered),
            )

        return sink

    def writes(self, session: Session) -> bool:
        """Whether decisions about the session become lines: in the gateway's log, or for the session."""
        kept = self._kept.get(session)
        return self._file is not None or (kept is not None and kept.followed)

    def denied(self, session: Session, kind: str, name: str, reason: str) -> None:
        """Count something else that was denied: no decision of the profile, and no line."""
        plain = kind != "tool" or SPELLINGS["tool"].match(name)
        self._of(session).deny(kind, name if plain else NAMELESS, reason)

    def follow(self, session: Session, after: int | None) -> Mapping[str, object]:
        """What the session's supervisor asks for: its denials, and its lines from number ``after`` on.

        Args:
            after: lines before this number are kept no longer. None: it asks for no lines, and none are kept for it.
        """
        kept = self._of(session)
        kept.followed |= after is not None
        return kept.after(after or 0)

    def _of(self, session: Session) -> _OfSession:
        kept = self._kept.get(session)
        if kept is None:
            kept = self._kept[session] = _OfSession()
        return kept

    def _write(self, kept: _OfSession, line: bytes) -> None:
        """Into the gateway's log, and for the session, where either wants it.

        Once a line is beyond the log's bound every later one is: the log of a session has no gaps.
        """
        if self._file is not None:
            kept.written += len(line)
            if kept.written > self._most:
                raise DecisionsUnavailable(
                    "the session has filled its part of the decision log",
                    expected=f"at most {self._most} bytes",
                )
            self._file.append(line)
        if kept.followed:
            kept.keep(line)


def _was_offered(kept: _OfSession, timeless: bytes) -> bool:
    """Whether a line was written, whenever. What is kept is the line: a name may be as large as a request."""
    known = timeless in kept.offered
    if len(kept.offered) < _KEPT_OFFERS:
        kept.offered.add(timeless)
    return known


def _name_of(question: Question) -> str:
    """The tool, model or host that a decision is about, by a name that a profile could list."""
    if isinstance(question, EgressQuestion):
        return question.host
    name, plane = getattr(question, "name", None), plane_of(question)
    if name is None:  # a path or a port
        return NAMELESS
    return name if SPELLINGS[_SPELLED_AS.get(plane, plane)].match(name) else NAMELESS
