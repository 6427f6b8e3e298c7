"""Removing an ended session never removes the only copy of what its agent made."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.sandbox.detached.removal import remove_ended
from affiant.sandbox.isolation.plan.leftover_record import ProcessName
from affiant.sandbox.processes.home import Home, open_home
from affiant.sandbox.processes.launch_records import Launch, read_launches
from affiant.sandbox.processes.session_note import Asked, SessionNote, SessionState, write_note
from affiant.sandbox.session_state.session_folder import BUNDLE, KEPT, RECORDS
from affiant.sandbox.session_state.session_listing import SessionEntry, find_session

SESSION = "A" * 22
ASKED = Asked(agent="a", profile="p", started=1, output="/out", source="files/0", name="build")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A state folder with one session that has a bundle, and nothing else yet."""
    made = open_home(tmp_path / "home")
    made.session(SESSION).mkdir()
    (made.session(SESSION) / BUNDLE).write_bytes(b"receipts")
    return made


def copied(entry: SessionEntry) -> None:
    """The receipts are elsewhere too."""


def work(home: Home) -> None:
    folder = home.session(SESSION) / "files" / "0"
    folder.mkdir(parents=True)
    (folder / "work.txt").write_text("the only copy")


def test_what_a_killed_launcher_left_is_tidied_up_first(home: Home) -> None:
    work(home)
    (home.session(SESSION) / RECORDS).write_bytes(b"")
    with subprocess.Popen(["sleep", "60"]) as process:
        launcher = ProcessName.of(process.pid)
        process.kill()
    assert launcher is not None
    Launch(SESSION, launcher, asked=ASKED, ran=True).write(home)
    with raises_code("session.only_copy"):
        remove_ended(home, SESSION, copied)
    assert read_launches(home) == ()
    entry = find_session(home, "build")
    assert entry.noted
    assert (home.session(SESSION) / KEPT / "0" / "work.txt").read_text() == "the only copy"


@pytest.mark.parametrize("left", ["no note", "a record of a launch"])
def test_what_may_be_the_only_copy_stays(home: Home, left: str) -> None:
    if left != "no note":
        note = SessionNote(session=SESSION, state=SessionState.CLOSED, asked=ASKED, ended=2)
        write_note(home, note)
    if left == "a record of a launch":  # one of a launcher that cannot be read is not ended by this command
        (home.launches / f"{SESSION}.json").write_bytes(b"{}")
    with raises_code("session.only_copy"):
        remove_ended(home, SESSION, copied)
    assert (home.session(SESSION) / BUNDLE).exists()


def test_a_session_without_any_of_them_goes(home: Home) -> None:
    write_note(home, SessionNote(session=SESSION, state=SessionState.CLOSED, asked=ASKED, ended=2))
    assert remove_ended(home, "build", copied) == (SESSION, 0)
    assert not home.session(SESSION).exists()
