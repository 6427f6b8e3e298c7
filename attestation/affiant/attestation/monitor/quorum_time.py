"""Two times that a quorum backs, from what its witnesses say, each for a checkpoint.

With a quorum of k: the k-th largest time is one at which, or after which, k witnesses saw the tree; the k-th smallest
one by which k had seen it. While fewer than k lie, each is backed by an honest one. For nested groups: the latest time
such that the witnesses not before it are a quorum, and the earliest such that those not after it are.
"""

from __future__ import annotations

from affiant.attestation.log_reading.log_trust import SignedCheckpoint
from affiant.attestation.tlog.quorum import WitnessPolicy

__all__ = ["newest", "not_after"]


def newest(signed: SignedCheckpoint, policy: WitnessPolicy) -> int | None:
    """The latest time that a quorum does not stand before; None without witnesses."""
    if policy.quorum is None:
        return None
    for time in sorted(set(signed.times.values()), reverse=True):
        if policy.satisfied([name for name, each in signed.times.items() if each >= time]):
            return time
    return None


def not_after(signed: SignedCheckpoint, policy: WitnessPolicy) -> int | None:
    """The earliest time that a quorum does not stand after; None without witnesses."""
    if policy.quorum is None:
        return None
    for time in sorted(set(signed.times.values())):
        if policy.satisfied([name for name, each in signed.times.items() if each <= time]):
            return time
    return None
