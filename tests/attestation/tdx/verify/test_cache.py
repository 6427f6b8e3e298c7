"""The cache remembers signatures only, by exact bytes, and forgets the oldest first."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.attestation.tdx.conftest import NOW, trust_of

from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.quote.errors import CRLExpired, UntrustedRoot
from affiant.attestation.tdx.verify.cache import VerificationCache


def test_the_same_bytes_are_verified_once(platform: SimulatedPlatform) -> None:
    cache, collateral = VerificationCache(), platform.collateral(NOW)
    one = cache.verify_collateral(collateral, now=NOW, trust=trust_of(platform))
    two = cache.verify_collateral(replace(collateral), now=NOW + timedelta(days=1), trust=trust_of(platform))
    assert one is two


def test_time_is_judged_at_each_use(platform: SimulatedPlatform) -> None:
    cache, collateral = VerificationCache(), platform.collateral(NOW)
    cache.verify_collateral(collateral, now=NOW, trust=trust_of(platform))
    with pytest.raises(CRLExpired):
        cache.verify_collateral(collateral, now=NOW + timedelta(days=31), trust=trust_of(platform))


def test_trust_is_part_of_the_key(platform: SimulatedPlatform) -> None:
    cache, collateral = VerificationCache(), platform.collateral(NOW)
    cache.verify_collateral(collateral, now=NOW, trust=trust_of(platform))
    with pytest.raises(UntrustedRoot):
        cache.verify_collateral(collateral, now=NOW, trust=TrustRoots.intel())


def test_the_boundary_between_items_is_part_of_the_key(platform: SimulatedPlatform) -> None:
    cache, collateral = VerificationCache(), platform.collateral(NOW)
    cache.verify_collateral(collateral, now=NOW, trust=trust_of(platform))
    moved = replace(
        collateral,
        root_ca_crl=collateral.root_ca_crl[:-1],
        pck_crl=collateral.root_ca_crl[-1:] + collateral.pck_crl,
    )
    with pytest.raises(Exception, match="root CA CRL"):
        cache.verify_collateral(moved, now=NOW, trust=trust_of(platform))


def test_it_is_bounded(platform: SimulatedPlatform) -> None:
    cache = VerificationCache(capacity=2)
    made = [
        cache.verify_collateral(
            platform.collateral(NOW + timedelta(seconds=n)), now=NOW, trust=trust_of(platform)
        )
        for n in range(3)
    ]
    first = cache.verify_collateral(platform.collateral(NOW), now=NOW, trust=trust_of(platform))
    assert first == made[0]
    assert first is not made[0]


def test_a_refusal_is_not_remembered(platform: SimulatedPlatform) -> None:
    cache, collateral = VerificationCache(), platform.collateral(NOW)
    with pytest.raises(CRLExpired):
        cache.verify_collateral(collateral, now=NOW + timedelta(days=31), trust=trust_of(platform))
    assert cache.verify_collateral(collateral, now=NOW, trust=trust_of(platform)).expiry > NOW
