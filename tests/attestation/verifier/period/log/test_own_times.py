"""Until when something existed is what the earliest of those says who cover all of it, and whose rows hold."""

from __future__ import annotations

from affiant.attestation.verdict.time_bounds import Ceilings
from affiant.attestation.verifier.case.statement_verifiers import Word
from affiant.attestation.verifier.checks.anchor_checks import TOKENS
from affiant.attestation.verifier.period.log.leaf_time_bounds import LeafTimeBounds, Witnessing
from affiant.attestation.verifier.period.log.own_times import OwnTimes
from affiant.attestation.verifier.period.log.stamps import Stamps

WITNESSED, ANCHORED = "time.bracket", TOKENS.code


def times() -> OwnTimes:
    """Checkpoints of 5 and 10 leaves were cosigned by 100 and 200; that of 5 was anchored by 90."""
    time_bounds = LeafTimeBounds(Witnessing(Ceilings({5: 100, 10: 200}), {}), 0)
    return OwnTimes(time_bounds, [Stamps(TOKENS, {5: Word(90, "an authority")}, 0)])


def test_the_latest_of_its_records_counts_and_the_earliest_word() -> None:
    found = times()
    found.take("early", 50, 2)
    found.take("early", 40, 4)
    found.take("late", 60, 3)
    found.take("late", 70, 7)
    assert found.end("early", held={WITNESSED}) == 100
    assert found.end("early", held={WITNESSED, ANCHORED}) == 90
    assert found.end("late", held={WITNESSED, ANCHORED}) == 200, "the anchor does not cover all of it"
    assert found.end("late", held={ANCHORED}) == 70
    assert found.earliest == 50


def test_where_no_row_holds_it_is_what_the_records_say() -> None:
    found = times()
    found.take("one", 50, 2)
    found.take("one", 40, 3)
    assert found.end("one", held=()) == 50
    assert found.end("another", held={WITNESSED}) is None


def test_a_record_without_a_leaf_is_covered_by_nobody() -> None:
    for order in ((2, None), (None, 2)):
        found = times()
        for index in order:
            found.take("one", 50, index)
        assert found.end("one", held={WITNESSED, ANCHORED}) == 50


def test_without_witnesses_and_anchors_there_is_the_signers_word() -> None:
    found = OwnTimes(None, [])
    assert found.earliest is None
    found.take("one", 50, 2)
    assert found.end("one", held={WITNESSED}) == 50
