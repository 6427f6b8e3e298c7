"""``manifest.json``: what the exporter says is in the archive, and what it says it was asked for. Canonical JSON.

::

    {"typ":"affiant-period/1","exporter":text,
     "range":{"from":RFC 3339|null,"to":RFC 3339|null,"origin":text,"first":leaf,"end":leaf,"sessions":[id]|null},
     "files":{path:{"size":bytes,"sha256":64 hex}}}

Nothing in it is believed: a range that it claims decides nothing about what is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from affiant.attestation.bundle.period.errors import ManifestMalformed
from affiant.attestation.bundle.period.layout import MANIFEST, SAFE_NAME
from affiant.attestation.encoding.canonical import MAX_INTEGER, canonical, parse_canonical
from affiant.attestation.schema.shapes import (
    Array,
    Const,
    Int,
    MapOf,
    Nullable,
    Obj,
    Pattern,
    ShapeMismatch,
    Text,
)
from affiant.errors import MalformedError

__all__ = ["MANIFEST_TYPE", "FileEntry", "Manifest", "Range", "parse_manifest"]

MANIFEST_TYPE: Final = "affiant-period/1"
_MAX_MANIFEST: Final = 64 << 20
_INSTANT: Final = Pattern(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", "RFC 3339, UTC, seconds")
_FILE: Final = Obj({"size": Int(), "sha256": Pattern(r"[0-9a-f]{64}", "64 hex")})
_RANGE: Final = Obj(
    {
        "from": Nullable(_INSTANT),
        "to": Nullable(_INSTANT),
        "origin": Text(255),
        "first": Int(),
        "end": Int(),
        "sessions": Nullable(Array(Pattern(r"[A-Za-z0-9_-]{22}", "22 characters of base64url"), 1, 100_000)),
    }
)
_SHAPE: Final = Obj(
    {
        "typ": Const(MANIFEST_TYPE),
        "exporter": Text(200),
        "range": _RANGE,
        "files": MapOf(SAFE_NAME.pattern, _FILE, 200_000),
    }
)


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file: bytes, and 64 hex of their SHA-256."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Range:
    """What the exporter was asked for.

    Args:
        since, until: instants, RFC 3339; None: not bounded.
        origin: of the log. first, end: leaves from ``first`` to before ``end``.
        sessions: None: every session.
    """

    since: str | None
    until: str | None
    origin: str
    first: int
    end: int
    sessions: tuple[str, ...] | None = None

    def to_json(self) -> Mapping[str, object]:
        """The member ``range``."""
        return {
            "from": self.since,
            "to": self.until,
            "origin": self.origin,
            "first": self.first,
            "end": self.end,
            "sessions": None if self.sessions is None else list(self.sessions),
        }


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest; untrusted."""

    exporter: str
    range: Range
    files: Mapping[str, FileEntry]

    def to_bytes(self) -> bytes:
        """Its canonical form."""
        files = {path: {"size": entry.size, "sha256": entry.sha256} for path, entry in self.files.items()}
        document = {
            "typ": MANIFEST_TYPE,
            "exporter": self.exporter,
            "range": self.range.to_json(),
            "files": files,
        }
        return canonical(document)


def parse_manifest(data: bytes) -> Manifest:
    """Read a manifest.

    Raises:
        ManifestMalformed: another form.
    """
    try:
        value = parse_canonical(data, limit=_MAX_MANIFEST)
        _SHAPE.check(value, "manifest")
    except (MalformedError, ShapeMismatch) as error:
        raise ManifestMalformed(f"not a manifest: {error}", where=MANIFEST) from error
    assert isinstance(value, dict)
    asked, files = value["range"], value["files"]
    sessions = asked["sessions"]
    if asked["first"] > asked["end"] or asked["end"] > MAX_INTEGER or MANIFEST in files:
        raise ManifestMalformed("a range that ends before it begins, or a manifest of itself", where=MANIFEST)
    return Manifest(
        value["exporter"],
        Range(
            asked["from"],
            asked["to"],
            asked["origin"],
            asked["first"],
            asked["end"],
            None if sessions is None else tuple(sessions),
        ),
        {path: FileEntry(entry["size"], entry["sha256"]) for path, entry in files.items()},
    )
