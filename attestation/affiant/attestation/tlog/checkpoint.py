"""Reads and writes checkpoints: what a log says that its tree is (C2SP tlog-checkpoint v1.0.0).

::

    <origin>
    <size>
    <root, base64 of 32 bytes>
    <extension lines, if any>

The text of a signed note. Nothing here is authentic before the note's signatures are verified.

>>> print(Checkpoint("log.example/1", 0, EMPTY_ROOT).to_text(), end="")
log.example/1
0
47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from affiant.attestation.tlog.errors import CheckpointMalformed, NoteMalformed
from affiant.attestation.tlog.note import from_base64, to_base64
from affiant.attestation.tlog.tree import EMPTY_ROOT, HASH_SIZE, MAX_SIZE

__all__ = ["Checkpoint", "parse_checkpoint", "parse_size"]

_SIZE: Final = re.compile(r"(?:0|[1-9][0-9]{0,18})\Z")
_MAX_ORIGIN: Final = 255
_MAX_EXTENSIONS: Final = 16


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Origin, number of leaves, root (32 bytes), and extension lines, which no monitor can audit.

    Raises:
        CheckpointMalformed: values that no checkpoint can have.
    """

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        lines = (self.origin, *self.extensions)
        if (
            not all(line and line.isprintable() for line in lines)
            or len(self.origin.encode("utf-8")) > _MAX_ORIGIN
            or len(self.extensions) > _MAX_EXTENSIONS
            or not 0 <= self.size <= MAX_SIZE
            or len(self.root) != HASH_SIZE
        ):
            raise CheckpointMalformed("values that no checkpoint can have")
        if self.size == 0 and self.root != EMPTY_ROOT:
            raise CheckpointMalformed(
                "the root of a tree without leaves is another", expected=EMPTY_ROOT.hex()
            )

    def to_text(self) -> str:
        """The note's text, with its last newline."""
        lines = (self.origin, str(self.size), to_base64(self.root), *self.extensions)
        return "".join(f"{line}\n" for line in lines)


def parse_checkpoint(text: str) -> Checkpoint:
    """The checkpoint in the ``text`` of a note.

    Raises:
        CheckpointMalformed: another form.
    """
    if not text.endswith("\n"):
        raise CheckpointMalformed("a checkpoint has no end")
    match text[:-1].split("\n"):
        case [origin, size, root, *extensions]:
            return Checkpoint(origin, parse_size(size), _root(root), tuple(extensions))
        case lines:
            raise CheckpointMalformed(
                "not a checkpoint", expected="origin, size, root", found=f"{len(lines)} lines"
            )


def parse_size(text: str) -> int:
    """A number of leaves, or an index: decimal, without a leading zero.

    Raises:
        CheckpointMalformed: another encoding, or over 2**63 - 1.
    """
    if _SIZE.match(text) is None or (size := int(text)) > MAX_SIZE:
        raise CheckpointMalformed(
            "not a tree size", expected="decimal, at most 2**63 - 1", found=repr(text[:30])
        )
    return size


def _root(text: str) -> bytes:
    try:
        root = from_base64(text)
    except NoteMalformed as error:
        raise CheckpointMalformed("a root that is not base64") from error
    if len(root) != HASH_SIZE:
        raise CheckpointMalformed("a root of another size", expected=f"{HASH_SIZE} bytes", found=len(root))
    return root
