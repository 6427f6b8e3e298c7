"""A row over many cases: its numbers are those of the whole period."""

from __future__ import annotations

from affiant.attestation.verdict.summary import Answers, Count, Counted
from affiant.attestation.verdict.verdict import Check, State, Tier
from affiant.attestation.verifier.period.log.tally import Tally

RESULTS = "records rest on a result"


def row(code: str, *found: str | Counted, state: State = State.HELD, warned: tuple[int, ...] = ()) -> Check:
    tally = Tally(code, "L4")
    for number, each in enumerate(found):
        detail, counted = (each, None) if isinstance(each, str) else (each.text, each)
        tier = Tier.WARNING if number in warned else Tier.AFFIRMING
        tally.add(Check(code, "L4", state, tier, detail, counted=counted), case=str(number))
    return tally.to_check(required=True, nothing="")


def test_records_of_all_sessions_are_counted() -> None:
    counts = [Count(number, RESULTS) for number in (31, 1000, 2000)]
    assert row("peer.ear", *counts).detail == f"3 of 3: 3031 {RESULTS}"
    assert row("session.start", Count(1, "sessions, each with one start")).detail.startswith("1 sessions")


def test_what_a_case_found_stays_its_own() -> None:
    counts = [Count(2, "quotes", {"gateway"}), Count(3, "quotes", {"session"})]
    row("tee.appraisal", *counts)
    assert counts == [Count(2, "quotes", {"gateway"}), Count(3, "quotes", {"session"})]


def test_what_cases_share_is_counted_once() -> None:
    counts = [
        Count(2, "quotes", {"gateway"}, said="; TCB ", names={name}) for name in ("UpToDate", "OutOfDate")
    ]
    assert row("tee.appraisal", *counts).detail == "2 of 2: 5 quotes; TCB OutOfDate, UpToDate"


def test_a_text_that_counts_nothing_stays_as_it_is() -> None:
    """One session was approved on a page, the others by keys."""
    approved = Count(3, "actions done by approval")
    page = "approved on a page that the operator serves (console)"
    assert row("apr.bound", approved, page, approved, warned=(1,)).detail == f"1 of 3: {page}"
    assert row("key.evidence", "2 keysets", "2 keysets").detail == "2 of 2: 2 keysets"


def test_answers_of_all_sessions_are_counted_and_their_pairs_shown() -> None:
    def answers(named: int, **others: int) -> Answers:
        found = Answers(named=named)
        for name, count in others.items():
            for _ in range(count):
                found.other("gpt-4o", name)
        return found

    sessions = answers(5), answers(2, tiny=1), answers(3, small=1, tiny=2)
    found = row("model.answered", *sessions, warned=(1, 2))
    assert found.detail == (
        "2 of 3: answers that name another model than was asked for: 4 of 10 "
        "(asked gpt-4o, answered small: 1; asked gpt-4o, answered tiny: 3)"
    )
    assert isinstance(found.counted, Answers) and found.counted.others == 4


def test_a_refusal_names_its_own_numbers() -> None:
    assert row("peer.ear", "3 others", "4 others", state=State.REFUSED).detail == "2 of 2: 3 others"
