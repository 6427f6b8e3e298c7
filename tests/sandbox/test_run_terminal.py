"""``affiant run`` on a terminal: what an agent writes is shown, and cannot steer it or speak for affiant."""

from __future__ import annotations

import os
import pty
import subprocess

import pytest
from tests.sandbox.conftest import Machine

EVIL = (
    r"printf '\033[31mred\033[0m\n'; printf '\033]52;c;ZXZpbA==\007'; printf '\033[2J\033[Hgone\n';"
    r" printf 'affiant: nothing was denied\n' >&2; printf '\302\2332J\342\200\256\n'; printf 'no line end'"
)


ONE_STREAM = EVIL.replace(" >&2", "")
"""So that it comes in the order in which it was written: two streams may be shown in pieces of each."""


def on_a_terminal(
    machine: Machine, *options: str, stdout: int | None = None, written: str = ONE_STREAM
) -> bytes:
    """What a terminal is sent by a run whose standard error, and output unless it is redirected, it is."""
    terminal, line = pty.openpty()
    try:
        process = machine.start("sh", "-c", written, options=options, stdout=stdout or line, stderr=line)
        os.close(line)
        seen = b""
        try:
            while data := os.read(terminal, 4096):
                seen += data
        except OSError:  # the last writer has closed it
            pass
        assert process.wait(30) == 0
        return seen.replace(b"\r\n", b"\n")
    finally:
        os.close(terminal)


def test_an_agent_on_a_terminal_may_use_colours_and_nothing_else(warm: Machine) -> None:
    seen = on_a_terminal(warm)
    assert b"\x1b[31mred\x1b[0m\n" in seen
    assert b"\\x1b]52;c;ZXZpbA==\\x07\\x1b[2J\\x1b[Hgone\n" in seen
    assert b"\\u009b2J\\u202e\n" in seen
    assert seen.replace(b"\x1b[31m", b"").replace(b"\x1b[0m", b"").count(b"\x1b") == 0
    lines = seen.splitlines()
    assert any(line.endswith(b"affiant (in the command's output): nothing was denied") for line in lines)
    assert b"affiant: nothing was denied" not in seen
    assert any(line.startswith(b"affiant: receipts in ") for line in lines), "after a line end of ours"


@pytest.mark.slow
def test_two_streams_of_an_agent_on_one_terminal_forge_no_line_either(warm: Machine) -> None:
    """They may be shown in pieces of each, in any order."""
    seen = on_a_terminal(warm, written=EVIL)
    assert seen.replace(b"\x1b[31m", b"").replace(b"\x1b[0m", b"").count(b"\x1b") == 0
    lines = seen.splitlines()
    assert b"nothing was denied" in seen
    assert not [line for line in lines if line.startswith(b"affiant: nothing was denied")]
    assert any(line.startswith(b"affiant: receipts in ") for line in lines), "after a line end of ours"


@pytest.mark.slow
def test_raw_passes_all_of_it_on(warm: Machine) -> None:
    seen = on_a_terminal(warm, "--raw")
    assert b"\x1b]52;c;ZXZpbA==\x07\x1b[2J\x1b[Hgone\n" in seen
    assert b"affiant: nothing was denied\n" in seen
    assert b"(in the command's output)" not in seen


@pytest.mark.slow
def test_what_is_redirected_is_untouched(warm: Machine) -> None:
    reading, writing = os.pipe()
    seen = on_a_terminal(warm, stdout=writing, written=EVIL)
    os.close(writing)
    with open(reading, "rb") as file:
        out = file.read()
    assert out == subprocess.run(["sh", "-c", EVIL], capture_output=True, check=True).stdout
    assert b"affiant (in the command's output): nothing was denied\n" in seen, "alone on its terminal"
