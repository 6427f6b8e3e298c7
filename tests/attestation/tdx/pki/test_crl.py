"""A revocation list is complete, direct, dated and its issuer's own, or it is none."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.tdx.conftest import NOW, key_of, random_bytes
from tests.raising import raises_code

from affiant.attestation.simulated.platform.keys import Role
from affiant.attestation.simulated.platform.pki import CertificateRole, pem_chain
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.tdx.pki.certificates import parse_chain
from affiant.attestation.tdx.pki.crl import parse_crl

PLATFORM = SimulatedPlatform.create(now=NOW, random_bytes=random_bytes("one platform"))
LEAF, AUTHORITY, ROOT = parse_chain(pem_chain(PLATFORM.certificates.chain(CertificateRole.PCK)))
CRL = PLATFORM.collateral(NOW).pck_crl


def crl(
    *extensions: tuple[x509.ExtensionType, bool],
    entry_extensions: tuple[tuple[x509.ExtensionType, bool], ...] = (),
    serial: int = 99,
    key: Any = None,
    digest: Any = hashes.SHA256(),
) -> bytes:
    builder = x509.CertificateRevocationListBuilder(
        issuer_name=PLATFORM.certificates.pck_issuer.subject,
        last_update=NOW,
        next_update=NOW + dt.timedelta(days=1),
    )
    entry = x509.RevokedCertificateBuilder(serial_number=serial, revocation_date=NOW)
    for extension, critical in entry_extensions:
        entry = entry.add_extension(extension, critical=critical)
    builder = builder.add_revoked_certificate(entry.build())
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    signer = key or key_of(PLATFORM, Role.PCK_ISSUER)
    return builder.sign(signer, digest).public_bytes(Encoding.DER)


def test_an_empty_list_is_a_list() -> None:
    """The library's object for it is falsy, which has been taken for an absent list."""
    assert not list(x509.load_der_x509_crl(CRL))
    empty = parse_crl(CRL, name="PCK CRL")
    empty.verify(AUTHORITY)
    empty.refuse_revoked(LEAF)


def test_a_listed_serial_is_revoked() -> None:
    listed = parse_crl(crl(serial=LEAF.serial), name="PCK CRL")
    with raises_code("cert.revoked"):
        listed.refuse_revoked(LEAF)


def test_a_list_says_nothing_about_another_issuers_certificates() -> None:
    with raises_code("crl.issuer"):
        parse_crl(CRL, name="PCK CRL").refuse_revoked(AUTHORITY)


def test_only_its_issuer_signs_a_list() -> None:
    with raises_code("crl.issuer"):
        parse_crl(CRL, name="PCK CRL").verify(ROOT)
    with raises_code("crl.issuer"):
        parse_crl(CRL, name="PCK CRL").verify(LEAF)
    forged = crl(key=ec.derive_private_key(7, ec.SECP256R1()))
    with raises_code("crl.signature"):
        parse_crl(forged, name="PCK CRL").verify(AUTHORITY)


DELTA = x509.DeltaCRLIndicator(1)
INDIRECT = x509.IssuingDistributionPoint(None, None, False, False, None, True, False)
ONLY_CA = x509.IssuingDistributionPoint(None, None, False, True, None, False, False)
UNKNOWN = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00")


@pytest.mark.parametrize(
    "extension", [(DELTA, True), (DELTA, False), (INDIRECT, True), (ONLY_CA, True), (UNKNOWN, True)]
)
def test_a_partial_indirect_or_unknown_list_is_refused(extension: tuple[Any, bool]) -> None:
    with raises_code("crl.malformed"):
        parse_crl(crl(extension), name="PCK CRL")


def test_an_unknown_extension_that_is_not_critical_is_ignored() -> None:
    parse_crl(crl((UNKNOWN, False)), name="PCK CRL").verify(AUTHORITY)


OTHER_ISSUER = x509.CertificateIssuer([x509.DirectoryName(PLATFORM.certificates.root.subject)])


@pytest.mark.parametrize(
    "extension",
    [
        (x509.CRLReason(x509.ReasonFlags.remove_from_crl), False),
        (OTHER_ISSUER, True),
        (OTHER_ISSUER, False),
        (UNKNOWN, True),
    ],
)
def test_an_entry_that_only_other_lists_may_have_is_refused(extension: tuple[Any, bool]) -> None:
    with raises_code("crl.malformed"):
        parse_crl(crl(entry_extensions=(extension,)), name="PCK CRL")


@pytest.mark.parametrize("critical", [False, True])
def test_an_ordinary_reason_is_read(critical: bool) -> None:
    reason = x509.CRLReason(x509.ReasonFlags.key_compromise)
    assert parse_crl(crl(entry_extensions=((reason, critical),)), name="x").revoked_serials == {99}


def test_another_algorithm_is_refused() -> None:
    with raises_code("crl.malformed"):
        parse_crl(crl(digest=hashes.SHA384()), name="PCK CRL")


def without_next_update(der: bytes) -> bytes:
    """The second UTCTime taken out, lengths repaired; the signature is then wrong, which comes later."""
    first = der.index(b"\x17\x0d")
    second = der.index(b"\x17\x0d", first + 2)
    body = bytearray(der[:second] + der[second + 15 :])
    assert body[:2] == b"\x30\x82" and body[4:6] == b"\x30\x81"
    body[2:4] = (int.from_bytes(body[2:4], "big") - 15).to_bytes(2, "big")
    body[6] -= 15
    return bytes(body)


def test_a_list_that_never_expires_is_refused() -> None:
    with raises_code("crl.malformed", match="nextUpdate"):
        parse_crl(without_next_update(CRL), name="PCK CRL")


@pytest.mark.parametrize("der", [b"", b"\x30\x00", CRL[:-1], CRL + b"\0", LEAF.der, bytes(300 * 1024)])
def test_anything_else_is_refused(der: bytes) -> None:
    with raises_code("crl.malformed"):
        parse_crl(der, name="PCK CRL")


def test_the_size_is_bounded_before_anything_is_read() -> None:
    with raises_code("crl.malformed", match="too large"):
        parse_crl(bytes(300 * 1024), name="PCK CRL")


@pytest.mark.parametrize("version", [0, 2])
def test_another_version_is_refused(version: int) -> None:
    assert CRL.count(b"\x02\x01\x01\x30") == 1
    other = CRL.replace(b"\x02\x01\x01\x30", bytes((2, 1, version, 0x30)))
    with raises_code("crl.malformed", match="version 2"):
        parse_crl(other, name="PCK CRL")


@given(st.integers(0, len(CRL) - 1), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_breaks_the_list(offset: int, change: int) -> None:
    changed = bytearray(CRL)
    changed[offset] ^= change
    with raises_code("crl.malformed", "crl.issuer", "crl.signature"):
        parse_crl(bytes(changed), name="PCK CRL").verify(AUTHORITY)


def test_genuine_lists_are_read_whole(vectors: Any) -> None:
    for name in ("pck_crl_platform", "pck_crl_processor", "root_ca"):
        der = vectors.read(f"pcs/2026-01/{name}.crl")
        theirs = {entry.serial_number for entry in x509.load_der_x509_crl(der)}
        assert parse_crl(der, name=name).revoked_serials == theirs
