"""A period, judged at its own time and again now: the verdict is that of now, with what changed since.

1. Every receipt once, now: chains, the log, witnesses. The period's own time is the upper bound around its records, as
   for a single bundle; where whoever backs it is accepted no more, it is looked for at the time that the records give
   themselves.
2. Every receipt once again, at the period's own time.
3. Every case twice, one after the other: at its own time, and now. A session's own time is the upper bound around its
   own records, and a gateway's quote is judged as of its boot record: no collateral lives as long as a period may be.
4. Rows then and now, quotes then and now, entries of the trust file.

Memory: twice that of a verification, and what is named of quotes is bounded (``changed_quotes``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from affiant.attestation.verdict.since_archived import Changed, CheckChanged
from affiant.attestation.verdict.time_bounds import BY_WITNESSES
from affiant.attestation.verdict.verdict import Check, State, Verdict
from affiant.attestation.verifier.case.question import Comparison, Question
from affiant.attestation.verifier.comparing import (
    changed_since,
    check_changed,
    ended_since,
    instant_of,
    known_of,
)
from affiant.attestation.verifier.period.assembling import assembled, time_of, witnesses_of
from affiant.attestation.verifier.period.case_rows import Compared, judge_cases, make_case_rows
from affiant.attestation.verifier.period.changed_quotes import ChangedQuotes
from affiant.attestation.verifier.period.first_steps import begin_pass, pass_through, read_keysets, read_log
from affiant.attestation.verifier.period.log.chain_rows import make_chain_rows
from affiant.attestation.verifier.period.log.log_rows import make_log_rows
from affiant.attestation.verifier.period.log.run import Run
from affiant.attestation.verifier.period.log.spill import NothingKept
from affiant.attestation.verifier.period.verify_period import examine_with, keep_timeline, with_workers
from affiant.attestation.verifier.period.worker_pool import WorkerPool
from affiant.attestation.verifier.verify_bundle import Examined

__all__ = ["examine_period_now"]

_OF_CASES: Final = ("key.bound", "conf.bound", "tee.appraisal")
"""What a log that counts as attested asks of its gateway's quote."""


def examine_period_now(path: Path, question: Question) -> Examined:
    """Judge an archived period at the time of ``question``, and say what changed since its own time.

    Returns:
        The verdict of now. Nothing is compared of an archive whose receipts cannot be read.
    """
    comparing = _Comparing(question.compared or Comparison())
    found = examine_with(path, question, comparing.verify)
    changed = None if comparing.then is None else comparing.changed(found.verdict)
    return replace(found, verdict=replace(found.verdict, changed=changed))


@dataclass(slots=True)
class _Comparing:
    compared: Comparison
    by: str = "asked"
    now: Run | None = None
    then: Run | None = None
    quotes: ChangedQuotes = field(default_factory=ChangedQuotes)

    def verify(self, run: Run) -> None:
        """Every receipt, and every case, then and now."""
        begin_pass(run)
        with with_workers(run, collateral=self.compared.collateral) as workers:
            pass_through(run, workers)
            make_chain_rows(run)
            then = self._then(run, workers)
            held = None if self.compared.since is not None else frozenset(_presumed(then).held)
            judge_cases(run, workers, Compared(then, held=held, quotes=self.quotes))
            keep_timeline(run, workers)
        make_case_rows(then)
        make_log_rows(then)
        self.now, self.then = run, then

    def _then(self, run: Run, workers: WorkerPool) -> Run:
        """The archive at its own time; receipts, chains and log."""
        if self.compared.since is not None:
            return _look(run, workers, self.compared.since)
        bounded, found = _presumed(run), None
        if (end := _end_of(bounded)) is None:
            found = _look(run, workers, instant_of(run.passed.latest, run.asked.at), seen=run.asked.at)
            bounded = _presumed(found)
            end = _end_of(bounded)
        if end is None:
            self.by = "signers"
            assert found is not None
            return found
        seconds, by = end
        self.by = witnesses_of(bounded) if by == BY_WITNESSES else by
        return _look(run, workers, instant_of(seconds, run.asked.at), seen=run.asked.at)

    def changed(self, verdict: Verdict) -> Changed:
        """What became of it until ``verdict``, that of now."""
        assert self.now is not None
        assert self.then is not None
        then, now = self.then, self.now
        then.checks["fmt.bundle"] = now.checks["fmt.bundle"]  # the same bytes
        assert then.signers is not None
        return changed_since(
            assembled(then, name=verdict.bundle),
            by=self.by,
            compared=self.compared,
            checks=_rows(then, now),
            quotes=self.quotes.named,
            ended=ended_since(now.asked.trust, self._instants(then), now.asked.at),
            counted=self.quotes.counted(len(then.signers.by_kid)),
        )

    def _instants(self, then: Run) -> tuple[datetime, ...]:
        """The period's own time, and the earliest at which something in it was judged."""
        times = None if then.first is None else then.first.times
        if self.compared.since is not None or times is None or times.earliest is None:
            return (then.asked.at,)
        return then.asked.at, instant_of(times.earliest, then.asked.at)


def _look(run: Run, workers: WorkerPool, at: datetime, *, seen: datetime | None = None) -> Run:
    """The same archive at another instant: all but cases and the archive's own form."""
    asked = replace(run.asked, at=at, timeline=0, held_against=False, seen=seen)
    with NothingKept() as nothing:
        then = Run(asked, run.bundle, nothing)
        then.made("fmt.keysets", lambda: read_keysets(then))
        read_log(then)
        begin_pass(then, own_times=True)
        pass_through(then, workers)
    make_chain_rows(then)
    return then


def _presumed(run: Run) -> Run:
    """What the rows of the log come to if every quote is good: whether it is, is not known yet.

    It only chooses the instant at which quotes are judged, as of then. A log that is attested would else say nothing.
    """
    presumed = {code: Check(code, "L4", State.HELD, None, "presumed") for code in _OF_CASES}
    found = replace(run, checks=run.checks | presumed)
    make_log_rows(found)
    return found


def _end_of(run: Run) -> tuple[int, str] | None:
    """The upper bound around all records, and by whose word."""
    time = time_of(run)
    return None if time is None or time.not_after is None else (time.not_after, time.not_after_by)


def _rows(then: Run, now: Run) -> Iterator[CheckChanged]:
    """Rows that came out otherwise; one that is made of many cases also where it did so for more or fewer of them."""
    for code, before in then.checks.items():
        after = now.checks[code]
        cases = [run.cases.tallies[code].made if code in run.cases.tallies else {} for run in (then, now)]
        if known_of(before) != known_of(after) or cases[0] != cases[1]:
            yield check_changed(before, after)
