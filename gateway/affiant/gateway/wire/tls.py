"""TLS of the gateway: a key made at boot, a certificate that need not be trusted, clients that pin the key.

The certificate is self-signed and says so little because the keyset statement, bound in the quote, names its
public key. Python's ``ssl`` reads certificates from files only; they are handed over in an anonymous memory file
(memfd) that is gone when this module returns.
"""

from __future__ import annotations

import hashlib
import os
import ssl
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from affiant.attestation.encoding.binary_text import b64u

__all__ = ["TLSIdentity", "certificate_spki", "make_tls_identity", "spki_digest"]


@dataclass(frozen=True, slots=True)
class TLSIdentity:
    """A server context, and the digest that clients pin: 43 characters."""

    context: ssl.SSLContext
    spki: str


def spki_digest(key: ec.EllipticCurvePublicKey) -> str:
    """SHA-256 of the DER SubjectPublicKeyInfo: 43 characters."""
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return b64u(hashlib.sha256(der).digest())


def certificate_spki(der: bytes) -> bytes:
    """SHA-256 of the SubjectPublicKeyInfo of a DER certificate: 32 bytes."""
    public = x509.load_der_x509_certificate(der).public_key()
    info = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(info).digest()


def make_tls_identity(*, now: datetime, lifetime: timedelta) -> TLSIdentity:
    """A fresh P-256 key and a server context (TLS 1.2 and up) that uses it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "affiant gateway")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + lifetime)
        .sign(key, hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(context, certificate, key)
    return TLSIdentity(context, spki_digest(key.public_key()))


def _load(context: ssl.SSLContext, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    pem = certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    descriptor = os.memfd_create("affiant-gateway-tls", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, pem)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
