"""Names of sessions: exact match alone, and none that could be taken for an id."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from affiant.errors import ConfigurationError, StateError
from affiant.sandbox.detached.names import asked_launch, require_name, running_session
from affiant.sandbox.isolation.plan.leftover_record import ProcessName
from affiant.sandbox.processes.home import Home, open_home
from affiant.sandbox.processes.launch_records import Launch
from affiant.sandbox.processes.session_note import Asked

IDS = ("A" * 22, "B" * 22, "C" * 22)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


def runs(home: Home, session: str, name: str | None, *, dead: bool = False, **asked: str) -> None:
    launcher = ProcessName.of(os.getpid())
    assert launcher is not None
    if dead:
        launcher = ProcessName(launcher.pid, launcher.started + 1)
    Launch(session, launcher, asked=Asked(agent="a", profile="p", started=1, name=name, **asked)).write(home)


def test_names_that_are_prefixes_of_each_other_are_told_apart(home: Home) -> None:
    for session, name in zip(IDS, ("build", "build-2", "b"), strict=True):
        runs(home, session, name)
    assert [running_session(home, name) for name in ("build", "build-2", "b")] == list(IDS)
    for other in ("buil", "build-", "build-22", "BUILD", "", "b*"):
        with pytest.raises(StateError) as refused:
            running_session(home, other)
        assert refused.value.code == "session.not_open"


def test_a_session_is_found_by_its_whole_id_too(home: Home) -> None:
    runs(home, IDS[0], "build")
    assert running_session(home, IDS[0]) == IDS[0]
    with pytest.raises(StateError):
        running_session(home, IDS[0][:-1])


def test_a_name_is_free_again_when_its_session_host_is_gone(home: Home) -> None:
    runs(home, IDS[0], "build", dead=True)
    assert asked_launch(home, "build", None) is None
    with pytest.raises(StateError):
        running_session(home, "build")


def test_a_session_without_a_name_has_none(home: Home) -> None:
    runs(home, IDS[0], None)
    assert asked_launch(home, "None", None) is None


@pytest.mark.parametrize("name", ["a", "build-2", "0", "a.b_c-d", "x" * 63])
def test_a_name_that_a_session_can_have(name: str) -> None:
    assert require_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "-a", ".a", "A", "a b", "a/b", "../a", "a\n", "ä", "x" * 64, "x" * 22, "a\x00"]
)
def test_a_name_that_none_can_have(name: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        require_name(name)
    assert refused.value.code == "session.name"


def test_names_and_keys_are_each_owner_s_own(home: Home) -> None:
    runs(home, IDS[0], "build", owner="alice", key="k")
    assert asked_launch(home, "build", None) is asked_launch(home, None, "k") is None
    assert asked_launch(home, "build", None, "bob") is asked_launch(home, None, "k", "bob") is None
    for found in (asked_launch(home, "build", None, "alice"), asked_launch(home, None, "k", "alice")):
        assert found is not None and found.session == IDS[0]
    with pytest.raises(StateError):
        running_session(home, "build")
    runs(home, IDS[1], "build")
    assert running_session(home, "build") == IDS[1]
    assert running_session(home, IDS[0]) == IDS[0], "the machine's own user reaches all by their ids"


def test_a_key_has_one_session_under_whatever_name_it_is_asked_for(home: Home) -> None:
    runs(home, IDS[0], "build", key="k")
    runs(home, IDS[1], "test", key="l")
    for name in ("build", "other", "test", None):
        found = asked_launch(home, name, "k")
        assert found is not None and found.session == IDS[0]
    by_name = asked_launch(home, "test", "new")
    assert by_name is not None and by_name.session == IDS[1], "the name is taken"
    assert asked_launch(home, "new", "new") is asked_launch(home, None, None) is None
