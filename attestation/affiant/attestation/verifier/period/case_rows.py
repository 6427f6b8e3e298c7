"""Sessions, each as a case of its own, and gateways without one: work for the crew, and the rows that come of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from affiant.attestation.verifier.period import judging
from affiant.attestation.verifier.period.crew import Crew
from affiant.attestation.verifier.period.judging import Judged, Work
from affiant.attestation.verifier.period.run import Many, Run
from affiant.attestation.verifier.verdict import Check, State, Tier
from affiant.attestation.verifier.verify_bundle import BODIES, CHECKS

__all__ = ["MAX_SESSION", "judge_cases", "make_case_rows"]

MAX_SESSION: Final = 20_000
"""Records of one session that are judged together: some 100 MiB of memory in the process that does it."""
_ALONE: Final = 5_000
"""Records of a gateway without a session that make one case."""


def judge_cases(run: Run, hands: Crew) -> None:
    """Make the checks of every case, if every receipt is authentic."""
    assert run.first is not None
    held = run.held
    if "sig.receipts" not in held:
        return
    established = frozenset(held | {"fmt.bundle"})
    total, done = len(run.first.judged) or 1, 0
    for judged in hands.map(judging.judge, _works(run, established)):
        _take(run, judged)
        done += bool(judged.session)
        run.asked.progress("sessions", done, total)


def _works(run: Run, established: frozenset[str]) -> Iterator[Work]:
    """Every case: sessions, then gateways alone; each gateway in one at least."""
    assert run.first is not None
    assert run.signers is not None
    gateways = {
        kid: boot for kid, boot in run.first.boots.items() if run.signers.by_kid[kid].role == "gateway"
    }
    for_sessions = [*gateways.values(), *run.first.gaps, *run.first.orders]
    for kid in sorted(gateways):
        name = f":{kid}"
        for begin in range(0, run.spill.count(name), _ALONE):
            kept = tuple(run.spill.texts(name, begin, _ALONE))
            yield Work("", "", kept, [*gateways.values(), *run.first.orders], established)
    for session, kid in sorted(run.first.judged.items()):
        if run.spill.count(session) > MAX_SESSION:
            _too_large(run, session)
            continue
        yield Work(session, kid, tuple(run.spill.texts(session)), for_sessions, established)


def _too_large(run: Run, session: str) -> None:
    text = f"a session of {run.spill.count(session)} records: more than {MAX_SESSION} are not judged together"
    for row in judging.case_rows(with_session=True):
        check = Check(row.code, row.level, State.NOT_MADE, Tier.NONE, text)
        run.cases.tally(row).add(check, case=session)


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
    for row in judging.case_rows(with_session=True):
        required = trust.require is None or row.code in trust.require
        run.checks[row.code] = run.cases.tally(row).to_check(required=required, nothing=nothing)
    found = None if run.first is None else run.first.exceptions.get("peer.bound")
    if found is not None:
        run.checks["peer.bound"] = Many(found).row("peer.bound", trust)
    for row in BODIES:
        given = run.asked.request if row.code == "body.request" else run.asked.response
        if given is None:
            run.checks[row.code] = Check(
                row.code, row.level, State.NOT_ASKED, None, "no body was given", required=False
            )
        else:
            run.checks[row.code] = run.cases.tally(row).to_check(required=True, nothing=nothing)
