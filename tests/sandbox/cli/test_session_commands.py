"""``affiant session``: what a state folder holds, told from it alone; what is recovered without starting anything."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.sandbox.processes.test_launch_records import gone_process, own_name
from tests.sandbox.session_state.test_bundle_out import close, receipt, sealed, spooled
from tests.sandbox.session_state.test_interrupted import interrupt

from affiant.__main__ import cli
from affiant.attestation.bundle.bundle import parse_bundle
from affiant.sandbox.cli import detached_commands
from affiant.sandbox.cli.session_commands import session
from affiant.sandbox.processes.home import Home, open_home
from affiant.sandbox.processes.launch_records import Launch, read_launches
from affiant.sandbox.processes.session_note import Asked, SessionNote, SessionState, read_note, write_note
from affiant.sandbox.session_server import http_server

ID, OTHER = "A" * 22, "B" * 22


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


def run(home: Home, *arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(cli, ["session", arguments[0], "--home", str(home.path), *arguments[1:]])
    assert done.exit_code == code, done.output
    return done


def key_of(home: Home):
    return home.openings_key(random_bytes=os.urandom)


def ended(home: Home, session: str = ID, **members: object) -> Path:
    """A session that has ended, with a journal of one record."""
    folder = home.session(session)
    folder.mkdir()
    (entry,) = spooled(key_of(home), receipt("journal"))
    line = json.dumps({"jws": entry.jws, "openings": entry.openings}, separators=(",", ":"))
    (folder / "records.ndjson").write_text(line + "\n")
    asked = Asked(agent="writer", profile="p.yaml", started=1795274316, **members)
    write_note(home, SessionNote(session=session, state=SessionState.LOST, asked=asked, ended=1795274317))
    return folder


def test_no_sessions_is_said(home: Home):
    assert "No sessions here" in run(home, "list").output
    assert json.loads(run(home, "list", "--json").output) == {"sessions": []}


def test_each_session_is_a_line_the_last_one_first(home: Home):
    folder = ended(home)
    (folder / "bundle.affiant.json").write_text("{}")
    asked = Asked(agent="reader", profile="p.yaml", started=1795274400)
    Launch(OTHER, own_name(), asked=asked).write(home)
    head, running, lost = run(home, "list").output.splitlines()
    assert head.split() == ["SESSION", "STATE", "STARTED", "AGENT", "EXIT", "BUNDLE"]
    assert running.split() == [OTHER, "running", "2026-11-21T15:20:00Z", "reader", "-", "-"]
    assert lost.split() == [
        ID,
        "lost",
        "2026-11-21T15:18:36Z",
        "writer",
        "-",
        str(folder / "bundle.affiant.json"),
    ]


def test_show_says_what_is_known_and_nothing_else(home: Home):
    folder = ended(home, gateway="https://gateway.example:8443")
    text = run(home, "show", ID).output
    assert "2026-11-21T15:18:36Z" in text
    assert "bundle" not in text
    shown = json.loads(run(home, "show", ID, "--json").output)
    assert shown["records"] == str(folder / "records.ndjson")
    assert (shown["state"], shown["bundle"], shown["gateway"]) == (
        "lost",
        None,
        "https://gateway.example:8443",
    )


@pytest.mark.parametrize("name", ["x", OTHER, "../../etc", "A" * 21 + "/", ""])
def test_a_session_that_is_not_here_is_refused(home: Home, name: str):
    ended(home)
    assert "[session.not_here]" in run(home, "show", name, code=1).output


def test_what_a_folder_is_called_by_somebody_else_is_no_session(home: Home):
    (home.sessions / "lost+found").mkdir()
    (home.sessions / ("C" * 22)).mkdir()
    assert json.loads(run(home, "list", "--json").output) == {"sessions": []}


def test_a_control_character_in_a_name_is_shown_escaped(home: Home):
    ended(home)
    write_note(
        home,
        SessionNote(
            session=ID,
            state=SessionState.LOST,
            asked=Asked(agent="\x1b[2J", profile="p", started=1),
        ),
    )
    for command in (["list"], ["show", ID]):
        assert "\x1b" not in run(home, *command).output


def test_every_command_first_ends_what_was_left_and_says_so_once(home: Home):
    interrupt(home)
    assert f"session {ID} (agent writer) was lost" in run(home, "list").stderr
    assert run(home, "list").stderr == ""


def test_recover_puts_together_what_the_operator_gave_and_what_only_the_journal_has(
    home: Home, tmp_path: Path
):
    folder = ended(home, gateway="https://gateway.example:8443")
    (tmp_path / "given").write_bytes(sealed(key_of(home), receipt("one")))
    options = ("--from", str(tmp_path / "given"), "--bundle", str(tmp_path / "b"))
    text = run(home, "recover", ID, *options).output
    assert "the session has no close" in text
    assert "from its own journal, which the gateway had not acknowledged: 1\n" in text
    bundle = parse_bundle((tmp_path / "b").read_bytes())
    assert [text.count("~") for text in bundle.receipts] == [receipt("one").sdjwt.count("~")] * 2, "opened"
    assert (folder / "bundle.affiant.json").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600
    again = json.loads(run(home, "recover", ID, *options, "--json").output)
    assert (again["added"], again["left_out"], again["closed"]) == (1, 0, None)


def test_recover_leaves_out_what_a_close_speaks_for(home: Home, tmp_path: Path):
    ended(home)
    (tmp_path / "given").write_bytes(sealed(key_of(home), close(ID, "killed")))
    text = run(home, "recover", ID, "--from", str(tmp_path / "given")).output
    assert "was closed: killed" in text
    assert "stay in the session's folder, outside the bundle: 1 (the signed close" in text


@pytest.mark.parametrize(("why", "state"), [("killed", "closed"), ("lost", "lost")])
def test_list_says_what_recover_has_found(home: Home, tmp_path: Path, why: str, state: str):
    """The note was written when the close was out of reach."""
    ended(home)
    (tmp_path / "given").write_bytes(sealed(key_of(home), close(ID, why)))
    assert f"was closed: {why}" in run(home, "recover", ID, "--from", str(tmp_path / "given")).output
    assert [entry["state"] for entry in json.loads(run(home, "list", "--json").output)["sessions"]] == [state]


def test_a_gateway_elsewhere_answers_nobody_but_the_session_and_it_is_said_what_to_do(home: Home):
    ended(home, gateway="https://gateway.example:8443")
    text = run(home, "recover", ID, code=1).output
    assert "[session.not_gathered]" in text
    assert f"affiant gateway bundle {ID} > FILE" in text


def test_a_session_that_runs_is_its_launchers(home: Home):
    Launch(ID, own_name()).write(home)
    assert "[session.running]" in run(home, "recover", ID, code=1).output


def test_kept_files_are_taken_out_by_the_rules_of_every_output(home: Home, tmp_path: Path):
    folder = ended(home, output="/out", source="files/0", exclude=("carved",))
    kept = folder / "files.kept" / "0"
    (kept / "carved").mkdir(parents=True)
    (kept / "carved" / "x").write_text("x")
    (kept / "made.txt").write_text("made")
    (kept / "out").symlink_to("/etc")
    (tmp_path / "given").write_bytes(sealed(key_of(home), receipt("one")))
    given = ("--from", str(tmp_path / "given"), "--output", str(tmp_path / "out"))
    run(home, "recover", ID, *given)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["made.txt"]
    assert not (folder / "files.kept").exists()
    assert read_note(folder).kept is False
    assert "no files were kept" in run(home, "recover", ID, *given, code=1).output


def test_a_link_in_place_of_kept_files_is_not_followed(home: Home, tmp_path: Path):
    folder = ended(home, source="files/0")
    (tmp_path / "private" / "0").mkdir(parents=True)
    (tmp_path / "private" / "0" / "key").write_text("private")
    (folder / "files.kept").symlink_to(tmp_path / "private")
    (tmp_path / "given").write_bytes(sealed(key_of(home), receipt("one")))
    given = ("--from", str(tmp_path / "given"), "--output", str(tmp_path / "out"))
    assert "what was kept is a link" in run(home, "recover", ID, *given, code=1).output
    assert not (tmp_path / "out").exists()


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_done(home: Home, tmp_path: Path):
    ended(home)
    text = run(home, "recover", ID, "--bundle", str(tmp_path / "none" / "b"), code=1).output
    assert "[session.output_path]" in text


def test_what_is_no_bundle_is_refused_and_nothing_is_written(home: Home, tmp_path: Path):
    folder = ended(home)
    (tmp_path / "given").write_text("{}")
    assert "[session.bundle]" in run(home, "recover", ID, "--from", str(tmp_path / "given"), code=1).output
    assert not (folder / "bundle.affiant.json").exists()


@pytest.mark.parametrize("command", [[], ["list"], ["show"], ["recover"]])
def test_each_command_has_help_with_an_example(command: list[str]):
    done = CliRunner().invoke(cli, ["session", *command, "--help"])
    assert done.exit_code == 0
    assert "Example" in done.output


def test_names_of_sessions_are_completed(home: Home, monkeypatch: pytest.MonkeyPatch):
    ended(home)
    monkeypatch.setenv("_AFFIANT_COMPLETE", "bash_complete")
    monkeypatch.setenv("AFFIANT_HOME", str(home.path))
    monkeypatch.setenv("COMP_WORDS", "affiant session show A")
    monkeypatch.setenv("COMP_CWORD", "3")
    done = CliRunner().invoke(cli, [], prog_name="affiant")
    assert ID in done.output


MORE = {
    **dict.fromkeys(("list", "ls", "prune", "top"), ()),
    "create": ("--profile", "none.yaml", "--agent", "a"),
    "recover": (OTHER,),
    "rm": (OTHER, "--bundle", "copy.json"),
    "serve": ("--profile", "none.yaml", "--token-file", "token"),
    "show": (OTHER,),
}


def test_the_commands_that_tidy_up_first_are_those_that_the_help_names(home: Home, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "none.yaml").touch()
    monkeypatch.setattr(http_server, "serve_sessions", lambda *_, **__: None)
    monkeypatch.setattr(detached_commands, "start_host", lambda *_, **__: None)
    text = " ".join(CliRunner().invoke(cli, ["session", "--help"]).output.split())
    named = set(re.findall(r"`([a-z]+)`", text.partition("first end and tidy up")[0]))
    assert named == {"create", "list", "show", "top", "recover", "rm", "prune", "serve"}
    for name in session.commands.keys() - {"template"}:
        Launch(ID, gone_process(), asked=Asked(agent="a", profile="p", started=1)).write(home)
        CliRunner().invoke(cli, ["session", name, "--home", str(home.path), *MORE.get(name, (OTHER, "2"))])
        tidied = read_launches(home) == ()
        assert tidied == (name in {*named, "ls"}), name
