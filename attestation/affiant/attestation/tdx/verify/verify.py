"""Verifies a quote: quote x verified collateral -> :class:`VerifiedQuote`, the cryptography and the TCB in numbered
steps.

Numbers are those of the checklist (``checks``). This module judges points 5 to 13
for the quote's own chain, 19 for its platform, and 23 to 36; parsing made 1 to 4, verified collateral 11 to 21.
What policy wants (37 to 44) is ``appraisal``'s. A quote has no time of its own:
freshness comes from the nonce in REPORTDATA alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from hmac import compare_digest
from typing import TYPE_CHECKING, Final

from affiant.attestation.tdx.pki.ecdsa import public_key_of_point, raw_signature_holds
from affiant.attestation.tdx.pki.pck import PCKExtension, VerifiedPCKChain, verify_pck_chain
from affiant.attestation.tdx.pki.roots import EvidenceClass
from affiant.attestation.tdx.pki.times import check_windows, earliest_expiry, utc
from affiant.attestation.tdx.quote.checks import APPRAISAL_POINTS, Check, held, not_made
from affiant.attestation.tdx.quote.errors import (
    TCBRevoked,
)
from affiant.attestation.tdx.quote.quote import TDQuote
from affiant.attestation.tdx.tcb.collateral_verification import VerifiedCollateral
from affiant.attestation.tdx.tcb.rollback import CollateralMark, mark_of
from affiant.attestation.tdx.tcb.tcb_info import ModuleLevel, TCBInfo, TCBLevel, match_module_level
from affiant.attestation.tdx.tcb.tcb_status import (
    DOCUMENT_STATUSES,
    ComponentStatus,
    TCBStatus,
    converge,
    judge_relaunch,
)
from affiant.errors import MalformedError, NotAuthenticError

if TYPE_CHECKING:
    from affiant.attestation.tdx.verify.cache import VerificationCache

__all__ = ["AuthenticQuote", "TCBStatuses", "VerifiedQuote", "authenticate_quote", "verify_quote"]


@dataclass(frozen=True, slots=True)
class TCBStatuses:
    """The status of each part, and all of them merged to the worst."""

    platform: TCBStatus
    qe: ComponentStatus
    module: ComponentStatus | None
    """None: a module of version 0, which the platform's levels judge."""
    merged: TCBStatus
    current_platform: TCBStatus | None = None
    """TD 1.5: judged with the module that runs now; the first two are those at the TD's launch."""
    current_module: ComponentStatus | None = None


@dataclass(frozen=True, slots=True)
class VerifiedQuote:
    """A quote that this platform made, at a TCB level that is known and not revoked.

    Only :func:`verify_quote` makes one. It says nothing about *what* runs in the TD: see
    ``appraise``.
    """

    quote: TDQuote = field(repr=False)
    evidence_class: EvidenceClass
    statuses: TCBStatuses
    advisories: frozenset[str]
    due_advisories: frozenset[str]
    """Those of them that stand only at levels that are out of date: what an update is there to close."""
    tcb_date: datetime
    """The earliest of the matched levels' dates."""
    newer_level_since: datetime | None
    """For the parts that are out of date: the earliest date of a level of theirs that is not, which is when an update
    became due. None: no part is out of date, or the collateral lists no better level."""
    earliest_expiry: datetime
    """The last time at which every part holds; what relies on this result must not outlive it."""
    evaluation_number: int
    fmspc: bytes
    ppid: bytes
    pck: PCKExtension
    root_digest: bytes
    """SHA-256 of the root's DER SubjectPublicKeyInfo."""
    collateral_digest: str
    """43 characters: SHA-256 of the ``affiant-dcap-collateral/1`` document."""
    input_digests: Mapping[str, bytes] = field(repr=False)
    """SHA-256 of the exact bytes of ``quote``, ``pck_chain`` and the seven items of collateral."""
    judged_at: datetime
    checks_made: tuple[Check, ...] = field(repr=False)
    checks_not_made: tuple[Check, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class AuthenticQuote:
    """A quote that this platform made, whatever its TCB level is worth. Only :func:`authenticate_quote` makes one.

    For explaining a level; what relies on a quote needs a :class:`VerifiedQuote`.
    """

    quote: TDQuote = field(repr=False)
    collateral: VerifiedCollateral = field(repr=False)
    chain: VerifiedPCKChain
    now: datetime


@dataclass(frozen=True, slots=True)
class _Level:
    """Platform and module levels for one TEE_TCB_SVN."""

    platform: TCBLevel
    module: ModuleLevel | None

    @property
    def status(self) -> TCBStatus:
        """34: the platform's status with the module's."""
        status = self.platform.status
        return status if self.module is None else converge(status, self.module.status)


_OUT_OF_DATE: Final = frozenset(
    (TCBStatus.OUT_OF_DATE, TCBStatus.OUT_OF_DATE_CONFIGURATION_NEEDED, ComponentStatus.OUT_OF_DATE)
)
_BETTER: Final = (
    (frozenset(DOCUMENT_STATUSES) | frozenset(ComponentStatus))
    - _OUT_OF_DATE
    - {
        TCBStatus.REVOKED,
        ComponentStatus.REVOKED,
    }
)
_NO_ROLLBACK: Final = not_made(22, "no earlier collateral of this platform was given to compare with")
_LEFT_TO_APPRAISAL: Final = tuple(not_made(point, "left to appraisal") for point in APPRAISAL_POINTS)
_NO_RELAUNCH: Final = not_made(33, "a TD 1.0 body has one TEE_TCB_SVN only")


@lru_cache(maxsize=4)
def _checks(*, is_td15: bool, has_seen: bool) -> tuple[tuple[Check, ...], tuple[Check, ...]]:
    """45: what was checked here, and what was not."""
    missing = _LEFT_TO_APPRAISAL if has_seen else (_NO_ROLLBACK, *_LEFT_TO_APPRAISAL)
    if not is_td15:
        missing = (*missing, _NO_RELAUNCH)
    skipped = {check.point for check in missing}
    return held(point for point in range(1, 46) if point not in skipped), missing


def authenticate_quote(
    quote: TDQuote,
    collateral: VerifiedCollateral,
    *,
    now: datetime,
    cache: VerificationCache | None = None,
    seen: CollateralMark | None = None,
) -> AuthenticQuote:
    """The first half of :func:`verify_quote`: everything but the TCB levels. Arguments and errors as there."""
    now = utc(now)
    collateral.check_time(now)
    # 22: old but still valid collateral hides what Intel has published since.
    if seen is not None:
        mark_of(collateral).refuse_step_back(seen)
    chain = _verify_chain(quote, collateral, now, cache)
    # 19: FMSPC and PCEID.
    collateral.tcb_info.verify_platform(chain.extension)
    _verify_qe(quote, chain)
    # 25.
    collateral.qe_identity.verify(quote.authentication.qe_report)
    _verify_signature(quote)
    return AuthenticQuote(quote, collateral, chain, now)


def verify_quote(
    quote: TDQuote,
    collateral: VerifiedCollateral,
    *,
    now: datetime,
    cache: VerificationCache | None = None,
    seen: CollateralMark | None = None,
) -> VerifiedQuote:
    """Verify ``quote`` against ``collateral`` at the time ``now``.

    Args:
        quote: as parsed.
        collateral: as verified, perhaps earlier; its windows are judged again here.
        now: the time of judgement, with its zone.
        cache: remembers verified PCK chains by their exact bytes; time and revocation are judged regardless.
        seen: the newest collateral that the caller has seen for this FMSPC; older collateral is refused.

    Raises:
        MalformedError: the PCK chain, its SGX extension or the attestation key cannot be read.
        NotAuthenticError: the chain, the quoting enclave, the quote or the TDX module does not hold, a
            certificate is revoked, or the collateral is another platform's.
        NotFreshError: a part is outside of its window, or older than ``seen``.
        TCBUnsupported, TCBRevoked: the TCB.
        ``tdx.naive_time``: ``now`` has no zone.
    """
    authentic = authenticate_quote(quote, collateral, now=now, cache=cache, seen=seen)
    chain, pck = authentic.chain, authentic.chain.extension
    # 26.
    qe_level = collateral.qe_identity.match_level(quote.authentication.qe_report)
    launch, current = _match_levels(quote, collateral.tcb_info, pck)
    levels = _matched(launch, current, qe_level)
    made, missing = _checks(is_td15=current is not None, has_seen=seen is not None)
    return VerifiedQuote(
        quote=quote,
        evidence_class=collateral.evidence_class,
        statuses=_merge(launch, current, qe_level),
        # 35: union of the advisories, earliest date.
        advisories=frozenset().union(*(level.advisories for level in levels)),
        due_advisories=_advisories(levels, out_of_date=True) - _advisories(levels, out_of_date=False),
        tcb_date=min(level.tcb_date for level in levels),
        newer_level_since=_newer_level_since(quote, collateral, levels),
        # 36: over all parts.
        earliest_expiry=min(collateral.expiry, earliest_expiry(chain.windows)),
        evaluation_number=collateral.evaluation_number,
        fmspc=pck.fmspc,
        ppid=pck.ppid,
        pck=pck,
        # 45: what the result rests on.
        root_digest=collateral.root_digest,
        collateral_digest=collateral.digest,
        input_digests={"quote": quote.digest, "pck_chain": chain.digest, **collateral.item_digests},
        judged_at=authentic.now,
        checks_made=made,
        checks_not_made=missing,
    )


def _verify_chain(
    quote: TDQuote, collateral: VerifiedCollateral, now: datetime, cache: VerificationCache | None
) -> VerifiedPCKChain:
    """6 to 10 for the quote's chain, and 12 and 13 for its certificates."""
    verify = verify_pck_chain if cache is None else cache.verify_pck_chain
    chain = verify(quote.authentication.pck_chain, root=collateral.root, authority=collateral.pck_authority)
    check_windows(chain.windows, now)
    # 12: the list is that of this leaf's issuer; an intermediate with other bytes than the list's own
    # authority (a renewed certificate) must have made the list too.
    if chain.intermediate != collateral.pck_authority:
        collateral.pck_crl.verify(chain.intermediate)
    # 13: everything in the quote's chain, a root that it carries included.
    collateral.root_crl.refuse_revoked(chain.intermediate)
    if chain.hint is not None:
        collateral.root_crl.refuse_revoked(chain.hint)
    collateral.pck_crl.refuse_revoked(chain.leaf)
    return chain


def _verify_qe(quote: TDQuote, chain: VerifiedPCKChain) -> None:
    """23 and 24: the PCK key vouches for the enclave's report, and the report for the attestation key."""
    authentication = quote.authentication
    report = authentication.qe_report
    if not raw_signature_holds(chain.leaf.key, authentication.qe_report_signature, report.raw):
        raise NotAuthenticError(
            "the PCK key did not sign the report of the quoting enclave", code="qe.report_signature"
        )
    binding = hashlib.sha256(authentication.attestation_key + authentication.qe_auth_data).digest()
    if not compare_digest(report.report_data, binding + bytes(32)):
        raise NotAuthenticError(
            "the quoting enclave's report does not name this attestation key",
            expected="SHA-256 of key and authentication data, then 32 zero bytes",
            code="qe.binding",
        )


def _verify_signature(quote: TDQuote) -> None:
    """5 and 27: the attestation key is on the curve and signed header and body."""
    authentication = quote.authentication
    try:
        key = public_key_of_point(authentication.attestation_key)
    except ValueError as error:
        raise MalformedError("the attestation key is not a point of P-256", code="quote.malformed") from error
    if not raw_signature_holds(key, authentication.signature, quote.signed):
        raise NotAuthenticError(
            "the attestation key did not sign this header and body", code="quote.signature"
        )


def _match_levels(quote: TDQuote, tcb_info: TCBInfo, pck: PCKExtension) -> tuple[_Level, _Level | None]:
    """28 to 33: levels at launch and, in TD 1.5, now."""
    body = quote.body
    launch = _match_level(quote, tcb_info, pck, body.tee_tcb_svn)
    if body.tee_tcb_svn2 is None:
        return launch, None
    return launch, _match_level(quote, tcb_info, pck, body.tee_tcb_svn2)


def _match_level(quote: TDQuote, tcb_info: TCBInfo, pck: PCKExtension, tee_tcb_svn: bytes) -> _Level:
    # 28, 29: the module's identity first, so that an unknown module is never judged by its number.
    identity = tcb_info.module_identity(tee_tcb_svn)
    identity.verify(quote.body)
    # 30, 31, 32.
    return _Level(
        platform=tcb_info.match_level(pck, tee_tcb_svn), module=match_module_level(identity, tee_tcb_svn)
    )


def _merge(launch: _Level, current: _Level | None, qe_level: ModuleLevel) -> TCBStatuses:
    """33 and 34: never better than any part; Revoked in any part refuses."""
    tdx = launch.status if current is None else judge_relaunch(launch.status, current.status)
    merged = converge(tdx, qe_level.status)
    if merged is TCBStatus.REVOKED:
        raise TCBRevoked(
            "the TCB level of the platform, its TDX module or its quoting enclave is revoked",
            hint="No policy can allow it; the platform must be updated.",
        )
    return TCBStatuses(
        platform=launch.platform.status,
        qe=qe_level.status,
        module=None if launch.module is None else launch.module.status,
        merged=merged,
        current_platform=None if current is None else current.platform.status,
        current_module=None if current is None or current.module is None else current.module.status,
    )


def _matched(
    launch: _Level, current: _Level | None, qe_level: ModuleLevel
) -> tuple[TCBLevel | ModuleLevel, ...]:
    levels = [launch.platform, launch.module, qe_level]
    if current is not None:
        levels += [current.platform, current.module]
    return tuple(level for level in levels if level is not None)


def _advisories(levels: Iterable[TCBLevel | ModuleLevel], *, out_of_date: bool) -> frozenset[str]:
    chosen = (level.advisories for level in levels if (level.status in _OUT_OF_DATE) is out_of_date)
    return frozenset().union(*chosen)


def _newer_level_since(
    quote: TDQuote, collateral: VerifiedCollateral, levels: Iterable[TCBLevel | ModuleLevel]
) -> datetime | None:
    """Since when an update is due; what a grace period is counted from. The earliest date counts, so that a later
    update never prolongs the grace of an earlier one; and no part that is up to date prolongs it at all."""
    outdated = [level for level in levels if level.status in _OUT_OF_DATE]
    if not outdated:
        return None
    body = quote.body
    versions = {body.tee_tcb_svn, body.tee_tcb_svn2 or body.tee_tcb_svn}
    ladders: list[Sequence[TCBLevel | ModuleLevel]] = [
        collateral.tcb_info.levels,
        collateral.qe_identity.levels,
        *(collateral.tcb_info.module_identity(version).levels for version in versions),
    ]
    due = []
    for ladder in ladders:
        if any(rung is level for level in outdated for rung in ladder):
            better = [level.tcb_date for level in ladder if level.status in _BETTER]
            if not better:
                return None
            due.append(min(better))
    return min(due)
