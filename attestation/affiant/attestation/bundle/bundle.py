"""The single bundle: one JSON file that carries receipts and everything needed to check them, but no trust.

``*.affiant.json``, media type ``application/vnd.affiant.bundle.v1+json``: ``receipts`` are ``{"sdjwt", "proof"}``
(``proof`` is a C2SP tlog-proof, or null where there was none to give); ``keysets``, ``evidence``, ``endorsements``,
``results``, ``policies`` and ``checkpoints`` map ``sha256:<hex>`` of the exact bytes to their base64url; ``anchors``
are timestamps over some of ``checkpoints`` (``bundle_anchors``). No receipt is in it twice: each costs its reader a
signature. Nothing in it is a trust anchor; what it names is believed only as far as a trust file of the reader's own
goes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.bundle.bundle_anchors import Anchors, AnchorsForm, parse_anchors
from affiant.attestation.encoding.binary_text import (
    EncodingError,
    b64u,
    b64u_sha256,
    from_b64u,
    is_sha256_name,
    sha256_name,
)
from affiant.attestation.encoding.canonical import parse_strict
from affiant.errors import MalformedError

__all__ = ["BUNDLE_TYPE", "MAX_BUNDLE", "Bundle", "BundleMalformed", "parse_bundle"]

BUNDLE_TYPE: Final = "application/vnd.affiant.bundle.v1+json"
MAX_BUNDLE: Final = 256 << 20
"""Bytes of a single bundle; more belongs into a period bundle."""

_MAPS: Final = ("keysets", "evidence", "endorsements", "results", "policies", "checkpoints")


class BundleMalformed(MalformedError):
    """A bundle is not of the one form, or an object is not what its name says."""

    code = "bundle.malformed"


@dataclass(frozen=True, slots=True)
class Bundle:
    """Receipts and objects by the SHA-256 of their bytes; untrusted."""

    receipts: tuple[str, ...]
    """SD-JWT texts, in the order of the file."""
    keysets: Mapping[str, bytes] = field(default_factory=dict)
    evidence: Mapping[str, bytes] = field(default_factory=dict)
    endorsements: Mapping[str, bytes] = field(default_factory=dict)
    results: Mapping[str, bytes] = field(default_factory=dict)
    policies: Mapping[str, bytes] = field(default_factory=dict)
    checkpoints: Mapping[str, bytes] = field(default_factory=dict)
    """Cosigned notes that records name as ``cp``, and those that anchors name."""
    proofs: Mapping[str, str] = field(default_factory=dict)
    """Receipt hash, 43 characters -> proof of inclusion, as text; unverified."""
    anchors: Anchors = field(default_factory=Anchors)

    def to_bytes(self) -> bytes:
        """The file: sorted, indented, with a final newline; the same bundle gives the same bytes."""
        document: dict[str, object] = {
            "typ": BUNDLE_TYPE,
            "receipts": [{"sdjwt": text, "proof": self.proofs.get(_hash_of(text))} for text in self.receipts],
            "anchors": self.anchors.to_json(),
        }
        for name in _MAPS:
            objects: Mapping[str, bytes] = getattr(self, name)
            document[name] = {digest: b64u(data) for digest, data in objects.items()}
        return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=True) + "\n").encode("ascii")


def objects_by_digest(objects: Iterable[bytes]) -> Mapping[str, bytes]:
    """A map of the bundle's form over ``objects``."""
    return {sha256_name(data): data for data in objects}


def parse_bundle(data: bytes) -> Bundle:
    """Read a bundle; every object is checked against its name.

    Raises:
        BundleMalformed: another form, a foreign member, an object under a name that is not its digest, a receipt twice.
        JSONError: not strict JSON, duplicate members, too large.
    """
    value = parse_strict(data, limit=MAX_BUNDLE)
    members = {"typ", "receipts", "anchors", *_MAPS}
    if not isinstance(value, dict) or value.get("typ") != BUNDLE_TYPE:
        raise BundleMalformed(
            "not a bundle", expected=f'"typ": "{BUNDLE_TYPE}"', hint=_what_else(value), where="typ"
        )
    if set(value) != members:
        raise BundleMalformed("missing or foreign members", found=sorted(set(value) ^ members)[:8])
    try:
        anchors = parse_anchors(value["anchors"])
    except AnchorsForm as error:
        raise BundleMalformed(error.message, where=error.where) from error
    receipts, proofs = _receipts(value["receipts"])
    return Bundle(
        receipts=receipts,
        proofs=proofs,
        anchors=anchors,
        **{name: _objects(value[name], name) for name in _MAPS},
    )


def _what_else(value: object) -> str | None:
    """A mistake that is made with what `affiant gateway bundle` prints without a key."""
    if isinstance(value, dict) and set(value) == {"bundle", "openings"}:
        return "Its openings are sealed beside it: `affiant gateway bundle SESSION --openings KEYFILE` opens them"
    return None


def _hash_of(sdjwt: str) -> str:
    return b64u_sha256(sdjwt.partition("~")[0].encode("utf-8", "surrogatepass"))


def _receipts(entries: object) -> tuple[tuple[str, ...], Mapping[str, str]]:
    if not isinstance(entries, list) or not entries:
        raise BundleMalformed("no receipts", expected="at least one", where="receipts")
    texts: dict[str, str] = {}
    proofs: dict[str, str] = {}
    for index, entry in enumerate(entries):
        where = f"receipts[{index}]"
        if not isinstance(entry, dict) or set(entry) != {"sdjwt", "proof"}:
            raise BundleMalformed("not a receipt entry", expected="exactly sdjwt and proof", where=where)
        if not isinstance(entry["sdjwt"], str) or not isinstance(entry["proof"], (str, type(None))):
            raise BundleMalformed(
                "a receipt or a proof is no text", expected="texts; no proof: null", where=where
            )
        if (rh := _hash_of(entry["sdjwt"])) in texts:
            raise BundleMalformed("a receipt that is in the bundle already", where=where)
        texts[rh] = entry["sdjwt"]
        if entry["proof"] is not None:
            proofs[rh] = entry["proof"]
    return tuple(texts.values()), proofs


def _objects(entries: object, name: str) -> Mapping[str, bytes]:
    if not isinstance(entries, dict):
        raise BundleMalformed("not a map of objects", where=name)
    objects: dict[str, bytes] = {}
    for digest, text in entries.items():
        if not is_sha256_name(digest) or not isinstance(text, str):
            raise BundleMalformed("not an object entry", expected="sha256:<hex> -> base64url", where=name)
        try:
            data = from_b64u(text)
        except EncodingError as error:
            raise BundleMalformed("an object is not base64url", where=f"{name}.{digest}") from error
        if sha256_name(data) != digest:
            raise BundleMalformed("an object is not what its name says", where=f"{name}.{digest}")
        objects[digest] = data
    return objects
