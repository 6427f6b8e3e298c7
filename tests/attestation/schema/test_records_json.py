"""The table of records as JSON is the normative one, whole, and the committed copy is current."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from affiant.attestation.schema import records_json
from affiant.attestation.schema.records import KINDS, shape_of
from affiant.attestation.schema.records_json import record_table

ROOT = Path(__file__).resolve().parents[3]
COPY = ROOT / "attestation/verifier-js/records.json"


def test_the_committed_table_is_the_normative_one() -> None:
    """Made by: python -m affiant.attestation.schema.records_json > attestation/verifier-js/records.json."""
    assert COPY.read_text() == record_table()


def test_the_table_gives_every_kind_its_members() -> None:
    document = json.loads(record_table())
    assert document["kinds"].keys() == KINDS.keys()
    for kind, row in KINDS.items():
        for role in row.signers:
            shape = shape_of(kind, role=role, cls="simulated")
            told = document["kinds"][kind]
            common = {*document["common"]["object"], "eat_profile", "kind", "cls", "role"}
            assert set(shape.required) - {"agt", "_sd_alg"} == common | set(told["object"])
            assert set(shape.optional) - {"agt", "peer"} == {
                *document["common"]["optional"],
                *told["optional"],
            }


def test_the_module_prints_it() -> None:
    command = [sys.executable, "-m", "affiant.attestation.schema.records_json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30)
    assert done.stdout == record_table()


def test_a_shape_that_json_cannot_say_is_an_error_and_never_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unknown:
        def check(self, value: object, where: str) -> None: ...

        def describe(self) -> str:
            return "unknown"

    row = KINDS["hold"]
    strange = type(row)(row.leaf, row.signers, {**row.required, "new": Unknown()}, {}, of_session=False)
    monkeypatch.setattr(records_json, "KINDS", {**KINDS, "hold": strange})
    with pytest.raises(TypeError, match="Unknown"):
        record_table()
