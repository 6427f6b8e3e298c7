"""The second verifier judges every published vector as the first one does, row by row, as far as it judges at all."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.attestation.verifier_js.conftest import Question
from tests.attestation.verifier_js.test_agreement import (
    APPRAISED,
    Ask,
    compared,
    pinning_its_log,
    python_says,
)
from tests.properties import one_of_each

from affiant.attestation.verdict.trust_file import parse_instant

vectors = importlib.import_module("tests.attestation.vectors.test_vectors")

NOT_APPRAISED = {
    ("peer.ear", "peer.ear_mismatch"),
    ("tee.appraisal", "appraisal.evaluation_number"),
    ("tee.appraisal", "appraisal.tcb_status"),
    ("tee.appraisal", "cert.revoked"),
    ("tee.appraisal", "collateral.expired"),
    ("tee.appraisal", "collateral.issuer"),
    ("tee.appraisal", "collateral.signature"),
    ("tee.appraisal", "crl.expired"),
    ("tee.appraisal", "crl.issuer"),
    ("tee.appraisal", "crl.signature"),
    ("tee.appraisal", "qe.identity"),
    ("tee.appraisal", "tcb.mismatch"),
    ("tee.appraisal", "tcb.revoked"),
    ("tee.appraisal", "tdx_module.mismatch"),
}
"""What rests on collateral, which the second verifier does not read: refused by the first, not made by the second."""

NOT_STAMPED = {
    ("time.tsa", None),
    ("time.tsa", "anchor.expired"),
    ("time.tsa", "anchor.foreign_log"),
    ("time.tsa", "anchor.imprint"),
    ("time.tsa", "anchor.not_covering"),
    ("time.tsa", "anchor.order"),
    ("time.tsa", "anchor.policy"),
    ("time.tsa", "anchor.purpose"),
    ("time.tsa", "anchor.token"),
    ("time.tsa", "anchor.unproven"),
    ("time.tsa", "anchor.untrusted"),
    ("time.tsa", "note.signature"),
    ("time.tsa", "time.empty"),
    ("time.tsa", "time.outside"),
}
"""What rests on a timestamp token, which the second verifier does not verify: held or refused by the first."""

ELSEWHERE = {("platform/class-claimed", "peer.ear")}
"""Refused by the second alone: it holds a result's class against what the keyset claims, not against an appraisal."""

Row = dict[str, Any]


@pytest.fixture(scope="module")
def answers(judge_all: Ask) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Case -> the first and the second verifier's verdict, the bundle's own log pinned."""
    chosen = one_of_each(vectors.CASES, kind)
    questions = {name: pinning_its_log(question_of(case)) for name, case in chosen.items()}
    theirs = judge_all(list(questions.values()))
    return {
        name: (python_says(question), dict(verdict))
        for (name, question), verdict in zip(questions.items(), theirs, strict=True)
    }


def kind(name: str, case: dict[str, Any]) -> tuple[str, str]:
    """Which cases are alike: those of one folder that shall be judged alike. What is said of peers differs in more."""
    folder = name.partition("/")[0]
    return folder, name if folder == "peer" else json.dumps(case["expect"])


def question_of(case: dict[str, Any]) -> Question:
    bodies = {
        name: (vectors.FOLDER / case[name]).read_bytes() if name in case else None
        for name in ("request", "response")
    }
    trust = (vectors.FOLDER / case["trust"]).read_bytes()
    return Question(vectors.bundle_of(case), trust, parse_instant(case["at"]), **bodies)


def apart(ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[tuple[Row, Row]]:
    """Rows that differ in more than words and places in text; an appraisal that is not made is a lesser answer."""
    assert [row["code"] for row in ours["checks"]] == [row["code"] for row in theirs["checks"]]
    for mine, other in zip(ours["checks"], theirs["checks"], strict=True):
        lesser = mine["code"] in APPRAISED and other["state"] == "not made" and mine["state"] != "refused"
        if not lesser and without_text_places(mine) != without_text_places(other):
            yield mine, other


def without_text_places(row: Row) -> Row:
    return compared(row) | {"where": [where.partition(".line ")[0] for where in compared(row)["where"]]}


@pytest.mark.slow
def test_both_judge_every_vector_alike(answers: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> None:
    missed, elsewhere = set(), set()
    for name, (ours, theirs) in answers.items():
        for mine, other in apart(ours, theirs):
            if other["state"] == "not made":
                missed.add((mine["code"], mine["reason"]))
            else:
                elsewhere.add((name, mine["code"]))
    assert missed == NOT_APPRAISED | NOT_STAMPED
    assert elsewhere == ELSEWHERE


def test_no_tampered_vector_passes_but_what_rests_on_collateral(
    answers: dict[str, tuple[dict[str, Any], dict[str, Any]]],
) -> None:
    for name in vectors.TAMPERED.keys() & answers.keys():
        ours, theirs = answers[name]
        assert theirs["tier"] != "affirming"
        refused = {(row["code"], row["reason"]) for row in ours["checks"] if row["state"] == "refused"}
        if refused and theirs["exit_code"] != 20:
            assert refused <= NOT_APPRAISED | NOT_STAMPED, name
    assert sum(theirs["exit_code"] == 20 for _, theirs in answers.values()) > 220 * len(answers) // len(
        vectors.CASES
    )
