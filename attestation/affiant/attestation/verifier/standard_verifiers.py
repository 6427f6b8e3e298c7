"""The verifiers of this release: Intel TDX, approvals, signatures over profiles, RFC 3161 tokens, sigstore.

>>> import pickle
>>> pickle.loads(pickle.dumps(STANDARD_VERIFIERS)) == STANDARD_VERIFIERS
True
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from affiant.attestation.signatures.approvers.errors import ApproverExtraMissing
from affiant.attestation.signatures.approvers.named_approvers import NamedApprovers, read_approvers
from affiant.attestation.signatures.approvers.statement import Statement, read_statement
from affiant.attestation.signatures.profiles.accepted_signers import AcceptedSigner
from affiant.attestation.signatures.sigstore.errors import TrustedRootUnusable
from affiant.attestation.signatures.sigstore.sigstore_anchor import STRANGERS, not_after_of, verify_by_named
from affiant.attestation.signatures.timestamps.errors import AnchorExtraMissing, AnchorUntrusted
from affiant.attestation.signatures.timestamps.renewal import verify_stamp
from affiant.attestation.statements.manifest import Manifest
from affiant.attestation.tdx.appraise.appraisal import Appraisal, appraise
from affiant.attestation.tdx.appraise.reference import ImageRole, ReferenceValues
from affiant.attestation.tdx.event_log.eventlog import Event, parse_event_log
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.quote.quote import TDQuote, parse_quote
from affiant.attestation.tdx.tcb.collateral import Collateral, parse_collateral
from affiant.attestation.tdx.tcb.collateral_verification import VerifiedCollateral, verify_collateral
from affiant.attestation.tdx.tcb.rollback import CollateralMark, mark_of
from affiant.attestation.tdx.verify.verify import VerifiedQuote, verify_quote
from affiant.attestation.verdict.accepted_values import TrustFile
from affiant.attestation.verdict.errors import NotMade
from affiant.attestation.verifier.case.statement_verifiers import NotNamed, StatementVerifiers, Word
from affiant.attestation.verifier.signed_profiles import signed_profile

__all__ = ["STANDARD_VERIFIERS"]


@dataclass(frozen=True, slots=True)
class _TDXQuotes:
    def parse(self, quote: bytes) -> TDQuote:
        return parse_quote(quote)

    def parse_collateral(self, data: bytes) -> Collateral:
        return parse_collateral(data)

    def verify_collateral(
        self, collateral: Collateral, *, now: datetime, roots: Iterable[str]
    ) -> VerifiedCollateral:
        return verify_collateral(collateral, now=now, trust=TrustRoots.named(roots))

    def mark_of(self, collateral: VerifiedCollateral) -> CollateralMark:
        return mark_of(collateral)

    def verify(
        self,
        quote: TDQuote,
        collateral: VerifiedCollateral,
        *,
        now: datetime,
        seen: CollateralMark | None,
    ) -> VerifiedQuote:
        return verify_quote(quote, collateral, now=now, seen=seen)

    def appraise(
        self,
        verified: VerifiedQuote,
        reference: ReferenceValues,
        *,
        image: ImageRole,
        mrconfigid: bytes,
        report_data: bytes,
        log: bytes,
        boot: Iterable[tuple[str, Mapping[str, object]]],
        later: Iterable[tuple[str, Mapping[str, object]]],
    ) -> Appraisal:
        return appraise(
            verified,
            reference,
            image=image,
            mrconfigid=mrconfigid,
            report_data=report_data,
            log=parse_event_log(log),
            expected_rtmr3=tuple(Event(*each) for each in boot),
            expected_later=tuple(Event(*each) for each in later),
        )


@dataclass(frozen=True, slots=True)
class _Approvals:
    def approvers_of(self, normal_form: bytes) -> NamedApprovers:
        return read_approvers(normal_form)

    def read(self, text: str, approvers: NamedApprovers) -> Statement:
        try:
            return read_statement(text, approvers.identities)
        except (ApproverExtraMissing, TrustedRootUnusable) as error:
            raise NotMade(f"an approval by an identity cannot be verified here: {error.message}") from error


@dataclass(frozen=True, slots=True)
class _Profiles:
    def require_signed(
        self,
        objects: Iterable[bytes],
        manifest: Manifest,
        signers: Sequence[AcceptedSigner],
        *,
        at: datetime,
    ) -> None:
        signed_profile(objects, manifest, signers, at=at)


@dataclass(frozen=True, slots=True)
class _Anchors:
    def stamped(self, tokens: Sequence[bytes], text: str, *, trust: TrustFile, at: datetime) -> Word:
        try:
            stamp = verify_stamp(text, tokens, roots=trust.tsa_roots or (), at=at)
        except AnchorUntrusted as error:
            raise NotNamed(error) from error
        except AnchorExtraMissing as error:
            raise NotMade(str(error)) from error
        return Word(stamp.not_after, stamp.authority)

    def published(self, bundle: bytes, text: str, *, trust: TrustFile, at: datetime) -> Word:
        try:
            record, root = verify_by_named(bundle, text, roots=trust.sigstore_root or (), at=at)
        except (AnchorUntrusted, *STRANGERS) as error:
            raise NotNamed(error) from error
        except AnchorExtraMissing as error:
            raise NotMade(str(error)) from error
        return Word(not_after_of(record), root.signer.identity)


STANDARD_VERIFIERS: Final = StatementVerifiers(_TDXQuotes(), _Approvals(), _Profiles(), _Anchors())
