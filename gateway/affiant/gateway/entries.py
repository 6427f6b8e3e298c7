"""What the journal's entries say: tagged JSON objects, read strictly.

| entry | meaning |
|---|---|
| ``boot`` | first of a boot: its keyset statement, so that its records can be verified at the next start |
| ``object`` | bytes that bundles carry: statements, evidence, endorsements, results, policies |
| ``open`` | a request was admitted and nothing was sent upstream yet; no receipt, and never made into one |
| ``record`` | a record that this gateway signed, with its disclosures sealed to whoever started the session |
| ``peer`` | a record that a session's supervisor signed and this gateway acknowledged |
| ``started`` | gaps of earlier boots are disclosed in this boot's chain |

No digest of any content stands here outside of a signed record's salted ones: the journal is the operator's.
"""

from __future__ import annotations

import msgspec

from affiant.gateway.errors import JournalMalformed

__all__ = [
    "BootEntry",
    "Entry",
    "ObjectEntry",
    "OpenEntry",
    "PeerEntry",
    "RecordEntry",
    "StartedEntry",
    "decode_entry",
    "encode_entry",
]


class _Tagged(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="t", omit_defaults=True):
    pass


class BootEntry(_Tagged, frozen=True, tag="boot"):
    """The statement of a boot, base64url of its exact bytes."""

    statement: str


class ObjectEntry(_Tagged, frozen=True, tag="object"):
    """One object of the bundle map ``map``.

    ``ses`` is empty for the gateway's own; for a checkpoint it is the id of the epoch record that names it.
    """

    map: str
    data: str
    ses: str = ""


class OpenEntry(_Tagged, frozen=True, tag="open"):
    """A request: its receipt id, its session, its ``agt.seq``."""

    jti: str
    ses: str
    n: int


class RecordEntry(_Tagged, frozen=True, tag="record"):
    """A record of this gateway's chain. ``ses`` is empty where it belongs to no session."""

    jws: str
    jti: str
    kind: str
    seq: int
    ses: str = ""
    sealed: str = ""


class PeerEntry(_Tagged, frozen=True, tag="peer"):
    """A record of a session's chain."""

    jws: str
    ses: str
    seq: int
    sealed: str = ""


class StartedEntry(_Tagged, frozen=True, tag="started"):
    """The boot is complete."""


Entry = BootEntry | ObjectEntry | OpenEntry | RecordEntry | PeerEntry | StartedEntry

_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)


def encode_entry(entry: Entry) -> bytes:
    """The payload of ``entry``."""
    return _ENCODER.encode(entry)


def decode_entry(payload: bytes) -> Entry:
    """The entry in ``payload``.

    Raises:
        JournalMalformed: not one.
    """
    try:
        return _DECODER.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise JournalMalformed("an entry of another form") from error
