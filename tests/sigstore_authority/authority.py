"""The deployment as a whole: signs statements as the public one does, and writes the trusted root that says so."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from tests.sigstore_authority.certificate_log import spki
from tests.sigstore_authority.certificates import BEGINNING, END, CertificateAuthority
from tests.sigstore_authority.timestamps import TimestampAuthority
from tests.sigstore_authority.transparency_log import Rekor, RekorTiles, Signed, base64_of, compact

PAYLOAD_TYPE = "application/vnd.in-toto+json"
MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
VALID = {"start": f"{BEGINNING:%Y-%m-%dT%H:%M:%SZ}", "end": f"{END:%Y-%m-%dT%H:%M:%SZ}"}


def pae(payload: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """What a DSSE signature is over (pre-authentication encoding, version 1)."""
    return b"DSSEv1 %d %s %d %s" % (len(payload_type), payload_type.encode(), len(payload), payload)


@dataclass
class Authority:
    certificates: CertificateAuthority = field(default_factory=CertificateAuthority)
    log: Rekor = field(default_factory=Rekor)
    tiles: RekorTiles = field(default_factory=RekorTiles)
    timestamps: TimestampAuthority = field(default_factory=TimestampAuthority)

    def sign(
        self,
        statement: bytes,
        *,
        identity: str | tuple[str, ...] = "",
        issuer: str | None = "",
        at: datetime,
        payload_type: str = PAYLOAD_TYPE,
        tiled: bool = False,
        certificate: x509.Certificate | None = None,
        key: ec.EllipticCurvePrivateKey | None = None,
        certified_at: datetime | None = None,
        certified_in_log: bool = True,
        code_signing: bool = True,
    ) -> dict[str, Any]:
        """A bundle over ``statement``: with a promise of the v1 log, or (``tiled``) in the v2 log with a timestamp.

        The certificate is issued a minute before ``at`` unless ``certified_at`` or a ``certificate`` is given.
        """
        key = ec.generate_private_key(ec.SECP256R1()) if key is None else key
        if certificate is None:
            certificate = self.certificates.issue(
                key.public_key(),
                identity=identity,
                issuer=issuer,
                at=certified_at or at - timedelta(minutes=1),
                logged=certified_in_log,
                code_signing=code_signing,
            )
        encoded = pae(statement, payload_type)
        signature = key.sign(encoded, ec.ECDSA(hashes.SHA256()))
        envelope = {
            "payload": base64_of(statement),
            "payloadType": payload_type,
            "signatures": [{"sig": base64_of(signature)}],
        }
        signed = Signed(statement, signature, encoded, certificate, compact(envelope))
        stamps = []
        if tiled:
            stamp = self.timestamps.stamp(hashlib.sha256(signature).digest(), at=at)
            stamps.append({"signedTimestamp": base64_of(stamp)})
        return {
            "mediaType": MEDIA_TYPE,
            "verificationMaterial": {
                "certificate": {"rawBytes": base64_of(signed.der)},
                "tlogEntries": [(self.tiles if tiled else self.log).add(signed, at=at)],
                "timestampVerificationData": {"rfc3161Timestamps": stamps},
            },
            "dsseEnvelope": envelope,
        }

    def trusted_root(self, valid_for: dict[str, str] | None = None) -> dict[str, Any]:
        """``trusted_root.json``; ``valid_for`` replaces the period of every log and authority."""
        period = valid_for or VALID
        certificate_log = self.certificates.log
        return {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [self.log.instance(valid_for=period), self.tiles.instance(valid_for=period)],
            "certificateAuthorities": [_authority(period, self.certificates.root)],
            "ctlogs": [
                {
                    "baseUrl": "https://certificates.tests",
                    "hashAlgorithm": "SHA2_256",
                    "publicKey": {
                        "rawBytes": base64_of(spki(certificate_log.key.public_key())),
                        "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                        "validFor": dict(period),
                    },
                    "logId": {"keyId": base64_of(certificate_log.log_id)},
                }
            ],
            "timestampAuthorities": [_authority(period, self.timestamps.certificate, self.timestamps.root)],
        }


def _authority(period: dict[str, str], *chain: x509.Certificate) -> dict[str, Any]:
    certificates = [{"rawBytes": base64_of(each.public_bytes(Encoding.DER))} for each in chain]
    return {
        "subject": {"organization": "affiant tests", "commonName": "test"},
        "uri": "https://authority.tests",
        "certChain": {"certificates": certificates},
        "validFor": dict(period),
    }


def encoded(document: dict[str, Any]) -> bytes:
    """A document as a file holds it."""
    return json.dumps(document, indent=1).encode()
