"""What goes to the worker pool and comes back: one case after another, and which checks are made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from affiant.attestation.tdx.quote.quote import TDQuote
from affiant.attestation.tdx.tcb.collateral import Collateral
from affiant.attestation.verdict.since_archived import QuoteChanged
from affiant.attestation.verdict.verdict import Check
from affiant.attestation.verifier.case.statement_verifiers import StatementVerifiers
from affiant.attestation.verifier.verify_bundle import CHECKS, Row

__all__ = ["Judged", "Kept", "Setting", "Then", "Work", "case_rows"]

_WHOLE: Final = ("fmt.", "sig.", "chain.", "log.", "wit.", "time.")
"""Areas that are judged over the whole archive; all others session by session."""
_GATEWAY_ALONE: Final = frozenset(
    (
        *("kinds.judged", "key.evidence", "key.bound", "key.not_after", "conf.bound", "tee.appraisal"),
        *("tee.class", "conf.accepted", "erasure.authority", "hold.respected", "bundle.objects"),
    )
)
"""What is judged of a gateway without a session."""

Kept = tuple[str, str]
"""Receipt hash, SD-JWT."""


class Setting(NamedTuple):
    """What every process gets once."""

    path: Path
    trust: bytes
    verifiers: StatementVerifiers
    at: datetime
    names: Mapping[str, str]
    """Key -> ``sha256:`` name of its statement."""
    request: bytes | None
    response: bytes | None
    along_log: bool
    """Whether the log is here: an order that is not shown to be logged excuses nothing."""
    collateral: Callable[[TDQuote], Collateral] | None = None
    """The reader's own, for work that is compared; None: the archived one again."""


class Then(NamedTuple):
    """What a case is compared with: itself, at its own time.

    Args:
        at: that time. gateways: key -> the instant at which a gateway's quote is judged as of then.
        established: codes of the checks that held then.
    """

    at: datetime
    gateways: Mapping[str, datetime]
    established: frozenset[str]


class Work(NamedTuple):
    """One case. ``session`` is empty for a gateway's alone; ``beside``: boot and gap records, erasures and holds.

    ``records`` that are on disk (``kept_records.OnDisk``) are judged there, and cannot go to another process.
    """

    session: str
    supervisor: str
    records: Sequence[Kept]
    beside: Sequence[Kept]
    established: frozenset[str]
    then: Then | None = None
    """None: nothing is compared."""
    unlogged: frozenset[str] = frozenset()
    """Hashes of the erasures and holds that the log does not hold."""


class Judged(NamedTuple):
    """What became of it. ``state``: closed, lost or open; empty without a session. ``cls``: classes that were found.
    ``appraised``: the keys whose quote was.
    """

    session: str
    checks: Sequence[Check]
    state: str
    cls: frozenset[str]
    appraised: frozenset[str]
    erased: Mapping[str, str]
    """``<chain>:<number>`` -> receipt hash of what an accepted authority ordered to be erased as a whole."""
    pruned: Mapping[str, tuple[int, str]]
    """Chain -> number and receipt hash of the last record up to which it was ordered to be pruned."""
    then: Judged | None = None
    """The same at the case's own time, where that is compared."""
    quotes: Sequence[QuoteChanged] = ()
    """Then and now, of the session's supervisor, or of the gateways in a case without a session."""


def case_rows(*, with_session: bool) -> Sequence[Row]:
    """The checks that are made case by case, in their order."""
    rows = [row for row in CHECKS if not row.code.startswith(_WHOLE)]
    return rows if with_session else [row for row in rows if row.code in _GATEWAY_ALONE]
