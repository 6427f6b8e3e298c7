"""The help of the commands for detached sessions is laid out as written; kept output is shown safely, and ends."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.raising import raises_code
from tests.sandbox.conftest import affiant

from affiant.sandbox.cli import detached_commands
from affiant.sandbox.detached import host_process
from affiant.sandbox.detached.client import KeptPiece
from affiant.sandbox.detached.host import StartingHost
from affiant.sandbox.detached.kept_output import output_folder
from affiant.sandbox.processes.home import Home, open_home
from affiant.sandbox.processes.session_note import Asked, SessionNote, SessionState, write_note
from affiant.sandbox.session.run_report import Detail, RunReport

SESSION = "A" * 22
HOSTILE = b"\x1b]52;c;ZXZpbA==\x07\x1b[2J\nabc\raffiant: receipts verified\n"


@pytest.mark.parametrize(
    "verb", ["create", "exec", "shell", "logs", "stop", "rm", "prune", "template", "serve"]
)
def test_examples_and_exit_codes_stay_on_lines_of_their_own(verb: str) -> None:
    lines = affiant("session", verb, "--help").stdout.decode().splitlines()
    assert "\\b" not in "".join(lines)
    example = lines.index("  Examples:") + 1
    assert lines[example].startswith(f"    affiant session {verb} ")
    assert any(line.startswith("  Exit codes: ") for line in lines)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A state folder with a session that has ended, and the kept output of a hostile command."""
    made = open_home(tmp_path / "home")
    made.session(SESSION).mkdir()
    asked = Asked(agent="a", profile="p", started=1)
    write_note(made, SessionNote(session=SESSION, state=SessionState.CLOSED, asked=asked, ended=2))
    folder = output_folder(made, SESSION)
    folder.mkdir(parents=True)
    (folder / "1.stdout").write_bytes(HOSTILE)
    (folder / "1.stderr").write_bytes(b"affiant: wrong\x1b[8m\n")
    (folder / "1.json").write_text('{"code": 3, "dropped": {"stdout": 7, "stderr": 0}, "failed": null}')
    return made


def logs_on_a_terminal(home: Home, *options: str) -> bytes:
    """What a terminal gets of ``affiant session logs``."""
    master, slave = pty.openpty()
    argv = [sys.executable, "-m", "affiant", "session", "logs", "--home", str(home.path), *options, SESSION]
    with subprocess.Popen([*argv, "1"], stdin=slave, stdout=slave, stderr=slave, cwd="/") as process:
        os.close(slave)
        shown = b""
        try:
            while piece := os.read(master, 65536):
                shown += piece
        except OSError:  # the last writer has left
            pass
        assert process.wait(30) == 0, shown
    os.close(master)
    return shown


def test_kept_output_cannot_steer_a_terminal_or_forge_a_line_of_affiants(home: Home) -> None:
    shown = logs_on_a_terminal(home)
    assert set(re.findall(rb"\x1b[^a-zA-Z]*[a-zA-Z]", shown)) <= {b"\x1b[8m", b"\x1b[0m", b"\x1b[K"}
    assert b"\x07" not in shown
    assert b"abc\raffiant" not in shown
    lines = [
        line for line in re.sub(rb"\x1b\[[08]m", b"", shown).splitlines() if line.startswith(b"affiant: ")
    ]
    assert lines == [b"affiant: 7 bytes of the output are not kept; the last 4 MiB are"]
    assert shown.count(b"affiant (in the command's output):") == 2


def test_raw_passes_it_on_to_a_terminal(home: Home) -> None:
    assert b"\x1b]52;c;ZXZpbA==\x07" in logs_on_a_terminal(home, "--raw")


def test_redirected_kept_output_is_what_was_written(home: Home) -> None:
    argv = [sys.executable, "-m", "affiant", "session", "logs", "--home", str(home.path), "-f", SESSION, "1"]
    done = subprocess.run(argv, capture_output=True, timeout=60, check=False, cwd="/")
    assert (done.returncode, done.stdout) == (3, HOSTILE)
    assert done.stderr.startswith(b"affiant: wrong\x1b[8m\n")


class Busy:
    """A session with a command that writes whenever its output is read."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    async def kept(self, number: int, at: tuple[int, int] = (0, 0), *, wait: bool = False) -> KeptPiece:
        assert not wait
        self.asked.append(at)
        end = (10 + len(self.asked), 4)
        step = (min(at[0] + 4, end[0]), min(at[1] + 4, end[1]))
        return KeptPiece(
            b"o" * (step[0] - at[0]), b"e" * (step[1] - at[1]), step, ended=False, exit_code=None, end=end
        )


def test_kept_output_is_printed_up_to_where_it_ended_at_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    session, printed = Busy(), list[Sequence[bytes]]()
    monkeypatch.setattr(detached_commands, "_print", lambda _, *pieces: printed.append(pieces))

    async def go() -> None:
        async with asyncio.timeout(10):
            await detached_commands._followed(session, 1, (1, 2), follow=False)  # type: ignore[arg-type]

    asyncio.run(go())
    assert session.asked == [(0, 0), (4, 4), (8, 4)]
    assert b"".join(out for out, _ in printed) == b"o" * 12
    assert b"".join(err for _, err in printed) == b"e" * 4


def test_a_host_that_ends_early_is_one_error_on_the_command_line_and_in_python() -> None:
    def ended() -> StartingHost:
        return StartingHost(0, io.StringIO('{"event": "step", "step": "planned", "detail": {}}\n'))

    with raises_code("session.host_failed"):
        detached_commands._until_ready(ended(), RunReport(Detail.QUIET))
    with raises_code("session.host_failed"):
        host_process._session(ended())
