"""What a verdict says about a whole bundle beside its rows: who is in it, of which class it is, when it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain

from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.verdict.summary import Counting, Summary, uses_of
from affiant.attestation.verdict.time_bounds import TimeBounds, around
from affiant.attestation.verdict.verdict import Population
from affiant.attestation.verifier.case.case import Case, Session, by_chain
from affiant.attestation.verifier.checks.session_checks import is_lost

__all__ = ["class_of", "population_of", "state_of", "summary_of", "time_of"]


def time_of(case: Case | None) -> TimeBounds | None:
    """Around the sessions judged, or around everything where there is none: by witnesses, narrowed by anchors."""
    if case is None:
        return None
    time_bounds = case.time_bounds if "time.bracket" in case.established else {}
    stamps = [found for code, found in case.stamps.items() if code in case.established]
    judged = [record.rh for each in case.sessions for record in each.records]
    return around(
        [_narrowed(time_bounds.get(rh), stamps, rh) for rh in judged or {*time_bounds, *chain(*stamps)}]
    )


def _narrowed(
    time_bounds: TimeBounds | None, stamps: Sequence[Mapping[str, tuple[int, str]]], rh: str
) -> TimeBounds:
    known = TimeBounds(None, None) if time_bounds is None else time_bounds
    for each in stamps:
        if rh in each:
            known = known.not_after_also(*each[rh])
    return known


def class_of(case: Case | None) -> str | None:
    """What the accepted roots make it; simulated as soon as any keyset says so, appraised or not."""
    if case is None or not case.parties:
        return None
    said = {party.statement.cls for party in case.parties}
    quotes = chain.from_iterable(party.quoted for party in case.parties)
    said |= {each.appraisal.evidence_class.value for each in quotes if each.appraisal is not None}
    return "simulated" if "simulated" in said else "hardware"


def population_of(case: Case | None) -> Population:
    """Who is in it, of the records that are authentic."""
    if case is None:
        return Population()
    return Population.of(
        Counter(record.kind for record in case.records),
        Counter(state_of(case, session) for session in case.sessions),
        chains=len(by_chain(case.records)),
        started=len(case.sessions),
        foreign=len(case.foreign),
    )


def summary_of(case: Case | None) -> Summary:
    """What the records of the sessions in question, and the gateway's own, say was done, if all are authentic.

    A session's bundle holds its neighbours' records of the gateway's chain: they tell another story.
    """
    counting = Counting()
    if case is not None and "sig.receipts" in case.established:
        told = {"", *case.in_question}
        for record in case.records:
            if _session_of(record) in told:
                counting.take(record.iat, tuple(uses_of(record)))
    return counting.summary()


def _session_of(record: VerifiedReceipt) -> str:
    """The session's id; empty for the gateway's own records."""
    if record.role == "session":
        return str(record.member("iss")).rpartition(":")[2]
    return str(record.member("agt", "ses") or "")


def state_of(case: Case, session: Session) -> str:
    """How a session ended: ``closed`` or ``lost``; or ``open``."""
    close = session.the("session-close")
    if close is not None:
        return "lost" if close.member("why") == "lost" else "closed"
    return "lost" if is_lost(case, session) else "open"
