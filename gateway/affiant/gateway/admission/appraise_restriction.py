"""Appraises a restriction: is this still the session that was admitted, and may it only do less than before?

Pure, as ``appraise_session``, whose steps are made again over the new evidence; the nonce was taken before, and the
session is changed after. Before those steps:

1. the evidence is of the same TD's session: the manifest, the activation and the keys that were admitted;
2. its log holds the restrictions that this gateway knows of and exactly one more, from the profile in force;
3. the profile that came with it restricts the one in force, by this gateway's own comparison of all that either
   allows. What the session's supervisor found does not count: nothing of it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from affiant.attestation.statements.restriction import Narrowing, logged_narrowings
from affiant.attestation.tdx.event_log.eventlog import parse_event_log
from affiant.attestation.tdx.tcb.collateral import Collateral
from affiant.errors import NotAuthenticError
from affiant.gateway.admission.appraise_session import AdmissionRequest, Appraiser
from affiant.gateway.sessions.sessions import Admitted
from affiant.policy.diff.restriction import (
    NotARestriction,
    compare_restriction,
    require_enforced,
    require_restriction,
    restriction_digest,
    restriction_document,
)

__all__ = ["RestrictionAppraiser", "require_same_session"]


@dataclass(frozen=True, slots=True)
class RestrictionAppraiser:
    """What this gateway judges restrictions by: as admissions, and by what it admitted."""

    appraiser: Appraiser

    def appraise(
        self,
        request: AdmissionRequest,
        admitted: Admitted,
        *,
        collateral: Collateral,
        now: datetime,
    ) -> Admitted:
        """All steps, and the signed result; what the session is from then on. Takes a while: not in an event loop.

        Args:
            admitted: what the session is until then.

        Raises:
            ``admission.mismatch``: of another session, or keys.
            NotARestriction: another profile, which does not restrict this one.
            AffiantError: as an admission is refused, or a log of restrictions.
        """
        require_same_session(request, admitted)
        restrictions = _one_more(request, admitted)
        difference = _require_restriction(request, admitted)
        verified = self.appraiser.verify(request, collateral=collateral, now=now)
        again = self.appraiser.appraise(
            request,
            verified,
            collateral=collateral,
            now=now,
            restrictions=restrictions,
        )
        return replace(again, difference=difference)


def require_same_session(request: AdmissionRequest, admitted: Admitted) -> None:
    """Step 1.

    Raises:
        ``admission.mismatch``: something else than was admitted.
    """
    facts: tuple[tuple[str, object, object], ...] = (
        ("manifest", request.manifest.digest, admitted.manifest.digest),
        ("activation", request.activation.digest, admitted.activation.digest),
        ("keyset", request.statement.keyset_digest, admitted.statement.keyset_digest),
    )
    for what, found, expected in facts:
        if found != expected:
            raise NotAuthenticError(
                f"the {what} is not the one that was admitted",
                expected=expected,
                found=found,
                where=what,
                code="admission.mismatch",
            )


def _one_more(request: AdmissionRequest, admitted: Admitted) -> tuple[Narrowing, ...]:
    """2."""
    found = logged_narrowings(
        parse_event_log(request.evidence.eventlog), first=request.manifest.profile_digest
    )
    if len(found) != admitted.epoch + 1 or found[:-1] != admitted.restrictions:
        raise NotAuthenticError(
            "the log holds other restrictions than those that are known and one more",
            expected=f"{admitted.epoch + 1} restrictions",
            found=len(found),
            where="eventlog",
            code="admission.mismatch",
        )
    return found


def _require_restriction(request: AdmissionRequest, admitted: Admitted) -> str:
    """3; ``dif``."""
    old, new = admitted.policy, request.policy
    differences = compare_restriction(old, new)
    if not differences:
        raise NotARestriction("the profile allows the same as the one in force", found=new.digest)
    require_restriction(differences)
    require_enforced(old, new, differences)
    return restriction_digest(restriction_document(differences, old=old.digest, new=new.digest))
