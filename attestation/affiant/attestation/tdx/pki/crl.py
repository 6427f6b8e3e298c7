"""Verifies certificate revocation lists: complete, direct, authentic, and of the right issuer (RFC 5280, section 5).

An empty list object of the underlying library is falsy; nothing here asks for the truth of one. An absent list
is an error of its own, made where the collateral is parsed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from cryptography import x509
from cryptography.x509.oid import ExtensionOID

from affiant.attestation.encoding.der import INTEGER, SEQUENCE, DERError, children, read_single
from affiant.attestation.tdx.pki.certificates import ECDSA_WITH_SHA256, Certificate
from affiant.attestation.tdx.pki.ecdsa import signature_holds
from affiant.attestation.tdx.pki.times import Window
from affiant.attestation.tdx.quote.errors import (
    CRLExpired,
    CRLNotYetValid,
)
from affiant.errors import MalformedError, NotAuthenticError

__all__ = ["RevocationList", "parse_crl"]

MAX_CRL_BYTES: Final = 256 * 1024
_KNOWN_CRITICAL: Final = frozenset((ExtensionOID.CRL_NUMBER, ExtensionOID.AUTHORITY_KEY_IDENTIFIER))
_FORBIDDEN: Final = frozenset((ExtensionOID.DELTA_CRL_INDICATOR, ExtensionOID.ISSUING_DISTRIBUTION_POINT))
_ENTRY_MARKS: Final = (
    bytes.fromhex("551d1d"),  # certificateIssuer, 2.5.29.29
    bytes.fromhex("0a0108"),  # ENUMERATED 8, removeFromCRL
    bytes.fromhex("0101ff"),  # BOOLEAN TRUE, critical
)
"""What an entry extension that matters cannot be spelled without."""


@dataclass(frozen=True, slots=True)
class RevocationList:
    """A parsed revocation list; authentic only after :meth:`verify`."""

    name: str
    der: bytes = field(repr=False)
    tbs: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    issuer: bytes = field(repr=False)
    """Raw DER name."""
    this_update: datetime
    next_update: datetime
    revoked_serials: frozenset[int] = field(repr=False)

    @property
    def window(self) -> Window:
        """From thisUpdate to nextUpdate."""
        return Window(self.name, self.this_update, self.next_update, CRLNotYetValid, CRLExpired)

    def verify(self, issuer: Certificate) -> None:
        """11 and 12: this list is ``issuer``'s own.

        Raises:
            ``crl.issuer``: another name (compared as raw DER), or ``issuer`` may not sign lists.
            ``crl.signature``: not signed by its key.
        """
        if self.issuer != issuer.subject or not issuer.is_authority():
            raise NotAuthenticError(
                f"{self.name} is another issuer's",
                expected=f"issued by {issuer.common_name!r}",
                code="crl.issuer",
            )
        if not signature_holds(issuer.key, self.signature, self.tbs):
            raise NotAuthenticError(
                f"{self.name}: the signature does not hold",
                expected=f"signed by {issuer.common_name!r}",
                code="crl.signature",
            )

    def refuse_revoked(self, certificate: Certificate) -> None:
        """13: ``certificate`` (of the same issuer) is not on this list.

        Raises:
            ``crl.issuer``: it has another issuer, so that the list says nothing about it.
            ``cert.revoked``: it is on the list.
        """
        if certificate.issuer != self.issuer:
            raise NotAuthenticError(
                f"{self.name} does not cover certificate {certificate.common_name!r}: they differ in issuer",
                code="crl.issuer",
            )
        if certificate.serial in self.revoked_serials:
            raise NotAuthenticError(
                f"certificate {certificate.common_name!r} is revoked",
                found=f"serial {certificate.serial:x}",
                code="cert.revoked",
            )


def parse_crl(der: bytes, *, name: str) -> RevocationList:
    """The revocation list in ``der``; ``name`` is what errors call it.

    Raises:
        ``crl.malformed``: not DER of a v2 list; no nextUpdate; a delta or indirect list; an unknown critical
            extension.
    """
    if len(der) > MAX_CRL_BYTES:
        raise MalformedError(
            f"{name} is too large",
            expected=f"at most {MAX_CRL_BYTES} bytes",
            found=f"{len(der)} bytes",
            code="crl.malformed",
        )
    try:
        return _parse_crl(der, name)
    except (
        DERError,
        ValueError,
        TypeError,
        x509.DuplicateExtension,
        x509.UnsupportedGeneralNameType,
    ) as error:
        raise MalformedError(f"{name} is not a complete DER revocation list", code="crl.malformed") from error


def _parse_crl(der: bytes, name: str) -> RevocationList:
    tbs, algorithm, signature = children(read_single(der, SEQUENCE))
    version, inner_algorithm, issuer, *_ = children(tbs.content)
    if version.tag != INTEGER or version.content != b"\x01":
        raise MalformedError(f"{name} is not of version 2", code="crl.malformed")
    if algorithm.encoded != ECDSA_WITH_SHA256 or inner_algorithm.encoded != ECDSA_WITH_SHA256:
        raise MalformedError(f"{name}: signature algorithm is not ecdsa-with-SHA256", code="crl.malformed")
    if not signature.content.startswith(b"\0"):
        raise DERError("signature has unused bits")
    parsed = x509.load_der_x509_crl(der)
    _judge_extensions(parsed.extensions, name)
    next_update = parsed.next_update_utc
    if next_update is None:
        raise MalformedError(f"{name} has no nextUpdate, so that it would never expire", code="crl.malformed")
    return RevocationList(
        name=name,
        der=der,
        tbs=tbs.encoded,
        signature=signature.content[1:],
        issuer=issuer.encoded,
        this_update=parsed.last_update_utc,
        next_update=next_update,
        revoked_serials=_revoked_serials(parsed, tbs.encoded, name),
    )


def _judge_extensions(extensions: x509.Extensions, name: str) -> None:
    for extension in extensions:
        if extension.oid in _FORBIDDEN:
            raise MalformedError(
                f"{name} is a delta, partial or indirect list",
                expected="a complete, direct one",
                code="crl.malformed",
            )
        if extension.critical and extension.oid not in _KNOWN_CRITICAL:
            raise MalformedError(
                f"{name}: unknown critical extension", found=extension.oid.dotted_string, code="crl.malformed"
            )


def _revoked_serials(parsed: x509.CertificateRevocationList, tbs: bytes, name: str) -> frozenset[int]:
    """The serials on the list. Its entries' extensions are read only if the bytes of one that would matter
    occur anywhere: DER has one encoding for each, so without them there is none."""
    if any(mark in tbs for mark in _ENTRY_MARKS):
        for entry in parsed:
            _judge_entry(entry, name)
    return frozenset(entry.serial_number for entry in parsed)


def _judge_entry(entry: x509.RevokedCertificate, name: str) -> None:
    """removeFromCRL exists in delta lists only, an entry's own issuer in indirect ones."""
    for extension in entry.extensions:
        value = extension.value
        if isinstance(value, x509.CertificateIssuer):
            raise MalformedError(
                f"{name}: an entry names another issuer (indirect list)", code="crl.malformed"
            )
        if isinstance(value, x509.CRLReason) and value.reason is x509.ReasonFlags.remove_from_crl:
            raise MalformedError(
                f"{name}: an entry says removeFromCRL, which only a delta list may", code="crl.malformed"
            )
        if extension.critical and not isinstance(value, x509.CRLReason):
            raise MalformedError(
                f"{name}: unknown critical entry extension",
                found=extension.oid.dotted_string,
                code="crl.malformed",
            )
