"""A session is found by its id, or by its name among those of one owner."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.raising import raises_code
from tests.sandbox.processes.test_launch_records import own_name

from affiant.sandbox.detached.names import running_session
from affiant.sandbox.processes.home import Home, open_home
from affiant.sandbox.processes.launch_records import Launch
from affiant.sandbox.processes.session_note import Asked, SessionNote, SessionState, write_note
from affiant.sandbox.session_state.session_listing import find_session

OWN, OTHERS = "A" * 22, "B" * 22


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


def made(home: Home, session: str, *, runs: bool, started: int, owner: str | None) -> None:
    asked = Asked(agent="a", profile="p", started=started, name="build", owner=owner)
    if runs:
        Launch(session, own_name(), asked=asked).write(home)
    else:
        home.session(session).mkdir()
        write_note(home, SessionNote(session=session, state=SessionState.CLOSED, asked=asked, ended=9))


@pytest.mark.parametrize("runs", [True, False])
def test_a_name_never_means_a_session_of_another_owner(home: Home, runs: bool) -> None:
    made(home, OWN, runs=runs, started=1, owner=None)
    made(home, OTHERS, runs=True, started=5, owner="caller")
    assert find_session(home, "build").note.session == OWN
    assert find_session(home, OTHERS).note.session == OTHERS
    if runs:
        assert running_session(home, "build") == OWN


def test_a_name_that_only_another_owner_gave_is_unknown(home: Home) -> None:
    made(home, OTHERS, runs=True, started=5, owner="caller")
    with raises_code("session.not_here"):
        find_session(home, "build")
    with raises_code("session.not_open"):
        running_session(home, "build")


def test_of_several_sessions_of_a_name_it_is_the_one_that_runs(home: Home) -> None:
    made(home, OTHERS, runs=False, started=5, owner=None)
    made(home, OWN, runs=True, started=1, owner=None)
    assert find_session(home, "build").note.session == OWN
