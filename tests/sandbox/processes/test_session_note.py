"""What is remembered of a session: read as it was written, and nothing else is taken for it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from affiant.sandbox.processes.home import Home, open_home
from affiant.sandbox.processes.session_note import Asked, SessionNote, SessionState, read_note, write_note

ID = "A" * 22
ASKED = Asked(
    agent="dev",
    profile="p.yaml",
    started=5,
    gateway="https://g:1",
    output="/o",
    source="files/0",
    exclude=("x",),
)
NOTE = SessionNote(
    session=ID, state=SessionState.LOST, asked=ASKED, ended=9, exit_code=3, code="gateway.lost", kept=True
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = open_home(tmp_path / "home")
    made.session(ID).mkdir()
    return made


@pytest.mark.parametrize("note", [NOTE, SessionNote(session=ID, state=SessionState.CLOSED)])
def test_a_note_is_read_as_it_was_written(home: Home, note: SessionNote):
    write_note(home, note)
    assert read_note(home.session(ID)) == note
    assert (home.session(ID) / "session.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "change", [{"typ": "x"}, {"session": "B" * 22}, {"state": "done"}, {"kept": 1}, {"session": None}]
)
def test_another_document_is_no_note(home: Home, change: dict[str, object]):
    document = {"typ": "affiant-session/1", **NOTE.to_json(), **change}
    (home.session(ID) / "session.json").write_text(
        json.dumps(document, sort_keys=True, separators=(",", ":"))
    )
    assert read_note(home.session(ID)) is None


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", b"x" * 70_000])
def test_anything_else_is_no_note(home: Home, content: bytes):
    assert read_note(home.session(ID)) is None
    (home.session(ID) / "session.json").write_bytes(content)
    assert read_note(home.session(ID)) is None


def test_a_link_or_a_pipe_is_no_note(home: Home, tmp_path: Path):
    write_note(home, NOTE)
    path = home.session(ID) / "session.json"
    path.rename(tmp_path / "real")
    path.symlink_to(tmp_path / "real")
    assert read_note(home.session(ID)) is None
    path.unlink()
    os.mkfifo(path)
    assert read_note(home.session(ID)) is None


@pytest.mark.root
def test_a_note_of_another_users_is_none(home: Home):
    if os.geteuid() != 0:
        pytest.skip("not root: nothing can be given to another user")
    write_note(home, NOTE)
    os.chown(home.session(ID) / "session.json", 61783, 61783)
    assert read_note(home.session(ID)) is None
