"""The table of a session's life: forwards only, a failure has a code, and each step is one line on the disk."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.sandbox.supervisor.launch.lifecycle import (
    STATES,
    TRANSITIONS,
    Event,
    Lifecycle,
    State,
    note_killed,
    read_steps,
)

ROOT = Path(__file__).resolve().parents[4]
PATH = [
    Event.TAKEN,
    Event.CHECKED,
    Event.APPRAISED,
    Event.ACTIVATED,
    Event.READY,
    Event.ENDING,
    Event.CLOSED,
]
ENDS = {State.TERMINATED, State.FAILED, State.LOST}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(state: State) -> Lifecycle:
    lifecycle = Lifecycle()
    lifecycle.state = state
    return lifecycle


def lived(folder: Path, *events: Event) -> Lifecycle:
    """A session that took these steps, recorded in ``folder``."""
    lifecycle = Lifecycle()
    lifecycle.record_in(folder, lambda: NOON)
    for event in events:
        lifecycle.take(event, code="x.y" if event is Event.REJECTED else None)
    lifecycle.close()
    return lifecycle


def states(folder: Path) -> list[State]:
    return [step.state for step in read_steps(folder)]


def test_a_session_goes_its_way() -> None:
    lifecycle = Lifecycle()
    for event in PATH:
        lifecycle.take(event)
    assert lifecycle.state is State.TERMINATED


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)))
def test_only_the_tables_steps_can_be_taken(state: State, event: Event) -> None:
    code = "x.y" if event is Event.REJECTED else None
    if event in TRANSITIONS[state]:
        lifecycle = at(state)
        lifecycle.take(event, code=code)
        assert lifecycle.state is TRANSITIONS[state][event].state
    else:
        with raises_code("session.transition"):
            at(state).take(event, code=code)


def test_no_step_leads_back_and_every_end_is_one() -> None:
    order = [State.PENDING]
    for event in PATH:
        order.append(TRANSITIONS[order[-1]][event].state)
    assert set(order) | ENDS == set(State) == TRANSITIONS.keys()
    for before, targets in TRANSITIONS.items():
        assert bool(targets) is (before not in ENDS)
        onward = {target.state for target in targets.values()} - ENDS
        assert all(order.index(state) == order.index(before) + 1 for state in onward)


def test_from_every_state_with_a_step_that_is_no_end_a_kill_leads_to_lost() -> None:
    """A session in state ``pending`` has no line yet to which ``killed`` could be added."""
    taken = set(State) - ENDS - {State.PENDING}
    assert {s for s, targets in TRANSITIONS.items() if Event.KILLED in targets} == taken


def test_a_failure_has_a_code_and_nothing_else_has() -> None:
    with raises_code("session.transition"):
        at(State.STOPPING).take(Event.REJECTED)
    with raises_code("session.transition"):
        at(State.RUNNING).take(Event.ENDING, code="x.y")


def test_a_required_state_is_required() -> None:
    at(State.RUNNING).require(State.RUNNING)
    with raises_code("session.transition"):
        at(State.STOPPING).require(State.RUNNING)


def test_each_step_is_one_line_whatever_the_end(tmp_path: Path) -> None:
    for end in (Event.ABANDONED, Event.REJECTED):
        folder = tmp_path / end.value
        folder.mkdir()
        lived(folder, Event.TAKEN, Event.CHECKED, end)
        steps = read_steps(folder)
        assert [step.event for step in steps] == [Event.TAKEN, Event.CHECKED, end]
        assert steps[-1].state is TRANSITIONS[State.ATTESTING][end].state
        assert steps[-1].code == ("x.y" if end is Event.REJECTED else None)
        assert {step.at for step in steps} == {int(NOON.timestamp() * 1000)}


@pytest.mark.parametrize("taken", range(1, len(PATH) + 1))
@pytest.mark.parametrize("torn", [b"", b'{"at":1,"ev'])
def test_a_kill_after_any_step_is_added_once_and_never_after_an_end(
    tmp_path: Path, taken: int, torn: bytes
) -> None:
    lived(tmp_path, *PATH[:taken])
    with open(tmp_path / STATES, "ab") as file:
        file.write(torn)
    for _ in range(2):
        note_killed(tmp_path, at=NOON)
    steps = read_steps(tmp_path)
    if taken == len(PATH):
        assert steps[-1].state is State.TERMINATED
    else:
        assert [step.event for step in steps] == [*PATH[:taken], Event.KILLED]
        assert (tmp_path / STATES).read_bytes().count(b"\n") == len(steps)


@pytest.mark.parametrize(
    "line",
    [
        b'{"at":2,"event":"closed","state":"terminated"}',
        b'{"at":2,"event":"checked","state":"running"}',
        b'{"at":"2","event":"checked","state":"attesting"}',
        b'{"at":2,"event":"checked","state":"attesting","code":"x.y"}',
        b'{"at":2,"event":"rejected","state":"failed"}',
        b'{"at":2,"event":"checked","state":"attesting","more":1}',
        b'{"at":2,"at":3,"event":"checked","state":"attesting"}',
        b"[" * 4000,
        b"\xff",
    ],
)
def test_what_the_table_does_not_allow_is_no_step_and_nor_is_what_follows(
    tmp_path: Path, line: bytes
) -> None:
    lived(tmp_path, Event.TAKEN)
    with open(tmp_path / STATES, "ab") as file:
        file.write(line + b'\n{"at":2,"event":"checked","state":"attesting"}\n')
    assert states(tmp_path) == [State.PROVISIONING]


@pytest.mark.parametrize("kind", ["link", "second name", "pipe", "folder"])
def test_what_is_no_plain_file_has_no_steps_and_is_not_written_to(tmp_path: Path, kind: str) -> None:
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "session"
    for each in (elsewhere, folder):
        each.mkdir()
    lived(elsewhere, Event.TAKEN)
    before = (elsewhere / STATES).read_bytes()
    place = folder / STATES
    match kind:
        case "link":
            place.symlink_to(elsewhere / STATES)
        case "second name":
            place.hardlink_to(elsewhere / STATES)
        case "pipe":
            os.mkfifo(place)
        case "folder":
            place.mkdir()
    assert read_steps(folder) == ()
    note_killed(folder, at=NOON)
    assert (elsewhere / STATES).read_bytes() == before


def test_a_session_does_not_go_on_in_the_steps_of_another(tmp_path: Path) -> None:
    lived(tmp_path, Event.TAKEN)
    with raises_code("session.transition"):
        Lifecycle().record_in(tmp_path, lambda: NOON)
    with raises_code("session.transition"):
        Lifecycle().record_in(tmp_path / "missing", lambda: NOON)


def test_the_page_shows_the_table() -> None:
    script = ROOT / "scripts" / "session_life.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    page = (ROOT / "docs" / "session-life.md").read_text(encoding="utf-8")
    assert all(f"\n| {event.value} | " in page for event in Event)
