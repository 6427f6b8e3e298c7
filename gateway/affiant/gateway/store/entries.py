"""What the journal's entries say: tagged JSON objects, read strictly.

| entry | meaning |
|---|---|
| ``boot`` | first of a boot: its keyset statement, so that its records can be verified at the next start |
| ``object`` | bytes that bundles carry: statements, evidence, endorsements, results, policies |
| ``open`` | a request was admitted and nothing was sent upstream yet; no receipt, and never made into one |
| ``record`` | a record that this gateway signed |
| ``peer`` | a record that a session's supervisor signed and this gateway acknowledged |
| ``opening`` | a record's disclosures, sealed, or the sealed key to a session's; apart, to be erased alone |
| ``erasing`` | what an ``erasure`` record orders is about to be erased |
| ``erased`` | it is |
| ``started`` | gaps of earlier boots are disclosed in this boot's chain |

No digest of any content is here outside of a signed record's salted ones: the journal is the operator's.
"""

from __future__ import annotations

import msgspec

from affiant.gateway.wire.errors import JournalMalformed

__all__ = [
    "BootEntry",
    "Entry",
    "ErasedEntry",
    "ErasingEntry",
    "ObjectEntry",
    "OpenEntry",
    "OpeningEntry",
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


class PeerEntry(_Tagged, frozen=True, tag="peer"):
    """A record of a session's chain."""

    jws: str
    ses: str
    seq: int


class OpeningEntry(_Tagged, frozen=True, tag="opening"):
    """The sealed disclosures of the record with this hash, or the key with this name (``sealed_disclosures``)."""

    rh: str
    ses: str
    sealed: str


class ErasingEntry(_Tagged, frozen=True, tag="erasing"):
    """Follows the ``erasure`` record with this id: the ids of this boot's records that will be gone."""

    jti: str
    gone: tuple[str, ...] = ()


class ErasedEntry(_Tagged, frozen=True, tag="erased"):
    """The ``erasure`` record with this id was carried out."""

    jti: str


class StartedEntry(_Tagged, frozen=True, tag="started"):
    """The boot is complete."""


Entry = (
    BootEntry
    | ObjectEntry
    | OpenEntry
    | RecordEntry
    | PeerEntry
    | OpeningEntry
    | ErasingEntry
    | ErasedEntry
    | StartedEntry
)

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
