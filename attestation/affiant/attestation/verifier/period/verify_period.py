"""The order of a verification of a period bundle, and what becomes of each check.

1. The archive, the keysets, and the log part under the checkpoint that the gateways' log key has signed.
2. Every receipt once, in log order (``first_pass``), verified by the worker pool.
3. Every session as a case of its own, by the checks of a single bundle, and gateways without one (``judging``).
4. The log: accepted by the trust file (an attested key counts as far as 3 held), consistent, witnessed.
5. Files that nobody has asked for, against the manifest.

Memory grows with sessions and keysets, by some hundred bytes each, and by 16 bytes for each receipt; never with their
content. The records of one session that has many stay on disk while it is judged (``kept_records``); about 1 KiB of
each remains in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Final

from affiant.attestation.bundle.period.archive_reader import PeriodBundle
from affiant.attestation.log_reading.errors import LeafWrong, TreeWrong
from affiant.attestation.tdx.quote.quote import TDQuote
from affiant.attestation.tdx.tcb.collateral import Collateral
from affiant.attestation.tlog.errors import EntryMalformed, TileMalformed
from affiant.attestation.verdict.accepted_values import TrustFile
from affiant.attestation.verdict.timeline import ordered
from affiant.attestation.verdict.verdict import Verdict
from affiant.attestation.verifier.case.question import Progress, Question, demand_known
from affiant.attestation.verifier.case.statement_verifiers import StatementVerifiers
from affiant.attestation.verifier.check_rows import verifier_fault
from affiant.attestation.verifier.period import judging
from affiant.attestation.verifier.period.assembling import assembled, check_format, traced, unreadable
from affiant.attestation.verifier.period.case_rows import judge_cases, make_case_rows
from affiant.attestation.verifier.period.first_steps import (
    begin_pass,
    bytes_of_receipts,
    pass_through,
    read_keysets,
    read_log,
)
from affiant.attestation.verifier.period.log.chain_rows import make_chain_rows
from affiant.attestation.verifier.period.log.log_rows import make_log_rows
from affiant.attestation.verifier.period.log.run import Run
from affiant.attestation.verifier.period.log.spill import Spill
from affiant.attestation.verifier.period.work import Setting
from affiant.attestation.verifier.period.worker_pool import WorkerPool, worker_pool
from affiant.attestation.verifier.verify_bundle import Examined
from affiant.errors import AffiantError

__all__ = ["examine_period", "examine_with", "keep_timeline", "verify_period", "with_workers"]

_PIECE: Final = 500
"""Records of the timeline that a worker process takes at once."""
_SMALL: Final = 8 << 20
"""Bytes of receipts up to which one process is faster than to start others."""


def verify_period(
    path: Path,
    trust: TrustFile,
    *,
    verifiers: StatementVerifiers,
    at: datetime,
    build: str,
    since: datetime | None = None,
    until: datetime | None = None,
    request: bytes | None = None,
    response: bytes | None = None,
    session: str | None = None,
    processes: int = 1,
    timeline: int = 0,
    progress: Progress = lambda *_: None,
) -> Verdict:
    """Check one period bundle: the verdict of :func:`examine_period`, asked as ``Question`` says."""
    question = Question(
        trust=trust,
        verifiers=verifiers,
        at=at,
        build=build,
        request=request,
        response=response,
        session=session,
        since=since,
        until=until,
        processes=processes,
        timeline=timeline,
        progress=progress,
    )
    return examine_period(path, question).verdict


def examine_period(path: Path, question: Question) -> Examined:
    """Check the period bundle in ``path``: the verdict, also for an archive that cannot be read."""
    return examine_with(path, question, _verify)


def examine_with(path: Path, asked: Question, verify: Callable[[Run], None]) -> Examined:
    """The same. ``verify``: takes every receipt and judges every case, once the log is open."""
    try:
        bundle = PeriodBundle(path)
    except AffiantError as error:
        return unreadable(asked, path, error)
    with bundle, Spill() as spill:
        run = Run(asked, bundle, spill)
        _make_checks(run, verify)
        if run.holds("sig.receipts"):
            demand_known(run.asked, run.sessions)
        return Examined(assembled(run, name=bundle.archive.digest()), trace=traced(run))


def _make_checks(run: Run, verify: Callable[[Run], None]) -> None:
    """All of it, in its order."""
    run.made("fmt.keysets", lambda: read_keysets(run))
    damage: AffiantError | None = None
    if run.signers is not None:
        try:
            read_log(run)
            verify(run)
        except (TreeWrong, LeafWrong, TileMalformed, EntryMalformed) as error:
            run.log_error, run.view, run.first = error, None, None
        except AffiantError as error:  # of the archive, where it was read: nothing is said about the rest
            damage, run.first = error, None
        except Exception as error:  # noqa: BLE001 - as in a single bundle: refused, never passed over
            damage, run.first = verifier_fault(error), None
    make_chain_rows(run)
    make_case_rows(run)
    make_log_rows(run)
    run.made("fmt.bundle", lambda: check_format(run, damage))


def _verify(run: Run) -> None:
    """Every receipt, and every case."""
    begin_pass(run)
    with with_workers(run) as workers:
        pass_through(run, workers)
        make_chain_rows(run)
        judge_cases(run, workers)
        keep_timeline(run, workers)


def with_workers(
    run: Run, *, collateral: Callable[[TDQuote], Collateral] | None = None
) -> AbstractContextManager[WorkerPool]:
    """The processes that verify. ``collateral``: the reader's own, for cases that are compared."""
    assert run.signers is not None
    asked = run.asked
    setting = Setting(
        run.bundle.path,
        asked.trust.raw,
        asked.verifiers,
        asked.at,
        run.signers.names,
        asked.request,
        asked.response,
        run.view is not None,
        collateral,
    )
    processes = asked.processes if bytes_of_receipts(run) > _SMALL else 1
    return worker_pool(judging.begin, (setting,), processes=processes)


def keep_timeline(run: Run, workers: WorkerPool) -> None:
    """The records of the timeline, where one is asked for."""
    pieces = [run.shown[begin : begin + _PIECE] for begin in range(0, len(run.shown), _PIECE)]
    run.moments = ordered(chain.from_iterable(workers.map(judging.moments, pieces)))
