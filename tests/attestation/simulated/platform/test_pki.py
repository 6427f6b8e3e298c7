from __future__ import annotations

from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.attestation.simulated.conftest import NOW

from affiant.attestation.release.platform_identity import MachineIdentity, PCKIssuer
from affiant.attestation.simulated.platform.keys import Role, derive_key
from affiant.attestation.simulated.platform.pki import (
    ORGANIZATION,
    UNIT,
    CertificateForm,
    CertificateRole,
    issue_certificates,
    pem_chain,
)
from affiant.attestation.simulated.platform.platform import SimulatedPlatform


def common_name(certificate: x509.Certificate) -> str:
    return str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


@pytest.mark.parametrize("role", list(CertificateRole))
def test_every_subject_says_simulated(platform: SimulatedPlatform, role: CertificateRole) -> None:
    subject = platform.certificates.of(role).subject
    assert subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value == ORGANIZATION
    assert subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)[0].value == UNIT
    assert "SIMULATED" in ORGANIZATION
    assert "SIMULATED, NOT INTEL" in UNIT


def test_common_names_are_those_that_verifiers_tell_roles_apart_by(platform: SimulatedPlatform) -> None:
    assert [common_name(platform.certificates.of(role)) for role in CertificateRole] == [
        "Intel SGX Root CA",
        "Intel SGX PCK Platform CA",
        "Intel SGX PCK Certificate",
        "Intel SGX TCB Signing",
    ]


@pytest.mark.parametrize("role", list(CertificateRole))
def test_each_chain_holds_link_by_link(platform: SimulatedPlatform, role: CertificateRole) -> None:
    chain = platform.certificates.chain(role)
    assert chain[-1] == platform.certificates.root
    for certificate, issuer in zip(chain, (*chain[1:], chain[-1]), strict=True):
        certificate.verify_directly_issued_by(issuer)


@pytest.mark.parametrize(
    ("role", "path"),
    [
        (CertificateRole.ROOT, "/IntelSGXRootCA.der"),
        (CertificateRole.PCK_ISSUER, "/IntelSGXRootCA.der"),
        (CertificateRole.TCB_SIGNING, "/IntelSGXRootCA.der"),
        (CertificateRole.PCK, "/sgx/certification/v4/pckcrl?ca=platform&encoding=der"),
    ],
)
def test_each_certificate_names_its_issuers_list_as_intels_do_at_a_host_that_does_not_exist(
    platform: SimulatedPlatform, role: CertificateRole, path: str
) -> None:
    found = platform.certificates.of(role).extensions.get_extension_for_class(x509.CRLDistributionPoints)
    assert not found.critical
    ((name,),) = [point.full_name or () for point in found.value]
    assert name.value == f"https://simulated-pcs.affiant.invalid{path}"


def test_the_same_seed_gives_the_same_certificates() -> None:
    first = issue_certificates(bytes(32), created=NOW, machine=MachineIdentity())
    assert first == issue_certificates(bytes(32), created=NOW, machine=MachineIdentity())


def test_a_second_root_has_the_same_name_and_another_key(
    platform: SimulatedPlatform, other_platform: SimulatedPlatform
) -> None:
    assert platform.certificates.root.subject == other_platform.certificates.root.subject
    assert platform.root_spki() != other_platform.root_spki()


def test_serial_numbers_are_distinct_positive_and_at_most_20_bytes(platform: SimulatedPlatform) -> None:
    serials = [platform.certificates.of(role).serial_number for role in CertificateRole]
    assert len(set(serials)) == len(serials)
    assert all(0 < serial < 1 << 159 for serial in serials)


def test_certificates_begin_before_the_platform_and_leaves_end_first(platform: SimulatedPlatform) -> None:
    ends = [platform.certificates.of(role).not_valid_after_utc for role in CertificateRole]
    assert max(ends) == ends[0]
    for role in CertificateRole:
        assert platform.certificates.of(role).not_valid_before_utc == NOW - timedelta(hours=1)


def test_the_processor_authority_can_issue_too() -> None:
    certificates = issue_certificates(
        bytes(32), created=NOW, machine=MachineIdentity(issuer=PCKIssuer.PROCESSOR)
    )
    assert common_name(certificates.pck_issuer) == "Intel SGX PCK Processor CA"


def test_a_pem_chain_reads_back_leaf_first(platform: SimulatedPlatform) -> None:
    chain = platform.certificates.chain(CertificateRole.PCK)
    assert tuple(x509.load_pem_x509_certificates(pem_chain(chain))) == chain


# -- certificates that depart from their role ---------------------------------------------------------------------


def issued(role: CertificateRole, form: CertificateForm) -> x509.Certificate:
    made = issue_certificates(bytes(32), created=NOW, machine=MachineIdentity(), forms={role: form})
    return made.of(role)


def test_one_form_changes_one_certificate_alone() -> None:
    plain = issue_certificates(bytes(32), created=NOW, machine=MachineIdentity())
    forms = {CertificateRole.PCK: CertificateForm(shift=timedelta(days=1))}
    other = issue_certificates(bytes(32), created=NOW, machine=MachineIdentity(), forms=forms)
    differing = {role for role in CertificateRole if plain.of(role) != other.of(role)}
    assert differing == {CertificateRole.PCK}
    assert other.pck.not_valid_before_utc - plain.pck.not_valid_before_utc == timedelta(days=1)


def test_a_renamed_authority_is_the_issuer_of_what_it_issued() -> None:
    forms = {CertificateRole.PCK_ISSUER: CertificateForm(common_name="Another")}
    made = issue_certificates(bytes(32), created=NOW, machine=MachineIdentity(), forms=forms)
    assert made.pck.issuer == made.pck_issuer.subject
    assert common_name(made.pck_issuer) == "Another"


def test_a_form_says_who_signs_and_who_is_named() -> None:
    form = CertificateForm(signer=Role.PCK, issuer_common_name="Another", serial=7)
    certificate = issued(CertificateRole.PCK, form)
    key = derive_key(bytes(32), Role.PCK).public_key()
    key.verify(certificate.signature, certificate.tbs_certificate_bytes, ec.ECDSA(hashes.SHA256()))
    assert "Another" in certificate.issuer.rfc4514_string()
    assert certificate.serial_number == 7


def test_a_form_says_what_a_certificate_may_do() -> None:
    certificate = issued(CertificateRole.ROOT, CertificateForm(is_authority=False, signs_certificates=False))
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    assert certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign is False


def test_an_empty_sgx_extension_is_none() -> None:
    oid = x509.ObjectIdentifier("1.2.840.113741.1.13.1")
    certificate = issued(CertificateRole.PCK, CertificateForm(sgx_extension=b""))
    assert oid not in {extension.oid for extension in certificate.extensions}
