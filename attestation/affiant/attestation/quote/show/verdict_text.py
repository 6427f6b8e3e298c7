"""Formats a verdict on a quote as text: the result first, then what holds, what was not asked, and what it is based on.

The word "verified" stands here only where genuine hardware was appraised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from affiant.attestation.quote.judge.verdict import QuoteVerdict, Stage
from affiant.attestation.quote.show.inspection import BODY_NAMES
from affiant.attestation.quote.show.policy_text import publication_lines
from affiant.attestation.tdx.policy.appraisal import PolicyAppraisal
from affiant.attestation.tdx.policy.node_outcomes import PolicyOutcome
from affiant.attestation.tdx.quote.checks import Check
from affiant.attestation.tdx.verify.verify import VerifiedQuote
from affiant.attestation.verdict.lines import field, heading, prose
from affiant.attestation.verdict.verdict import Tier

__all__ = ["render_verdict"]

_FIRST_INPUTS: Final = ("quote", "quote_file")
_CODE: Final = 30


def render_verdict(verdict: QuoteVerdict) -> str:
    """The whole text, with a final newline."""
    return "\n".join(_lines(verdict)) + "\n"


def _lines(verdict: QuoteVerdict) -> Iterator[str]:
    yield from _head(verdict)
    yield from _verification(verdict)
    yield from _appraisal(verdict)
    yield from _policies(verdict.policies)
    yield from _published(verdict)
    yield from _checks("CHECKS MADE", verdict.checks_made)
    if verdict.refusal is None:
        yield from _checks("CHECKS NOT MADE", verdict.checks_not_made)
    yield from heading("INPUTS")
    for name, digest in verdict.inputs.items():
        yield field(name, digest, width=_CODE)
    yield ""
    yield from _end(verdict)


def _head(verdict: QuoteVerdict) -> Iterator[str]:
    yield "TDX quote"
    if verdict.quote is not None:
        yield field(
            "form", f"version {verdict.quote.header.version}, {BODY_NAMES[verdict.quote.body_type]} body"
        )
    for name in _FIRST_INPUTS:
        if name in verdict.inputs:
            yield field(name, verdict.inputs[name])
    yield field("judged at", f"{verdict.question.at:%Y-%m-%dT%H:%M:%SZ}")
    yield field("verifier", verdict.build)
    missing = verdict.checks_not_made
    if verdict.refusal is None:
        yield from prose("not made", ", ".join(dict.fromkeys(check.code for check in missing)) or "none")
    else:
        yield field("not made", f"{len(missing)} of 45 points: the refusal came before")


def _verification(verdict: QuoteVerdict) -> Iterator[str]:
    if verdict.verified is None:
        yield from heading(f"VERIFICATION  refused at its stage {str(verdict.stage)!r}")
        yield from _refusal(verdict)
        return
    yield from heading("VERIFICATION  held: this platform made the quote, at a TCB level that is known")
    yield from _verified(verdict.verified)


def _verified(verified: VerifiedQuote) -> Iterator[str]:
    statuses = verified.statuses
    yield field("evidence", f"{verified.evidence_class}, by the root key")
    yield field("TCB status", f"{statuses.merged.value}, merged from:")
    now = "" if statuses.current_platform is None else f" at launch, {statuses.current_platform.value} now"
    yield field("  platform", statuses.platform.value + now)
    module = "judged with the platform" if statuses.module is None else statuses.module.value
    now = "" if statuses.current_module is None else f" at launch, {statuses.current_module.value} now"
    yield field("  TDX module", module + now)
    yield field("  quoting enclave", statuses.qe.value)
    yield from prose("advisories", ", ".join(sorted(verified.advisories)) or "none")
    yield field("TCB date", f"{verified.tcb_date:%Y-%m-%d}, the earliest of the matched levels")
    yield field(
        "holds until", f"{verified.earliest_expiry:%Y-%m-%dT%H:%M:%SZ}, the earliest expiry of all parts"
    )
    yield field("evaluation number", f"{verified.evaluation_number}, the lower of both documents")
    yield field("platform", f"FMSPC {verified.fmspc.hex()}, PPID {verified.ppid.hex()}")
    flags = (
        ("dynamic platform", verified.pck.dynamic_platform),
        ("cached keys", verified.pck.cached_keys),
        ("SMT", verified.pck.smt_enabled),
    )
    said = {True: "yes", False: "no", None: "not said"}
    yield field("platform flags", ", ".join(f"{name}: {said[flag]}" for name, flag in flags))


def _appraisal(verdict: QuoteVerdict) -> Iterator[str]:
    if verdict.appraisal is not None:
        yield from _appraised(verdict.appraisal)
    elif verdict.stage is Stage.APPRAISAL:
        yield from heading("APPRAISAL  refused: the TD is not what was expected")
        yield from _refusal(verdict)
    else:
        yield from heading("APPRAISAL  not made: the refusal came before")


def _appraised(appraisal: PolicyAppraisal) -> Iterator[str]:
    policy, images = appraisal.policy, " or ".join(dict.fromkeys(map(str, appraisal.images)))
    if policy is None:
        yield from heading(
            "APPRAISAL  not made: no --reference or --policy, so what runs in the TD was not asked"
        )
        yield field("fixed rules", "held: not debuggable, no reserved, profiling or migration bit")
    elif policy.is_reference:
        yield from heading("APPRAISAL  held, as far as it was asked")
        yield field("reference values", policy.digest)
        yield field("image", images)
        yield from prose(
            "accepted statuses", ", ".join(sorted(each.status.value for each in policy.statuses))
        )
    else:
        yield from heading("APPRAISAL  held, by every policy and as far as it was asked")
        yield field("policy file", policy.digest)
        yield from prose("image (shapes)", images)
        yield from prose("exceptions used", ", ".join(each.name for each in appraisal.exceptions) or "none")
        yield field(
            "holds until", f"{appraisal.holds_until:%Y-%m-%dT%H:%M:%SZ}, with what was used to accept it"
        )


def _policies(outcomes: Sequence[PolicyOutcome]) -> Iterator[str]:
    """Every policy and what it decided; under it each exception that it needed, or its error."""
    if not outcomes:
        return
    yield from heading(f"POLICIES ({len(outcomes)})")
    for outcome in outcomes:
        decision = str(outcome.decision).replace("_", " ")
        yield from prose(outcome.policy.name, f"{decision}: {outcome.detail}", width=_CODE)
        for used in outcome.exceptions:
            end = "without an end" if used.until is None else f"until {used.until:%Y-%m-%dT%H:%M:%SZ}"
            yield from prose(f"  by {used.name}", f"{end}, {used.where}: {used.reason}", width=_CODE)
        if outcome.refusal is not None:
            yield from prose("  refusal", f"[{outcome.refusal.code}] {outcome.refusal}", width=_CODE)


def _published(verdict: QuoteVerdict) -> Iterator[str]:
    """On whose word it rests what is accepted, if it is not the reader's own."""
    if verdict.question.published is not None:
        yield from heading("PUBLISHED  what is accepted is this signer's word")
        yield from publication_lines(verdict.question.published)


def _refusal(verdict: QuoteVerdict) -> Iterator[str]:
    if verdict.refusal is not None:
        yield from prose("refusal", f"[{verdict.refusal.code}] {verdict.refusal}")


def _checks(title: str, checks: Sequence[Check]) -> Iterator[str]:
    yield from heading(f"{title} ({len(checks)})")
    if not checks:
        yield field("none", "")
    for check in checks:
        yield from prose(f"{check.point:>2} {check.code}", check.detail, width=_CODE)


def _end(verdict: QuoteVerdict) -> Iterator[str]:
    if verdict.refusal is not None:
        yield f"REFUSED  tier {verdict.tier}: {verdict.refusal.code}"
    elif verdict.simulated:
        yield "SIMULATED  tier none: nothing here is evidence of hardware"
    elif verdict.tier is Tier.NONE:
        yield "tier none: hardware made this quote; what runs in the TD was not appraised"
    elif verdict.tier is Tier.WARNING:
        yield "tier warning: hardware and what is accepted hold; see the TCB status, exceptions and what was not made"
    else:
        yield "VERIFIED  tier affirming: hardware, up to date, and everything that was to be asked held"
