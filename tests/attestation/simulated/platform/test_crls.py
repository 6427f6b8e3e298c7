from __future__ import annotations

from datetime import timedelta

import pytest
from cryptography import x509
from tests.attestation.simulated.conftest import NOW

from affiant.attestation.simulated.platform.crls import CRLForm, issue_crl
from affiant.attestation.simulated.platform.keys import Role, derive_key
from affiant.attestation.simulated.platform.platform import SimulatedPlatform


def root_crl(
    platform: SimulatedPlatform, *revoked: x509.Certificate, shift: timedelta = timedelta()
) -> bytes:
    return issue_crl(
        platform.certificates.root,
        derive_key(platform.seed, Role.ROOT),
        revoked=revoked,
        this_update=NOW + shift,
        next_update=NOW + timedelta(days=30) + shift,
    )


def test_a_list_without_entries_is_still_signed_and_dated(platform: SimulatedPlatform) -> None:
    crl = x509.load_der_x509_crl(root_crl(platform))
    assert crl.is_signature_valid(platform.certificates.root.public_key())  # type: ignore[arg-type]
    assert crl.issuer == platform.certificates.root.subject
    assert (crl.last_update_utc, crl.next_update_utc) == (NOW, NOW + timedelta(days=30))
    assert len(crl) == 0


def test_exactly_the_revoked_certificates_stand_on_it(platform: SimulatedPlatform) -> None:
    certificates = platform.certificates
    crl = x509.load_der_x509_crl(root_crl(platform, certificates.pck_issuer))
    assert [entry.serial_number for entry in crl] == [certificates.pck_issuer.serial_number]
    assert crl.get_revoked_certificate_by_serial_number(certificates.tcb_signing.serial_number) is None


def test_the_crl_number_grows_with_time(platform: SimulatedPlatform) -> None:
    numbers = [
        x509.load_der_x509_crl(root_crl(platform, shift=timedelta(days=days)))
        .extensions.get_extension_for_class(x509.CRLNumber)
        .value.crl_number
        for days in (0, 1)
    ]
    assert numbers[0] < numbers[1]


@pytest.mark.parametrize("extension", [x509.DeltaCRLIndicator, x509.IssuingDistributionPoint])
def test_it_is_complete_and_direct(
    platform: SimulatedPlatform, extension: type[x509.DeltaCRLIndicator | x509.IssuingDistributionPoint]
) -> None:
    crl = x509.load_der_x509_crl(root_crl(platform))
    with pytest.raises(x509.ExtensionNotFound):
        crl.extensions.get_extension_for_class(extension)


def test_a_form_adds_extensions_to_the_list_and_its_entries(platform: SimulatedPlatform) -> None:
    unknown = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.99999.1"), b"\x05\x00")
    made = issue_crl(
        platform.certificates.root,
        derive_key(platform.seed, Role.ROOT),
        revoked=(platform.certificates.tcb_signing,),
        this_update=NOW,
        next_update=NOW + timedelta(days=30),
        form=CRLForm(
            reason=x509.ReasonFlags.superseded,
            extensions=((x509.DeltaCRLIndicator(1), True),),
            entry_extensions=((unknown, True),),
        ),
    )
    crl = x509.load_der_x509_crl(made)
    assert crl.extensions.get_extension_for_class(x509.DeltaCRLIndicator).critical
    (entry,) = crl
    assert (
        entry.extensions.get_extension_for_class(x509.CRLReason).value.reason is x509.ReasonFlags.superseded
    )
    assert [one.critical for one in entry.extensions] == [False, True]
