"""Signers of profiles: plain keys, and identities of a sigstore deployment made here."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from tests.sigstore_authority.authority import Authority

from affiant.attestation.signatures.profiles.private_keys import SigningKey, read_signing_key
from affiant.attestation.signatures.profiles.statement import SignedProfiles

AT = datetime(2026, 5, 4, 12, tzinfo=UTC)
IDENTITY = "reviewer@team.example"
ISSUER = "https://accounts.team.example"
SIGNED = SignedProfiles(
    source="sha256:" + "1" * 64,
    digest="sha384:" + "2" * 96,
    floor="sha384:" + "3" * 96,
    profiles=("sha384:" + "4" * 96, "sha384:" + "5" * 96),
    semantics="affiant.policy/1",
)
PRIVATE = {
    "P-256": ec.derive_private_key(7, ec.SECP256R1()),
    "P-384": ec.derive_private_key(7, ec.SECP384R1()),
    "Ed25519": Ed25519PrivateKey.from_private_bytes(bytes(range(32))),
}


def private_pem(key: object) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public_pem(key: object) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def key_file(folder: Path, key: object) -> Path:
    path = folder / "key.pem"
    path.write_bytes(private_pem(key))
    path.chmod(0o600)
    return path


@pytest.fixture(scope="session", params=list(PRIVATE))
def key(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    return read_signing_key(key_file(tmp_path_factory.mktemp("key"), PRIVATE[request.param]))


@pytest.fixture(scope="session")
def p256(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    return read_signing_key(key_file(tmp_path_factory.mktemp("key"), PRIVATE["P-256"]))


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()
