"""A row over many cases: its numbers are those of the whole period."""

from __future__ import annotations

from affiant.attestation.verdict.verdict import Check, State, Tier
from affiant.attestation.verifier.period.log.tally import Tally


def row(code: str, *details: str, state: State = State.HELD) -> Check:
    tally = Tally(code, "L4")
    for number, detail in enumerate(details):
        tally.add(Check(code, "L4", state, Tier.AFFIRMING, detail), case=str(number))
    return tally.to_check(required=True, nothing="")


def test_records_of_all_sessions_are_counted() -> None:
    text = "records rest on a result"
    assert row("peer.ear", f"31 {text}", f"1000 {text}", f"2000 {text}").detail == f"3 of 3: 3031 {text}"
    assert row("session.start", "1 sessions, each with one start").detail.startswith("1 sessions")


def test_what_cases_may_share_is_not_added_up() -> None:
    assert row("key.evidence", "2 keysets", "2 keysets").detail == "2 of 2: 2 keysets"


def test_a_refusal_names_its_own_numbers() -> None:
    assert row("peer.ear", "3 others", "4 others", state=State.REFUSED).detail == "2 of 2: 3 others"
