"""What a reader asks of one bundle, single or of a period: under which trust file, at which time, about what."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.verdict.accepted_values import TrustFile
from affiant.attestation.verdict.errors import SessionUnknown
from affiant.attestation.verdict.outcome import COMPLETE, NO_DEMAND, Demand
from affiant.attestation.verifier.case.statement_verifiers import StatementVerifiers

if TYPE_CHECKING:
    from affiant.attestation.tdx.quote.quote import TDQuote
    from affiant.attestation.tdx.tcb.collateral import Collateral

__all__ = ["Comparison", "Progress", "Question", "demand_known", "told"]

Progress = Callable[[str, int, int], None]
"""What is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Judge again what was archived (``judged_now``).

    Args:
        since: the bundle's own time; None: as it says itself.
        collateral: the reader's own for a quote, or ``NotMade``; None: the archived one again. With several processes
            it must be picklable.
    """

    since: datetime | None = None
    collateral: Callable[[TDQuote], Collateral] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """How a bundle is judged.

    Args:
        trust: what the reader accepts; nothing in the bundle adds to it.
        verifiers: of the statements in the bundle that others signed, quotes included; ``STANDARD_VERIFIERS``.
        at: the time that collateral and trust entries are judged at (aware).
        build: build digest of this verifier, printed with the verdict.
        compared: what changed since is asked as well; None: it is not.
        request, response: bodies to hold against the receipts; None: not asked.
        session: judge this session alone.
        demand: the level that must be reached, and whether sessions must be complete; the trust file may ask for that.
        seen: the time until which cosignatures count, where a verifier looks back from later than ``at``; None: ``at``.
        since, until: of a period bundle, the auditor's own range, from and to before; None for both: coverage is not
            made.
        processes: that verify a period bundle, beside this one.
        timeline: how many records of a period bundle are kept for a report.
        held_against: of a period bundle, keep, on disk, what other bundles are held against; else there is no trace.
        progress: told how far a period bundle is.
    """

    trust: TrustFile
    verifiers: StatementVerifiers
    at: datetime
    build: str
    compared: Comparison | None = None
    request: bytes | None = None
    response: bytes | None = None
    session: str | None = None
    demand: Demand = NO_DEMAND
    seen: datetime | None = None
    since: datetime | None = None
    until: datetime | None = None
    processes: int = 1
    timeline: int = 0
    held_against: bool = False
    progress: Progress = lambda *_: None

    @property
    def demanded(self) -> Demand:
        """What the reader and the trust file demand."""
        return replace(self.demand, complete=self.demand.complete or self.trust.sessions == COMPLETE)

    @property
    def about(self) -> Mapping[str, str]:
        """What is asked about where that is not the whole bundle: a session, a range, digests of bodies."""
        found = {
            "session": self.session,
            "from": None if self.since is None else told(self.since),
            "to": None if self.until is None else told(self.until),
            "request": None if self.request is None else sha256_name(self.request),
            "response": None if self.response is None else sha256_name(self.response),
        }
        return {name: value for name, value in found.items() if value is not None}

    @property
    def time(self) -> str:
        """The time judged at, as the verdict prints it."""
        return told(self.at)


def told(time: datetime) -> str:
    """RFC 3339, UTC."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def demand_known(question: Question, sessions: Collection[str]) -> None:
    """Refuse a question about a session that is none of ``sessions``.

    Raises:
        SessionUnknown: as named.
    """
    if question.session is not None and question.session not in sessions:
        raise SessionUnknown("the bundle has no record of this session", found=repr(question.session[:40]))
