"""A log and its witnesses with fixed keys, and a tree of 700 leaves."""

from __future__ import annotations

import hashlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey

from affiant.attestation.encoding.merkle import leaf_hash, root
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.note import Note, NoteSigner, signed
from affiant.attestation.tlog.note_signing import Cosigner, LogSigner, MLDSACosigner
from affiant.attestation.tlog.tree_paths import MemoryNodes

ORIGIN = "log.example/affiant"
NOW = 1_780_000_000
LEAVES = [number.to_bytes(4, "big") for number in range(700)]
NODES = MemoryNodes(leaf_hash(leaf) for leaf in LEAVES)


def seed(label: str) -> bytes:
    return hashlib.sha256(label.encode()).digest()


def log_signer(name: str = ORIGIN, label: str = "log") -> LogSigner:
    return LogSigner(name, Ed25519PrivateKey.from_private_bytes(seed(label)))


def cosigner(number: int, seconds: int = NOW) -> Cosigner:
    key = Ed25519PrivateKey.from_private_bytes(seed(f"witness {number}"))
    return Cosigner(f"witness.example/{number}", key, seconds)


def mldsa_cosigner(number: int, seconds: int = NOW) -> MLDSACosigner:
    key = MLDSA44PrivateKey.from_seed_bytes(seed(f"witness {number}"))
    return MLDSACosigner(f"witness.example/{number}", key, seconds)


def checkpoint(size: int, *signers: NoteSigner, origin: str = ORIGIN) -> Note:
    """The checkpoint over the first ``size`` leaves."""
    text = Checkpoint(origin, size, root(LEAVES[:size])).to_text()
    return signed(text, *(signers or (log_signer(),)))
