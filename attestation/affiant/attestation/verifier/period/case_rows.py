"""Judges every session, and every gateway without one, as a case of its own, and makes the rows that come of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, starmap
from typing import Final

from affiant.attestation.verdict.verdict import BEYOND_VERIFIER, Check, State, Tier
from affiant.attestation.verifier.check_rows import not_asked_check, not_made_check, refused_check
from affiant.attestation.verifier.comparing import instant_of
from affiant.attestation.verifier.period import judging
from affiant.attestation.verifier.period.changed_quotes import ChangedQuotes
from affiant.attestation.verifier.period.kept_records import OnDisk
from affiant.attestation.verifier.period.log.run import Many, Run
from affiant.attestation.verifier.period.work import Judged, Kept, Then, Work, case_rows
from affiant.attestation.verifier.period.worker_pool import WorkerPool
from affiant.attestation.verifier.verify_bundle import BODIES, CHECKS, NO_BODY

__all__ = ["MAX_SESSION", "Compared", "judge_cases", "make_case_rows"]

_IN_MEMORY: Final = 4_000
"""Records of one session that are in memory while it is judged, some 80 MiB; those of a longer one stay on disk."""
MAX_SESSION: Final = 1_000_000
"""Records of one session that are judged together: about 1 GiB of memory, 1 KiB a record."""
_BEFORE: Final = ("fmt.", "sig.", "chain.")
_ALONE: Final = 5_000
"""Records of a gateway without a session that make one case."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What cases are compared with: themselves at their own time.

    Args:
        run: the archive at its own time.
        held: codes of the rows that say when each case existed; None: all have the archive's own time.
    """

    run: Run
    held: frozenset[str] | None
    quotes: ChangedQuotes

    def then(self) -> Callable[[str], Then]:
        """Of one case, by its session; that is empty for gateways alone, whose rows are of the archive's own time."""
        assert self.run.signers is not None
        gateways = {each.kid: self._at(f":{each.kid}") for each in self.run.signers.gateways}
        established, now = _established(self.run), self.run.asked.at
        return lambda session: Then(self._at(session) if session else now, gateways, established)

    def _at(self, name: str) -> datetime:
        at = self.run.asked.at
        times = None if self.run.first is None else self.run.first.times
        end = None if self.held is None or times is None else times.end(name, held=self.held)
        return at if end is None else instant_of(end, at)


def judge_cases(run: Run, workers: WorkerPool, compared: Compared | None = None) -> None:
    """Make the checks of every case, if every receipt is authentic."""
    assert run.first is not None
    if not run.holds("sig.receipts"):
        return
    for session in run.first.judged:
        if (count := run.spill.count(session)) > MAX_SESSION:
            for each in (run,) if compared is None else (run, compared.run):
                _too_large(each, session, count)
    total, done = len(run.first.judged) or 1, 0
    making = _making(run, compared)
    for judged in chain(
        workers.map(judging.judge, starmap(making, chain(_alone(run), _sessions(run, long=False)))),
        (workers.here(judging.judge, making(*each)) for each in _sessions(run, long=True)),
    ):
        _take(run, judged)
        if compared is not None:
            assert judged.then is not None
            _take(compared.run, judged.then)
            compared.quotes.take(judged.quotes)
        done += bool(judged.session)
        run.asked.progress("sessions", done, total)


def _established(run: Run) -> frozenset[str]:
    """What held before any case is judged: rows of the log come after, whether they are made already or not."""
    held = {code for code in run.held if code.startswith(_BEFORE)}
    return frozenset(held - {"chain.coverage"} | {"fmt.bundle"})


def _making(run: Run, compared: Compared | None) -> Callable[[str, str, Sequence[Kept]], Work]:
    """What makes a case: of a session, its supervisor's key and its records; without a session, of gateways alone."""
    assert run.first is not None
    gateways, gaps, orders = _boots(run).values(), run.first.gaps, run.first.orders
    alone, beside, established = [*gateways, *orders], [*gateways, *gaps, *orders], _established(run)
    unlogged = frozenset(rh for rh, is_logged in run.first.logged.items() if not is_logged)
    then = (lambda _: None) if compared is None else compared.then()
    return lambda session, kid, records: Work(
        session, kid, records, beside if session else alone, established, then(session), unlogged
    )


def _alone(run: Run) -> Iterator[tuple[str, str, Sequence[Kept]]]:
    """Gateways alone, each in one case at least."""
    for kid in sorted(_boots(run)):
        name = f":{kid}"
        for begin in range(0, run.spill.count(name), _ALONE):
            yield "", "", tuple(run.spill.texts(name, begin, _ALONE))


def _sessions(run: Run, *, long: bool) -> Iterator[tuple[str, str, Sequence[Kept]]]:
    """Sessions; the records of ``long`` ones stay on disk."""
    assert run.first is not None
    for session, kid in sorted(run.first.judged.items()):
        if (count := run.spill.count(session)) <= MAX_SESSION and (count > _IN_MEMORY) == long:
            yield session, kid, OnDisk(run.spill, session) if long else tuple(run.spill.texts(session))


def _too_large(run: Run, session: str, count: int) -> None:
    text = f"a session of {count} records: more than {MAX_SESSION} are not judged together"
    for row in case_rows(with_session=True):
        check = Check(row.code, row.level, State.NOT_MADE, Tier.NONE, text, reason=BEYOND_VERIFIER)
        run.cases.tally(row).add(check, case=session)


def _boots(run: Run) -> Mapping[str, Kept]:
    assert run.first is not None
    assert run.signers is not None
    return {kid: boot for kid, boot in run.first.boots.items() if run.signers.by_kid[kid].role == "gateway"}


def _lacks_keysets(run: Run) -> bool:
    """Whether no session that was asked for can be judged; a single bundle names the objects one by one."""
    first = run.first
    return first is not None and "sig.receipts" in run.held and not first.judged and bool(first.foreign)


def _take(run: Run, judged: Judged) -> None:
    by_code, cases = {row.code: row for row in (*CHECKS, *BODIES)}, run.cases
    cases.classes |= judged.cls
    cases.appraised |= judged.appraised
    cases.erased |= judged.erased
    for chn, last in judged.pruned.items():
        cases.pruned[chn] = max(last, cases.pruned.get(chn, last))
    if judged.state:
        cases.states[judged.state] = cases.states.get(judged.state, 0) + 1
    for check in judged.checks:
        cases.tally(by_code[check.code]).add(check, case=judged.session or "gateway")


def make_case_rows(run: Run) -> None:
    """The rows that are made case by case."""
    trust = run.asked.trust
    nothing = "no session whose supervisor's records are here"
    if "sig.receipts" not in run.checks or not run.holds("sig.receipts"):
        nothing = "needs sig.receipts, which did not hold"
    for row in case_rows(with_session=True):
        required = run.requires(row.code)
        run.checks[row.code] = run.cases.tally(row).to_check(required=required, nothing=nothing)
    if _lacks_keysets(run):
        lacking = "no keyset of the sessions that the gateway's records name is here"
        run.checks["bundle.objects"] = not_made_check("bundle.objects", "L4", lacking, trust)
    found = None if run.first is None else run.first.exceptions.get("peer.bound")
    if found is not None:
        run.checks["peer.bound"] = refused_check("peer.bound", "L4", Many(found), trust)
    for row in BODIES:
        given = run.asked.request if row.code == "body.request" else run.asked.response
        if given is None:
            run.checks[row.code] = not_asked_check(row.code, row.level, NO_BODY, trust)
        else:
            required = run.requires(row.code)
            run.checks[row.code] = run.cases.tally(row).to_check(required=required, nothing=nothing)
