"""Verifies signatures of notes: a log's Ed25519 (0x01), and witnesses' cosignatures, Ed25519 (0x04) and ML-DSA-44
(0x06).

Verifier keys (*vkeys*) are text: ``<name>+<key id, 8 hex digits>+base64(algorithm || public key)``.

Sources: C2SP signed-note v1.0.0; C2SP tlog-cosignature v1.1: a cosignature is 8 bytes of big-endian seconds since 1970,
then the signature over a message of its own, so that it means "this witness saw no larger consistent tree by then".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PublicKey

from affiant.attestation.tlog.checkpoint import Checkpoint, parse_checkpoint
from affiant.attestation.tlog.errors import CheckpointMalformed, NoteMalformed
from affiant.attestation.tlog.note import KeyName, from_base64, key_id, to_base64

__all__ = [
    "COSIGNATURE_ED25519",
    "COSIGNATURE_MLDSA44",
    "LOG_ED25519",
    "CosignerKey",
    "LogKey",
    "MLDSACosignerKey",
    "VerifierKey",
    "ed25519_message",
    "mldsa_message",
    "parse_vkey",
    "time_bytes",
    "timestamp_of",
]

LOG_ED25519: Final = 0x01
COSIGNATURE_ED25519: Final = 0x04
COSIGNATURE_MLDSA44: Final = 0x06
_KEY_SIZES: Final = {LOG_ED25519: 32, COSIGNATURE_ED25519: 32, COSIGNATURE_MLDSA44: 1312}
_ED25519_SIZE: Final = 64
_MLDSA44_SIZE: Final = 2420
_TIME_SIZE: Final = 8
_MAX_TIME: Final = (1 << 63) - 1
_KEY_ID: Final = re.compile(r"[0-9a-f]{8}\Z")
_SUBTREE_LABEL: Final = b"subtree/v1\n\0"


@dataclass(frozen=True, slots=True)
class LogKey:
    """The public key of a log: plain Ed25519 over the note's text.

    Args:
        name: the log's origin.
        public_key: 32 bytes (RFC 8032).
    """

    name: str
    public_key: bytes = field(repr=False)

    @property
    def key(self) -> KeyName:
        """Name and key id."""
        return KeyName(self.name, key_id(self.name, LOG_ED25519, self.public_key))

    def vkey(self) -> str:
        """As text."""
        return _vkey(self.key, LOG_ED25519, self.public_key)

    def holds(self, text: str, signature: bytes) -> bool:
        """Whether the 64 bytes of ``signature`` are this key's over ``text``."""
        return _ed25519_holds(self.public_key, signature, text.encode("utf-8"))


@dataclass(frozen=True, slots=True)
class CosignerKey:
    """The public Ed25519 key of a witness. Names and sizes as in :class:`LogKey`."""

    name: str
    public_key: bytes = field(repr=False)

    @property
    def key(self) -> KeyName:
        """Name and key id."""
        return KeyName(self.name, key_id(self.name, COSIGNATURE_ED25519, self.public_key))

    def vkey(self) -> str:
        """As text."""
        return _vkey(self.key, COSIGNATURE_ED25519, self.public_key)

    def holds(self, text: str, signature: bytes) -> bool:
        """Whether ``signature``, time and 64 bytes, is this witness's over the checkpoint ``text``."""
        if len(signature) != _TIME_SIZE + _ED25519_SIZE or not _is_checkpoint(text):
            return False
        when = timestamp_of(signature)
        return when is not None and _ed25519_holds(
            self.public_key, signature[_TIME_SIZE:], ed25519_message(text, when)
        )


@dataclass(frozen=True, slots=True)
class MLDSACosignerKey:
    """The public ML-DSA-44 key of a witness, 1,312 bytes (FIPS 204)."""

    name: str
    public_key: bytes = field(repr=False)

    @property
    def key(self) -> KeyName:
        """Name and key id."""
        return KeyName(self.name, key_id(self.name, COSIGNATURE_MLDSA44, self.public_key))

    def vkey(self) -> str:
        """As text."""
        return _vkey(self.key, COSIGNATURE_MLDSA44, self.public_key)

    def holds(self, text: str, signature: bytes) -> bool:
        """Whether ``signature``, time and 2,420 bytes, is this witness's over the checkpoint ``text``."""
        if len(signature) != _TIME_SIZE + _MLDSA44_SIZE:
            return False
        when = timestamp_of(signature)
        try:
            message = None if when is None else mldsa_message(self.name, parse_checkpoint(text), when)
            if message is None:
                return False
            MLDSA44PublicKey.from_public_bytes(self.public_key).verify(signature[_TIME_SIZE:], message)
        except (CheckpointMalformed, InvalidSignature, ValueError):
            return False
        return True


VerifierKey = LogKey | CosignerKey | MLDSACosignerKey


def parse_vkey(text: str) -> VerifierKey:
    """The key that a vkey names.

    Raises:
        NoteMalformed: another form, an algorithm that is not used here, a key of another size, or an id that is not
            that of name and key.
    """
    match text.split("+", 2):
        case [name, identifier, encoded] if _KEY_ID.match(identifier):
            data = from_base64(encoded)
        case _:
            raise NoteMalformed(
                "not a verifier key", expected="<name>+<8 hex digits>+<base64>", found=repr(text[:60])
            )
    algorithm, public_key = data[0], data[1:]
    if _KEY_SIZES.get(algorithm) != len(public_key):
        raise NoteMalformed(
            "a verifier key of another algorithm or size",
            expected="0x01 or 0x04 with 32 bytes, 0x06 with 1,312",
            found=f"0x{algorithm:02x} with {len(public_key)} bytes",
        )
    if key_id(name, algorithm, public_key).hex() != identifier:
        raise NoteMalformed("a verifier key whose id is not that of its name and key", found=identifier)
    KeyName(name, bytes(4))
    kinds: dict[int, type[VerifierKey]] = {
        LOG_ED25519: LogKey,
        COSIGNATURE_ED25519: CosignerKey,
        COSIGNATURE_MLDSA44: MLDSACosignerKey,
    }
    return kinds[algorithm](name, public_key)


def timestamp_of(signature: bytes) -> int | None:
    """Seconds since 1970 in a cosignature; None where there can be none: zero, or over 2**63 - 1."""
    when = int.from_bytes(signature[:_TIME_SIZE], "big")
    return when if 0 < when <= _MAX_TIME else None


def time_bytes(seconds: int) -> bytes:
    """The 8 bytes of an instant in a cosignature."""
    if not 0 < seconds <= _MAX_TIME:
        raise NoteMalformed("a cosignature needs a time", expected="seconds since 1970", found=seconds)
    return seconds.to_bytes(_TIME_SIZE, "big")


def ed25519_message(text: str, seconds: int) -> bytes:
    """Two lines before the whole text of the checkpoint, its extension lines included."""
    return f"cosignature/v1\ntime {seconds}\n{text}".encode()


def mldsa_message(name: str, checkpoint: Checkpoint, seconds: int) -> bytes:
    """``cosigned_message``: the whole tree, from 0 to its size. Extension lines are not in it."""
    witness, origin = name.encode("utf-8"), checkpoint.origin.encode("utf-8")
    if max(len(witness), len(origin)) > 255:
        raise CheckpointMalformed("a name is too long to be cosigned", expected="at most 255 bytes")
    return b"".join(
        (
            _SUBTREE_LABEL,
            bytes((len(witness),)),
            witness,
            seconds.to_bytes(_TIME_SIZE, "big"),
            bytes((len(origin),)),
            origin,
            bytes(8),
            checkpoint.size.to_bytes(8, "big"),
            checkpoint.root,
        )
    )


def _is_checkpoint(text: str) -> bool:
    try:
        parse_checkpoint(text)
    except CheckpointMalformed:
        return False
    return True


def _ed25519_holds(public_key: bytes, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _vkey(key: KeyName, algorithm: int, public_key: bytes) -> str:
    return f"{key.name}+{key.key_id.hex()}+{to_base64(bytes((algorithm,)) + public_key)}"
