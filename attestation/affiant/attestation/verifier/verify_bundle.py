"""The order of a verification: which checks are made, at which level, and what becomes of each.

A check raises what it refuses; :class:`~.refusals.NotMade` says that what it needs is not there. Everything is
an argument: bytes, trust file, instant. There is no clock, no network and no environment here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from affiant.attestation.bundle.bundle import Bundle, parse_bundle
from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.verdict.accepted_values import TrustFile
from affiant.attestation.verdict.outcome import NO_DEMAND, Demand
from affiant.attestation.verdict.timeline import timeline_of
from affiant.attestation.verdict.verdict import Check, Finding, State, Verdict
from affiant.attestation.verifier.case.actors_met import people_of
from affiant.attestation.verifier.case.case import Case, Newer
from affiant.attestation.verifier.case.question import Question, demand_known
from affiant.attestation.verifier.case.statement_verifiers import StatementVerifiers
from affiant.attestation.verifier.case.unwitnessed import unwitnessed_of
from affiant.attestation.verifier.check_rows import (
    UNREADABLE,
    make_check,
    not_asked_check,
    not_made_check,
    refused_check,
)
from affiant.attestation.verifier.checks import (
    anchor_checks,
    approval_checks,
    body_checks,
    chain_checks,
    erasure_checks,
    evidence_checks,
    log_checks,
    model_checks,
    object_checks,
    policy_checks,
    receipt_checks,
    session_checks,
    witness_checks,
)
from affiant.attestation.verifier.population import class_of, population_of, summary_of, time_of
from affiant.errors import AffiantError

if TYPE_CHECKING:
    from affiant.attestation.verifier.trace import Trace

__all__ = [
    "BODIES",
    "CHECKS",
    "NO_BODY",
    "Examined",
    "Row",
    "examine_bundle",
    "examine_case",
    "run_body",
    "run_row",
    "verify_bundle",
]


@dataclass(frozen=True, slots=True)
class Row:
    """One check: its code, the level that it belongs to, and how it is made."""

    code: str
    level: str | None
    examine: Callable[[Case], Finding]


CHECKS: Final[Sequence[Row]] = (
    Row("fmt.keysets", "L0", receipt_checks.check_keysets),
    Row("sig.receipts", "L0", receipt_checks.check_receipts),
    Row("kinds.judged", "L1", receipt_checks.check_kinds),
    Row("erasure.authority", "L1", erasure_checks.check_authority),
    Row("chain.ids", "L1", chain_checks.check_ids),
    Row("chain.time", "L1", chain_checks.check_time),
    Row("chain.boot", "L1", chain_checks.check_boot),
    Row("chain.contiguous", "L1", chain_checks.check_contiguous),
    Row("chain.end", "L1", chain_checks.check_end),
    Row("chain.epochs", "L1", chain_checks.check_epochs),
    Row("chain.gaps", "L1", chain_checks.check_gaps),
    Row("session.start", "L1", session_checks.check_start),
    Row("session.order", "L1", session_checks.check_order),
    Row("session.counter", "L1", session_checks.check_counter),
    Row("session.close", "L1", session_checks.check_close),
    Row("session.peer", "L1", session_checks.check_peer),
    Row("session.intents", "L1", session_checks.check_intents),
    Row("session.decisions", "L1", session_checks.check_decisions),
    Row("session.supervisor", "L1", session_checks.check_supervisor),
    Row("bundle.objects", "L4", object_checks.check_objects),
    Row("key.evidence", "L4", evidence_checks.check_evidence),
    Row("key.bound", "L4", evidence_checks.check_key_bound),
    Row("key.not_after", "L4", evidence_checks.check_expiry),
    Row("conf.bound", "L4", policy_checks.check_config_bound),
    Row("pol.bound", "L4", policy_checks.check_policy_bound),
    Row("session.sealed", "L1", session_checks.check_sealed),
    Row("model.answered", "L1", model_checks.check_answered),
    Row("apr.bound", "L4", approval_checks.check_approvals),
    Row("tee.appraisal", "L4", evidence_checks.check_appraisal),
    Row("tee.class", "L4", evidence_checks.check_class),
    Row("peer.bound", "L4", evidence_checks.check_peer_bound),
    Row("peer.ear", "L4", evidence_checks.check_results),
    Row("conf.accepted", "L4", policy_checks.check_config_accepted),
    Row("pol.accepted", "L4", policy_checks.check_policy_accepted),
    Row("pol.private", "L4", policy_checks.check_private),
    Row("iso.floor", "L4", policy_checks.check_isolation),
    Row("rfs.accepted", "L4", policy_checks.check_rootfs),
    Row("log.inclusion", "L2", log_checks.check_inclusion),
    Row("log.consistency", "L2", log_checks.check_consistency),
    Row("hold.respected", "L2", erasure_checks.check_holds),
    Row("wit.quorum", "L3", witness_checks.check_quorum),
    Row("time.bracket", "L3", witness_checks.check_time_bounds),
    Row("time.tsa", "L3", anchor_checks.check_tokens),
    Row("time.sigstore", "L3", anchor_checks.check_sigstore),
)
"""In the order in which they are made: a check finds what those before it established."""

NO_BODY: Final = "no body was given"
"""Why a check of a body is not asked."""

BODIES: Final[Sequence[Row]] = (
    Row("body.request", "L5", body_checks.check_request),
    Row("body.response", "L5", body_checks.check_response),
)


@dataclass(frozen=True, slots=True)
class Examined:
    """What became of one bundle, and what other bundles are compared with (``trace.left_by``)."""

    verdict: Verdict
    case: Case | None = None
    """What the checks established; None: a bundle that cannot be read, or a period."""
    trace: Trace | None = None
    """Of a period: what it leaves behind; None: nothing."""


def verify_bundle(
    data: bytes,
    trust: TrustFile,
    *,
    verifiers: StatementVerifiers,
    at: datetime,
    build: str,
    request: bytes | None = None,
    response: bytes | None = None,
    session: str | None = None,
    demand: Demand = NO_DEMAND,
) -> Verdict:
    """Check one bundle: the verdict of :func:`examine_bundle`, asked as :class:`~.case.question.Question` says."""
    question = Question(
        trust=trust,
        verifiers=verifiers,
        at=at,
        build=build,
        request=request,
        response=response,
        session=session,
        demand=demand,
    )
    return examine_bundle(data, question).verdict


def examine_bundle(data: bytes, question: Question, *, newer: Newer | None = None) -> Examined:
    """Check one bundle, of which ``data`` are the file's bytes; ``newer`` as of :func:`examine_case`."""
    bundle: Bundle | AffiantError
    try:
        bundle = parse_bundle(data)
    except AffiantError as error:
        bundle = error
    return examine_case(bundle, question, name=sha256_name(data), newer=newer)


def examine_case(
    bundle: Bundle | AffiantError, question: Question, *, name: str, newer: Newer | None = None
) -> Examined:
    """Check one bundle.

    Args:
        bundle: as parsed, or why it could not be.
        name: ``sha256:`` name of its file.
        newer: what the archived collateral is held against (``judged_now``); None: nothing.

    Returns:
        The verdict, also for a bundle that cannot be read: the error is its first check. And the records and
        appraisals that it rests on. What a check refused or did not make is missing there, or cannot be relied on:
        ``Case.established`` says which held.

    Raises:
        SessionUnknown: the reader asks for a session of which this bundle, which is authentic, has no record.
    """
    trust = question.trust
    if isinstance(bundle, AffiantError):
        case = None
        checks = [refused_check("fmt.bundle", "L0", bundle, trust)]
    else:
        case = Case(bundle, question, newer)
        text = f"{len(bundle.receipts)} receipts; every object is what its name says"
        checks = [make_check("fmt.bundle", "L0", lambda: Finding(text), trust)]
        case.established.add("fmt.bundle")
    checks += [run_row(row, case, trust) for row in CHECKS]
    if case is not None and "sig.receipts" in case.established:
        demand_known(question, {session.id for session in case.sessions} | case.foreign)
    checks += [run_body(row, case, trust) for row in BODIES]
    untold = "a single bundle: what else there was is not asked"
    checks.append(not_asked_check("chain.coverage", None, untold, trust))
    verdict = Verdict(
        bundle=name,
        at=question.time,
        trust=trust.digest,
        build=question.build,
        evidence_class=class_of(case),
        checks=tuple(checks),
        population=population_of(case),
        time=time_of(case),
        unwitnessed=unwitnessed_of(case),
        people=people_of(case),
        summary=summary_of(case),
        timeline=timeline_of(case.records) if case is not None and "sig.receipts" in case.established else (),
        demand=question.demanded,
        asked=question.about,
    )
    return Examined(verdict, case)


def run_row(row: Row, case: Case | None, trust: TrustFile) -> Check:
    """Make one check; whatever it ends in becomes its row."""
    if case is None:
        return not_made_check(row.code, row.level, UNREADABLE, trust)
    check = make_check(row.code, row.level, lambda: row.examine(case), trust)
    if check.state is State.HELD:
        case.established.add(row.code)
    return check


def run_body(row: Row, case: Case | None, trust: TrustFile) -> Check:
    """The same, of a body that the reader may hold."""
    if (
        case is not None
        and (case.asked.request if row.code == "body.request" else case.asked.response) is None
    ):
        return not_asked_check(row.code, row.level, NO_BODY, trust)
    return run_row(row, case, trust)
