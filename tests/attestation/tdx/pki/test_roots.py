"""Trust is a public key; the compiled-in one is hardware, every other one is simulated."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.raising import raises_code

from affiant.attestation.simulated.platform.pki import CertificateRole
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.tdx.pki.certificates import parse_certificate
from affiant.attestation.tdx.pki.roots import (
    INTEL_SGX_ROOT_CA_SPKI,
    EvidenceClass,
    TrustRoots,
    evidence_class_of,
    verify_root,
)
from affiant.attestation.tdx.quote.errors import CertificateMalformed, UntrustedRoot


def test_the_compiled_in_key_is_that_of_the_published_certificate(vectors: Any) -> None:
    certificate = x509.load_der_x509_certificate(vectors.read("root/intel_sgx_root_ca.der"))
    spki = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert spki == INTEL_SGX_ROOT_CA_SPKI
    verify_root(parse_certificate(vectors.read("root/intel_sgx_root_ca.der")), TrustRoots.intel())


def test_the_compiled_in_key_is_unchanged() -> None:
    digest = hashlib.sha256(INTEL_SGX_ROOT_CA_SPKI).hexdigest()
    assert TrustRoots.intel().spki_sha256 == {bytes.fromhex(digest)}
    assert len(INTEL_SGX_ROOT_CA_SPKI) == 91


def test_only_the_compiled_in_key_is_hardware(platform: SimulatedPlatform) -> None:
    assert evidence_class_of(INTEL_SGX_ROOT_CA_SPKI) is EvidenceClass.HARDWARE
    assert evidence_class_of(platform.root_spki()) is EvidenceClass.SIMULATED
    assert evidence_class_of(b"") is EvidenceClass.SIMULATED


def test_an_empty_set_trusts_nothing_and_is_refused() -> None:
    with raises_code("roots.empty"):
        TrustRoots(frozenset())
    with raises_code("roots.empty"):
        TrustRoots.pinned(())
    with raises_code("roots.empty"):
        TrustRoots(frozenset((b"short",)))


def test_a_key_and_its_certificate_pin_the_same(platform: SimulatedPlatform) -> None:
    der = platform.certificates.root.public_bytes(Encoding.DER)
    assert TrustRoots.pinned((der,)) == TrustRoots.pinned((platform.root_spki(),))
    with pytest.raises(CertificateMalformed):
        TrustRoots.pinned((platform.root_spki() + b"\0",))


def test_a_trusted_key_under_another_name_or_role_is_no_root(platform: SimulatedPlatform) -> None:
    for role in CertificateRole:
        certificate = parse_certificate(platform.certificates.of(role).public_bytes(Encoding.DER))
        trust = TrustRoots.pinned((certificate.spki,))
        if role is CertificateRole.ROOT:
            verify_root(certificate, trust)
            continue
        with raises_code("pck.chain"):
            verify_root(certificate, trust)


def test_another_key_under_the_same_name_is_no_root(
    platform: SimulatedPlatform, other_platform: SimulatedPlatform
) -> None:
    impostor = parse_certificate(other_platform.certificates.root.public_bytes(Encoding.DER))
    with pytest.raises(UntrustedRoot):
        verify_root(impostor, TrustRoots.pinned((platform.root_spki(),)))
