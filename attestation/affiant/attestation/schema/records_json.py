"""Writes the table of records as JSON, for readers in other languages.

``python -m affiant.attestation.schema.records_json`` prints ``attestation/verifier-js/records.json``.
Patterns are in the common subset of Python's and ECMAScript's regular expressions, to be matched as a whole.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Final

from affiant.attestation.schema.records import KINDS, PROFILES, Kind, shape_of
from affiant.attestation.schema.shapes import (
    Array,
    Const,
    Enum,
    Int,
    MapOf,
    Nullable,
    Obj,
    Pattern,
    Shape,
    Text,
)

__all__ = ["record_table"]

_BY_RECORD: Final = frozenset({"eat_profile", "kind", "cls", "role", "_sd_alg"})
"""Members whose shape follows from the record's kind, class and role."""


def record_table() -> str:
    """The table as a JSON document, ``affiant-record-table/1``, with a final newline."""
    plain = shape_of("gap", role="gateway", cls="simulated")
    of_session = shape_of("secret", role="session", cls="simulated")
    gap = KINDS["gap"]
    document = {
        "typ": "affiant-record-table/1",
        "profiles": dict(PROFILES),
        "common": {
            "object": _shapes(plain.required, without=_BY_RECORD | set(gap.required)),
            "optional": _shapes(plain.optional, without=set(gap.optional)),
        },
        "session": {
            "agt": _as_json(of_session.required["agt"]),
            "peer": _as_json(of_session.optional["peer"]),
            "sd": of_session.sd,
            "hidden": _shapes(of_session.hidden),
        },
        "kinds": {name: _row(row) for name, row in KINDS.items()},
    }
    return json.dumps(document, indent=1) + "\n"


def _row(row: Kind) -> Mapping[str, object]:
    return {
        "leaf": row.leaf,
        "signers": sorted(row.signers),
        "of_session": row.of_session,
        "object": _shapes(row.required),
        "optional": _shapes(row.optional),
    }


def _shapes(
    shapes: Mapping[str, Shape], *, without: frozenset[str] | set[str] = frozenset()
) -> dict[str, object]:
    return {name: _as_json(shape) for name, shape in shapes.items() if name not in without}


def _as_json(shape: Shape) -> dict[str, object]:
    match shape:
        case Text(limit):
            return {"text": limit}
        case Pattern(pattern):
            return {"pattern": pattern}
        case Const(value):
            return {"const": value}
        case Enum(values):
            return {"enum": list(values)}
        case Nullable(inner):
            return {"nullable": _as_json(inner)}
        case Int(least, most):
            return {"int": [least, most]}
        case Array(item, least, most):
            return {"array": _as_json(item), "least": least, "most": most}
        case MapOf(name, item, most):
            return {"map": _as_json(item), "name": name, "most": most}
        case Obj(required, optional, sd, hidden):
            members: dict[str, object] = {"object": _shapes(required)}
            members |= {"optional": _shapes(optional)} if optional else {}
            return members | ({"sd": sd, "hidden": _shapes(hidden)} if sd else {})
        case _:
            raise TypeError(f"a shape without a JSON form: {type(shape).__name__}")


if __name__ == "__main__":  # pragma: no cover
    sys.stdout.write(record_table())
