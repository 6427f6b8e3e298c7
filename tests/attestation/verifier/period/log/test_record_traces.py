"""A period is held against other bundles as a single one is: a contradiction is refused, nothing is counted twice."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from tests.attestation.period_builder import build, rezipped, sorted_records
from tests.attestation.story import NOW, Story, trust
from tests.attestation.verifier.test_verify_bundle import at

from affiant.attestation.records.receipt import Issued
from affiant.attestation.verdict.verdict import State
from affiant.attestation.verifier.case.question import Question
from affiant.attestation.verifier.combined import CombinedVerdict
from affiant.attestation.verifier.period.verify_period import examine_period
from affiant.attestation.verifier.several import judge_several
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.trace import NOTHING, left_by
from affiant.attestation.verifier.verify_bundle import Examined, examine_bundle

LATER = NOW + timedelta(hours=1)
QUESTION = Question(trust=trust(), verifiers=STANDARD_VERIFIERS, at=LATER, build="")


def history(**changes: object) -> Story:
    """Always the same keys and ids; ``changes`` make it another history of the same gateway."""
    return Story(random_bytes=random.Random(7).randbytes, **changes).tell()


def single(data: bytes) -> Callable[[], Examined]:
    return partial(examine_bundle, data, QUESTION)


def period(path: Path) -> Callable[[], Examined]:
    return partial(examine_period, path, replace(QUESTION, held_against=True))


def judge(*bundles: Callable[[], Examined], **more: object) -> CombinedVerdict:
    named = [(f"bundle {n}", examine) for n, examine in enumerate(bundles, start=1)]
    return judge_several(named, trust(), at=LATER, build="", **more)


def refused(verdict: CombinedVerdict) -> dict[str, str | None]:
    return {check.code: check.reason for check in verdict.across if check.state is State.REFUSED}


def states(verdict: CombinedVerdict) -> set[State]:
    return {check.state for check in verdict.across}


def test_a_period_leaves_the_trace_of_a_single_bundle(tmp_path: Path) -> None:
    story = history()
    of_period = left_by(period(build(tmp_path, story))())
    of_single = left_by(single(story.bytes())())

    def unplaced(trace: object) -> set[object]:
        return {record._replace(place=None) for record in trace.records}

    assert unplaced(of_period) == unplaced(of_single)
    assert set(of_period.keysets) == set(of_single.keysets)
    assert of_period.judged == of_single.judged
    assert of_period.authentic and of_period.logged and not of_period.witnessed
    places = [record.place for record in of_period.records]
    assert places == [(story.config.origin, index) for index in range(len(places))]


def test_a_period_and_a_session_of_it_agree_and_are_counted_once(tmp_path: Path) -> None:
    story = history()
    path = build(tmp_path, story)
    whole = period(path)().verdict.population
    both = judge(period(path), period(path))
    assert states(both) == {State.HELD}
    assert both.population == whole
    log = sorted_records(story)
    other = build(tmp_path / "earlier", story, records=log[:-1])
    assert states(judge(period(other), period(path))) == {State.HELD}
    assert judge(period(other), period(path)).population == whole


def test_two_histories_under_one_key_are_refused_in_any_form(tmp_path: Path) -> None:
    one, other = history(), history(alter=at("inference", res={"st": 201, "end": "complete"}))
    paths = [build(tmp_path / name, each) for name, each in (("one", one), ("other", other))]
    verdict = judge(*map(period, paths))
    assert all(each.verdict.exit_code == 40 for each in verdict.judged)
    assert verdict.exit_code == 20
    expected = {
        "across.chains": "chain.fork",
        "across.ids": "chain.repeated_id",
        "across.sessions": "session.close",
        "across.places": "log.split_view",
        "across.roots": "log.split_view",
    }
    assert refused(verdict) == expected
    mixed = refused(judge(period(paths[0]), single(other.bytes())))
    assert expected.items() >= {code: mixed[code] for code in ("across.chains", "across.ids")}.items()


def test_a_period_whose_receipts_do_not_all_hold_can_hide_what_it_contradicts(tmp_path: Path) -> None:
    story = history()
    records = sorted_records(story)
    broken = [Issued(each.jws, (), {}) for each in records]
    broken[3] = Issued(records[3].jws[:-4] + "AAAA", (), {})
    path = build(tmp_path, story, records=broken, log=records)
    verdict = judge(period(path))
    assert states(verdict) == {State.NOT_MADE}
    assert len(list(left_by(period(path)()).records)) == len(records) - 1


def test_a_period_without_its_log_is_not_compared_by_the_log(tmp_path: Path) -> None:
    path = rezipped(build(tmp_path, history()), tmp_path / "x.zip", {"log/checkpoint": None})
    found = {check.code: check.state for check in judge(period(path)).across}
    assert {code for code, state in found.items() if state is State.NOT_MADE} == {
        "across.places",
        "across.roots",
    }


def test_beyond_the_bound_nothing_is_affirmed(tmp_path: Path) -> None:
    assert states(judge(period(build(tmp_path, history())), limit=10)) == {State.NOT_MADE}


def test_an_archive_that_cannot_be_read_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(b"PK\x03\x04")
    assert left_by(period(tmp_path / "x.zip")()) is NOTHING


def test_a_period_by_itself_keeps_no_trace(tmp_path: Path) -> None:
    path = build(tmp_path, history())
    assert examine_period(path, QUESTION).trace is NOTHING


@pytest.mark.filterwarnings("error")
def test_a_trace_that_nobody_reads_leaves_no_file_open(tmp_path: Path) -> None:
    examined = period(build(tmp_path, history()))()
    del examined
    gc.collect()
