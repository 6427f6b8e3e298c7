"""What the runner does when the machine refuses a step after a process exists. Parts of it are in its place."""

import errno
import os
import time
from types import SimpleNamespace

import pytest

from affiant.sandbox.isolation.plan.driver import Started
from affiant.sandbox.isolation.plan.errors import CommandNotRun, LimitExceeded
from affiant.sandbox.isolation.plan.file_access import FileAct, FileCall
from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.isolation.plan.plan import Command, HostUsr
from affiant.sandbox.isolation.plan.protocol import command_to_json
from affiant.sandbox.isolation.runner import file_calls
from affiant.sandbox.isolation.runner.file_calls import FileCalls
from affiant.sandbox.isolation.runner.lifecycle import Sandbox, State
from affiant.sandbox.isolation.runner.runner_settings import Settings
from affiant.sandbox.isolation.runner.serving import Runner

COMMAND = Command(("/bin/true",))
START = {"command": command_to_json(COMMAND), "terminal": False}


def refuse(*_):
    raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))


def test_a_call_on_files_that_is_rejected_does_not_go_on(monkeypatch):
    forked = []
    fork = os.fork
    monkeypatch.setattr(os, "fork", lambda: forked.append(fork()) or forked[-1])
    monkeypatch.setattr(os, "pidfd_open", refuse)
    monkeypatch.setattr(file_calls, "be_file_child", lambda *_, **__: time.sleep(60) or os._exit(0))
    calls = FileCalls()
    with pytest.raises(OSError, match="memory"):
        calls.begin(1, FileCall(FileAct.STAT, "/w/x"), None, (0,))
    with pytest.raises(ChildProcessError):
        os.waitpid(forked[0], 0)
    assert not calls.ends


def test_a_command_whose_start_is_rejected_does_not_run(monkeypatch):
    """It may have started processes by then: they end with the sandbox."""
    killed = []
    started = Started(COMMAND, 1, -1, 0.0)
    sandbox = SimpleNamespace(
        running={1: started}, start=lambda *_, **__: 1, kill=lambda: killed.append("all")
    )
    monkeypatch.setattr(os, "pidfd_open", refuse)
    with pytest.raises(OSError, match="memory"):
        Runner(None, sandbox)._start(START, (0, 1, 2))
    assert killed == ["all"]


def not_started():
    """A command for which the sandbox took no process, as its report says; the program has ended."""
    steps = [0] * 10
    steps[5] = -errno.ENOMEM
    report = b"".join(step.to_bytes(8, "little", signed=True) for step in steps) + bytes(144)
    return Started(COMMAND, os.posix_spawn("/bin/true", ["true"], {}), -1, 0.0, report)


@pytest.mark.parametrize("end", ["of the sandbox", "of the command"])
@pytest.mark.parametrize("limit", [LimitExceeded("more memory than allowed", where="memory"), None])
def test_a_command_that_finds_no_process_at_the_end_reports_the_limit_that_was_reached(tmp_path, end, limit):
    settings = Settings(tmp_path, BackendName.BUBBLEWRAP, HostUsr(), None)
    sandbox = Sandbox(settings, State.PREPARED, running={1: not_started()}, _ended_by=limit)
    sandbox.ended() if end == "of the sandbox" else sandbox.command_ended(1)
    outcome = sandbox.outcomes[1]
    assert outcome is limit or (limit is None and isinstance(outcome, CommandNotRun))
