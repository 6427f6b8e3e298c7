"""Compares a profile that shall follow with the one in force, and plans the restriction; nothing is changed yet.

The first two steps of ``restriction``. Loaded when a restriction is asked for: most sessions have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from affiant.attestation.signatures.profiles.accepted_signers import AcceptedSigner
from affiant.attestation.signatures.profiles.errors import ProfileSignatureMissing
from affiant.attestation.signatures.profiles.verification import parse_profile_signature, verify_by_one_of
from affiant.attestation.statements.restriction import MAX_NARROWINGS, Narrowing
from affiant.errors import StateError
from affiant.policy.decision.compiled import CompiledPolicy, parse_normal_form
from affiant.policy.diff.restriction import (
    compare_restriction,
    require_enforced,
    require_restriction,
    restriction_digest,
    restriction_document,
)
from affiant.policy.signing.signatures import require_profile
from affiant.sandbox.supervisor.launch.restriction_request import RestrictionRequest

__all__ = ["PlannedRestriction", "plan_restriction"]


@dataclass(frozen=True, slots=True)
class PlannedRestriction:
    """A restriction that may be made."""

    policy: CompiledPolicy
    restriction: Narrowing
    difference: str
    """``dif``."""
    signature: bytes | None


def plan_restriction(
    request: RestrictionRequest,
    *,
    now: CompiledPolicy,
    epoch: int,
    signers: Sequence[AcceptedSigner],
    at: datetime,
) -> PlannedRestriction | None:
    """What is to be done; None: the two profiles allow the same.

    Args:
        now: the profile in force. epoch: the number of this restriction, from 1.
        signers: whose signature the gateway's configuration demands; empty: none is demanded.

    Raises:
        AffiantError: the profile is not narrower, cannot be enforced in a running sandbox, or is not signed as the
            gateway demands; or the session was restricted too often.
    """
    policy = parse_normal_form(request.policy)
    differences = compare_restriction(now, policy)
    if not differences:
        return None
    require_restriction(differences)
    require_enforced(now, policy, differences)
    if epoch > MAX_NARROWINGS:
        raise StateError(
            "the session's profile was restricted as often as it can be",
            expected=f"at most {MAX_NARROWINGS} times",
            code="session.narrowing_busy",
        )
    _require_signed(request, policy, signers, at)
    restriction = Narrowing(epoch, policy.digest, request.file_digest, old=now.digest)
    document = restriction_document(differences, old=now.digest, new=policy.digest)
    return PlannedRestriction(policy, restriction, restriction_digest(document), request.signature)


def _require_signed(
    request: RestrictionRequest, policy: CompiledPolicy, signers: Sequence[AcceptedSigner], at: datetime
) -> None:
    """As the gateway will ask: found out here, it costs nothing."""
    if request.signature is not None:
        signature = parse_profile_signature(request.signature)
        require_profile(signature.claimed, policy, file_digest=request.file_digest)
        if signers:
            verify_by_one_of(signature, signers, at=at)
    elif signers:
        raise ProfileSignatureMissing(
            "the gateway takes signed profiles only",
            expected="a signature by one of its profile signers",
            hint="Have the profile's file signed: affiant policy sign",
        )
