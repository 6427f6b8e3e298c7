"""Who is in several bundles together: a record that two of them carry is one record, a session one session.

A later bundle may hold the close of a session that an earlier one knows as open, or the ``gap`` by which a later
gateway says that the session's own is gone (trust rules, 1); the population is that of all bundles read together.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from affiant.attestation.verdict.verdict import Population
from affiant.attestation.verifier.trace import TracedRecord

__all__ = ["JointPopulation"]


@dataclass(slots=True)
class _Session:
    """What is known of one session."""

    judged: bool = False
    chains: set[str] = field(default_factory=set)
    """Of the gateway that admitted it."""
    close: str | None = None


class JointPopulation:
    """Counts records as they come."""

    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()
        self._chains: set[str] = set()
        self._sessions: dict[str, _Session] = {}
        self._gone: dict[str, set[str]] = {}
        """Chain that a gap names -> chains that say so."""

    def count(self, record: TracedRecord, *, new: bool, judged: bool) -> None:
        """Count ``record``.

        Args:
            new: whether it was in no bundle before.
            judged: whether its session is one that its bundle's verdict is about.
        """
        if record.session is not None:
            session = self._sessions.setdefault(record.session, _Session())
            session.judged = session.judged or judged
            if record.role == "gateway":
                session.chains.add(record.chn)
            session.close = session.close or record.close
        if not new:
            return
        self._kinds[record.kind] += 1
        self._chains.add(record.chn)
        if record.gap is not None:
            self._gone.setdefault(record.gap, set()).add(record.chn)

    def total(self) -> Population:
        """The population."""
        judged = [each for each in self._sessions.values() if each.judged]
        states = Counter(self._state(each) for each in judged)
        foreign = len(self._sessions) - len(judged)
        return Population.of(
            self._kinds, states, chains=len(self._chains), started=len(judged), foreign=foreign
        )

    def _state(self, session: _Session) -> str:
        if session.close is not None:
            return "lost" if session.close == "lost" else "closed"
        return "lost" if self._lost(session) else "open"

    def _lost(self, session: _Session) -> bool:
        return any(self._gone.get(chain, set()) - session.chains for chain in session.chains)
