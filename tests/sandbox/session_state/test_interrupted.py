"""What the next command does about a session whose launcher was killed: its files, its note, and the one line."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import pytest
from tests.sandbox.processes.test_launch_records import gone_process, own_name
from tests.sandbox.session_state.test_bundle_out import close, receipt, sealed

from affiant.sandbox.processes.home import Home, lock, open_home
from affiant.sandbox.processes.launch_records import Launch, read_launches
from affiant.sandbox.processes.session_note import Asked, SessionNote, SessionState, read_note, write_note
from affiant.sandbox.session_state import interrupted, recovery
from affiant.sandbox.session_state.interrupted import InterruptedSession, reap_leftovers

ID = "A" * 22


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


def interrupt(home: Home, *, ran: bool = True, output: Path | None = None, records: bool = True) -> Launch:
    """A session as its dead launcher left it."""
    folder = home.session(ID)
    (folder / "files" / "0").mkdir(parents=True)
    (folder / "files" / "0" / "made.txt").write_text("made")
    (folder / "rootfs").mkdir()
    if records:
        (folder / "records.ndjson").write_bytes(b"")
    asked = Asked(
        agent="writer",
        profile="p.yaml",
        started=5,
        output=None if output is None else str(output),
        source="files/0",
    )
    launch = Launch(ID, gone_process(), asked=asked, ran=ran)
    launch.write(home)
    return launch


def left_in(home: Home) -> set[str]:
    return {path.name for path in home.session(ID).iterdir()}


def key_of(home: Home):
    return home.openings_key(random_bytes=lambda n: bytes(range(n)))


def test_the_working_files_go_and_a_note_stays(home: Home):
    interrupt(home)
    (cut,) = reap_leftovers(home)
    assert left_in(home) == {"records.ndjson", "session.json"}
    assert read_launches(home) == ()
    note = read_note(home.session(ID))
    assert note is not None
    assert (note.state, note.kept, note.asked.agent) == (SessionState.LOST, False, "writer")
    assert cut.session == ID
    assert "\n" not in cut.text
    assert f"session {ID} (agent writer) was lost" in cut.text
    assert f"affiant session recover {ID}" in cut.text
    assert reap_leftovers(home) == ()


def test_the_users_own_folders_are_not_touched(home: Home, tmp_path: Path):
    given, output = tmp_path / "in", tmp_path / "out"
    for folder in (given, output):
        folder.mkdir()
        (folder / "mine").write_text("mine")
    interrupt(home, output=output)
    (home.session(ID) / "files" / "0" / "link").symlink_to(given)
    (home.session(ID) / "rootfs" / "link").symlink_to(output)
    reap_leftovers(home)
    assert (given / "mine").read_text() == (output / "mine").read_text() == "mine"


def test_files_that_were_to_be_copied_out_are_kept_and_it_is_said(home: Home, tmp_path: Path):
    interrupt(home, output=tmp_path / "out")
    (home.session(ID) / "narrow.sock").touch()  # a launcher that was killed has not taken it away
    (cut,) = reap_leftovers(home)
    assert (home.session(ID) / "files.kept" / "0" / "made.txt").read_text() == "made"
    assert left_in(home) == {"records.ndjson", "session.json", "files.kept"}
    assert read_note(home.session(ID)).kept
    assert f"not copied to {tmp_path / 'out'}" in cut.text
    assert f"affiant session recover {ID} --output DIR" in cut.text


def test_files_of_an_agent_that_never_ran_are_copies_and_go(home: Home, tmp_path: Path):
    interrupt(home, output=tmp_path / "out", ran=False)
    (cut,) = reap_leftovers(home)
    assert "files.kept" not in left_in(home)
    assert "not copied" not in cut.text


def test_what_cannot_be_kept_is_not_removed_and_the_next_command_tries_again(home: Home, tmp_path: Path):
    interrupt(home, output=tmp_path / "out")
    (home.session(ID) / "files.kept").mkdir()
    (home.session(ID) / "files.kept" / "older").write_text("x")
    (cut,) = reap_leftovers(home)
    assert (home.session(ID) / "files" / "0" / "made.txt").exists()
    assert "cannot be tidied up" in cut.text
    assert "files are kept" not in cut.text
    assert read_note(home.session(ID)) is None
    (home.session(ID) / "files.kept" / "older").unlink()
    (cut,) = reap_leftovers(home)
    assert "its files are kept" in cut.text
    assert (home.session(ID) / "files.kept" / "0" / "made.txt").read_text() == "made"


def test_what_its_launcher_ended_but_could_not_keep_is_kept_and_the_rest_stays(home: Home, tmp_path: Path):
    launch = interrupt(home, output=tmp_path / "out")
    launch.abandon(home)
    note = SessionNote(session=ID, state=SessionState.CLOSED, asked=launch.asked, ended=9, exit_code=3)
    write_note(home, note)
    (cut,) = reap_leftovers(home)
    assert f"affiant session recover {ID} --output DIR" in cut.text
    assert "killed" not in cut.text
    assert read_note(home.session(ID)) == dataclasses.replace(note, kept=True)


def test_a_session_that_was_closed_by_its_supervisor_is_gathered_at_once(home: Home):
    interrupt(home)
    data = sealed(key_of(home), receipt("one"), close(ID, "killed"))
    (home.session(ID) / "bundle.json").write_bytes(data)
    (cut,) = reap_leftovers(home)
    bundle = home.session(ID) / "bundle.affiant.json"
    assert bundle.exists()
    assert read_note(home.session(ID)).state is SessionState.INTERRUPTED
    assert "its supervisor ended the agent and closed it" in cut.text
    assert cut.text.endswith(f"receipts in {bundle}")


def test_a_bundle_that_is_none_keeps_no_command_from_starting(home: Home):
    interrupt(home)
    (home.session(ID) / "bundle.json").write_bytes(b"{}")
    (cut,) = reap_leftovers(home)
    assert "was lost" in cut.text


def test_a_link_in_place_of_the_records_keeps_no_command_from_starting(home: Home, tmp_path: Path):
    interrupt(home)
    (home.session(ID) / "records.ndjson").unlink()
    (home.session(ID) / "records.ndjson").symlink_to(tmp_path)
    (cut,) = reap_leftovers(home)
    assert "no readable records" in cut.text


def test_what_cannot_be_tidied_up_is_said_and_tried_again(home: Home):
    interrupt(home)
    (home.session(ID) / "session.json").mkdir()
    (cut,) = reap_leftovers(home)
    assert "cannot be tidied up" in cut.text
    (home.session(ID) / "session.json").rmdir()
    (cut,) = reap_leftovers(home)
    assert "was lost" in cut.text
    assert reap_leftovers(home) == ()


@pytest.mark.parametrize("folder", [True, False])
def test_a_session_that_never_began_leaves_nothing(home: Home, folder: bool):
    interrupt(home, records=False)
    if not folder:
        home.session(ID).rename(home.path / "elsewhere")
    (cut,) = reap_leftovers(home)
    assert not home.session(ID).exists()
    assert "was interrupted before" in cut.text


def test_a_session_that_runs_is_left_alone(home: Home):
    launch = dataclasses.replace(interrupt(home), launcher=own_name())
    launch.write(home)
    assert reap_leftovers(home) == ()
    assert "files" in left_in(home)


def test_two_commands_at_once_tell_it_once(home: Home):
    interrupt(home)
    told: list[str] = []
    threads = [
        threading.Thread(target=lambda: told.extend(cut.session for cut in reap_leftovers(home)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == [ID]


def test_no_command_waits_while_another_tidies_up(home: Home, monkeypatch: pytest.MonkeyPatch):
    """Gathering may take long: an archive is exported by another process."""
    interrupt(home)
    inner: list[tuple[InterruptedSession, ...]] = []

    def gather(*_: object, **__: object) -> None:
        inner.append(reap_leftovers(home))
        with lock(home.path / "reap.lock", wait=False):
            pass

    monkeypatch.setattr(interrupted, "gather_now", gather)
    (cut,) = reap_leftovers(home)
    assert inner == [()]
    assert cut.session == ID
    assert list(home.launches.iterdir()) == []


def test_an_archive_that_takes_too_long_is_left_to_recover(home: Home, monkeypatch: pytest.MonkeyPatch):
    interrupt(home)
    folder = home.session(ID)
    monkeypatch.setattr(interrupted, "_GATHERED_WITHIN_S", 0.01)
    monkeypatch.setattr(recovery.gather_whole, "__kwdefaults__", {"most": 1, "within_s": None})
    (folder / "bundle.json").write_bytes(sealed(key_of(home), receipt("one"), close(ID, "killed")))
    (cut,) = reap_leftovers(home)
    assert f"affiant session recover {ID}" in cut.text
    assert not list(folder.glob("*.zip"))
    assert not list(folder.glob(".archive-*"))
