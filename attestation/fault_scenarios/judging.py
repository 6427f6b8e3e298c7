"""A scenario's evidence put to the verifier, through the entry that `affiant quote verify` has.

For tests and for whoever wants to see an error without files. What is compared is the scenario's own expectation.
"""

from __future__ import annotations

from affiant.attestation.quote.collateral.single_file import parse_collateral_file
from affiant.attestation.quote.judge.pins import parse_reference_file
from affiant.attestation.quote.judge.verdict import Question, QuoteVerdict, RememberedCollateral, judge_quote
from affiant.attestation.tdx.appraise.expectations import Expectations
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.policy.policy_file import parse_appraisal_policy
from affiant.attestation.tdx.tcb.collateral import Collateral
from affiant.attestation.tdx.tcb.collateral_verification import verify_collateral
from affiant.attestation.tdx.tcb.rollback import mark_of
from fault_scenarios.evidence import Evidence

__all__ = ["judge_evidence"]


def judge_evidence(evidence: Evidence, *, build: str = "SIMULATED") -> QuoteVerdict:
    """The verdict on ``evidence``, with everything asked that it says is asked.

    Raises:
        ConfigurationError: what is asked does not fit together.
    """
    asked = evidence.asked
    question = Question(
        at=evidence.at,
        roots=TrustRoots.pinned((evidence.root,)),
        references=()
        if asked.reference is None
        else parse_reference_file(asked.reference, evidence.at).references,
        policy=None if asked.policy is None else parse_appraisal_policy(asked.policy, source="policy.yaml"),
        expected=Expectations(mrconfigid=asked.mrconfigid, report_data=asked.report_data, rtmr3=asked.rtmr3),
    )
    return judge_quote(
        evidence.quote,
        lambda _quote: _collateral(evidence, question),
        question,
        build=build,
        event_log=evidence.event_log if asked.event_log else None,
    )


def _collateral(evidence: Evidence, question: Question) -> Collateral | RememberedCollateral:
    """The collateral; with a memory, as a cache would give it."""
    collateral = parse_collateral_file(evidence.collateral)
    if evidence.seen is None:
        return collateral
    verified, newest = (
        verify_collateral(each, now=question.at, trust=question.roots)
        for each in (collateral, parse_collateral_file(evidence.seen))
    )
    return RememberedCollateral(verified=verified, seen=mark_of(newest))
