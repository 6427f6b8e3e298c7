"""What the driver makes of a ``runsc`` that fails, hangs or finds nothing. Other programs are in its place."""

import json
import os
import signal
import struct
import subprocess
from itertools import chain

import pytest

from affiant.sandbox.isolation.backends import gvisor_driver
from affiant.sandbox.isolation.backends.entering import Confinement
from affiant.sandbox.isolation.backends.gvisor import FIRST_UID
from affiant.sandbox.isolation.backends.gvisor_driver import GVisorDriver
from affiant.sandbox.isolation.plan.driver import Started
from affiant.sandbox.isolation.plan.errors import StepError
from affiant.sandbox.isolation.plan.plan import AGENT_UID, Command, Limits


class Here:
    """In place of an enclosure: nothing is entered."""

    def enter(self):
        pass


def driver(folder, program="/bin/true"):
    (folder / "programs").mkdir()
    return GVisorDriver(program, Here(), Confinement("x86_64", Limits(), b"\0" * 8, None), folder)


def test_a_step_whose_output_another_process_keeps_open_ends_in_time(tmp_path, monkeypatch):
    """An agent can open a pipe that a program inside holds, and keep it: the runner must not wait for its end."""
    monkeypatch.setattr(gvisor_driver, "_CONTROL_SECONDS", 1)
    kept = f"sleep 60 & echo $! > {tmp_path}/keeper; wait"
    with pytest.raises(StepError, match="in time"):
        driver(tmp_path)._control(("/bin/sh", "-c", kept), output=subprocess.PIPE)
    keeper = int((tmp_path / "keeper").read_text())
    os.kill(keeper, signal.SIGKILL)  # it lives: nothing waited for its end


RUNSC = """#!/bin/sh
case "$*" in
*" ps "*) printf 'UID PID PPID C STIME\\n1000 42 1 0 0\\n' ;;
*) cp {0}/signal-1 {0}/process; where=$(readlink /proc/$$/fd/1); echo "$where" > {0}/output ;;
esac
"""


def test_what_sends_a_signal_inside_has_no_pipe_is_not_the_agent_and_may_do_nothing_else(tmp_path):
    runsc = tmp_path / "runsc"
    runsc.write_text(RUNSC.format(tmp_path))
    runsc.chmod(0o700)
    driver(tmp_path, str(runsc)).signal(running(), signal.SIGTERM)()
    assert (tmp_path / "output").read_text() == f"{os.devnull}\n"
    process = json.loads((tmp_path / "process").read_text())
    assert process["user"]["uid"] not in {AGENT_UID, FIRST_UID}
    assert set(chain(*process["capabilities"].values())) == {"CAP_KILL"}
    assert process["noNewPrivileges"]
    assert not list((tmp_path / "programs").iterdir())


@pytest.mark.parametrize("inner", [42, 0], ids=["runs", "was stopped before it reported"])
def test_sigkill_reaches_a_command_by_the_process_that_was_started_for_it(tmp_path, inner):
    runsc = tmp_path / "runsc"
    runsc.write_text(RUNSC.format(tmp_path))
    runsc.chmod(0o700)
    (tmp_path / "exec-1.pid").write_text("41")
    command = running(inner)
    driving = driver(tmp_path, str(runsc))
    driving._commands["exec-1"] = command
    driving.signal(command, signal.SIGKILL)()
    assert (tmp_path / "process").exists()
    if inner == 0:
        with pytest.raises(StepError, match="no process"):
            driving.signal(command, signal.SIGTERM)


def test_a_step_that_gvisor_rejects_is_an_error(tmp_path):
    with pytest.raises(StepError, match="did not carry out"):
        driver(tmp_path)._control(("/bin/false",))


def running(inner=42):
    """A command whose inner process is ``inner`` inside; it is looked for in one place."""
    steps = [0] * 10
    steps[5] = inner
    return Started(Command(("/bin/true",)), 1, -1, 0.0, struct.pack("<10q", *steps) + bytes(144))


@pytest.mark.parametrize(("runsc", "number"), [("/bin/true", 15), ("/bin/false", 15), ("/bin/false", 10)])
def test_a_signal_that_was_not_delivered_is_an_error(tmp_path, runsc, number):
    """``true``: no process is listed any more. ``false``: runsc rejects the step."""
    with pytest.raises(StepError):
        driver(tmp_path, runsc).signal(running(), number)()
    assert not list((tmp_path / "programs").iterdir())
