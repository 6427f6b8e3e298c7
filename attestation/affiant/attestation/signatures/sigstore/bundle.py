"""Takes a sigstore bundle apart before any library sees it: bounded, closed, with one encoding for each value.

Read is exactly one form: bundle v0.3 (sigstore protobuf-specs, ``sigstore_bundle.proto``, as JSON) with a leaf
certificate, one DSSE envelope with one signature over an in-toto statement, and one log entry with its inclusion
proof and signed checkpoint. Nothing here is believed; what is refused here is refused in every library's stead:

* members are a closed set. The library also reads ``log_index`` for ``logIndex`` and takes the last of two equal
  members, so that a file could show one value to a reviewer's tool and another one to the library;
* base64 and numbers have one encoding, sizes and counts a limit;
* a time of the log without the log's promise is nobody's word, and refused.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import JSONError, parse_object
from affiant.attestation.signatures.in_toto import PAYLOAD_TYPE
from affiant.attestation.signatures.sigstore.errors import BundleMalformed, NotLogged
from affiant.attestation.signatures.sigstore.statement import MAX_STATEMENT

__all__ = ["MAX_BUNDLE", "InclusionProof", "LoggedEntry", "SignedBundle", "looks_like_bundle", "parse_bundle"]

MAX_BUNDLE: Final = 4 << 20
"""Bytes: a statement in base64, twice over, and what proves it."""
MEDIA_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"

_ANY_BUNDLE: Final = "application/vnd.dev.sigstore.bundle"
_NUMBER: Final = re.compile(r"(?:0|[1-9][0-9]{0,17})\Z")
_MAX_PATH: Final = 64
"""Hashes of an inclusion proof: no log has 2**64 entries."""
_MAX_SMALL: Final = 64 << 10
"""Bytes of a certificate, a signature, a timestamp or a log entry's body."""
_MAX_TIMESTAMPS: Final = 8
_MAX_SECONDS: Final = 253402300799
"""9999-12-31T23:59:59Z, the last second that a date can show."""


@dataclass(frozen=True, slots=True)
class InclusionProof:
    """Where an entry is said to be in a log, and the checkpoint that must say the same."""

    index: int
    size: int
    root: bytes
    """32 bytes."""
    path: tuple[bytes, ...]
    """Hashes of 32 bytes, from the leaf up."""
    checkpoint: str


@dataclass(frozen=True, slots=True)
class LoggedEntry:
    """One log entry as the bundle claims it."""

    log_id: bytes
    """Which log of the trusted root it is of."""
    index: int
    """The log's own number of it; that of the proof, unless the log began in an earlier tree."""
    kind: str
    version: str
    body: bytes
    promised_at: datetime | None
    """When the log promised to hold it; None: this log promises nothing, and the time comes from elsewhere."""
    proof: InclusionProof


@dataclass(frozen=True, slots=True)
class SignedBundle:
    """A bundle, taken apart; nothing of it is verified."""

    raw: bytes
    certificate: bytes
    """The signer's, DER."""
    statement: bytes
    entry: LoggedEntry
    timestamps: tuple[bytes, ...]
    """RFC 3161 responses, DER."""

    @property
    def digest(self) -> str:
        """``sha256:`` name of the bundle's exact bytes."""
        return sha256_name(self.raw)


def looks_like_bundle(content: bytes) -> bool:
    """Whether a file calls itself a sigstore bundle, of whatever version. Says nothing about what it is worth."""
    try:
        document = parse_object(content, limit=MAX_BUNDLE, strict_form=False)
    except JSONError:
        return False
    media_type = document.get("mediaType")
    return isinstance(media_type, str) and media_type.startswith(_ANY_BUNDLE)


def parse_bundle(raw: bytes) -> SignedBundle:
    """The bundle in ``raw``, at most :data:`MAX_BUNDLE` bytes.

    Raises:
        BundleMalformed: another form, version or size.
        NotLogged: its entry has no inclusion proof with a checkpoint.
    """
    try:
        document = parse_object(raw, limit=MAX_BUNDLE, strict_form=False)
    except JSONError as error:
        raise BundleMalformed(f"not strict JSON: {error}") from error
    if document.get("mediaType") != MEDIA_TYPE:
        found = document.get("mediaType")
        shown = repr(found[:80]) if isinstance(found, str) else "none"
        raise BundleMalformed("a bundle of another version", expected=MEDIA_TYPE, found=shown)
    _members(document, "bundle", required=("mediaType", "verificationMaterial", "dsseEnvelope"))
    material = _members(
        document["verificationMaterial"],
        "verificationMaterial",
        required=("certificate", "tlogEntries"),
        optional=("timestampVerificationData",),
    )
    certificate = _members(material["certificate"], "certificate", required=("rawBytes",))
    (entry,) = _list(material["tlogEntries"], "tlogEntries", exactly=1)
    return SignedBundle(
        raw=raw,
        certificate=_bytes(certificate["rawBytes"], "certificate.rawBytes"),
        statement=_statement(document["dsseEnvelope"]),
        entry=_entry(entry),
        timestamps=_timestamps(material.get("timestampVerificationData", {})),
    )


def _statement(value: object) -> bytes:
    envelope = _members(value, "dsseEnvelope", required=("payload", "payloadType", "signatures"))
    if envelope["payloadType"] != PAYLOAD_TYPE:
        raise BundleMalformed("what is signed is no in-toto statement", expected=PAYLOAD_TYPE)
    (signature,) = _list(envelope["signatures"], "dsseEnvelope.signatures", exactly=1)
    signed = _members(signature, "signature", required=("sig",), optional=("keyid",))
    _bytes(signed["sig"], "signature.sig")
    if signed.get("keyid", "") != "":
        raise BundleMalformed("the certificate names the key, and nothing else", where="signature.keyid")
    return _bytes(envelope["payload"], "dsseEnvelope.payload", limit=MAX_STATEMENT)


def _entry(value: object) -> LoggedEntry:
    if isinstance(value, dict) and "inclusionProof" not in value:
        raise NotLogged("the log entry has no inclusion proof: a promise to log is not enough")
    entry = _members(
        value,
        "tlogEntry",
        required=("logIndex", "logId", "kindVersion", "inclusionProof", "canonicalizedBody"),
        optional=("integratedTime", "inclusionPromise"),
    )
    log_id = _members(entry["logId"], "logId", required=("keyId",))
    kind = _members(entry["kindVersion"], "kindVersion", required=("kind", "version"))
    return LoggedEntry(
        log_id=_bytes(log_id["keyId"], "logId.keyId", limit=64),
        index=_number(entry["logIndex"], "logIndex"),
        kind=_text(kind["kind"], "kind"),
        version=_text(kind["version"], "version"),
        body=_bytes(entry["canonicalizedBody"], "canonicalizedBody"),
        promised_at=_promised_at(entry),
        proof=_proof(entry["inclusionProof"]),
    )


def _promised_at(entry: Mapping[str, object]) -> datetime | None:
    """The log's time, which counts only where the log's promise covers it."""
    seconds = _number(entry.get("integratedTime", "0"), "integratedTime")
    if "inclusionPromise" not in entry:
        if seconds:
            raise NotLogged("a time of the log without the log's promise is nobody's word")
        return None
    promise = _members(entry["inclusionPromise"], "inclusionPromise", required=("signedEntryTimestamp",))
    _bytes(promise["signedEntryTimestamp"], "signedEntryTimestamp")
    if not 0 < seconds <= _MAX_SECONDS:
        raise BundleMalformed("a promise of the log without a time", where="integratedTime")
    return datetime.fromtimestamp(seconds, UTC)


def _proof(value: object) -> InclusionProof:
    if isinstance(value, dict) and "checkpoint" not in value:
        raise NotLogged("the inclusion proof has no checkpoint that a log signed")
    proof = _members(
        value, "inclusionProof", required=("logIndex", "rootHash", "treeSize", "hashes", "checkpoint")
    )
    checkpoint = _members(proof["checkpoint"], "checkpoint", required=("envelope",))
    hashes = _list(proof["hashes"], "inclusionProof.hashes", at_most=_MAX_PATH)
    return InclusionProof(
        index=_number(proof["logIndex"], "inclusionProof.logIndex"),
        size=_number(proof["treeSize"], "inclusionProof.treeSize"),
        root=_hash(proof["rootHash"], "inclusionProof.rootHash"),
        path=tuple(_hash(item, "inclusionProof.hashes") for item in hashes),
        checkpoint=_text(checkpoint["envelope"], "checkpoint.envelope", limit=8192),
    )


def _timestamps(value: object) -> tuple[bytes, ...]:
    data = _members(value, "timestampVerificationData", optional=("rfc3161Timestamps",))
    items = _list(data.get("rfc3161Timestamps", []), "rfc3161Timestamps", at_most=_MAX_TIMESTAMPS)
    return tuple(
        _bytes(
            _members(item, "rfc3161Timestamp", required=("signedTimestamp",))["signedTimestamp"],
            "signedTimestamp",
        )
        for item in items
    )


def _members(
    value: object, where: str, *, required: tuple[str, ...] = (), optional: tuple[str, ...] = ()
) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise BundleMalformed("not an object", where=where)
    if not set(required) <= value.keys() <= {*required, *optional}:
        raise BundleMalformed("members are missing or unknown", where=where, expected=", ".join(required))
    return value


def _list(value: object, where: str, *, exactly: int | None = None, at_most: int = 1) -> list[object]:
    limits = (exactly, exactly) if exactly is not None else (0, at_most)
    if not isinstance(value, list) or not limits[0] <= len(value) <= limits[1]:
        wanted = f"exactly {exactly}" if exactly is not None else f"at most {at_most}"
        raise BundleMalformed("a list of another length", where=where, expected=wanted)
    return value


def _text(value: object, where: str, *, limit: int = 64) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= limit:
        raise BundleMalformed("not a text, or too long", where=where, expected=f"1 to {limit} characters")
    return value


def _number(value: object, where: str) -> int:
    """A protobuf 64-bit number, which JSON carries as decimal text."""
    if not isinstance(value, str) or _NUMBER.match(value) is None:
        raise BundleMalformed("not a number", where=where, expected="decimal digits as text")
    return int(value)


def _hash(value: object, where: str) -> bytes:
    data = _bytes(value, where)
    if len(data) != 32:
        raise BundleMalformed("not a SHA-256", where=where, expected="32 bytes", found=f"{len(data)} bytes")
    return data


def _bytes(value: object, where: str, *, limit: int = _MAX_SMALL) -> bytes:
    """Padded base64 (RFC 4648, section 4), in its canonical form."""
    if not isinstance(value, str) or not 0 < len(value) <= (limit + 2) // 3 * 4:
        raise BundleMalformed("not base64, or too large", where=where, expected=f"1 to {limit} bytes")
    try:
        data = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BundleMalformed("not base64", where=where) from error
    if base64.b64encode(data).decode("ascii") != value:
        raise BundleMalformed("not the one base64 encoding of its bytes", where=where)
    return data
