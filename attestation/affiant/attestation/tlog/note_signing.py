"""Signs notes: the private keys of a log, and of a witness at one time."""

from __future__ import annotations

from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey

from affiant.attestation.tlog.checkpoint import parse_checkpoint
from affiant.attestation.tlog.note import NoteSignature
from affiant.attestation.tlog.note_keys import (
    CosignerKey,
    LogKey,
    MLDSACosignerKey,
    ed25519_message,
    mldsa_message,
    time_bytes,
)

__all__ = ["Cosigner", "LogSigner", "MLDSACosigner"]


@dataclass(frozen=True, slots=True)
class LogSigner:
    """The private key of a log."""

    name: str
    private_key: Ed25519PrivateKey = field(repr=False)

    @property
    def verifier(self) -> LogKey:
        """Its public key."""
        return LogKey(self.name, self.private_key.public_key().public_bytes_raw())

    def sign(self, text: str) -> NoteSignature:
        """The log's line over ``text``."""
        return NoteSignature(self.verifier.key, self.private_key.sign(text.encode("utf-8")))


@dataclass(frozen=True, slots=True)
class Cosigner:
    """The private Ed25519 key of a witness, at one instant.

    Args:
        seconds: since 1970, when the witness looked; not zero.
    """

    name: str
    private_key: Ed25519PrivateKey = field(repr=False)
    seconds: int

    @property
    def verifier(self) -> CosignerKey:
        """Its public key."""
        return CosignerKey(self.name, self.private_key.public_key().public_bytes_raw())

    def sign(self, text: str) -> NoteSignature:
        """The witness's line over the checkpoint ``text``.

        Raises:
            CheckpointMalformed: it is none.
        """
        parse_checkpoint(text)
        signature = self.private_key.sign(ed25519_message(text, self.seconds))
        return NoteSignature(self.verifier.key, time_bytes(self.seconds) + signature)


@dataclass(frozen=True, slots=True)
class MLDSACosigner:
    """The private ML-DSA-44 key of a witness, at one instant; as :class:`Cosigner`."""

    name: str
    private_key: MLDSA44PrivateKey = field(repr=False)
    seconds: int

    @property
    def verifier(self) -> MLDSACosignerKey:
        """Its public key."""
        return MLDSACosignerKey(self.name, self.private_key.public_key().public_bytes_raw())

    def sign(self, text: str) -> NoteSignature:
        """The witness's line over the checkpoint ``text``.

        Raises:
            CheckpointMalformed: it is none, or its origin has more than 255 bytes.
        """
        message = mldsa_message(self.name, parse_checkpoint(text), self.seconds)
        return NoteSignature(self.verifier.key, time_bytes(self.seconds) + self.private_key.sign(message))
