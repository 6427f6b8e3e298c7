"""Ctrl-C while a session is being opened: answered at once, over within two seconds, and nothing is left half done.

Each case interrupts the launcher in one state of the start: the launcher signals itself when it gets there. Afterwards
there is no session at all, or a closed one with receipts that hold.
"""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.sandbox.conftest import Machine, affiant, at_once

AT_A_STEP = """
import asyncio, os, signal, sys, time
from affiant.sandbox.session import {module}
wanted, mark = {step!r}, {mark!r}
def interrupt():
    with open(mark, "w") as file:
        file.write(str(time.monotonic()))
    os.kill(os.getpid(), signal.SIGINT)
{patch}
from affiant.__main__ import main
main()
"""
PROGRESS = """
real = run_report.RunReport.step
def step(self, name, detail):
    real(self, name, detail)
    if name == wanted:
        interrupt()
run_report.RunReport.step = step
"""
CALL = """
real = getattr({module}, wanted)
def called(*args, **named):
    if {first}:
        interrupt()
        return real(*args, **named)
    result = real(*args, **named)
    interrupt()
    return result
setattr({module}, wanted, called)
"""


def interrupted(
    machine: Machine,
    step: str,
    *options: str,
    patch: str,
    module: str,
    mark: Path,
    command: tuple[str, ...] = ("echo", "ran"),
    stdout: int = subprocess.PIPE,
):
    """The ended launcher, and the seconds from its signal to its end."""
    script = AT_A_STEP.format(step=step, mark=str(mark), patch=patch, module=module)
    argv = [sys.executable, "-c", script, *machine.argv(*command, options=options)[3:]]
    done = subprocess.run(
        argv,
        stdout=stdout,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
        cwd="/",
    )
    ended = time.monotonic()
    assert mark.exists(), done.stderr.decode()
    took = ended - float(mark.read_text())
    print(step, f"{took:.2f} s")
    return done, took


def sessions(machine: Machine) -> dict[str, dict[str, object]]:
    listed = affiant("session", "list", "--home", str(machine.home), "--json")
    return {entry["session"]: entry for entry in json.loads(listed.stdout)["sessions"]}


def check(
    machine: Machine, done: subprocess.CompletedProcess[bytes], before: set[str], *, closed: bool
) -> None:
    said = done.stderr.decode()
    assert (done.returncode, done.stdout or b"") == (130, b""), said
    # not at the beginning of a line: the command has the same standard error, and may have left a line without its end
    assert "affiant: interrupted; ending what was started\n" in said
    assert "Traceback" not in said
    made = [entry for name, entry in sessions(machine).items() if name not in before]
    assert [entry["state"] for entry in made] == ["closed"] * closed
    for entry in made:
        assert f"affiant: receipts in {entry['bundle']}\n" in said
        text = machine.verdict(Path(str(entry["bundle"])))
        assert "1 started, 1 closed, 0 lost, 0 open" in text
        name = str(entry["session"])
        again = affiant("session", "recover", name, "--home", str(machine.home), "--json")
        assert json.loads(again.stdout)["closed"] == "killed"
        assert sessions(machine)[name]["state"] == "closed"
    left = {path.name for path in (machine.home / "sessions").iterdir()} - before
    assert left == {str(entry["session"]) for entry in made}
    assert not list(machine.home.glob("launches/*"))


BEFORE_ADMISSION = ("planned", "services-ready", "input", "provisioned", "attested-gateway")
FROM_THEN_ON = ("attested", "admitted", "secrets", "sandbox-prepared", "ready")


AT_ONCE = ("services-ready", "attested", "ready")
"""In every run; the others are long ones."""


@pytest.mark.parametrize(
    "step",
    [
        step if step in AT_ONCE else pytest.param(step, marks=pytest.mark.slow)
        for step in (*BEFORE_ADMISSION, *FROM_THEN_ON)
    ],
)
def test_ctrl_c_leaves_no_session_or_a_closed_one_with_its_receipts(warm: Machine, tmp_path: Path, step: str):
    before = {path.name for path in (warm.home / "sessions").iterdir()} if warm.home.exists() else set()
    options = ("--input", str(warm.folder / "in"))
    done, took = interrupted(
        warm, step, *options, patch=PROGRESS, module="run_report", mark=tmp_path / "mark"
    )
    check(warm, done, before, closed=step in FROM_THEN_ON)
    assert took < at_once(), done.stderr.decode()


def test_ctrl_c_on_a_terminal_before_the_command_has_started_does_not_wait_for_its_end(
    warm: Machine, tmp_path: Path
):
    """The supervisor has the command's streams by then, and closes them when the session is closed."""
    patch = """
from affiant.sandbox.session import supervisor_link
real = supervisor_link.SupervisorLink.tell
async def tell(self, message, descriptors=None):
    await real(self, message, descriptors)
    if message.get("op") == wanted:
        interrupt()
supervisor_link.SupervisorLink.tell = tell
"""
    before = {path.name for path in (warm.home / "sessions").iterdir()} if warm.home.exists() else set()
    terminal, line = pty.openpty()
    try:
        done, took = interrupted(
            warm,
            "run",
            patch=patch,
            module="run_report",
            mark=tmp_path / "mark",
            command=("sleep", "20"),
            stdout=line,
        )
    finally:
        os.close(line)
        os.close(terminal)
    check(warm, done, before, closed=True)
    assert took < at_once(), done.stderr.decode()


@pytest.mark.parametrize("step", ["input", "attested"])
def test_what_is_copied_or_left_elsewhere_is_whole(warm: Machine, tmp_path: Path, step: str):
    """``--bundle`` and ``--json`` are written for an interrupted start too, if there are receipts."""
    places = {name: tmp_path / name for name in ("bundle", "json")}
    options = [f"--{name}={path}" for name, path in places.items()]
    options += ["--input", str(warm.folder / "in")]
    done, _ = interrupted(warm, step, *options, patch=PROGRESS, module="run_report", mark=tmp_path / "mark")
    summary = json.loads(places["json"].read_bytes())
    assert (done.returncode, summary["exit_code"]) == (130, 130)
    assert places["bundle"].exists() is (step == "attested")
    assert summary["bundle"] == (str(places["bundle"]) if step == "attested" else None)
    if step == "attested":
        assert "1 started, 1 closed" in warm.verdict(places["bundle"])


@pytest.mark.slow
def test_ctrl_c_while_a_large_input_is_copied_stops_the_copy(warm: Machine, tmp_path: Path):
    source = tmp_path / "in"
    source.mkdir()
    with open(source / "large", "wb") as file:
        os.truncate(file.fileno(), 3 << 30)  # sparse; its copy is not
    before = {path.name for path in (warm.home / "sessions").iterdir()}
    patch = CALL.format(module="attested_launch", first=True)
    done, took = interrupted(
        warm,
        "copy_in",
        *("--input", str(source)),
        patch=patch,
        module="attested_launch",
        mark=tmp_path / "mark",
    )
    check(warm, done, before, closed=False)
    assert took < at_once()


@pytest.mark.slow
def test_ctrl_c_ends_the_services_of_the_last_launcher_too(machine: Machine, tmp_path: Path):
    done, took = interrupted(machine, "admitted", patch=PROGRESS, module="run_report", mark=tmp_path / "mark")
    assert took < at_once()
    assert machine.quiet_within(5), machine.processes()
    check(machine, done, set(), closed=True)


@pytest.mark.slow
def test_a_gateway_that_does_not_answer_makes_a_session_lost_and_that_is_said(
    machine: Machine, tmp_path: Path
):
    """It stops (SIGSTOP) when it has admitted the session, and goes on when the launcher has ended."""
    stop = f"""
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.sandbox.conftest import family
real_interrupt = interrupt
def interrupt():
    server = ".".join(["affiant", "gateway", "process", "server"])  # not a word of this program's own arguments
    servers = [each.pid for each in family(os.getpid()) if server in each.arguments]
    with open(mark + ".stopped", "w") as file:
        file.write(" ".join(map(str, servers)))
    for pid in servers:
        os.kill(pid, signal.SIGSTOP)
    real_interrupt()
"""
    places = {"bundle": tmp_path / "bundle", "json": tmp_path / "json"}
    options = [f"--{name}={path}" for name, path in places.items()]
    mark = tmp_path / "mark"
    try:
        done, took = interrupted(
            machine, "admitted", *options, patch=stop + PROGRESS, module="run_report", mark=mark
        )
    finally:
        for pid in (tmp_path / "mark.stopped").read_text().split():
            os.kill(int(pid), signal.SIGCONT)
    assert (done.returncode, done.stdout) == (130, b""), done.stderr.decode()
    summary = json.loads(places["json"].read_bytes())
    (session,) = sessions(machine)
    recover = f"Gather what was recorded: affiant session recover {session}"
    said = f"affiant: session {session} ended without a signed close. {recover}"
    assert said in done.stderr.decode().splitlines()
    assert (summary["session"], summary["bundle"], summary["exit_code"]) == (session, None, 130)
    assert sessions(machine)[session]["state"] == "lost"
    assert took < 8 + at_once(), done.stderr.decode()
    assert machine.quiet_within(10), machine.processes()
    again = affiant("session", "recover", session, "--home", str(machine.home), "--json")
    assert again.returncode == 0, again.stderr


def test_ctrl_c_while_services_are_starting_ends_them(machine: Machine, tmp_path: Path):
    patch = """
from affiant.sandbox.processes import services
real = services.start_service
def started(spec, **named):
    made = real(spec, **named)
    if spec.name == wanted:
        asyncio.get_running_loop().call_later(0.5, interrupt)
    return made
services.start_service = started
"""
    done, took = interrupted(
        machine, "service supervisor", patch=patch, module="run_report", mark=tmp_path / "mark"
    )
    check(machine, done, set(), closed=False)
    assert took < at_once()
    assert machine.quiet_within(5), machine.processes()
