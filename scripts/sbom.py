"""Writes the bill of materials of the wheel: CycloneDX 1.6 as JSON, from ``pyproject.toml`` and ``requirements.lock``.

``python scripts/sbom.py`` prints it; the build puts it into the wheel (``*.dist-info/sboms/``, PEP 770). It lists what
the wheel and its extras need, at the locked versions, with the SHA-256 of every file that set-up accepts for it. What
only the tests and checks need is left out. The same sources give the same bytes.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

__all__ = ["bill_of_materials"]

_TESTS: Final = frozenset({"dev"})
"""Extras of the project itself that no user of the wheel installs."""
_PROJECT: Final = "affiant"


@dataclass(frozen=True)
class _Locked:
    name: str
    version: str
    hashes: tuple[str, ...]
    needed_by: frozenset[str]


def bill_of_materials(root: Path) -> bytes:
    """The document for the project in ``root``."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    locked = _locked((root / "requirements.lock").read_text("ascii"))
    base = {_name(each) for each in project["dependencies"]}
    extras = {
        _name(each)
        for extra, needs in project["optional-dependencies"].items()
        if extra not in _TESTS
        for each in needs
    } - {_PROJECT}
    required = _reached(base, locked)
    optional = _reached(extras, locked) - required
    own = f"pkg:pypi/{_PROJECT}@{project['version']}"
    parts = [
        _component(locked[name], "required" if name in required else "optional")
        for name in sorted(required | optional)
    ]
    listed = {name: locked[name] for name in required | optional}
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([own, parts], sort_keys=True))}",
        "version": 1,
        "metadata": {
            "lifecycles": [{"phase": "build"}],
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": _PROJECT,
                "version": project["version"],
                "licenses": [{"license": {"id": project["license"]}}],
                "purl": own,
            },
        },
        "components": parts,
        "dependencies": [
            {"ref": own, "dependsOn": sorted(_purl(locked[name]) for name in base | extras)},
            *({"ref": _purl(listed[name]), "dependsOn": _needs(name, listed)} for name in sorted(listed)),
        ],
    }
    return (json.dumps(document, indent=1, ensure_ascii=True) + "\n").encode("ascii")


def _locked(text: str) -> Mapping[str, _Locked]:
    """Name -> entry, of a lock as ``uv pip compile --generate-hashes`` writes it."""
    found = {}
    for entry in re.split(r"\n(?=[a-z0-9])", re.sub(r"\A(#.*\n)*", "", text)):
        head = re.match(r"([a-z0-9.-]+)==([^ ;\\]+)", entry)
        if head is None:
            raise SystemExit(f"requirements.lock: not an entry: {entry[:60]!r}")
        comments = " ".join(re.findall(r"(?m)^\s+#\s*(.*)$", entry))
        needed_by = frozenset(re.findall(r"[a-z0-9.-]+", comments.replace("(pyproject.toml)", ""))) - {"via"}
        hashes = tuple(sorted(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry)))
        found[head[1]] = _Locked(head[1], head[2], hashes, needed_by)
    return found


def _name(requirement: str) -> str:
    """The normalised name in a requirement."""
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None, requirement
    return re.sub(r"[-_.]+", "-", match[0]).lower()


def _reached(names: Iterable[str], locked: Mapping[str, _Locked]) -> frozenset[str]:
    """What ``names`` need, themselves included."""
    reached: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += [each.name for each in locked.values() if name in each.needed_by]
    return frozenset(reached)


def _needs(name: str, listed: Mapping[str, _Locked]) -> list[str]:
    return sorted(_purl(each) for each in listed.values() if name in each.needed_by)


def _purl(entry: _Locked) -> str:
    return f"pkg:pypi/{entry.name}@{entry.version}"


def _component(entry: _Locked, scope: str) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": _purl(entry),
        "name": entry.name,
        "version": entry.version,
        "scope": scope,
        "hashes": [{"alg": "SHA-256", "content": each} for each in entry.hashes],
        "purl": _purl(entry),
    }


if __name__ == "__main__":
    sys.stdout.buffer.write(bill_of_materials(Path(__file__).resolve().parents[1]))
