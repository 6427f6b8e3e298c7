"""Remembers what has been verified, keyed by exact bytes, in a small explicit cache.

Signatures do not change; time and revocation do. So only the verdict over signatures, names and roles is
remembered; every window and every revocation is judged again at each use by those who ask here.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from datetime import datetime
from threading import Lock
from typing import Final, Generic, TypeVar

from affiant.attestation.tdx.pki.certificates import Certificate
from affiant.attestation.tdx.pki.pck import VerifiedPCKChain, verify_pck_chain
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.tcb.collateral import ITEMS, Collateral
from affiant.attestation.tdx.tcb.collateral_verification import VerifiedCollateral, verify_collateral

__all__ = ["VerificationCache"]

_Value = TypeVar("_Value")
_DEFAULT_CAPACITY: Final = 256
"""PCK chains (about 12 kB each in memory) and collaterals (about 60 kB) kept at most."""


class VerificationCache:
    """Verified PCK chains and collaterals, at most ``capacity`` of each; the oldest go first. Thread-safe."""

    def __init__(self, *, capacity: int = _DEFAULT_CAPACITY) -> None:
        self._chains: _Bounded[VerifiedPCKChain] = _Bounded(capacity)
        self._collaterals: _Bounded[VerifiedCollateral] = _Bounded(capacity)

    def verify_collateral(
        self, collateral: Collateral, *, now: datetime, trust: TrustRoots
    ) -> VerifiedCollateral:
        """As ``verify_collateral``; judged at ``now`` always."""
        items = hashlib.sha256()
        for name in ITEMS:
            items.update(hashlib.sha256(getattr(collateral, name)).digest())
        key = (items.digest(), *sorted(trust.spki_sha256))
        known = self._collaterals.get(key)
        if known is None:
            known = verify_collateral(collateral, now=now, trust=trust)
            self._collaterals.put(key, known)
        else:
            known.check_time(now)
        return known

    def verify_pck_chain(self, pem: bytes, *, root: Certificate, authority: Certificate) -> VerifiedPCKChain:
        """As ``verify_pck_chain``; the caller judges time and revocation."""
        key = (hashlib.sha256(pem).digest(), root.spki, root.subject)
        known = self._chains.get(key)
        if known is None:
            known = verify_pck_chain(pem, root=root, authority=authority)
            self._chains.put(key, known)
        return known


class _Bounded(Generic[_Value]):
    """A bounded map that forgets the oldest entry first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: OrderedDict[tuple[bytes, ...], _Value] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple[bytes, ...]) -> _Value | None:
        with self._lock:
            return self._entries.get(key)

    def put(self, key: tuple[bytes, ...], value: _Value) -> None:
        with self._lock:
            self._entries[key] = value
            while len(self._entries) > self._capacity:
                self._entries.popitem(last=False)
