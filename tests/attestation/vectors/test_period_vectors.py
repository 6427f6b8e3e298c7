"""The published period bundles: judged exactly as their cases say, by any number of processes."""

from __future__ import annotations

import json

import pytest
from tests.attestation.vectors.test_vectors import FOLDER, found, trust_of

from affiant.attestation.verdict.trust_file import parse_instant
from affiant.attestation.verdict.verdict import Verdict
from affiant.attestation.verifier.period.verify_period import verify_period
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS

CASES = {case["id"]: case for case in json.loads((FOLDER / "period" / "cases.json").read_text())["cases"]}


def judged(case: dict) -> Verdict:
    return verify_period(
        FOLDER / case["file"],
        trust_of(case["trust"]),
        verifiers=STANDARD_VERIFIERS,
        at=parse_instant(case["at"]),
        build="build",
        since=parse_instant(case["from"]) if "from" in case else None,
        until=parse_instant(case["to"]) if "to" in case else None,
    )


@pytest.mark.parametrize("name", CASES)
def test_a_period_bundle_is_judged_as_its_case_says(name: str) -> None:
    case = CASES[name]
    expected = case["expect"]
    result = found(judged(case), warnings="warnings" in expected)
    assert {member: result[member] for member in expected} == expected


def test_every_archive_departs_from_the_form_in_one_way_and_no_two_in_the_same() -> None:
    """What is refused before anything is read has one reason; the cases of one reason differ in bytes."""
    archives = [case for name, case in CASES.items() if name.startswith("archive/")]
    assert len(archives) >= 17
    assert all(list(case["expect"]["refused"]) == ["fmt.bundle"] for case in archives)
    contents = {(FOLDER / case["file"]).read_bytes() for case in archives}
    assert len(contents) == len(archives)
