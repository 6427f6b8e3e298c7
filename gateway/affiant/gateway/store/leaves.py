"""A record's leaf in the log: handed over by the code that signed or verified the record, or read from its bytes.

The log takes nothing but a :class:`Logged`, which is made where the record's own object is at hand: what was signed or
verified in this process is not decoded again. What a store holds was neither: :func:`leaf_of` reads its bytes, for the
index alone, since a store must not be able to have leaves made (trust rules, 2).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

import msgspec

from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.tlog.entry import LogEntry
from affiant.gateway.store.entries import PeerEntry, RecordEntry

__all__ = ["Logged", "leaf_of"]


@dataclass(frozen=True, slots=True)
class Logged:
    """A journal's entry of a record, and the leaf of exactly the JWS that is in it."""

    entry: RecordEntry | PeerEntry
    leaf: LogEntry


class _Claims(msgspec.Struct, frozen=True):
    """What a leaf repeats of a record."""

    kind: str
    chn: str
    seq: int
    iat: int


_CLAIMS: Final = msgspec.json.Decoder(_Claims)


def leaf_of(jws: str) -> LogEntry:
    """The leaf of a record by its bytes.

    Raises:
        AffiantError, msgspec.MsgspecError, ValueError, LookupError: they are no record's.
    """
    claims = _CLAIMS.decode(from_b64u(jws.split(".", 2)[1]))
    rh = hashlib.sha256(jws.encode("ascii")).digest()
    return LogEntry(claims.kind, from_b64u(claims.chn, size=16), claims.seq, claims.iat, rh)
