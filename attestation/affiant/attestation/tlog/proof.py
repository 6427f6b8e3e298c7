"""Reads and writes a self-contained proof of inclusion: C2SP tlog-proof v1.

::

    c2sp.org/tlog-proof@v1
    index <n>
    <hashes, base64, from the leaf's sibling up>

    <the checkpoint, a signed note>

Index and size are bound to the *signed* checkpoint that the proof carries: an index that the checkpoint's tree does not
have is refused, whatever the hashes say. The ``extra`` line, which nothing authenticates, is refused: nothing here uses
it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from affiant.attestation.tlog.checkpoint import Checkpoint, parse_checkpoint, parse_size
from affiant.attestation.tlog.errors import CheckpointMalformed, NoteMalformed, ProofMalformed
from affiant.attestation.tlog.note import Note, NoteVerifier, from_base64, parse_note, to_base64, verify_note
from affiant.attestation.tlog.tree import HASH_SIZE, MAX_PATH, verify_inclusion

__all__ = ["LogProof", "VerifiedInclusion", "parse_log_proof", "verify_log_proof"]

_HEADER: Final = "c2sp.org/tlog-proof@v1"
_MAX_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class LogProof:
    """A proof as read; nothing in it is verified.

    Args:
        index: of the leaf.
        path: 32 bytes each.
        note: the checkpoint, with every signature.
    """

    index: int
    path: tuple[bytes, ...]
    note: Note

    def to_bytes(self) -> bytes:
        """The proof's text."""
        lines = (_HEADER, f"index {self.index}", *map(to_base64, self.path), "")
        return "".join(f"{line}\n" for line in lines).encode("ascii") + self.note.to_bytes()


@dataclass(frozen=True, slots=True)
class VerifiedInclusion:
    """A leaf that is in a log, by the log's own signature. Only :func:`verify_log_proof` makes one."""

    leaf: bytes
    index: int
    checkpoint: Checkpoint
    note: Note


def parse_log_proof(data: bytes) -> LogProof:
    """The proof in ``data``.

    Raises:
        ProofMalformed: another form.
        NoteMalformed, CheckpointMalformed: what it carries is no checkpoint.
    """
    if len(data) > _MAX_BYTES:
        raise ProofMalformed("a proof is too large", expected=f"at most {_MAX_BYTES} bytes", found=len(data))
    head, separator, note = data.partition(b"\n\n")
    try:
        lines = head.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise ProofMalformed("a proof that is not ASCII before its checkpoint") from error
    match lines:
        case [header, index, *hashes] if separator and header == _HEADER and index.startswith("index "):
            path = tuple(map(_hash, hashes))
        case _:
            raise ProofMalformed(
                "not a proof of inclusion", expected=f"{_HEADER!r}, an index, hashes, a checkpoint"
            )
    if len(path) > MAX_PATH:
        raise ProofMalformed("too many hashes", expected=f"at most {MAX_PATH}", found=len(path))
    try:
        proof = LogProof(parse_size(index.removeprefix("index ")), path, parse_note(note))
    except CheckpointMalformed as error:
        raise ProofMalformed("an index that is no number") from error
    parse_checkpoint(proof.note.text)
    return proof


def verify_log_proof(
    proof: LogProof, leaf: bytes, *, log: Iterable[NoteVerifier], origin: str
) -> VerifiedInclusion:
    """The leaf with hash ``leaf`` is in the log ``origin``, under a checkpoint that one of ``log``'s keys signed.

    Witnesses are asked apart: ``verify_quorum``.

    Raises:
        NoteSignatureInvalid: no key of the log has signed, or the checkpoint is of another log.
        ProofMalformed, InclusionInvalid: the leaf is not there.
    """
    verify_note(proof.note, log)
    checkpoint = parse_checkpoint(proof.note.text)
    if checkpoint.origin != origin:
        raise ProofMalformed(
            "a checkpoint of another log", expected=repr(origin), found=repr(checkpoint.origin[:60])
        )
    verify_inclusion(leaf, index=proof.index, size=checkpoint.size, path=proof.path, root=checkpoint.root)
    return VerifiedInclusion(leaf, proof.index, checkpoint, proof.note)


def _hash(line: str) -> bytes:
    try:
        digest = from_base64(line)
    except NoteMalformed as error:
        raise ProofMalformed("a hash that is not base64") from error
    if len(digest) != HASH_SIZE:
        raise ProofMalformed("a hash of another size", expected=f"{HASH_SIZE} bytes", found=len(digest))
    return digest
