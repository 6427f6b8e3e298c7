"""What a signer's quote says of the platform below it, and how far that is proven. Pure.

Each step adds to what the one before it proved; where one fails, its code is kept and nothing better is said:

| state | proven |
|---|---|
| ``appraised`` | everything: quote, TCB level, image and registers, under the trust file |
| ``verified`` | the quote and its TCB level; image or registers were refused or not judged |
| ``authentic`` | a platform made this quote for this key; its TCB level is revoked, or no level fits |
| ``claimed`` | nothing: the quote was read; its signatures or its binding to the key do not hold, or were not judged |
| ``none`` | there is no quote |
"""

from __future__ import annotations

from dataclasses import dataclass

from affiant.attestation.statements.evidence import parse_endorsements, parse_evidence
from affiant.attestation.statements.statement import parse_statement, report_data
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.quote.errors import TCBRevoked, TCBUnsupported
from affiant.attestation.tdx.quote.quote import TDQuote, parse_quote
from affiant.attestation.tdx.tcb.collateral import parse_collateral
from affiant.attestation.tdx.tcb.collateral_verification import verify_collateral
from affiant.attestation.tdx.tcb.tcb_status import TCBStatus
from affiant.attestation.tdx.verify.verify import VerifiedQuote, authenticate_quote, verify_quote
from affiant.attestation.verdict.errors import EvidenceUnbound
from affiant.attestation.verifier.case.case import Case, Party
from affiant.attestation.verifier.case.evidence_named import object_named
from affiant.attestation.verifier.case.signer_evidence import Quoted
from affiant.attestation.verifier.checks.evidence_checks import collateral_of
from affiant.errors import AffiantError

__all__ = ["EvidenceFacts", "evidence_facts"]


@dataclass(frozen=True, slots=True)
class EvidenceFacts:
    """What is searched for. Hexadecimal, lower case; None: not known.

    Args:
        refusal: the code of what was refused on the way to a better state; of ``verified`` the row of the verdict.
        tcb_status: of platform, module and enclave together, by the collateral in the bundle.
        advisories: those that the collateral in the bundle lists for the level.
        mrseam: measurement of the TDX module. mrtd: of the image.
        fmspc: kind of platform, 6 bytes. ppid: this platform, 16 bytes.
    """

    state: str = "none"
    refusal: str | None = None
    tcb_status: str | None = None
    advisories: frozenset[str] = frozenset()
    mrseam: str | None = None
    mrtd: str | None = None
    fmspc: str | None = None
    ppid: str | None = None


def evidence_facts(case: Case, party: Party) -> EvidenceFacts:
    """The facts of one signer of an examined bundle.

    A session whose profile was restricted has several quotes: the last counts, which the newest collateral is for; or
    the first that was not appraised.
    """
    quoted = next((each for each in party.quoted if each.appraisal is None), None)
    if party.quoted and quoted is None:
        appraisal = party.quoted[-1].appraisal
        assert appraisal is not None
        return _of_verified("appraised", None, appraisal.verified)
    try:
        quoted = quoted or _first_named(case, party)
        quote = parse_quote(quoted.evidence.quote)
    except (AffiantError, IndexError) as error:
        return EvidenceFacts(refusal=error.code if isinstance(error, AffiantError) else None)
    try:
        _require_bound(party, quoted.evidence.statement, quote)
        return _judged(case, party, quoted, quote)
    except AffiantError as error:
        return EvidenceFacts(
            "claimed", error.code, mrseam=quote.body.mrseam.hex(), mrtd=quote.body.mrtd.hex()
        )


def _first_named(case: Case, party: Party) -> Quoted:
    """What the signer's first record names, where the check of all that its records name did not hold."""
    evd = str(party.records[0].member("evd"))
    return Quoted(evd, parse_evidence(object_named(case.bundle.evidence, evd, "evidence")))


def _require_bound(party: Party, statement: bytes, quote: TDQuote) -> None:
    if parse_statement(statement).keyset_digest != party.statement.keyset_digest:
        raise EvidenceUnbound("the evidence holds another keyset")
    if quote.body.report_data != report_data(statement):
        raise EvidenceUnbound("the quote does not bind its keyset")


def _judged(case: Case, party: Party, quoted: Quoted, quote: TDQuote) -> EvidenceFacts:
    if party.role == "session" and not any(each.supervisor is party for each in case.sessions):
        raise EvidenceUnbound("a session that is not judged here")
    collateral = verify_collateral(
        parse_collateral(parse_endorsements(collateral_of(case, party, quoted))),
        now=case.at,
        trust=TrustRoots.named(case.trust.root_names_at(case.at)),
    )
    try:
        return _of_verified("verified", "tee.appraisal", verify_quote(quote, collateral, now=case.at))
    except (TCBRevoked, TCBUnsupported) as error:
        chain = authenticate_quote(quote, collateral, now=case.at).chain
        return EvidenceFacts(
            "authentic",
            error.code,
            TCBStatus.REVOKED.value if isinstance(error, TCBRevoked) else None,
            mrseam=quote.body.mrseam.hex(),
            mrtd=quote.body.mrtd.hex(),
            fmspc=chain.extension.fmspc.hex(),
            ppid=chain.extension.ppid.hex(),
        )


def _of_verified(state: str, refusal: str | None, verified: VerifiedQuote) -> EvidenceFacts:
    body = verified.quote.body
    return EvidenceFacts(
        state,
        refusal,
        verified.statuses.merged.value,
        verified.advisories,
        body.mrseam.hex(),
        body.mrtd.hex(),
        verified.fmspc.hex(),
        verified.ppid.hex(),
    )
