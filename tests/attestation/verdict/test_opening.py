"""A verdict's opening: one paragraph of what happened, and what to do about everything that is not proven."""

from __future__ import annotations

from html import unescape

from tests.attestation.story import Story
from tests.attestation.vectors.test_vectors import CASES, judged
from tests.attestation.verifier.test_verify_bundle import judge

from affiant.attestation.verdict.codes import CODES
from affiant.attestation.verdict.opening import open_points, sentences
from affiant.attestation.verdict.summary import Answers, Counting, Summary, Use
from affiant.attestation.verdict.verdict import Check, Population, State, Tier
from affiant.attestation.verifier.report.html import render_html
from affiant.attestation.verifier.report.text import render


def told(uses: dict[str, dict[str, int]], **population: int) -> str:
    counts = {"started": 1, "closed": 1} | population
    return " ".join(sentences(Summary(0, 60, uses), Population(**counts)))


def test_it_says_who_ran_what_when_and_how_it_ended() -> None:
    uses = {
        "user": {"ada": 1},
        "agent": {"coder": 1},
        "profile": {"sha384:" + "ab" * 48: 1},
        "model": {"small": 2, "big": 7},
        "host": {"api.example": 1},
        "refused": {"egress_host evil.example": 3},
        "end": {"done": 1},
    }
    assert told(uses) == (
        "User 'ada' ran agent 'coder' under profile 'sha384:abababababab...', from 1970-01-01T00:00:00Z to "
        "1970-01-01T00:01:00Z by the signers' clocks. Used: models 'big' (7), 'small' (2); host 'api.example' (1). "
        "Refused: 'egress_host evil.example' (3). The session ended in order."
    )


def test_an_open_session_says_that_records_may_be_missing() -> None:
    assert "1 open. An open session has no close" in told({}, closed=0, open=1)


def test_a_lost_session_is_not_said_to_have_ended_in_order_whatever_others_did() -> None:
    text = told({"end": {"done": 1}}, closed=0, lost=1, foreign=1)
    assert "in order" not in text
    assert text.endswith("The session was lost: its supervisor, its gateway or its machine stopped.")


def test_a_neighbours_records_are_no_part_of_the_story() -> None:
    """The gateway died with a session; another, of which only the gateway's records are here, had ended."""
    verdict = judged(CASES["valid/lost-beside-a-neighbour"])
    assert (verdict.population.lost, verdict.population.foreign) == (1, 1)
    assert verdict.summary.uses["model"] == {"echo": 1}
    assert "end" not in verdict.summary.uses
    text = " ".join(render(verdict).split())
    assert "The session was lost" in text and "ended in order" not in text


def test_another_model_that_answered_is_a_warning_in_the_first_paragraph() -> None:
    verdict = judged(CASES["valid/model-answered-other"])
    sentence = (
        "Warning: 2 of 3 answers name another model than was asked for: asked for 'echo', answered by 'Echo' (1); "
        "asked for 'echo', answered by 'echo-latest' (1)."
    )
    text = " ".join(render(verdict).split())
    assert text.index("ran agent") < text.index(sentence) < text.index("Not proven")
    assert sentence in unescape(render_html(verdict))
    assert "Warning:" not in render(judged(CASES["valid/model-answered"]))


def test_pairs_of_models_are_escaped_bounded_and_counted() -> None:
    answers = Answers(named=5000)
    for number in range(5000):
        answers.other("asked\x1b[2J", f"answered {number:04} " + "x" * 300)
    (warning,) = (each for each in sentences(Summary(0, 60), Population(), answers) if "Warning" in each)
    assert warning.isprintable() and "\\u001b" in warning and len(warning) < 1000
    assert warning.endswith("; others (4997).")
    assert len(answers.pairs) == 3


def test_several_sessions_are_counted() -> None:
    text = told({"agent": {"a": 2, "b": 1}}, started=3, closed=2, lost=1)
    assert text.startswith("3 sessions from") and "agents 'a', 'b'" in text and "2 closed, 1 lost" in text


def test_no_record_is_no_story() -> None:
    assert list(sentences(Summary(), Population())) == [
        "No record is authentic, so nothing is known of what happened."
    ]


def test_names_of_a_bundle_are_escaped_bounded_and_counted() -> None:
    counting = Counting()
    for number in range(1000):
        counting.take(number, (Use("tool", f"t{number}\x1b[2J\u202e"), Use("end", "x" * 300)))
    summary = counting.summary()
    assert len(summary.uses["tool"]) == 100 and summary.more == {"tool": 900}
    text = " ".join(sentences(summary, Population(started=1, closed=1)))
    assert text.isprintable() and "\\u001b" in text and len(text) < 1000


def test_every_check_says_what_it_proves_and_what_to_do() -> None:
    for code in CODES:
        (point,) = open_points([Check(code, "L0", State.NOT_MADE, Tier.NONE, "detail")])
        assert point.means and point.means != "detail" and point.step.endswith((".", ")"))


def test_refused_checks_come_first_and_held_ones_are_left_out() -> None:
    checks = [
        Check("a.held", "L0", State.HELD, Tier.AFFIRMING, ""),
        Check("wit.quorum", "L0", State.HELD, Tier.WARNING, ""),
        Check("chain.gaps", "L0", State.NOT_MADE, Tier.NONE, ""),
        Check("sig.receipts", "L0", State.REFUSED, Tier.CONTRAINDICATED, ""),
        Check("body.request", "L5", State.NOT_ASKED, None, ""),
    ]
    assert [point.check.code for point in open_points(checks)] == ["sig.receipts", "chain.gaps", "wit.quorum"]


def test_a_real_session_is_told_in_the_report_before_its_rows() -> None:
    verdict = judge(Story().bytes())
    text = " ".join(render(verdict).split())
    assert (
        "ran agent" in text
        and "model 'affiant-dev-echo' (1)" in text
        and "The session ended in order." in text
    )
    assert (
        text.index("ran agent")
        < text.index("Not proven, and what to do:")
        < text.index("receipts in 2 chains")
    )
    assert "A simulated platform shows the process and proves nothing about the machine. [tee.class]" in text
    assert verdict.to_json()["summary"] == verdict.summary.to_json()
