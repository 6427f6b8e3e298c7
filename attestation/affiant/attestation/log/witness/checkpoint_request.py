"""Reads the body of ``add-checkpoint`` (C2SP tlog-witness): the older size, a proof, an empty line, the checkpoint.

::

    old <size>
    <hashes, base64, at most 63>

    <the checkpoint, a signed note>
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from affiant.attestation.log.witness.errors import WitnessRequestMalformed
from affiant.attestation.tlog.checkpoint import Checkpoint, parse_checkpoint, parse_size
from affiant.attestation.tlog.errors import CheckpointMalformed, NoteMalformed
from affiant.attestation.tlog.note import Note, from_base64, parse_note, to_base64
from affiant.attestation.tlog.tree import EMPTY_ROOT, HASH_SIZE, MAX_PATH

__all__ = ["MAX_REQUEST_BYTES", "Submission", "encode_submission", "parse_submission"]

MAX_REQUEST_BYTES: Final = 256 * 1024
"""A checkpoint with 64 ML-DSA-44 lines has 210 KiB, a proof at most 3 KiB."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A request as read; nothing in it is verified.

    Args:
        old: leaves of the tree that the proof begins at.
        path: 32 bytes each.
        origin, size, root: of the checkpoint. Unlike in a :class:`Checkpoint` the root of an empty tree may be
            another's: the protocol answers that after it has looked at the signature.
    """

    old: int
    path: tuple[bytes, ...]
    note: Note
    origin: str
    size: int
    root: bytes


def parse_submission(body: bytes) -> Submission:
    """The request in ``body``.

    Raises:
        WitnessRequestMalformed: another form.
    """
    if len(body) > MAX_REQUEST_BYTES:
        raise WitnessRequestMalformed("a request is too large", expected=f"at most {MAX_REQUEST_BYTES} bytes")
    head, separator, rest = body.partition(b"\n\n")
    try:
        first, *hashes = head.decode("ascii").split("\n")
        if not separator or not first.startswith("old ") or len(hashes) > MAX_PATH:
            raise WitnessRequestMalformed(
                "not a request to add a checkpoint",
                expected=f"`old <size>`, at most {MAX_PATH} hashes, an empty line, a checkpoint",
            )
        old = parse_size(first.removeprefix("old "))
        path = tuple(map(from_base64, hashes))
        note = parse_note(rest)
        origin, size, root = _tree(note.text)
    except UnicodeDecodeError as error:
        raise WitnessRequestMalformed("a request that is not ASCII before its checkpoint") from error
    except (NoteMalformed, CheckpointMalformed) as error:
        raise WitnessRequestMalformed(f"not a request to add a checkpoint: {error.message}") from error
    if any(len(each) != HASH_SIZE for each in path):
        raise WitnessRequestMalformed("a hash of another size", expected=f"{HASH_SIZE} bytes")
    return Submission(old, path, note, origin, size, root)


def encode_submission(old: int, path: Sequence[bytes], note: Note) -> bytes:
    """The body that asks to add ``note``."""
    lines = (f"old {old}", *map(to_base64, path), "")
    return "".join(f"{line}\n" for line in lines).encode("ascii") + note.to_bytes()


def _tree(text: str) -> tuple[str, int, bytes]:
    """Origin, size and root; of an empty tree whatever root it names."""
    lines = text.split("\n")
    if len(lines) < 3 or lines[1] != "0":
        checkpoint = parse_checkpoint(text)
        return checkpoint.origin, checkpoint.size, checkpoint.root
    named = Checkpoint(lines[0], 1, from_base64(lines[2]))
    parse_checkpoint("\n".join((*lines[:2], to_base64(EMPTY_ROOT), *lines[3:])))
    return named.origin, 0, named.root
