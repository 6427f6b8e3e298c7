"""A timestamp authority (RFC 3161): a response that says when it saw the hash of a signature. DER by hand."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.sigstore_authority.certificates import BEGINNING, END, key_usage, root_certificate

from affiant.attestation.simulated.platform.der import integer, octet_string, oid, sequence

SIGNED_DATA = "1.2.840.113549.1.7.2"
TST_INFO = "1.2.840.113549.1.9.16.1.4"
CONTENT_TYPE = "1.2.840.113549.1.9.3"
MESSAGE_DIGEST = "1.2.840.113549.1.9.4"
SIGNING_CERTIFICATE_V2 = "1.2.840.113549.1.9.16.2.47"
SHA256 = sequence(oid("2.16.840.1.101.3.4.2.1"))
ECDSA_SHA256 = sequence(oid("1.2.840.10045.4.3.2"))


def tagged(tag: int, content: bytes) -> bytes:
    """Any tag, with a definite length."""
    return bytes((tag,)) + octet_string(content)[1:]


def set_of(*items: bytes) -> bytes:
    return tagged(0x31, b"".join(sorted(items)))


@dataclass
class TimestampAuthority:
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    root_key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )
    begins: datetime = BEGINNING
    ends: datetime = END
    purposes: tuple[x509.ObjectIdentifier, ...] = (ExtendedKeyUsageOID.TIME_STAMPING,)
    purposes_critical: bool = True
    root: x509.Certificate = field(init=False)
    certificate: x509.Certificate = field(init=False)

    def __post_init__(self) -> None:
        self.root = root_certificate(self.root_key, "test timestamp root")
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test timestamp authority")])
        self.certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self.root.subject)
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self.begins)
            .not_valid_after(self.ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(key_usage(ca=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(self.purposes), critical=self.purposes_critical)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.root_key.public_key()), critical=False
            )
            .sign(self.root_key, hashes.SHA256())
        )

    def stamp(
        self,
        digest: bytes,
        *,
        at: datetime,
        accuracy: bytes = b"",
        named: bytes | None = None,
        more: tuple[bytes, ...] = (),
    ) -> bytes:
        """The response about a SHA-256 ``digest`` (32 bytes).

        Args:
            accuracy: the member, whole.
            named: the certificate that the signed attributes name instead of the signer's.
            more: certificates that travel beside it, DER.
        """
        info = sequence(
            integer(1),
            oid("1.3.6.1.4.1.57264.2"),
            sequence(SHA256, octet_string(digest)),
            integer(x509.random_serial_number()),
            tagged(0x18, f"{at:%Y%m%d%H%M%SZ}".encode()),
            accuracy,
        )
        certificate = self.certificate.public_bytes(Encoding.DER)
        attributes = (
            sequence(oid(CONTENT_TYPE), set_of(oid(TST_INFO))),
            sequence(oid(MESSAGE_DIGEST), set_of(octet_string(hashlib.sha256(info).digest()))),
            sequence(
                oid(SIGNING_CERTIFICATE_V2),
                set_of(
                    sequence(sequence(sequence(octet_string(hashlib.sha256(named or certificate).digest()))))
                ),
            ),
        )
        signature = self.key.sign(set_of(*attributes), ec.ECDSA(hashes.SHA256()))
        signer = sequence(
            integer(1),
            sequence(self.certificate.issuer.public_bytes(), integer(self.certificate.serial_number)),
            SHA256,
            tagged(0xA0, b"".join(sorted(attributes))),
            ECDSA_SHA256,
            octet_string(signature),
        )
        signed = sequence(
            integer(3),
            set_of(SHA256),
            sequence(oid(TST_INFO), tagged(0xA0, octet_string(info))),
            tagged(0xA0, certificate + b"".join(more)),
            set_of(signer),
        )
        token = sequence(oid(SIGNED_DATA), tagged(0xA0, signed))
        return sequence(sequence(integer(0)), token)
