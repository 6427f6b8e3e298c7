"""Ctrl-C and its kin: the first is the agent's, the second kills it, and the receipts are written either way."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time

import pytest

from affiant.attestation.bundle.bundle import parse_bundle
from affiant.attestation.records.receipt import parse_receipt

POLITE = "trap 'echo interrupted; exit 3' INT; echo started; sleep 60"
STUBBORN = "trap '' INT TERM HUP; echo started; while :; do sleep 0.1; done"


def close_reason(path) -> str:
    """``why`` of the session's close record, read without judging it."""
    for text in parse_bundle(path.read_bytes()).receipts:
        body = parse_receipt(text).jws.split(".")[1]
        payload = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        if payload["kind"] == "session-close":
            return payload["why"]
    return "no close"


def until_started(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"


def test_ctrl_c_on_a_terminal_is_the_agents(warm, tmp_path):
    """Through a real terminal: the key reaches the launcher's process group only, and all of the agent through it."""
    bundle = tmp_path / "b.json"
    terminal, line = pty.openpty()
    try:
        process = warm.start(
            *("sh", "-c", POLITE),
            options=("--bundle", str(bundle)),
            stdin=line,
            stdout=line,
            stderr=line,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(line)
        seen = b""
        while b"started" not in seen:
            seen += os.read(terminal, 4096)
        os.write(terminal, b"\x03")
        until = time.monotonic() + 20
        while b"interrupted" not in seen and time.monotonic() < until:
            seen += os.read(terminal, 4096)
        assert process.wait(20) == 3
        assert b"affiant: session" in seen, "a terminal is told what happens"
    finally:
        os.close(terminal)
    assert close_reason(bundle) == "done"
    assert "1 closed" in warm.verdict(bundle)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_ending_signals_are_the_agents_too(warm, tmp_path, number):
    process = warm.start("sh", "-c", "echo started; sleep 60", options=("--bundle", str(tmp_path / "b.json")))
    until_started(process)
    process.send_signal(number)
    assert process.wait(20) == 128 + number
    assert close_reason(tmp_path / "b.json") == "done"


@pytest.mark.slow
def test_a_second_ctrl_c_kills_a_command_that_does_not_listen(warm, tmp_path):
    process = warm.start("sh", "-c", STUBBORN, options=("--bundle", str(tmp_path / "b.json")))
    until_started(process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 137
    assert close_reason(tmp_path / "b.json") == "killed"
    assert "1 closed" in warm.verdict(tmp_path / "b.json")


TICKING = "echo started; (while :; do echo tick; sleep 0.05; done) & wait"


def read_for(seconds: float, descriptor: int) -> bytes:
    os.set_blocking(descriptor, False)
    seen, until = b"", time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            seen += os.read(descriptor, 1 << 16)
        except BlockingIOError:
            time.sleep(0.02)
    return seen


@pytest.mark.slow
def test_ctrl_z_stops_the_agent_with_the_launcher_until_both_are_continued(warm):
    """In a process group of its own that a parent watches: elsewhere the kernel stops nobody."""
    process = warm.start("sh", "-c", TICKING, preexec_fn=lambda: os.setpgid(0, 0))
    until_started(process)
    assert process.stdout is not None
    out = process.stdout.fileno()
    assert b"tick" in read_for(0.5, out)
    process.send_signal(signal.SIGTSTP)
    assert os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT) is not None
    read_for(1.0, out)  # what was on its way
    assert read_for(0.5, out) == b""
    process.send_signal(signal.SIGCONT)
    assert b"tick" in read_for(1.5, out)
    process.send_signal(signal.SIGTERM)
    read_for(1.5, out)
    assert process.wait(20) == 143


def test_a_signal_before_the_command_runs_undoes_everything(machine):
    process = machine.start("sh", "-c", "echo started")
    until = time.monotonic() + 20
    while not list(machine.home.glob("launches/*.json")) and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=20)
    assert process.returncode == 130, error
    assert out == b""
    assert b"Traceback" not in error
    assert machine.quiet_within(5), machine.processes()


def test_ctrl_c_while_the_command_line_is_still_loading_is_130(machine):
    """Whatever is being imported just then: nothing of the session has begun."""
    late = (
        "import importlib, os, signal, sys\n"
        "real = importlib.import_module\n"
        "def slow(name):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return real(name)\n"
        "importlib.import_module = slow\n"
        "from affiant.__main__ import main\n"
        "main()\n"
    )
    argv = [sys.executable, "-c", late, *machine.argv("true")[3:]]
    done = subprocess.run(argv, capture_output=True, timeout=30, check=False, cwd="/")
    assert done.returncode == 130
    assert done.stdout == b""
    assert done.stderr.strip() == b""


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_a_command_that_keeps_writing(warm):
    """As without affiant: ``affiant run ... -- yes | head -1`` ends."""
    process = warm.start("sh", "-c", "trap '' INT; while echo line; do :; done; exit 3")
    assert process.stdout.readline() == b"line\n"
    process.stdout.close()
    assert process.wait(30) in (3, 128 + signal.SIGPIPE)
    process.stderr.close()
