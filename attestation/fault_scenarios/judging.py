"""A scenario's evidence put to the verifier, through the entry that `affiant quote verify` has.

For tests and for whoever wants to see a refusal without files. What is compared is the scenario's own expectation.
"""

from __future__ import annotations

from affiant.attestation.collateral.single_file import parse_collateral_file
from affiant.attestation.quotes.pins import parse_reference_file
from affiant.attestation.quotes.verdict import Question, QuoteVerdict, RememberedCollateral, judge_quote
from affiant.attestation.tdx.collateral import Collateral
from affiant.attestation.tdx.collateral_verification import verify_collateral
from affiant.attestation.tdx.expectations import Expectations
from affiant.attestation.tdx.policy_file import parse_appraisal_policy
from affiant.attestation.tdx.rollback import mark_of
from affiant.attestation.tdx.roots import TrustRoots
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
