"""Issues revocation lists of the simulated authorities (RFC 5280, section 5; Intel PCK CRL profile 1.5, section 2)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

__all__ = ["CRLForm", "issue_crl"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CRLForm:
    """What a list says beside who is on it.

    Args:
        reason: of each entry.
        hash_algorithm: what is hashed with for the signature; None: SHA-256.
        extensions, entry_extensions: further ones, of the list and of each entry, each with whether it is critical.
    """

    reason: x509.ReasonFlags = x509.ReasonFlags.key_compromise
    hash_algorithm: hashes.SHA256 | hashes.SHA384 | None = None
    extensions: tuple[tuple[x509.ExtensionType, bool], ...] = ()
    entry_extensions: tuple[tuple[x509.ExtensionType, bool], ...] = ()


def issue_crl(
    issuer: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
    *,
    revoked: tuple[x509.Certificate, ...],
    this_update: datetime,
    next_update: datetime,
    form: CRLForm | None = None,
) -> bytes:
    """A CRL in DER, in the name of ``issuer``, signed by ``key``; a complete one unless ``form`` says otherwise.

    The CRL number is ``this_update`` in Unix seconds: it grows with every list. Each entry is dated
    ``this_update`` and gives the reason keyCompromise.
    """
    form = form or CRLForm()
    start = this_update.replace(microsecond=0)
    builder = x509.CertificateRevocationListBuilder(
        issuer_name=issuer.subject, last_update=start, next_update=next_update.replace(microsecond=0)
    )
    builder = builder.add_extension(x509.CRLNumber(int(start.timestamp())), critical=False)
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    builder = builder.add_extension(authority, critical=False)
    for extension, critical in form.extensions:
        builder = builder.add_extension(extension, critical=critical)
    for certificate in revoked:
        builder = builder.add_revoked_certificate(_entry(certificate, start, form))
    return builder.sign(key, form.hash_algorithm or hashes.SHA256(), ecdsa_deterministic=True).public_bytes(
        Encoding.DER
    )


def _entry(certificate: x509.Certificate, when: datetime, form: CRLForm) -> x509.RevokedCertificate:
    builder = x509.RevokedCertificateBuilder(
        serial_number=certificate.serial_number, revocation_date=when
    ).add_extension(x509.CRLReason(form.reason), critical=False)
    for extension, critical in form.entry_extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.build()
