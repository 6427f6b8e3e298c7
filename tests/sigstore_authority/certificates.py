"""A certificate authority as Fulcio is: it knows an identity by a token's issuer, and certifies a key for minutes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat import asn1
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.sigstore_authority import certificate_log
from tests.sigstore_authority.certificate_log import CertificateLog, spki

ISSUER_OID = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
END = datetime(2036, 1, 1, tzinfo=UTC)
LIFETIME = timedelta(minutes=10)


def key_usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )


def root_certificate(key: ec.EllipticCurvePrivateKey, common_name: str) -> x509.Certificate:
    """A self-signed authority, valid from :data:`BEGINNING` to :data:`END`."""
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "affiant tests"),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(BEGINNING)
        .not_valid_after(END)
        .add_extension(x509.BasicConstraints(ca=True, path_length=1), critical=True)
        .add_extension(key_usage(ca=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


@dataclass
class CertificateAuthority:
    log: CertificateLog = field(default_factory=CertificateLog)
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    root: x509.Certificate = field(init=False)

    def __post_init__(self) -> None:
        self.root = root_certificate(self.key, "test signing authority")

    def issue(
        self,
        public_key: ec.EllipticCurvePublicKey,
        *,
        identity: str | tuple[str, ...],
        issuer: str | None,
        at: datetime,
        logged: bool = True,
        code_signing: bool = True,
    ) -> x509.Certificate:
        """A leaf for ``public_key``: identities with an ``@`` are addresses, others URIs."""
        names = (identity,) if isinstance(identity, str) else identity
        usage = ExtendedKeyUsageOID.CODE_SIGNING if code_signing else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(self.root.subject)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(at)
            .not_valid_after(at + LIFETIME)
            .add_extension(key_usage(ca=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
            )
            .add_extension(
                x509.SubjectAlternativeName(
                    [
                        x509.RFC822Name(name)
                        if "@" in name and ":" not in name
                        else x509.UniformResourceIdentifier(name)
                        for name in names
                    ]
                ),
                critical=True,
            )
        )
        if issuer is not None:
            value = x509.UnrecognizedExtension(ISSUER_OID, asn1.encode_der(issuer))
            builder = builder.add_extension(value, critical=False)
        unlogged = builder.sign(self.key, hashes.SHA256())
        if not logged:
            return unlogged
        timestamps = self.log.extension(
            unlogged.tbs_certificate_bytes, issuer_key=spki(self.key.public_key()), at=at
        )
        listed = x509.UnrecognizedExtension(x509.ObjectIdentifier(certificate_log.OID), timestamps)
        return builder.add_extension(listed, critical=False).sign(self.key, hashes.SHA256())
