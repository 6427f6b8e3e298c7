"""One algorithm, one key type, one spelling; roles are demanded, never assumed."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.tdx.conftest import NOW, random_bytes

from affiant.attestation.simulated.platform.pki import CertificateRole, pem_chain
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.tdx.pki.certificates import parse_certificate, parse_chain
from affiant.attestation.tdx.quote.errors import CertificateMalformed

PLATFORM = SimulatedPlatform.create(now=NOW, random_bytes=random_bytes("one platform"))
CHAIN = PLATFORM.certificates.chain(CertificateRole.PCK)
PEM = pem_chain(CHAIN)
LEAF = CHAIN[0].public_bytes(Encoding.DER)
KEY = ec.derive_private_key(7, ec.SECP256R1())


def certificate(
    change: Callable[[x509.CertificateBuilder], x509.CertificateBuilder] = lambda builder: builder,
    *,
    key: Any = KEY,
    subject: tuple[str, ...] = ("Intel SGX PCK Certificate",),
    digest: Any = hashes.SHA256(),
    serial: int = 7,
) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text) for text in subject])
    builder = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=serial,
        not_valid_before=NOW,
        not_valid_after=NOW + dt.timedelta(days=1),
    )
    return change(builder).sign(key, digest).public_bytes(Encoding.DER)


def test_a_certificate_is_read_as_the_library_reads_it() -> None:
    ours, theirs = parse_certificate(LEAF), CHAIN[0]
    assert ours.der == LEAF
    assert ours.tbs == theirs.tbs_certificate_bytes
    assert ours.signature == theirs.signature
    assert ours.serial == theirs.serial_number
    assert ours.subject == theirs.subject.public_bytes()
    assert ours.issuer == theirs.issuer.public_bytes()
    assert ours.spki == theirs.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert (ours.not_before, ours.not_after) == (theirs.not_valid_before_utc, theirs.not_valid_after_utc)


def test_roles_are_told_apart() -> None:
    leaf, authority, root = parse_chain(PEM)
    assert leaf.is_end_entity() and not leaf.is_authority()
    assert authority.is_authority() and not authority.is_end_entity()
    assert leaf.is_issued_by(authority) and authority.is_issued_by(root) and root.is_issued_by(root)
    assert not leaf.is_issued_by(root)
    assert not root.is_issued_by(authority)


def test_a_bare_certificate_has_no_role() -> None:
    bare = parse_certificate(certificate())
    assert not bare.is_authority()
    assert not bare.is_end_entity()


def test_a_certificate_authority_without_list_signing_is_no_authority() -> None:
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    half = parse_certificate(
        certificate(
            lambda builder: builder.add_extension(usage, critical=True).add_extension(
                x509.BasicConstraints(ca=True, path_length=None), critical=True
            )
        )
    )
    assert not half.is_authority()
    assert not half.is_end_entity()


@pytest.mark.parametrize(
    "der",
    [
        b"",
        b"\x30\x00",
        LEAF + b"\0",
        LEAF[:-1],
        certificate(digest=hashes.SHA384()),
        certificate(key=ec.derive_private_key(7, ec.SECP384R1())),
        certificate(subject=()),
        certificate(subject=("Intel SGX PCK Certificate", "Intel SGX Root CA")),
    ],
    ids=["empty", "no members", "trailing", "cut", "sha384", "p384", "no name", "two names"],
)
def test_what_leaves_the_profile_is_refused(der: bytes) -> None:
    with pytest.raises(CertificateMalformed):
        parse_certificate(der)


def test_an_unknown_critical_extension_is_refused() -> None:
    unknown = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00")
    parse_certificate(certificate(lambda builder: builder.add_extension(unknown, critical=False)))
    with pytest.raises(CertificateMalformed, match="critical"):
        parse_certificate(certificate(lambda builder: builder.add_extension(unknown, critical=True)))


def test_explicit_curve_parameters_are_refused() -> None:
    """A key whose SubjectPublicKeyInfo spells its curve could choose its generator (CVE-2020-0601)."""
    named = bytes.fromhex("301306072a8648ce3d020106082a8648ce3d030107")
    assert named in LEAF
    with pytest.raises(CertificateMalformed):
        parse_certificate(LEAF.replace(named, named[:-1] + b"\x06"))


@given(st.integers(0, len(LEAF) - 1), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_breaks_the_signature(offset: int, change: int) -> None:
    changed = bytearray(LEAF)
    changed[offset] ^= change
    try:
        parsed = parse_certificate(bytes(changed))
    except CertificateMalformed:
        return
    assert not parsed.is_issued_by(parse_chain(PEM)[1])


@given(st.binary(max_size=1200))
def test_arbitrary_bytes_are_only_refused(data: bytes) -> None:
    with pytest.raises(CertificateMalformed):
        parse_certificate(data)


def block(label: str, body: bytes) -> bytes:
    return f"-----BEGIN {label}-----\n".encode() + body + f"\n-----END {label}-----\n".encode()


LEAF_BLOCK = block("CERTIFICATE", base64.b64encode(LEAF))


@pytest.mark.parametrize(
    "pem",
    [
        b"",
        b"\0",
        b"garbage",
        PEM + b"text",
        b"text" + PEM,
        PEM.replace(b"-----\n-----", b"-----\ntext\n-----"),
        PEM + PEM,
        PEM + b"\0" + PEM[:10],
        block("X509 CRL", base64.b64encode(LEAF)) + LEAF_BLOCK,
        LEAF_BLOCK + block("PRIVATE KEY", base64.b64encode(b"key")),
        block("CERTIFICATE", base64.b64encode(LEAF)[:-4]),
        block("CERTIFICATE", b"===="),
        block("CERTIFICATE", b"\n"),
        block("CERTIFICATE", base64.b64encode(LEAF).replace(b"M", b"*")),
        b" " * (16 * 1024 + 1),
        LEAF_BLOCK * 200,
    ],
)
def test_a_chain_is_certificates_and_white_space_alone(pem: bytes) -> None:
    with pytest.raises(CertificateMalformed):
        parse_chain(pem)


def test_the_size_is_bounded_before_anything_is_read() -> None:
    with pytest.raises(CertificateMalformed, match="too large"):
        parse_chain(PEM + b" " * (16 * 1024))


@pytest.mark.parametrize("tail", [b"", b"\0", b"\n\0\0", b"\r\n \t"])
def test_white_space_and_final_nul_bytes_are_usual(tail: bytes) -> None:
    assert parse_chain(PEM + tail) == parse_chain(PEM)
    assert parse_chain(b"\n" + PEM.replace(b"\n", b"\r\n")) == parse_chain(PEM)


def test_base64_has_one_spelling() -> None:
    text = base64.b64encode(LEAF + b"")
    if not text.endswith(b"="):
        pytest.skip("this certificate has no unused bits")
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = text.rstrip(b"=")[-1:]
    other = alphabet[alphabet.index(last) + 1 :][:1]
    index = len(text.rstrip(b"=")) - 1
    with pytest.raises(CertificateMalformed):
        parse_chain(block("CERTIFICATE", text[:index] + other + text[index + 1 :]))


def test_a_known_certificate_is_not_parsed_again() -> None:
    known = parse_chain(PEM)
    assert all(one is two for one, two in zip(parse_chain(PEM, known=known), known, strict=True))
