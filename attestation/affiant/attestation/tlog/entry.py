"""Encodes the leaves of the log: 66 bytes that say that a record exists, and nothing of its content.

::

    offset  size  field
         0     1  version, 0x01
         1     1  kind, the leaf code of the record's kind (``records``)
         2    16  chn, the chain that the record belongs to
        18     8  seq, big-endian: its place in that chain
        26     8  iat, big-endian: seconds since 1970, the signer's own clock
        34    32  rh, SHA-256 of the record's JWS

A monitor proves with these that no record is missing, without seeing one; and a record can be erased while its leaf
stays. Numbers are at most 2**53 - 1, as in the records.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from affiant.attestation.encoding.canonical import MAX_INTEGER
from affiant.attestation.encoding.merkle import leaf_hash
from affiant.attestation.schema.records import KINDS
from affiant.attestation.tlog.errors import EntryMalformed

__all__ = ["ENTRY_SIZE", "KIND_OF_CODE", "LogEntry", "parse_entry"]

_FORM: Final = struct.Struct(">BB16sQQ32s")
ENTRY_SIZE: Final = _FORM.size
_VERSION: Final = 0x01
KIND_OF_CODE: Final = {kind.leaf: name for name, kind in KINDS.items()}
"""Leaf code -> kind."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One leaf. ``chn`` 16 bytes, ``rh`` 32 bytes; ``seq`` and ``iat`` at most 2**53 - 1.

    Raises:
        EntryMalformed: a value of another size, or a kind that there is not.
    """

    kind: str
    chn: bytes
    seq: int
    iat: int
    rh: bytes

    def __post_init__(self) -> None:
        if (
            self.kind not in KINDS
            or (len(self.chn), len(self.rh)) != (16, 32)
            or not 0 <= self.seq <= MAX_INTEGER
            or not 0 <= self.iat <= MAX_INTEGER
        ):
            raise EntryMalformed(
                "not a leaf of this log", expected="a known kind, 16 and 32 bytes, two numbers"
            )

    def to_bytes(self) -> bytes:
        """The 66 bytes of the leaf."""
        return _FORM.pack(_VERSION, KINDS[self.kind].leaf, self.chn, self.seq, self.iat, self.rh)

    @property
    def leaf_hash(self) -> bytes:
        """What the tree holds of it: SHA-256(0x00 || leaf)."""
        return leaf_hash(self.to_bytes())


def parse_entry(data: bytes) -> LogEntry:
    """The leaf in exactly 66 bytes.

    Raises:
        EntryMalformed: another size or version, an unknown kind, or a number that no record can have.
    """
    if len(data) != ENTRY_SIZE:
        raise EntryMalformed("a leaf of another size", expected=f"{ENTRY_SIZE} bytes", found=len(data))
    version, code, chn, seq, iat, rh = _FORM.unpack(data)
    if version != _VERSION:
        raise EntryMalformed("a leaf of another version", expected=_VERSION, found=version)
    if (kind := KIND_OF_CODE.get(code)) is None:
        raise EntryMalformed("a leaf of an unknown kind", found=code)
    return LogEntry(kind, chn, seq, iat, rh)
