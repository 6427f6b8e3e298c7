"""Makes one verdict on one quote, with verification and appraisal kept apart, and its exit code.

Verification asks whether genuine hardware made the quote, at a TCB level that is known; appraisal, whether the TD
is what the reader expects. Each refuses by itself. Exit codes (trust rules, 13):

== =============== ============================================================================================
0  affirming       hardware, ``UpToDate``, reference values or policy held without an exception, and MRCONFIGID,
                   REPORTDATA and RTMR3 were asked
10 warning         hardware and reference values or policy held, but a status short of ``UpToDate`` that they accept,
                   or by an exception, or not everything was asked
20 contraindicated refused: malformed, not authentic, not fresh, revoked, or not what was expected
30 none            hardware, but nothing was appraised: neither reference values nor a policy were given
40 simulated       everything asked held, on a platform that is no hardware
== =============== ============================================================================================

A verifier that was not asked to appraise never says affirming, whatever the TCB status is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from affiant.attestation.encoding.binary_text import from_b64u, sha256_name
from affiant.attestation.quote.judge.event_log_file import parse_event_log_file
from affiant.attestation.quote.judge.quote_file import read_quote_file
from affiant.attestation.signatures.sigstore.verification import VerifiedFile
from affiant.attestation.tdx.appraise.expectations import Expectations
from affiant.attestation.tdx.appraise.reference import ReferenceValues
from affiant.attestation.tdx.pki.roots import EvidenceClass, TrustRoots
from affiant.attestation.tdx.policy.appraisal import PolicyAppraisal, appraise_by_policy, judge_by_policy
from affiant.attestation.tdx.policy.node_outcomes import PolicyOutcome
from affiant.attestation.tdx.policy.settings import AppraisalPolicy, reference_policy
from affiant.attestation.tdx.quote.checks import Check, held, not_made
from affiant.attestation.tdx.quote.errors import UntrustedRoot
from affiant.attestation.tdx.quote.quote import TDQuote, parse_quote
from affiant.attestation.tdx.tcb.collateral import ITEMS, Collateral
from affiant.attestation.tdx.tcb.collateral_verification import VerifiedCollateral, verify_collateral
from affiant.attestation.tdx.tcb.rollback import CollateralMark
from affiant.attestation.tdx.verify.verify import VerifiedQuote, verify_quote
from affiant.attestation.verdict.verdict import EXIT_CODES, EXIT_SIMULATED, Tier
from affiant.errors import AffiantError, ConfigurationError

__all__ = ["Question", "QuoteVerdict", "RememberedCollateral", "Stage", "judge_quote"]


class Stage(StrEnum):
    """How far a judgement came: where it was refused, or all the way."""

    QUOTE = "quote"
    COLLATERAL = "collateral"
    VERIFICATION = "verification"
    APPRAISAL = "appraisal"
    DONE = "done"


_ORDER: Final = tuple(Stage)
_HELD_AFTER: Final = {
    Stage.QUOTE: (1, 2, 3, 4),
    Stage.COLLATERAL: (11, 14, 15, 16, 17, 18, 20, 21),
}
"""What a stage that was passed has checked as a whole; the other points end with the stages after it."""


@dataclass(frozen=True, slots=True)
class RememberedCollateral:
    """Collateral from a place with a memory: verified, and the newest mark that was seen there (None: none)."""

    verified: VerifiedCollateral
    seen: CollateralMark | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the reader asks: at which time, under which roots, and what is expected."""

    at: datetime
    roots: TrustRoots
    references: tuple[ReferenceValues, ...] = ()
    reference_file: str | None = None
    """``sha256:`` name of the file that ``references`` are from."""
    policy: AppraisalPolicy | None = None
    """What a person wrote instead of reference values; never both."""
    published: VerifiedFile | None = None
    """Who published the file that either is from; None: it is the reader's own."""
    expected: Expectations = field(default_factory=Expectations)

    def __post_init__(self) -> None:
        if self.policy is not None and self.references:
            raise ConfigurationError(
                "reference values and a policy both say what is accepted; give one",
                code="appraisal.expectation",
            )

    @property
    def accepted(self) -> tuple[AppraisalPolicy, ...]:
        """What is accepted, one of which must accept the quote."""
        return (self.policy,) if self.policy is not None else tuple(map(reference_policy, self.references))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteVerdict:
    """The answer. Only :func:`judge_quote` makes one."""

    question: Question
    build: str
    inputs: Mapping[str, str]
    """Name of an input -> ``sha256:`` name of its exact bytes."""
    stage: Stage
    quote: TDQuote | None = None
    verified: VerifiedQuote | None = None
    appraisal: PolicyAppraisal | None = None
    policies: tuple[PolicyOutcome, ...] = ()
    """What each policy decided, also where one refused; empty without a policy."""
    refusal: AffiantError | None = None

    @property
    def evidence_class(self) -> EvidenceClass | None:
        """What the root makes of the quote; None if it was refused before."""
        return None if self.verified is None else self.verified.evidence_class

    @property
    def simulated(self) -> bool:
        """Whether what holds is of no hardware."""
        return self.evidence_class is EvidenceClass.SIMULATED

    @property
    def tier(self) -> Tier:
        """What the quote is worth to the reader."""
        if self.appraisal is None:
            return Tier.CONTRAINDICATED
        return Tier(self.appraisal.tier.value)

    @property
    def exit_code(self) -> int:
        """As in the module's table."""
        if self.tier is not Tier.CONTRAINDICATED and self.simulated:
            return EXIT_SIMULATED
        return EXIT_CODES[self.tier]

    @property
    def checks_made(self) -> tuple[Check, ...]:
        """What held, by number."""
        if self.verified is None:
            stages = _ORDER[: _ORDER.index(self.stage)]
            return held(sorted(point for stage in stages for point in _HELD_AFTER.get(stage, ())))
        asked = () if self.appraisal is None else self.appraisal.checks_made
        return _sorted(*self.verified.checks_made, *asked)

    @property
    def checks_not_made(self) -> tuple[Check, ...]:
        """What was not checked, and why, by number."""
        if self.appraisal is not None and self.verified is not None:
            own = (check for check in self.verified.checks_not_made if check.point not in range(37, 45))
            return _sorted(*own, *self.appraisal.checks_not_made)
        made = {check.point for check in self.checks_made}
        return tuple(
            not_made(point, "the refusal came before") for point in range(1, 46) if point not in made
        )

    def to_json(self) -> Mapping[str, object]:
        """The document ``affiant-quote-verdict/1``."""
        refused = None if self.refusal is None else {**self.refusal.to_json(), "stage": str(self.stage)}
        return {
            "typ": "affiant-quote-verdict/1",
            "at": _instant(self.question.at),
            "tool": {"name": "affiant", "build": self.build},
            "tier": str(self.tier),
            "exit_code": self.exit_code,
            "simulated": self.simulated,
            "evidence_class": None if self.evidence_class is None else str(self.evidence_class),
            "refused": refused,
            "verification": None if self.verified is None else _verification(self.verified),
            "appraisal": None if self.appraisal is None else _appraisal(self.appraisal),
            "policies": [_outcome(outcome) for outcome in self.policies],
            "checks_made": [check.to_json() for check in self.checks_made],
            "checks_not_made": [check.to_json() for check in self.checks_not_made],
            "inputs": dict(self.inputs),
            "published": None if self.question.published is None else self.question.published.to_json(),
        }


def judge_quote(
    content: bytes,
    collateral: Callable[[TDQuote], Collateral | RememberedCollateral],
    question: Question,
    *,
    build: str,
    event_log: bytes | None = None,
) -> QuoteVerdict:
    """Answer ``question`` about the quote in a file's ``content``.

    Args:
        content: the file's bytes; how they spell a quote is found out.
        collateral: gives the collateral of the quote's platform, which the quote only chooses.
        question: what is asked.
        build: what names the verifier.
        event_log: the bytes of a log that must replay to the registers; None: not asked.

    Raises:
        ConfigurationError: what the reader gave does not fit together; no verdict on the quote.
    """
    inputs: dict[str, str] = {"quote_file": sha256_name(content)}
    if question.reference_file is not None:
        inputs["reference_file"] = question.reference_file
    stage = Stage.QUOTE
    quote: TDQuote | None = None
    verified: VerifiedQuote | None = None
    appraisal: PolicyAppraisal | None = None
    policies: tuple[PolicyOutcome, ...] = ()
    refusal: AffiantError | None = None
    if question.policy is not None:
        inputs["policy_file"] = question.policy.digest
    if question.published is not None:
        inputs |= {"published": question.published.bundle, "trusted_root": question.published.trusted_root}
    try:
        quote = parse_quote(read_quote_file(content).data)
        if (named := _name(quote.digest)) == inputs["quote_file"]:
            del inputs["quote_file"]
        inputs["quote"] = named
        stage = Stage.COLLATERAL
        checked, seen = _checked(collateral(quote), question, inputs)
        stage = Stage.VERIFICATION
        verified = verify_quote(quote, checked, now=question.at, seen=seen)
        inputs |= {
            "pck_chain": _name(verified.input_digests["pck_chain"]),
            "root_key": _name(verified.root_digest),
        }
        stage = Stage.APPRAISAL
        log = None
        if event_log is not None:
            inputs["event_log"] = sha256_name(event_log)
            log = parse_event_log_file(event_log)
        if question.policy is not None:
            policies = judge_by_policy(verified, question.policy, question.expected)
        appraisal = appraise_by_policy(verified, question.accepted, question.expected, log=log)
        if appraisal.policy is not None and appraisal.policy.is_reference:
            inputs["reference_values"] = appraisal.policy.digest
        stage = Stage.DONE
    except ConfigurationError:
        raise
    except AffiantError as error:
        refusal = _with_hint(error)
    return QuoteVerdict(
        question=question,
        build=build,
        inputs=inputs,
        stage=stage,
        quote=quote,
        verified=verified,
        appraisal=appraisal,
        policies=policies,
        refusal=refusal,
    )


def _checked(
    given: Collateral | RememberedCollateral, question: Question, inputs: dict[str, str]
) -> tuple[VerifiedCollateral, CollateralMark | None]:
    """Collateral as verified; its digests stand among the inputs also where it is refused."""
    if isinstance(given, RememberedCollateral):
        inputs |= _digests(given.verified.collateral)
        return given.verified, given.seen
    inputs |= _digests(given)
    return verify_collateral(given, now=question.at, trust=question.roots), None


def _digests(items: Collateral) -> Mapping[str, str]:
    each = {name: _name(hashlib.sha256(getattr(items, name)).digest()) for name in ITEMS}
    return {"collateral": _name(from_b64u(items.digest, size=32)), **each}


def _name(digest: bytes) -> str:
    return f"sha256:{digest.hex()}"


def _with_hint(error: AffiantError) -> AffiantError:
    if isinstance(error, UntrustedRoot) and error.hint is None:
        error.hint = (
            "--root FILE, or the --reference file, names the root that you accept; only Intel's is hardware"
        )
    return error


def _sorted(*checks: Check) -> tuple[Check, ...]:
    return tuple(sorted(checks, key=lambda check: check.point))


def _instant(when: datetime) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%SZ}"


def _verification(verified: VerifiedQuote) -> Mapping[str, object]:
    statuses = verified.statuses
    pck = verified.pck
    return {
        "statuses": {
            name: None if (status := getattr(statuses, name)) is None else status.value
            for name in ("platform", "module", "qe", "merged", "current_platform", "current_module")
        },
        "advisories": sorted(verified.advisories),
        "tcb_date": _instant(verified.tcb_date),
        "earliest_expiry": _instant(verified.earliest_expiry),
        "evaluation_number": verified.evaluation_number,
        "fmspc": verified.fmspc.hex(),
        "ppid": verified.ppid.hex(),
        "pceid": pck.pceid.hex(),
        "dynamic_platform": pck.dynamic_platform,
        "cached_keys": pck.cached_keys,
        "smt_enabled": pck.smt_enabled,
    }


def _appraisal(appraisal: PolicyAppraisal) -> Mapping[str, object]:
    policy, images = appraisal.policy, list(dict.fromkeys(image.name for image in appraisal.images))
    if policy is None or policy.is_reference:
        return {
            "asked": policy is not None,
            "images": images,
            "reference_values": None if policy is None else policy.digest,
            "accepted_statuses": None
            if policy is None
            else sorted(entry.status.value for entry in policy.statuses),
        }
    return {
        "asked": True,
        "images": images,
        "shapes": sorted({shape for image in appraisal.images for shape in image.shapes}),
        "policy": policy.digest,
        "exceptions": [exception.name for exception in appraisal.exceptions],
        "holds_until": _instant(appraisal.holds_until),
    }


def _outcome(outcome: PolicyOutcome) -> Mapping[str, object]:
    return {
        "name": outcome.policy.name,
        "code": outcome.policy.code,
        "decision": str(outcome.decision),
        "detail": outcome.detail,
        "exceptions": [
            {
                "name": used.name,
                "reason": used.reason,
                "until": None if used.until is None else _instant(used.until),
                "where": used.where,
            }
            for used in outcome.exceptions
        ],
        "refused": None if outcome.refusal is None else outcome.refusal.to_json(),
    }
