"""What a verification of a period bundle works on, what it has found so far, and what becomes of each check.

A :class:`Run` is filled in the order of ``verify_period``; each step reads only what those before it put there, and
says *not made* when that is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.bundle.bundle import Bundle
from affiant.attestation.bundle.period.archive_reader import PeriodBundle
from affiant.attestation.statements.statement import LogIdentity, parse_statement
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.verdict.errors import NotMade
from affiant.attestation.verdict.timeline import Moment
from affiant.attestation.verdict.verdict import Check, Finding, State
from affiant.attestation.verifier.case.case import Case, Party
from affiant.attestation.verifier.case.question import Question
from affiant.attestation.verifier.check_rows import RuleBroken, make_check, requires
from affiant.attestation.verifier.period.log.first_pass import FirstPass, LineRefused
from affiant.attestation.verifier.period.log.log_view import LogView, Noted
from affiant.attestation.verifier.period.log.period_signers import Signers
from affiant.attestation.verifier.period.log.record_traces import TracedRecords
from affiant.attestation.verifier.period.log.spill import Spill
from affiant.attestation.verifier.period.log.stamps import Stamps
from affiant.attestation.verifier.period.log.tally import Exceptions, Tally
from affiant.attestation.verifier.verify_bundle import BODIES, CHECKS, Row
from affiant.errors import AffiantError

__all__ = ["Cases", "Many", "Run"]

_LEVELS: Final = {row.code: row.level for row in (*CHECKS, *BODIES)} | {
    "fmt.bundle": "L0",
    "chain.coverage": None,
}


@dataclass(slots=True)
class Cases:
    """What sessions and gateways came to, all together."""

    tallies: dict[str, Tally] = field(default_factory=dict)
    states: dict[str, int] = field(default_factory=dict)
    classes: set[str] = field(default_factory=set)
    appraised: set[str] = field(default_factory=set)
    erased: dict[str, str] = field(default_factory=dict)
    pruned: dict[str, tuple[int, str]] = field(default_factory=dict)

    def tally(self, row: Row) -> Tally:
        """That of one check."""
        return self.tallies.setdefault(
            row.code, Tally(row.code, row.level, any_suffices=row.code.startswith("body."))
        )


@dataclass(slots=True)
class Run:
    """One verification of one archive at one instant."""

    asked: Question
    bundle: PeriodBundle
    spill: Spill
    checks: dict[str, Check] = field(default_factory=dict)
    signers: Signers | None = None
    log: LogIdentity | None = None
    view: LogView | None = None
    noted: list[Noted] = field(default_factory=list)
    roots: list[Checkpoint] = field(default_factory=list)
    """What the log has signed, also where it is not of this tree."""
    traced: TracedRecords | None = None
    stamps: dict[str, Stamps | AffiantError] = field(default_factory=dict)
    """By the ending of their files: the anchors, or why they do not count."""
    log_error: AffiantError | None = None
    unbacked: AffiantError | None = None
    """Why no checkpoint bounds a time, where the trust file names witnesses."""
    split: Exceptions = field(default_factory=Exceptions)
    undecided: int = 0
    first: FirstPass | None = None
    cases: Cases = field(default_factory=Cases)
    shown: list[tuple[str, str]] = field(default_factory=list)
    moments: tuple[Moment, ...] = ()

    def made(self, code: str, examine: Callable[[], Finding]) -> None:
        """Make one check of the whole archive."""
        self.checks[code] = make_check(code, _LEVELS.get(code), examine, self.asked.trust)

    def requires(self, code: str) -> bool:
        """Whether the trust file requires a check."""
        return requires(self.asked.trust, code)

    def need(self, *codes: str) -> None:
        """Go on only if the checks with these codes held.

        Raises:
            NotMade: one did not.
        """
        for code in codes:
            if code not in self.checks or not self.holds(code):
                raise NotMade(f"needs {code}, which did not hold")

    def holds(self, code: str) -> bool:
        """Whether a check that was made held."""
        return self.checks[code].state is State.HELD

    @property
    def held(self) -> set[str]:
        """The codes of the checks that held so far."""
        return {code for code, check in self.checks.items() if check.state is State.HELD}

    @property
    def passed(self) -> FirstPass:
        """What the first pass found.

        Raises:
            NotMade: it did not come to its end.
        """
        if self.first is None:
            raise NotMade("the receipts could not be read")
        return self.first

    @property
    def sessions(self) -> Collection[str]:
        """Ids of all sessions that have a keyset or a record here."""
        assert self.signers is not None
        return {*self.signers.sessions, *(set() if self.first is None else self.first.foreign)}

    @property
    def chains(self) -> int:
        """How many chains have a record beside its leaf."""
        return sum(1 for each in self.passed.chains.values() if each.records)

    def whole(self) -> Case:
        """A case of the whole archive, for the rules that ask a trust file about a log."""
        case = Case(Bundle(()), self.asked)
        case.established = self.held
        return case

    def party(self, name: str) -> Party:
        """The signer whose statement has this ``sha256:`` name, without its records."""
        return Party(parse_statement(self.bundle.objects("keysets")[name]))


class Many(RuleBroken):
    """Exceptions of one rule, raised as one: refused with the first one's code."""

    def __init__(self, found: Exceptions) -> None:
        assert found.first is not None
        reason = found.first.reason if isinstance(found.first, LineRefused) else found.first.code
        super().__init__(found.text, reason=reason, records=tuple(found.where))
