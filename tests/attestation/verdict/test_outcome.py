"""Outcome, platform class and what a reader demands are facts of their own, and decide the exit code together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from affiant.attestation.verdict.outcome import NO_DEMAND, Demand, Outcome, Platform
from affiant.attestation.verdict.verdict import Check, LevelState, Population, State, Tier, Verdict

LEVELS = ("L0", "L1", "L2", "L3", "L4")
CLOSED = Population(started=1, closed=1)
MISSING = Check("bundle.objects", "L4", State.NOT_MADE, Tier.NONE, "")
REFUSED = Check("iso.floor", "L4", State.REFUSED, Tier.CONTRAINDICATED, "")
WARNED = Check("iso.floor", "L4", State.HELD, Tier.WARNING, "")
UNKNOWN = Check("wit.quorum", "L3", State.NOT_MADE, Tier.NONE, "")


def verdict(
    *more: Check,
    cls: str | None = "hardware",
    sessions: Population = CLOSED,
    demand: Demand = NO_DEMAND,
) -> Verdict:
    held = [Check(f"held.{level}", level, State.HELD, Tier.AFFIRMING, "") for level in LEVELS]
    close = Check("session.close", "L1", State.HELD, Tier.AFFIRMING, "")
    rows = [*held, close, *more]
    return Verdict("b", "at", "t", "build", cls, rows, sessions, demand=demand)


@pytest.mark.parametrize(
    ("rows", "outcome", "hardware", "simulated"),
    [
        ((), Outcome.HOLDS, 0, 40),
        ((WARNED,), Outcome.IN_PART, 10, 40),
        ((UNKNOWN,), Outcome.IN_PART, 30, 40),
        ((MISSING,), Outcome.UNJUDGED, 30, 30),
        ((MISSING, WARNED), Outcome.UNJUDGED, 30, 30),
        ((REFUSED,), Outcome.REJECTED, 20, 20),
        ((REFUSED, MISSING), Outcome.REJECTED, 20, 20),
    ],
)
def test_the_outcome_does_not_depend_on_the_platform(
    rows: tuple[Check, ...], outcome: Outcome, hardware: int, simulated: int
) -> None:
    genuine, played = verdict(*rows), verdict(*rows, cls="simulated")
    assert genuine.outcome is played.outcome is outcome
    assert (genuine.exit_code, played.exit_code) == (hardware, simulated)
    assert played.platform is Platform.SIMULATED


def test_hardware_is_claimed_until_it_is_appraised() -> None:
    assert verdict().platform is Platform.HARDWARE
    assert verdict(UNKNOWN).platform is Platform.CLAIMED
    assert verdict(cls=None).platform is Platform.NONE


def test_both_facts_are_members_of_the_document() -> None:
    document = verdict(WARNED, cls="simulated").to_json()
    assert (document["outcome"], document["platform_class"]) == ("holds in part", "simulated")


@pytest.mark.parametrize(
    ("sessions", "state"),
    [
        (CLOSED, LevelState.HELD),
        (Population(started=2, closed=1, lost=1), LevelState.LOST),
        (Population(started=3, closed=1, lost=1, open=1), LevelState.OPEN),
    ],
)
def test_a_session_without_an_end_is_a_state_of_its_own_at_l1(
    sessions: Population, state: LevelState
) -> None:
    found = verdict(sessions=sessions)
    assert found.level_state("L1") is state
    assert found.level == "L4"
    assert found.to_json()["levels"]["L1"] == str(state)
    assert ("without gap" in found.level_meaning("L1")) == (state is LevelState.HELD)


def test_l1_that_does_not_hold_is_neither_open_nor_lost() -> None:
    broken = Check("session.order", "L1", State.REFUSED, Tier.CONTRAINDICATED, "")
    assert verdict(broken, sessions=Population(started=1, open=1)).level_state("L1") is LevelState.REFUSED


def test_the_line_of_l4_names_the_platform() -> None:
    assert "SIMULATED" in verdict(cls="simulated").level_meaning("L4")
    assert verdict().level_meaning("L4").endswith("platform: hardware")
    assert verdict(UNKNOWN).level_meaning("L4").endswith("platform: hardware (claimed)")


@pytest.mark.parametrize(
    ("text", "demand"),
    [
        ("L3", Demand("L3")),
        ("complete", Demand(complete=True)),
        ("L3,complete", Demand("L3", complete=True)),
        ("complete,L0", Demand("L0", complete=True)),
    ],
)
def test_a_demand_is_a_level_and_complete_sessions(text: str, demand: Demand) -> None:
    assert Demand.parse(text) == demand


@pytest.mark.parametrize(
    "text", ["", "L6", "l3", "L3,L4", "L3,", "complete,complete", "L3 complete", "L3,whole"]
)
def test_another_demand_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        Demand.parse(text)


@pytest.mark.parametrize("cls", ["hardware", "simulated"])
def test_below_what_is_demanded_the_exit_code_is_30_on_every_platform(cls: str) -> None:
    reached = verdict(cls=cls, demand=Demand("L4", complete=True))
    assert (reached.unmet, reached.exit_code) == ({}, 0 if cls == "hardware" else 40)
    low = verdict(cls=cls, demand=Demand("L5"))
    assert (list(low.unmet), low.exit_code, low.tier) == (["level"], 30, Tier.NONE)
    for sessions in (Population(started=1, open=1), Population(started=1, lost=1), Population()):
        cut = verdict(cls=cls, sessions=sessions, demand=Demand(complete=True))
        assert (list(cut.unmet), cut.exit_code) == (["complete"], 30)
        assert verdict(cls=cls, sessions=sessions).unmet == {}
    refused = verdict(REFUSED, cls=cls, demand=Demand("L5", complete=True))
    assert (list(refused.unmet), refused.exit_code) == (["level"], 20)


@pytest.mark.parametrize(
    ("sessions", "said"),
    [
        (CLOSED, "1 of 1 closed"),
        (Population(started=1, closed=1, foreign=3), "1 of 1 closed, 3 not judged"),
        (Population(started=3, closed=1, lost=1), "1 of 3 lost, 1 of 3 not judged whole"),
        (Population(foreign=2), "2 not judged"),
        (Population(), "none judged"),
    ],
)
def test_how_sessions_ended_says_how_many_were_not_judged(sessions: Population, said: str) -> None:
    assert sessions.ends == said


def test_a_whole_period_is_not_complete_while_a_session_of_it_is_not_judged() -> None:
    """A session's bundle holds its neighbours' records, and nobody asks for those sessions."""
    beside = Population(started=1, closed=1, foreign=1)
    bundle = verdict(sessions=beside, demand=Demand(complete=True))
    period = replace(bundle, of_all_sessions=True)
    assert (bundle.unmet, list(period.unmet)) == ({}, ["complete"])
    assert period.unmet["complete"] == "sessions are not complete: 1 of 1 closed, 1 not judged"
    assert period.exit_code == 30
    assert replace(period, population=CLOSED).unmet == {}


def test_sessions_whose_close_could_not_be_judged_are_not_complete() -> None:
    demand = Demand(complete=True)
    close = Check("session.close", "L1", State.NOT_MADE, Tier.NONE, "")
    found = Verdict("b", "at", "t", "build", "simulated", [close], CLOSED, demand=demand)
    assert list(found.unmet) == ["complete"]
