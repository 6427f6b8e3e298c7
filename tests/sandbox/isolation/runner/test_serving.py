"""What the runner does when the machine refuses a step after a process exists. Parts of it are in its place."""

import errno
import os
import select
import signal
import time
from types import SimpleNamespace

import pytest

from affiant.sandbox.isolation.plan.driver import Started
from affiant.sandbox.isolation.plan.errors import (
    CommandNotRun,
    LimitExceeded,
    SandboxFailed,
    SessionBusy,
    StepError,
)
from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.isolation.plan.plan import Command, HostUsr, Limits
from affiant.sandbox.isolation.plan.protocol import (
    command_to_json,
    control_pair,
    receive_frame,
    send_frame,
)
from affiant.sandbox.isolation.runner import lifecycle
from affiant.sandbox.isolation.runner.children import Children
from affiant.sandbox.isolation.runner.lifecycle import Sandbox, State
from affiant.sandbox.isolation.runner.runner_settings import Settings
from affiant.sandbox.isolation.runner.serving import Runner

COMMAND = Command(("/bin/true",))
START = {"command": command_to_json(COMMAND), "terminal": False}


def refuse(*_):
    raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))


def test_what_a_child_is_to_do_and_is_rejected_does_not_go_on(monkeypatch):
    forked = []
    fork = os.fork
    monkeypatch.setattr(os, "fork", lambda: forked.append(fork()) or forked[-1])
    monkeypatch.setattr(os, "pidfd_open", refuse)
    calls = Children("calls", 16)
    with pytest.raises(OSError, match="memory"):
        calls.begin(1, lambda: time.sleep(60))
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


def test_a_signal_that_takes_long_holds_up_nothing_else():
    ours, theirs = control_pair()
    sandbox = SimpleNamespace(
        end=None, signal=lambda *_: lambda: time.sleep(60), measure=lambda: {"bytes": 1}
    )
    runner = Runner(theirs, sandbox)
    with ours, theirs:
        send_frame(ours, {"id": 1, "do": "signal", "command": 1, "number": 9})
        send_frame(ours, {"id": 2, "do": "measure"})
        assert (runner._turn(), runner._turn()) == (True, True)
        assert receive_frame(ours) == ({"id": 2, "ok": {"bytes": 1}}, ())
        runner._signals.end_all()


def test_the_error_of_a_child_is_the_answer():
    def fail():
        raise StepError("the signal found no process", expected="one")

    children = Children("signals", 1)
    children.begin(7, fail)
    (end,) = children.ends
    with pytest.raises(SessionBusy, match="too many signals"):
        children.begin(8, fail)
    select.select([end], [], [])
    ((request, error),) = children.ended({end})
    assert (request, type(error), error.expected) == (7, StepError, "one")
    assert not children.ends


def test_a_command_that_sigkill_does_not_end_ends_with_the_whole_sandbox(tmp_path, monkeypatch):
    """The last resort, where the kernel under the agent does not carry out a signal any more."""
    monkeypatch.setattr(lifecycle, "KILL_SECONDS", 0.0)
    killed = []
    running = {
        number: Started(COMMAND, os.posix_spawn("/bin/true", ["true"], {}), -1, 0.0) for number in (1, 2)
    }
    sandbox = Sandbox(
        Settings(tmp_path, BackendName.GVISOR, HostUsr(), None),
        State.PREPARED,
        end=os.open(os.devnull, os.O_RDONLY),
        running=running,
        _enclosure=SimpleNamespace(kill=lambda: killed.append("all")),
        _memory=SimpleNamespace(exceeded=False),
        _driver=SimpleNamespace(signal=lambda *_: lambda: None, log=lambda: b""),
        _prepared=SimpleNamespace(plan=SimpleNamespace(limits=Limits())),
    )
    sandbox.watch()
    assert killed == []
    sandbox.signal(1, signal.SIGKILL)
    sandbox.watch()
    assert killed == ["all"]
    sandbox.ended()
    assert sandbox.outcomes[1].code == 137
    assert isinstance(sandbox.outcomes[2], SandboxFailed)
    with pytest.raises(SandboxFailed, match="SIGKILL"):
        sandbox.start(COMMAND, None)


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
