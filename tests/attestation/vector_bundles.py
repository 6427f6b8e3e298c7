"""The published bundles by the id of their case, patches applied."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["VECTORS", "vector_bundle"]

VECTORS = Path(__file__).resolve().parents[2] / "attestation" / "vectors" / "receipts"


def vector_bundle(case: str) -> bytes:
    """The bundle of one case. Patches are RFC 6902: add, remove and replace."""
    cases = json.loads((VECTORS / "cases.json").read_text())["cases"]
    files = next(each["files"] for each in cases if each["id"] == case)
    data = (VECTORS / files["bundle"]).read_bytes()
    if "patch" not in files:
        return data
    document = json.loads(data)
    for operation in json.loads((VECTORS / files["patch"]).read_text()):
        *outer, last = operation["path"][1:].split("/")
        at = document
        for name in outer:
            at = at[int(name) if isinstance(at, list) else name]
        place = int(last) if isinstance(at, list) else last
        if operation["op"] == "remove":
            del at[place]
        elif operation["op"] == "add" and isinstance(at, list):
            at.insert(place, operation["value"])
        else:
            at[place] = operation["value"]
    return json.dumps(document).encode()
