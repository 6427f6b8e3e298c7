"""Narrowed sessions: both verifiers read the same epochs, as single bundles and as periods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.attestation.narrowed_story import NarrowedStory
from tests.attestation.story import NOW, trust_bytes
from tests.attestation.verifier_js.as_periods import as_period, period_pinning_its_log, python_says_of_period
from tests.attestation.verifier_js.conftest import Question, Verdicts
from tests.attestation.verifier_js.recorded import asked_of, recorded
from tests.attestation.verifier_js.test_agreement import APPRAISED, as_json, disagreements, pinning_its_log

Ask = Callable[[Sequence[Question]], Verdicts]
AS_PERIODS = ("EVIDENCE", "POLICY", "PEERS", "CUT")


@pytest.mark.slow
def test_every_narrowed_bundle_of_the_verifiers_own_tests_gets_the_same_rows(judge_all: Ask) -> None:
    """The published vectors, which are asked always, hold one of each kind."""
    module = asked_of("test_narrowed")
    cases = recorded(module, judging=module, asking=pinning_its_log)
    assert len(cases) > 60
    refused = set()
    for case, theirs in zip(cases, judge_all([case.question for case in cases]), strict=True):
        ours = as_json(case.verdict)
        assert not disagreements(ours, dict(theirs)), case.name
        assert _refused(ours) == _refused(dict(theirs)), case.name
        assert _said(ours) == _said(dict(theirs)), case.name
        refused |= _refused(ours)
    assert refused >= {("key.evidence", "key.unbound"), ("pol.bound", "narrowing.order")}
    assert refused >= {("tee.appraisal", "appraisal.rtmr3"), ("peer.ear", "peer.ear_mismatch")}


def _refused(verdict: dict[str, object]) -> set[tuple[str, str]]:
    return {(row["code"], row["reason"]) for row in verdict["checks"] if row["state"] == "refused"}


def _said(verdict: dict[str, object]) -> dict[str, str]:
    """What the findings that tell of narrowings say, where both can make the check."""
    told = ("key.evidence", "pol.bound", "pol.accepted")
    return {
        row["code"]: row["detail"]
        for row in verdict["checks"]
        if row["code"] in told and row["state"] == "held"
    }


def test_a_period_judges_narrowed_sessions_as_single_bundles_do(judge_all: Ask, tmp_path: Path) -> None:
    module = asked_of("test_narrowed")
    bundles = {"valid": NarrowedStory().bytes(), "cut off": module.CutOff().bytes()}
    for table in AS_PERIODS:  # of each table some
        for name, made in list(getattr(module, table).items())[::7]:
            bundles[name] = made() if callable(made) else made[0]()
    questions = {}
    for number, (name, data) in enumerate(bundles.items()):
        (tmp_path / str(number)).mkdir()
        archive = as_period(data, tmp_path / str(number))
        assert archive is not None
        question = Question(archive, trust_bytes(), NOW, period=True)
        questions[name] = period_pinning_its_log(question, tmp_path)
    for (name, question), theirs in zip(questions.items(), judge_all(list(questions.values())), strict=True):
        ours = python_says_of_period(question, tmp_path)
        single = asked_of("test_verify_bundle").judge(bundles[name])
        refused = {(check.code, check.reason) for check in single.checks if check.reason is not None}
        assert _refused(ours) == refused, name
        assert _refused(dict(theirs)) == refused, name
        for mine, other in zip(ours["checks"], theirs["checks"], strict=True):
            same = (mine["state"], mine["tier"]) == (other["state"], other["tier"])
            assert same or mine["code"] in APPRAISED, (name, mine, other)
