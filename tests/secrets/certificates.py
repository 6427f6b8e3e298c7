"""A throw-away certificate authority, and leaves of any kind of wrongness."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = dt.timedelta(days=1)


class Authority:
    """One root, and what it signs."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test root")])
        self._root = self._built(name, name, self._key, self._key, ca=True).sign(self._key, hashes.SHA256())

    @property
    def pem(self) -> str:
        return self._root.public_bytes(serialization.Encoding.PEM).decode()

    def leaf(self, folder: Path, *names: str, expired: bool = False, self_signed: bool = False) -> Path:
        """A file with a key and a certificate for ``names``."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        issuer, signer = (subject, key) if self_signed else (self._root.subject, self._key)
        certificate = self._built(subject, issuer, key, signer, names=names, expired=expired).sign(
            signer, hashes.SHA256()
        )
        path = folder / f"{names[0]}-{expired}-{self_signed}.pem"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        return path

    def _built(
        self, subject, issuer, key, signer, *, names=(), ca=False, expired=False
    ) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 10 * DAY)
            .not_valid_after(now - DAY if expired else now + DAY)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        if ca:
            return builder
        return builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        ).add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
