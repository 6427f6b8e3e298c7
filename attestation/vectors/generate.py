"""Writes the receipt vectors: ``python -m vectors.generate FOLDER``, in the folder ``attestation``.

Uses nothing of affiant: the standard library, and the primitives of ``cryptography``. The same files every time, byte
for byte: keys, salts and ids follow from labels, signatures are deterministic, every instant is written down.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from vectors.cases.period import PERIOD_CASES
from vectors.making.case import AT, Case
from vectors.making.collection import collection
from vectors.making.expected import ROWS, expectation
from vectors.making.openings import openings
from vectors.making.patches import difference
from vectors.making.trust import ASKING_AUTHORITIES, WITH_WITNESSES, trust_files

__all__ = ["files", "main"]

SCHEMA = "affiant-receipt-vectors/1"
PERIOD_SCHEMA = "affiant-period-vectors/1"


def _text(value: Any) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=True) + "\n").encode("ascii")


def _expected(case: Case) -> dict[str, Any]:
    asked = [f"body.{name}" for name in ("request", "response") if getattr(case, name) is not None]
    return expectation(
        case.refused,
        not_made=case.not_made,
        asked=asked,
        attested=case.attested,
        witnessed=case.trust in WITH_WITNESSES,
        stamped=case.trust in ASKING_AUTHORITIES,
        warnings=case.warnings if case.base is None else None,
    )


def files() -> Iterator[tuple[str, bytes]]:
    """Path and content of every file, ``README.md`` apart."""
    valid: dict[str, Any] = {}
    stored_in: dict[str, str] = {}
    bodies: dict[str, bytes] = {}
    cases: list[dict[str, Any]] = []
    for case in collection():
        row: dict[str, Any] = {
            "id": case.id,
            "about": case.about,
            "trust": case.trust,
            "at": case.at,
            "expect": _expected(case),
        }
        made = case.make()
        name = case.id.replace("/", "-")
        if case.base is None:
            assert isinstance(made, dict)
            valid[case.id] = made
            stored_in[case.id] = case.stored_from or case.id
        else:
            row["base"] = case.base
        if isinstance(made, bytes):
            row["files"] = {"bundle": f"whole/{name}.affiant.json"}
            yield row["files"]["bundle"], made
        elif (stored := stored_in[case.base or case.id]) == case.id:
            row["files"] = {"bundle": f"{case.id}.affiant.json"}
            yield row["files"]["bundle"], _text(made)
        else:
            row["files"] = {"bundle": f"{stored}.affiant.json"}
            if patch := difference(valid[stored], made):
                row["files"]["patch"] = f"patches/{name}.json"
                yield row["files"]["patch"], _text(patch)
        for member in ("request", "response"):
            body: bytes | None = getattr(case, member)
            if body is not None:
                row[member] = f"bodies/{_body_name(bodies, body)}"
        cases.append(row)
    yield from ((f"bodies/{name}", body) for name, body in bodies.items())
    yield from trust_files()
    rows = [{"row": row, "level": level, "needs": list(needs)} for row, (level, needs) in ROWS.items()]
    yield "cases.json", _text({"schema": SCHEMA, "rows": rows, "cases": cases})
    yield "openings.json", _text(openings())
    yield from _archives()


def _archives() -> Iterator[tuple[str, bytes]]:
    """The period bundles, and what must be found of each."""
    cases: list[dict[str, Any]] = []
    known: dict[bytes, str] = {}
    for case in PERIOD_CASES:
        data = case.make()
        if (name := known.get(data)) is None:
            name = known[data] = f"period/{case.id.replace('/', '-')}.affiant.zip"
            yield name, data
        row: dict[str, Any] = {
            "id": case.id,
            "about": case.about,
            "trust": case.trust,
            "at": AT,
            "file": name,
        }
        if case.asked is not None:
            row["from"], row["to"] = case.asked
        code = 20 if case.refused else 30 if "bundle.objects" in case.not_made else 40
        row["expect"] = {"exit_code": code, "refused": dict(case.refused)}
        if not case.refused:
            row["expect"] |= {"not_made": sorted(case.not_made), "warnings": sorted(case.warnings)}
        cases.append(row)
    yield "period/cases.json", _text({"schema": PERIOD_SCHEMA, "cases": cases})


def _body_name(bodies: dict[str, bytes], body: bytes) -> str:
    """The file name of a body; one body has one file."""
    for name, known in bodies.items():
        if known == body:
            return name
    name = f"{len(bodies):02d}.bin"
    bodies[name] = body
    return name


def main(arguments: Sequence[str]) -> int:
    """Write the files into a folder."""
    parser = argparse.ArgumentParser(prog="python -m vectors.generate", description=__doc__)
    parser.add_argument("folder", type=Path, help="where to write; made if it is not there")
    folder: Path = parser.parse_args(arguments).folder
    for name, data in files():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
