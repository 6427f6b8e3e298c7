"""Reads X.509 certificates of Intel's attestation PKI: parsed strictly, judged by role, compared by exact bytes.

Profile (Intel SGX PCK Certificate and CRL Profile Specification; RFC 5280 for the rest): version 3,
ecdsa-with-SHA256 without parameters, P-256 named-curve keys. There is no path search: a caller says which role
it expects at which place, and names are compared as raw DER.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.x509.oid import ExtensionOID

from affiant.attestation.encoding.der import (
    INTEGER,
    SEQUENCE,
    DERError,
    children,
    read_single,
    unsigned_integer,
)
from affiant.attestation.tdx.pki.ecdsa import P256_SPKI_PREFIX, public_key_of_point, signature_holds
from affiant.attestation.tdx.pki.times import Window
from affiant.attestation.tdx.quote.errors import (
    CertificateExpired,
    CertificateMalformed,
    CertificateNotYetValid,
)

__all__ = [
    "ECDSA_WITH_SHA256",
    "Certificate",
    "parse_certificate",
    "parse_chain",
]

MAX_CHAIN_BYTES: Final = 16 * 1024
ECDSA_WITH_SHA256: Final = bytes.fromhex("300a06082a8648ce3d040302")
"""AlgorithmIdentifier, without parameters (RFC 5758, section 3.2)."""

_KNOWN_CRITICAL: Final = frozenset((ExtensionOID.BASIC_CONSTRAINTS, ExtensionOID.KEY_USAGE))
_COMMON_NAME: Final = bytes.fromhex("0603550403")
"""The object identifier 2.5.4.3, DER: how an attribute of that type begins."""
_TEXT_TAGS: Final = (0x0C, 0x13)
"""UTF8String, PrintableString."""
_PEM: Final = re.compile(
    rb"[ \t\r\n]*-----BEGIN CERTIFICATE-----[ \t]*\r?\n([A-Za-z0-9+/=\r\n]+)-----END CERTIFICATE-----"
)
_PEM_TAIL: Final = re.compile(rb"[ \t\r\n]*\0*\Z")


@dataclass(frozen=True, slots=True, eq=False)
class Certificate:
    """One certificate, parsed; nothing about it is verified until a role is demanded of it. Two are equal
    when their bytes are."""

    der: bytes = field(repr=False)
    tbs: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    """DER Ecdsa-Sig-Value over ``tbs``."""
    serial: int
    issuer: bytes = field(repr=False)
    """Raw DER name."""
    subject: bytes = field(repr=False)
    """Raw DER name."""
    common_name: str
    spki: bytes = field(repr=False)
    """DER SubjectPublicKeyInfo, 91 bytes."""
    key: EllipticCurvePublicKey
    not_before: datetime
    not_after: datetime
    is_ca: bool
    path_length: int | None
    key_usage: x509.KeyUsage | None
    extensions: x509.Extensions = field(repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Certificate) and self.der == other.der

    def __hash__(self) -> int:
        return hash(self.der)

    @property
    def window(self) -> Window:
        """Its validity."""
        return Window(
            f"certificate {self.common_name!r}",
            self.not_before,
            self.not_after,
            CertificateNotYetValid,
            CertificateExpired,
        )

    def is_issued_by(self, issuer: Certificate) -> bool:
        """Whether ``issuer``'s name and key made this certificate."""
        return self.issuer == issuer.subject and signature_holds(issuer.key, self.signature, self.tbs)

    def is_authority(self) -> bool:
        """Whether it may sign certificates and CRLs: CA, keyCertSign and cRLSign."""
        usage = self.key_usage
        return self.is_ca and usage is not None and usage.key_cert_sign and usage.crl_sign

    def is_end_entity(self) -> bool:
        """Whether it may sign data, and no certificate or CRL."""
        usage = self.key_usage
        return (
            not self.is_ca
            and usage is not None
            and usage.digital_signature
            and not usage.key_cert_sign
            and not usage.crl_sign
        )


def parse_chain(pem: bytes, *, known: Iterable[Certificate] = ()) -> tuple[Certificate, ...]:
    """The one to three certificates of a PEM text, in its order.

    Args:
        pem: the text.
        known: certificates that were parsed before; one with the same bytes is not parsed again.

    Between and around them only white space may stand, and NUL bytes at the end (Intel's quoting library ends
    the text with one): no other label, no explanatory text (point 4).

    Raises:
        CertificateMalformed: another text, more certificates, or one that is malformed.
    """
    if len(pem) > MAX_CHAIN_BYTES:
        raise CertificateMalformed(
            "certificate chain too large",
            expected=f"at most {MAX_CHAIN_BYTES} bytes",
            found=f"{len(pem)} bytes",
        )
    bodies: list[bytes] = []
    offset = 0
    while (match := _PEM.match(pem, offset)) is not None:
        bodies.append(match.group(1))
        offset = match.end()
        # 9: the length is bounded before a certificate is parsed.
        if len(bodies) > 3:
            raise CertificateMalformed("chain of too many certificates", expected="at most 3")
    if not bodies or _PEM_TAIL.match(pem, offset) is None:
        raise CertificateMalformed(
            "not a PEM chain of certificates alone", expected="CERTIFICATE blocks and white space"
        )
    parsed = {certificate.der: certificate for certificate in known}
    ders = [_from_base64(body) for body in bodies]
    return tuple(parsed.get(der) or parse_certificate(der) for der in ders)


def _from_base64(body: bytes) -> bytes:
    """The bytes of a PEM body; only their one encoding (no unused bits set) is accepted."""
    text = body.translate(None, b"\r\n")
    try:
        der = binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error as error:
        raise CertificateMalformed("PEM block is not base64") from error
    if binascii.b2a_base64(der, newline=False) != text:
        raise CertificateMalformed("PEM block is not the base64 encoding of its bytes")
    return der


def parse_certificate(der: bytes) -> Certificate:
    """The certificate in ``der``.

    Raises:
        CertificateMalformed: not DER, or outside of the profile (see the module).
    """
    try:
        return _parse_certificate(der)
    except (
        DERError,
        ValueError,
        TypeError,
        x509.DuplicateExtension,
        x509.UnsupportedGeneralNameType,
    ) as error:
        raise CertificateMalformed("not a certificate of Intel's profile") from error


def _parse_certificate(der: bytes) -> Certificate:
    tbs, algorithm, signature = children(read_single(der, SEQUENCE))
    serial, inner_algorithm, issuer, subject, spki = _tbs_fields(tbs.content)
    # Fixed before the library reads it: one algorithm, spelled once, inside and outside of the signature.
    if algorithm.encoded != ECDSA_WITH_SHA256 or inner_algorithm != ECDSA_WITH_SHA256:
        raise CertificateMalformed("signature algorithm is not ecdsa-with-SHA256")
    if not signature.content.startswith(b"\0"):
        raise DERError("signature has unused bits")
    parsed = x509.load_der_x509_certificate(der)
    basic, usage = _constraints(parsed.extensions)
    return Certificate(
        der=der,
        tbs=tbs.encoded,
        signature=signature.content[1:],
        serial=serial,
        issuer=issuer,
        subject=subject,
        common_name=_common_name(subject),
        spki=spki,
        key=_public_key(spki),
        not_before=parsed.not_valid_before_utc,
        not_after=parsed.not_valid_after_utc,
        is_ca=basic is not None and basic.ca,
        path_length=None if basic is None else basic.path_length,
        key_usage=usage,
        extensions=parsed.extensions,
    )


def _tbs_fields(content: bytes) -> tuple[int, bytes, bytes, bytes, bytes]:
    """Serial, algorithm, issuer, subject and key of a v3 TBSCertificate (RFC 5280, section 4.1)."""
    version, serial, algorithm, issuer, _, subject, spki, *_ = children(content)
    if version.encoded != bytes.fromhex("a003020102"):
        raise CertificateMalformed("certificate is not of version 3")
    number = unsigned_integer(serial.content) if serial.tag == INTEGER else 0
    # Intel's serials are 160 random bits, so that the sign takes a 21st byte now and then.
    if not 0 < number < 1 << 160:
        raise DERError("serial number is not a positive integer of at most 160 bits")
    return number, algorithm.encoded, issuer.encoded, subject.encoded, spki.encoded


def _public_key(spki: bytes) -> EllipticCurvePublicKey:
    """5: a P-256 key by named curve, on the curve. Explicit curve parameters never match the prefix."""
    if not spki.startswith(P256_SPKI_PREFIX):
        raise CertificateMalformed("key is not an uncompressed P-256 key")
    return public_key_of_point(spki[len(P256_SPKI_PREFIX) :])


def _common_name(name: bytes) -> str:
    """The one common name in a raw DER name (RFC 5280, section 4.1.2.4); ASCII in UTF8 or PrintableString."""
    values = [
        children(attribute.content)[1:]
        for rdn in children(read_single(name, SEQUENCE))
        for attribute in children(rdn.content)
        if attribute.content.startswith(_COMMON_NAME)
    ]
    if len(values) != 1 or len(values[0]) != 1 or values[0][0].tag not in _TEXT_TAGS:
        raise CertificateMalformed("subject does not have exactly one common name", found=len(values))
    return values[0][0].content.decode("ascii")


def _constraints(extensions: x509.Extensions) -> tuple[x509.BasicConstraints | None, x509.KeyUsage | None]:
    """Basic constraints and key usage; any other critical extension is unknown and refused (point 8)."""
    basic: x509.BasicConstraints | None = None
    usage: x509.KeyUsage | None = None
    for extension in extensions:
        if extension.critical and extension.oid not in _KNOWN_CRITICAL:
            raise CertificateMalformed("unknown critical extension", found=extension.oid.dotted_string)
        if isinstance(extension.value, x509.BasicConstraints):
            basic = extension.value
        elif isinstance(extension.value, x509.KeyUsage):
            usage = extension.value
    return basic, usage
