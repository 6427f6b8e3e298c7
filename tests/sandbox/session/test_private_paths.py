"""No folder that a session is given may be, hold, or lie in what no agent may reach."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.sandbox.cli.recover_command import recover
from affiant.sandbox.processes.home import Home, open_home, write_file
from affiant.sandbox.processes.session_note import SessionNote, SessionState
from affiant.sandbox.session.private_paths import private_inodes, private_places, refuse_private
from affiant.sandbox.session.session_plan import SessionRequest, VaultChoice
from affiant.sandbox.session_state.session_folder import KEPT
from affiant.sandbox.session_state.session_listing import SessionEntry
from affiant.sandbox.workspace.copy_in import copy_in
from affiant.sandbox.workspace.walk import runtime_digest


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A state folder at ``work/st`` with an openings key, a store with its key beside it, a Vault token."""
    made = open_home(tmp_path / "work" / "st")
    made.openings_key(random_bytes=os.urandom)
    for name in ("work/in", "work/store", "work/tokens", "elsewhere"):
        (tmp_path / name).mkdir()
    (made.secrets / "key").write_text("k")
    (tmp_path / "work" / "store" / "key").write_text("k2")
    (tmp_path / "work" / "tokens" / "vault").write_text("t")
    (tmp_path / "linked").symlink_to(tmp_path / "work")
    return made


def test_a_decision_log_lies_in_nothing_that_an_agent_reads_or_writes(home: Home, tmp_path: Path):
    log = tmp_path / "elsewhere" / "decisions.jsonl"  # not there yet
    for option in ("input", "output", "runtime", "rootfs"):
        given = SessionRequest(
            profile=tmp_path / "p.yaml", agent="a", decisions=log, **{option: tmp_path / "elsewhere"}
        )
        with raises_code("session.input_private", match="decision log"):
            refuse_private(home, given)


def test_a_second_name_of_a_log_that_was_set_aside_is_met_while_copying(home: Home, tmp_path: Path):
    for name in ("log", "log.000001"):
        (tmp_path / "elsewhere" / name).touch()
        os.link(tmp_path / "elsewhere" / name, tmp_path / "work" / "in" / "harmless.txt")
        private = private_inodes(home, request(tmp_path, decisions=tmp_path / "elsewhere" / "log"))
        with raises_code("session.input_private", match="harmless.txt"):
            copy_in(tmp_path / "work" / "in", tmp_path / f"copy-{name}", private=private)
        (tmp_path / "work" / "in" / "harmless.txt").unlink()


def request(tmp_path: Path, **members: object) -> SessionRequest:
    vault = VaultChoice(
        address="https://v", ca=tmp_path / "ca.pem", token_file=tmp_path / "work" / "tokens" / "vault"
    )
    given = {"profile": tmp_path / "p.yaml", "agent": "a", "vault": vault, **members}
    return SessionRequest(secret_store=tmp_path / "work" / "store", **given)


@pytest.mark.parametrize("option", ["input", "output", "runtime", "rootfs"])
@pytest.mark.parametrize(
    "place",
    [
        *("work", "work/st", "work/st/secrets", "work/st/new/folder", "work/store", "work/tokens"),
        *(".", "linked", "linked/st/sessions", "work/in/../../work"),
    ],
)
def test_a_folder_that_overlaps_is_refused_with_what_to_do(home, tmp_path, option, place):
    with raises_code("session.input_private", match=f"Give --{option} another folder") as refused:
        refuse_private(home, request(tmp_path, **{option: tmp_path / place}))
    assert refused.value.code == "session.input_private"


@pytest.mark.parametrize("option", ["input", "output", "runtime", "rootfs"])
def test_a_folder_beside_them_is_taken(home, tmp_path, option):
    for place in ("work/in", "elsewhere", "elsewhere/new", "work/storehouse"):
        refuse_private(home, request(tmp_path, **{option: tmp_path / place}))


@pytest.mark.parametrize(
    "file",
    [
        *("st/secrets/key", "st/openings.key", "store/key", "tokens/vault"),
        *("st/gateway/key", "st/witness/key", "st/platform/key", "st/later/key"),
    ],
)
def test_a_second_name_of_a_key_is_met_while_copying(home, tmp_path, file):
    (tmp_path / "work" / file).parent.mkdir(exist_ok=True)
    (tmp_path / "work" / file).touch()
    os.link(tmp_path / "work" / file, tmp_path / "work" / "in" / "harmless.txt")
    private = private_inodes(home, request(tmp_path))
    with raises_code("session.input_private", match="harmless.txt"):
        copy_in(tmp_path / "work" / "in", tmp_path / "copy", private=private)
    with raises_code("session.input_private"):
        runtime_digest(tmp_path / "work" / "in", private=private)
    assert list((tmp_path / "copy").iterdir()) == []


@pytest.mark.parametrize(
    "private",
    [
        *("work/st", "work/st/secrets", "work/store", "work/st/inputs", "work/st/output", "work/st/witness"),
        *("work/st/sessions", "work/st/launches", "work/st/template"),
    ],
)
def test_a_private_folder_under_another_path_is_met_while_copying(home, tmp_path, private):
    """Without a bind mount: the folder itself, read by a caller who did not compare paths."""
    (tmp_path / private).mkdir(exist_ok=True)
    found = private_inodes(home, request(tmp_path))
    for source in (tmp_path / private, (tmp_path / private).parent):
        with raises_code("session.input_private"):
            copy_in(source, tmp_path / "copy", private=found)


def test_a_key_that_was_written_anew_is_private_too(home, tmp_path):
    before = private_places(home, request(tmp_path))
    write_file(home.secrets / "key", b"k3")
    facts = (home.secrets / "key").stat()
    after = private_places(home, request(tmp_path))
    assert (facts.st_dev, facts.st_ino) in after.inodes - before.inodes
    assert {place for place, _ in after.named} == {
        tmp_path / "work" / "st", tmp_path / "work" / "store", tmp_path / "work" / "tokens" / "vault",
    }  # fmt: skip


def test_a_link_to_a_key_is_copied_as_a_link_and_leads_nowhere(home, tmp_path):
    (tmp_path / "work" / "in" / "l").symlink_to(home.secrets / "key")
    copy_in(tmp_path / "work" / "in", tmp_path / "copy", private=private_inodes(home, request(tmp_path)))
    assert (tmp_path / "copy" / "l").is_symlink()


@pytest.mark.parametrize("place", ["", "sessions", ".."])
def test_recovered_files_of_an_agent_cannot_land_in_the_state_folder(home, place):
    """A file ``trust.json`` of the agent's would be the one that is trusted."""
    session = "A" * 22
    kept = home.session(session) / KEPT
    kept.mkdir(parents=True)
    (kept / "trust.json").write_text("{}")
    entry = SessionEntry(SessionNote(session=session, state=SessionState.LOST), None, None, kept)
    with raises_code("session.input_private"):
        recover(home, entry, given=b"", bundle=None, output=home.path / place, starting=lambda: None)
    assert (kept / "trust.json").exists() and not (home.path / "trust.json").exists()
