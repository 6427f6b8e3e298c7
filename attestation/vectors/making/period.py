"""A story as a period bundle: its files by name, and the archive of them."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from typing import Any

from vectors.making import tree
from vectors.making.archive import Member, archive
from vectors.making.documents import ORIGIN
from vectors.making.encoding import canonical, from_b64u
from vectors.making.keys import ed25519_key
from vectors.making.story import Story
from vectors.making.table import LEAF

__all__ = ["Files", "manifest", "members", "period_files", "zipped"]

Files = dict[str, bytes]
_README = b"Vectors for verifiers: a period bundle. Everything in it is SIMULATED.\n"


def period_files(story: Story, *, disclosed: bool = True) -> Files:
    """Every file but the manifest."""
    hashes = story.leaves()
    text = tree.checkpoint(ORIGIN, len(hashes), tree.root(hashes))
    note = story.faults.through("note", tree.note(text, ORIGIN, ed25519_key("log")))
    files: Files = {
        "README.txt": _README,
        "log/checkpoint": note.encode(),
        f"log/tile/0/000.p/{len(hashes)}": b"".join(hashes),
        f"log/tile/entries/000.p/{len(hashes)}": b"".join(_entry(story)),
        "receipts/000000.ndjson": _lines(
            f'"{record.jws}"' for record in story.records if not record.withheld
        ),
    }
    opened = [record for record in story.records if record.disclosures and not record.withheld]
    if disclosed and opened:
        files["disclosures/000000.ndjson"] = _lines(
            _compact([record.rh, *record.disclosures]) for record in opened
        )
    objects: Mapping[str, tuple[str, list[bytes]]] = {
        "keysets": ("json", [party.raw for party in story.parties]),
        "evidence": ("json", [party.evidence for party in story.parties]),
        "endorsements": ("json", story.endorsements),
        "results": ("jwt", [text.encode() for text in story.results]),
        "policies": ("json", story.policies),
    }
    for folder, (kind, values) in objects.items():
        files |= {f"{folder}/{hashlib.sha256(data).hexdigest()}.{kind}": data for data in values}
    for each in story.checkpoints:
        files[f"checkpoints/{each.split(bytes((10,)))[1].decode()}.note"] = each
    return files


def _entry(story: Story) -> list[bytes]:
    entries = []
    for record in story.records:
        claims, rh = record.payload, hashlib.sha256(record.jws.encode()).digest()
        leaf = tree.leaf(LEAF[claims["kind"]], from_b64u(claims["chn"]), claims["seq"], claims["iat"], rh)
        entries.append(struct.pack(">H", len(leaf)) + leaf)
    return entries


def _compact(value: Any) -> str:
    return canonical(value).decode()


def _lines(texts: Any) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode()


def manifest(files: Files, *, leaves: int, **said: Any) -> bytes:
    """``manifest.json`` over ``files``; ``said``: members of the range."""
    asked = {"from": None, "to": None, "origin": ORIGIN, "first": 0, "end": leaves, "sessions": None, **said}
    listed = {
        name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for name, data in files.items()
    }
    return canonical({"typ": "affiant-period/1", "exporter": "vectors", "range": asked, "files": listed})


def members(files: Files) -> list[Member]:
    """The members, in the order of their names."""
    return [Member(name, data) for name, data in sorted(files.items())]


def zipped(files: Files, *, leaves: int) -> bytes:
    """The archive of ``files`` and their manifest."""
    return archive(members(files | {"manifest.json": manifest(files, leaves=leaves)}))
