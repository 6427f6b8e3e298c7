"""Admission: is this session TD what it says, and is what it says meant for this gateway?

Pure: evidence, collateral, reference values and the time are arguments. The caller takes the nonce after step 2 (it
is used up whatever the outcome), and that nothing was admitted twice is decided after, by the session table. The steps:

1. forms: collection, statement, manifest, activation, normal form; each closed and canonical;
2. collateral, then the quote, under the roots of the reference values; REPORTDATA is over the statement;
3. the statement is a session's, of this gateway's class, over its nonce and its keyset, and not expired;
4. statement, manifest and activation name each other; nothing is expired;
5. the manifest names this gateway: its configuration and its reference values;
6. the normal form is the one whose digest the manifest names; a signature that came with it is about this profile
   of this file, and there is one if the configuration names profile signers;
7. appraisal: image, attributes, MRCONFIGID regenerated from the manifest, REPORTDATA from the statement, and
   RTMR3 exactly the five events of manifest and activation, followed by the restrictions that the caller knows of
   (at admission none; ``appraise_restriction``);
8. one of the profile signers has signed, and counted then: last, since only an attested caller's bytes are worth it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from affiant.attestation.encoding.binary_text import b64u_sha256
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.records.sealed_disclosures import require_recipient
from affiant.attestation.signatures.approvers.identities import require_verifiable
from affiant.attestation.signatures.profiles.errors import ProfileSignatureMissing
from affiant.attestation.signatures.profiles.verification import (
    ProfileSignature,
    parse_profile_signature,
    verify_by_one_of,
)
from affiant.attestation.statements.ear import ear_digest, issue_ear
from affiant.attestation.statements.evidence import (
    Evidence,
    parse_admission,
    parse_evidence,
    wrap_endorsements,
)
from affiant.attestation.statements.gateway_config import GatewayConfig
from affiant.attestation.statements.manifest import (
    Activation,
    Manifest,
    mrconfigid,
    parse_activation,
    parse_manifest,
    reaches_floor,
    session_events,
)
from affiant.attestation.statements.restriction import Narrowing
from affiant.attestation.statements.statement import (
    KeysetStatement,
    parse_statement,
    report_data,
    session_issuer,
)
from affiant.attestation.tdx.appraise.appraisal import Appraisal, appraise, appraise_report_data
from affiant.attestation.tdx.appraise.reference import ReferenceValues
from affiant.attestation.tdx.event_log.eventlog import Event, parse_event_log
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.attestation.tdx.tcb.collateral import Collateral
from affiant.attestation.tdx.verify.cache import VerificationCache
from affiant.attestation.tdx.verify.verify import VerifiedQuote, verify_quote
from affiant.errors import MalformedError, NotAllowedError, NotAuthenticError, NotFreshError
from affiant.gateway.sessions.sessions import Admitted
from affiant.policy.decision.compiled import CompiledPolicy, parse_normal_form
from affiant.policy.model.profile import Policy
from affiant.policy.normal_form.digest import floor_digest, holds_floor
from affiant.policy.signing.signatures import require_profile

__all__ = ["AdmissionRequest", "Appraiser", "parse_admission_request"]


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """A parsed admission request; every part is in its closed form, and none is believed yet."""

    raw_evidence: bytes
    evidence: Evidence
    statement: KeysetStatement
    manifest: Manifest
    activation: Activation
    policy: CompiledPolicy
    signature: ProfileSignature | None
    """Over the file that the profile is of."""


def parse_admission_request(body: bytes) -> AdmissionRequest:
    """1: the parts of the body of ``POST /v1/sessions``.

    Raises:
        MalformedError: a part of another form.
        ``admission.mismatch``: evidence that is not a session's.
    """
    admission = parse_admission(body)
    evidence = parse_evidence(admission.evidence)
    if evidence.manifest is None or evidence.activation is None:
        raise NotAuthenticError(
            "the evidence is not a session's",
            expected="manifest and activation in it",
            code="admission.mismatch",
        )
    return AdmissionRequest(
        raw_evidence=admission.evidence,
        evidence=evidence,
        statement=parse_statement(evidence.statement),
        manifest=parse_manifest(evidence.manifest),
        activation=parse_activation(evidence.activation),
        policy=parse_normal_form(admission.policy),
        signature=None if admission.signature is None else parse_profile_signature(admission.signature),
    )


@dataclass(frozen=True, slots=True)
class Appraiser:
    """What this gateway judges sessions by, and signs its conclusions with.

    Args:
        keyset_digest: of this gateway's own keyset.
        build: digest of the release that judges.
        cache: verified certificate chains; time and revocation are judged at each use.
        floor: the baseline policy that the configuration names.
    """

    config: GatewayConfig
    reference: ReferenceValues
    keyset_digest: str
    ear: Signer
    build: str
    cache: VerificationCache
    floor: Policy | None = None

    def verify(self, request: AdmissionRequest, *, collateral: Collateral, now: datetime) -> VerifiedQuote:
        """Step 2: the quote, which a TD under the roots made for this very statement.

        Raises:
            AffiantError: what collateral and quote refuse with, under their own codes.
            ``appraisal.report_data``: the quote is over another statement.
        """
        trust = self.reference.trust_roots()
        checked = self.cache.verify_collateral(collateral, now=now, trust=trust)
        verified = verify_quote(parse_quote(request.evidence.quote), checked, now=now, cache=self.cache)
        appraise_report_data(verified.quote.body, report_data(request.statement.raw))
        return verified

    def appraise(
        self,
        request: AdmissionRequest,
        verified: VerifiedQuote,
        *,
        collateral: Collateral,
        now: datetime,
        restrictions: tuple[Narrowing, ...] = (),
    ) -> Admitted:
        """Steps 3 to 8, and the signed result.

        Args:
            verified: what :meth:`verify` returned for ``request``.
            restrictions: of this session; the profile is then the one after the last of them.

        Raises:
            ``admission.mismatch``, ``admission.expired``: a contradiction, named.
            AffiantError: what the appraisal refuses with, under its own codes.
        """
        self._check_statement(request, now)
        self._check_links(request, now)
        self._check_gateway(request.manifest)
        self._check_profile(request, restrictions)
        _check_openings(request.activation)
        appraisal = self._appraise(request, verified, restrictions)
        self._check_signer(request, now)
        require_verifiable(request.policy.policy.approval.identities)
        ear = self._issue(request, verified, appraisal, collateral, now)
        return Admitted(
            activation=request.activation,
            manifest=request.manifest,
            statement=request.statement,
            policy=request.policy,
            evidence=request.raw_evidence,
            evd=b64u_sha256(request.raw_evidence),
            ear=ear,
            ear_digest=ear_digest(ear),
            tier=appraisal.tier.value,
            until=int(verified.earliest_expiry.timestamp()),
            signature=None if request.signature is None else request.signature.raw,
            restrictions=restrictions,
        )

    def _check_statement(self, request: AdmissionRequest, now: datetime) -> None:
        statement = request.statement  # 3
        _same("role", statement.role, "session")
        _same("class", statement.cls, self.config.cls)
        _same("gateway keyset", statement.gks, self.keyset_digest)
        _same("issuer", statement.iss, session_issuer(request.activation.session))
        if len(statement.chn) != 1:
            raise NotAuthenticError(
                "a session signs one chain", found=len(statement.chn), code="admission.mismatch"
            )
        _require_after("statement", statement.not_after, now)

    def _check_links(self, request: AdmissionRequest, now: datetime) -> None:
        _same("manifest", request.statement.man, request.manifest.digest)  # 4
        _same("activation", request.statement.act, request.activation.digest)
        _same("manifest's class", request.manifest.cls, self.config.cls)
        _require_after("activation", request.activation.expires, now)
        if not reaches_floor(request.activation.isolation, request.manifest.isolation_floor):
            raise NotAllowedError(
                "the session's isolation is weaker than its manifest's minimum",
                expected=request.manifest.isolation_floor,
                found=request.activation.isolation,
                code="admission.isolation",
            )

    def _check_gateway(self, manifest: Manifest) -> None:
        _same("gateway configuration", manifest.gateway.config, self.config.digest)  # 5
        _same("log's origin", manifest.gateway.origin, self.config.origin)
        _same("reference values", manifest.gateway.reference, self.reference.digest)
        _same("gateway's class", manifest.gateway.cls, self.config.cls)

    def _check_profile(self, request: AdmissionRequest, restrictions: tuple[Narrowing, ...]) -> None:
        manifest = request.manifest  # 6
        profile, file = manifest.profile_digest, manifest.file_digest
        if restrictions:
            profile, file = restrictions[-1].profile_digest, restrictions[-1].file_digest
        _same("profile", request.policy.digest, profile)
        if self.floor is not None and not holds_floor(request.policy.policy, self.floor):
            raise NotAllowedError(
                "this gateway admits only profiles that contain its organisation's baseline policy",
                expected=floor_digest(self.floor),
                found=request.policy.policy.floor,
                hint="Give the file of that baseline policy to affiant run",
                code="admission.floor",
            )
        if request.signature is not None:
            require_profile(request.signature.claimed, request.policy, file_digest=file)
        elif self.config.profile_signers:
            raise ProfileSignatureMissing(
                "this gateway admits signed profiles only",
                expected="a signature by one of its profile signers",
                hint="Have the profile's file signed: affiant policy sign",
            )

    def _check_signer(self, request: AdmissionRequest, now: datetime) -> None:
        if self.config.profile_signers:  # 8
            assert request.signature is not None, "step 6 has refused"
            verify_by_one_of(request.signature, self.config.profile_signers, at=now)

    def _appraise(
        self, request: AdmissionRequest, verified: VerifiedQuote, restrictions: tuple[Narrowing, ...]
    ) -> Appraisal:
        expected = session_events(request.manifest, request.activation)  # 7
        return appraise(
            verified,
            self.reference,
            image="session",
            mrconfigid=mrconfigid(request.manifest),
            report_data=report_data(request.statement.raw),
            log=parse_event_log(request.evidence.eventlog),
            expected_rtmr3=tuple(Event(name, payload) for name, payload in expected),
            expected_later=tuple(each.event for each in restrictions),
        )

    def _issue(
        self,
        request: AdmissionRequest,
        verified: VerifiedQuote,
        appraisal: Appraisal,
        collateral: Collateral,
        now: datetime,
    ) -> str:
        return issue_ear(
            self.ear,
            iss=self.config.iss,
            build=self.build,
            peer="session",
            tier=appraisal.tier.value,
            vector=appraisal.vector,
            policy=self.reference.digest,
            evd=b64u_sha256(request.raw_evidence),
            col=b64u_sha256(wrap_endorsements(collateral.to_bytes())),
            cls=self.config.cls,
            tcb_status=verified.statuses.merged.value,
            until=verified.earliest_expiry,
            now=now,
        )


def _check_openings(activation: Activation) -> None:
    """Seal once to the starter's key now: later, a key that cannot be sealed to would stop a record."""
    if activation.openings is None:
        return
    try:
        require_recipient(activation.openings)
    except (MalformedError, ValueError) as error:
        raise NotAuthenticError(
            "the activation's disclosure key is not an X25519 key", code="admission.mismatch"
        ) from error


def _same(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise NotAuthenticError(
            f"the {what} is another one",
            expected=expected,
            found=found,
            where=what,
            code="admission.mismatch",
        )


def _require_after(what: str, timestamp: int, now: datetime) -> None:
    if timestamp <= now.timestamp():
        raise NotFreshError(
            f"the {what} has expired",
            expected=f"after {int(now.timestamp())}",
            found=timestamp,
            code="admission.expired",
        )
