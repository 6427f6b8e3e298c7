"""``affiant session rm`` has a durable copy of the receipts where no removal takes it, before anything goes."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.sandbox.conftest import affiant
from tests.sandbox.processes.test_launch_records import own_name

from affiant.__main__ import cli
from affiant.sandbox.processes.home import Home, lock, open_home
from affiant.sandbox.processes.launch_records import Launch
from affiant.sandbox.processes.session_note import Asked, SessionNote, SessionState, write_note
from affiant.sandbox.session_state.session_folder import BUNDLE

SESSION = "A" * 22


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A state folder with one session that has ended."""
    made = open_home(tmp_path / "home")
    made.session(SESSION).mkdir()
    (made.session(SESSION) / BUNDLE).write_bytes(b"receipts")
    asked = Asked(agent="a", profile="p", started=1)
    write_note(made, SessionNote(session=SESSION, state=SessionState.CLOSED, asked=asked, ended=2))
    return made


def remove(home: Home, place: Path | str) -> subprocess.CompletedProcess[bytes]:
    return affiant("session", "rm", "--home", str(home.path), SESSION, "--bundle", str(place))


def test_the_receipts_are_copied_and_the_session_goes(home: Home, tmp_path: Path) -> None:
    assert remove(home, tmp_path / "copy.json").returncode == 0
    assert (tmp_path / "copy.json").read_bytes() == b"receipts"
    assert not home.session(SESSION).exists()


def test_an_equal_file_counts_once_it_is_on_the_disk(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, synced = tmp_path / "copy.json", []
    copy.write_bytes(b"receipts")
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda each: (synced.append(os.readlink(f"/proc/self/fd/{each}")), fsync(each))
    )
    assert remove(home, copy).returncode == 0
    assert str(copy) in synced


@pytest.mark.parametrize(
    "place", ["sessions/other/copy.json", "sessions/copy.json", "output/other/copy.json", "link"]
)
def test_a_place_that_goes_with_a_session_is_an_error(home: Home, place: str) -> None:
    for folder in ("sessions/other", "output/other"):
        (home.path / folder).mkdir(parents=True)
    (home.path / "link").symlink_to(home.path / "output" / "other" / "copy.json")
    done = remove(home, home.path / place)
    assert done.returncode == 1 and b"[session.only_copy]" in done.stderr
    assert home.session(SESSION).is_dir()
    assert not (home.path / "output/other/copy.json").exists()


def test_what_is_no_file_is_an_error_and_not_waited_for(home: Home, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", Path("/dev/null")):
        done = remove(home, place)
        assert done.returncode == 1 and b"[session.only_copy]" in done.stderr
    command = [sys.executable, "-m", "affiant", "session", "rm", "--home", str(home.path), SESSION]
    piped = subprocess.run(
        [*command, "--bundle", "/dev/stdout"], capture_output=True, timeout=30, check=False
    )
    assert piped.returncode == 1 and b"[session.only_copy]" in piped.stderr
    assert home.session(SESSION).is_dir()


def test_a_session_that_was_not_tidied_up_stays(home: Home, tmp_path: Path) -> None:
    """Its agent's files could not be kept, and are where the agent left them."""
    launch = Launch(
        SESSION, own_name(), asked=Asked(agent="a", profile="p", started=1, output="/out"), ran=True
    )
    launch.abandon(home)
    (home.session(SESSION) / "files").mkdir()
    (home.session(SESSION) / "files.kept" / "older").mkdir(parents=True)
    done = remove(home, tmp_path / "copy.json")
    assert done.returncode == 1 and b"[session.only_copy]" in done.stderr
    assert b"affiant session list" in done.stderr
    assert b"cannot be tidied up" in affiant("session", "list", "--home", str(home.path)).stderr
    assert (home.session(SESSION) / "files").is_dir()


def test_prune_waits_for_no_process_that_holds_the_stored_inputs(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("affiant.sandbox.workspace.input_store._LOCKED_FOR_S", 0.1)
    (home.path / "inputs").mkdir()
    with open(home.path / "inputs" / "lock", "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = CliRunner().invoke(cli, ["session", "prune", "--home", str(home.path)])
    assert done.exit_code == 1 and "[store.locked]" in done.stderr
    with lock(home.path / "reap.lock", wait=False):
        pass
