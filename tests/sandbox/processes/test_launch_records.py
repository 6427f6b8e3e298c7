"""Records of launches, and what the next command does about those whose launcher is gone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from affiant.sandbox.isolation.plan.leftover_record import ProcessName
from affiant.sandbox.processes import launch_records as launches
from affiant.sandbox.processes.home import Home, open_home
from affiant.sandbox.processes.launch_records import Launch, end_leftovers, live_launches, read_launches
from affiant.sandbox.processes.session_note import Asked


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


def sleeper(*, session: bool = True) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-S", "-c", "import time; time.sleep(60)"], start_new_session=session
    )


def gone_process() -> ProcessName:
    process = sleeper()
    name = ProcessName.of(process.pid)
    process.kill()
    process.wait()
    assert name is not None
    return name


def own_name() -> ProcessName:
    name = ProcessName.of(os.getpid())
    assert name is not None
    return name


def test_a_record_is_read_as_it_was_written(home: Home):
    asked = Asked(agent="dev", profile="p.yaml", started=7, output="/out", source="files/0", exclude=("a/b",))
    launch = Launch("session", own_name(), asked=asked)
    launch.add(home, os.getpid())
    launch.note_command(home)
    (found,) = read_launches(home)
    assert found == Launch("session", own_name(), [own_name()], asked=asked, ran=True)
    assert [each.session for each in live_launches(home)] == ["session"]
    launch.remove(home)
    launch.remove(home)
    assert read_launches(home) == ()


@pytest.mark.slow
def test_what_a_dead_launcher_left_is_killed_within_five_seconds(home: Home):
    assert_reaped(home)


def test_what_a_dead_launcher_left_is_killed_once_its_time_is_over(
    home: Home, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(launches, "_GRACE_S", 0.2)
    assert_reaped(home)


def assert_reaped(home: Home) -> None:
    child = sleeper()
    try:
        launch = Launch("session", gone_process())
        launch.add(home, child.pid)
        started = time.monotonic()
        assert [each.session for each in end_leftovers(home)] == ["session"]
        assert time.monotonic() - started < 5
        assert child.wait(1) == -9
        assert len(read_launches(home)) == 1, "it stays until everything of the session is tidied up"
    finally:
        child.kill()
        child.wait()


def test_an_orphan_that_leaves_by_itself_is_given_the_time(home: Home):
    child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(0.3)"])
    Launch("session", gone_process()).add(home, child.pid)
    end_leftovers(home)
    assert child.wait(1) == 0


def test_the_children_of_a_living_launcher_are_left_alone(home: Home):
    child = sleeper()
    try:
        Launch("session", own_name()).add(home, child.pid)
        assert end_leftovers(home) == ()
        assert child.poll() is None
        assert len(read_launches(home)) == 1
    finally:
        child.kill()
        child.wait()


def test_a_process_that_only_has_the_same_number_is_left_alone(home: Home, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(launches, "_GRACE_S", 0.1)
    child = sleeper()
    try:
        launch = Launch("session", gone_process(), [ProcessName(child.pid, 1)])
        launch.write(home)
        assert [each.session for each in end_leftovers(home)] == ["session"]
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b'{"typ":"affiant-launch/1"}',
        b"\xff",
        b'{"children":[{"pid":1,"started":1}],"typ":"x"}',
    ],
)
def test_a_file_that_is_no_record_kills_nothing_and_stays(home: Home, content: bytes):
    path = home.launches / "session.json"
    path.write_bytes(content)
    assert end_leftovers(home) == ()
    assert path.exists()


def test_a_record_under_another_name_is_not_believed(home: Home):
    launch = Launch("session", gone_process())
    launch.write(home)
    (home.launches / "session.json").rename(home.launches / "other.json")
    assert read_launches(home) == ()


def test_process_one_is_never_named(home: Home):
    launch = Launch("session", gone_process(), [ProcessName(1, 0), ProcessName(0, 0)])
    launch.write(home)
    (found,) = read_launches(home)
    assert found.children == []


def test_what_its_launcher_abandons_is_the_next_commands_and_not_removed(home: Home):
    launch = Launch("session", own_name())
    launch.write(home)
    launch.abandon(home)
    launch.remove(home)
    assert live_launches(home) == ()
    assert [each.session for each in end_leftovers(home)] == ["session"]
    (again,) = read_launches(home)
    again.remove(home)
    assert read_launches(home) == ()


@pytest.mark.parametrize(
    ("ran", "taken", "output", "only"),
    [
        (True, False, "/out", True),
        (True, True, "/out", False),
        (False, False, "/out", False),
        (True, False, None, False),
    ],
)
def test_files_are_the_only_copy_until_everything_was_taken(
    ran: bool, taken: bool, output: str | None, only: bool
):
    asked = Asked(agent="a", profile="p", started=1, output=output)
    assert Launch("session", own_name(), asked=asked, ran=ran, taken=taken).only_copy is only
