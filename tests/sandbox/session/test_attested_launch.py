"""What is left of a session that was admitted and never opened: its receipts and a note, and not a word too few."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from affiant.sandbox.isolation.plan.leftover_record import ProcessName
from affiant.sandbox.processes.home import Home, open_home
from affiant.sandbox.processes.launch_records import Launch, read_launches
from affiant.sandbox.processes.session_note import Asked, SessionState, read_note
from affiant.sandbox.session import attested_launch
from affiant.sandbox.session_state.session_folder import RECORDS, SEALED

ID = "A" * 22


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = open_home(tmp_path / "home")
    made.session(ID).mkdir(parents=True)
    (made.session(ID) / RECORDS).write_bytes(b"")
    return made


def settled(
    home: Home, monkeypatch: pytest.MonkeyPatch, gather: Callable[..., object], *, interrupted: bool
) -> tuple[list[str], int]:
    """The steps that were said, and how often the loop ran something else meanwhile."""
    steps: list[str] = []
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.01)

    async def settle() -> None:
        turning = asyncio.ensure_future(turn())
        launch = Launch(ID, ProcessName(1, "0"))
        leave = attested_launch._settling(home, launch, lambda step, _: steps.append(step))
        await leave(asyncio.CancelledError if interrupted else RuntimeError)
        turning.cancel()

    monkeypatch.setattr(attested_launch, "gather_now", gather)
    monkeypatch.setattr(attested_launch, "_GATHERED_WITHIN_S", 0.1)
    asyncio.run(asyncio.wait_for(settle(), 10))
    return steps, turns


def state(home: Home) -> SessionState:
    note = read_note(home.session(ID))
    assert note is not None
    return note.state


@pytest.mark.parametrize("interrupted", [True, False])
def test_a_session_without_a_signed_close_is_said_to_be_lost(
    home: Home, monkeypatch: pytest.MonkeyPatch, interrupted: bool
) -> None:
    assert settled(home, monkeypatch, lambda *_: None, interrupted=interrupted)[0] == ["lost"]
    assert state(home) is SessionState.LOST
    assert settled(home, monkeypatch, lambda *_: None, interrupted=interrupted)[0] == [], "once"


@pytest.mark.parametrize(("in_order", "said"), [(True, ["bundled"]), (False, ["bundled", "lost"])])
def test_receipts_are_named_whether_or_not_the_session_was_closed(
    home: Home, monkeypatch: pytest.MonkeyPatch, in_order: bool, said: list[str]
) -> None:
    gathered = SimpleNamespace(in_order=in_order, path=home.session(ID) / "b")
    assert settled(home, monkeypatch, lambda *_: gathered, interrupted=True)[0] == said
    assert state(home) is (SessionState.CLOSED if in_order else SessionState.LOST)


def test_an_interrupted_start_does_not_wait_for_a_gateway_that_is_slow(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    try:
        steps, turns = settled(home, monkeypatch, lambda *_: over.wait(20), interrupted=True)
        assert not over.is_set()
    finally:
        over.set()
    assert steps == ["lost"]
    assert turns > 1, "the loop was not blocked meanwhile"


def test_what_the_supervisor_left_is_gathered_however_long_that_takes(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home.session(ID) / SEALED).write_bytes(b"")
    gathered = SimpleNamespace(in_order=True, path=home.session(ID) / "b")
    slow = lambda *_: (time.sleep(0.3), gathered)[1]  # noqa: E731 - one line
    assert settled(home, monkeypatch, slow, interrupted=True)[0] == ["bundled"]


def settled_files(home: Home, launch: Launch) -> list[str]:
    said: list[str] = []
    attested_launch._settle_files(home, launch, lambda _, detail: said.append(str(detail["text"])))
    launch.remove(home)
    return said


def ran(home: Home, *, taken: bool = False) -> Launch:
    """A session that ran a command, and whose output was asked for."""
    (home.session(ID) / "files" / "0").mkdir(parents=True)
    (home.session(ID) / "files" / "0" / "made").touch()
    launcher = ProcessName.of(os.getpid())
    assert launcher is not None
    asked = Asked(agent="a", profile="p", started=1, output="/out")
    launch = Launch(ID, launcher, asked=asked, ran=True, taken=taken)
    launch.write(home)
    return launch


def test_files_whose_copying_was_interrupted_are_kept_and_it_is_said(home: Home) -> None:
    (said,) = settled_files(home, ran(home))
    assert f"affiant session recover {ID} --output DIR" in said
    assert (home.session(ID) / "files.kept" / "0" / "made").exists()
    assert read_launches(home) == ()


def test_files_that_were_taken_are_removed(home: Home) -> None:
    assert settled_files(home, ran(home, taken=True)) == []
    assert {path.name for path in home.session(ID).iterdir()} == {RECORDS}


def test_files_that_cannot_be_kept_stay_and_so_does_the_record_for_the_next_command(home: Home) -> None:
    (home.session(ID) / "files.kept" / "in-the-way").mkdir(parents=True)
    (said,) = settled_files(home, ran(home))
    assert "cannot be kept (Directory not empty), and were not removed" in said
    assert (home.session(ID) / "files" / "0" / "made").exists()
    assert [launch.alive for launch in read_launches(home)] == [False]
