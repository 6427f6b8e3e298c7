"""One command's outputs: what the supervisor does while nothing is to be read."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from affiant.errors import AffiantError
from affiant.sandbox.isolation.plan.errors import FrameError, SessionBusy, StepError
from affiant.sandbox.isolation.plan.plan import Command
from affiant.sandbox.supervisor import command_execution
from affiant.sandbox.supervisor.acts import Acts, Ending
from affiant.sandbox.supervisor.agent_runs import Commands
from affiant.sandbox.supervisor.command_execution import AgentRun, RunServices, _Output
from affiant.sandbox.supervisor.launch.control import Message
from affiant.sandbox.supervisor.launch.user_streams import UserOutput, UserStreams


class Plain:
    """A broker that knows no secret."""

    @asynccontextmanager
    async def redactor(self, *, live: bool) -> AsyncIterator[Any]:
        async def unchanged(data: bytes) -> bytes:
            return data

        async def rest() -> tuple[bytes, int]:
            return b"", 0

        async def nothing() -> bytes:
            return b""

        yield SimpleNamespace(feed=unchanged, settle=nothing, flush=rest)


class Kept:
    """Records, as they are made: phase, and how it ended."""

    def __init__(self) -> None:
        self.made: list[tuple[object, object]] = []

    async def record(self, _kind: str, members: Mapping[str, Any], *_: object, **__: object) -> str:
        self.made.append((members["ph"], members["act"].get("end")))
        return "r"


@pytest.mark.parametrize(
    ("terminal", "left"), [(None, n) for n in range(3)] + [([24, 80], n) for n in range(4)]
)
def test_a_command_without_descriptors_left_is_rejected_and_the_session_goes_on(
    monkeypatch: pytest.MonkeyPatch,
    terminal: list[int] | None,
    left: int,
) -> None:
    """After ``left`` calls that succeed, no descriptor can be made. Nothing is lost, and nothing has run."""
    calls = iter(range(100))

    def limited(make: Any) -> Any:
        def made(*arguments: Any) -> Any:
            if next(calls) >= left:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return make(*arguments)

        return made

    async def scenario() -> list[Any]:
        records, told = Kept(), list[Any]()
        unused: Any = None
        provision: Any = SimpleNamespace(backend=SimpleNamespace(value="gvisor"), runtime=None)
        session: Any = SimpleNamespace(
            runner=unused, broker=Plain(), records=records, provision=provision, placeholders={}, proxy_url=""
        )

        async def tell(event: Mapping[str, object]) -> None:
            told.append(event)

        ended: list[Ending] = []
        acts = Acts(tell, ended.append)
        user = {name: os.open(os.devnull, os.O_RDWR) for name in ("stdin", "stdout", "stderr")}
        members = {"id": 1, "op": "run", "argv": ["true"], "env": {}, "cwd": "/", "terminal": terminal}
        before = len(os.listdir("/proc/self/fd")) - len(user)
        with monkeypatch.context() as patched:
            for name in ("pipe2", "openpty", "dup"):
                patched.setattr(os, name, limited(getattr(os, name)))
            acts.begin(Message(members, user), Commands(session, os.urandom).run)
            await asyncio.gather(*acts.tasks)
        while len(os.listdir("/proc/self/fd")) > before:  # a thread may still read the user's input
            await asyncio.sleep(0.01)
        return [ended, [event["event"] for event in told], told[0].get("code"), records.made]

    recorded = [("intent", None), ("outcome", "failed")]
    assert asyncio.run(scenario()) == [[], ["rejected"], "session.busy", recorded]


class Failing:
    """A runner that delivers no signal but SIGKILL, and says what it was asked."""

    def __init__(self, error: AffiantError) -> None:
        self.error, self.asked = error, list[int]()

    async def signal(self, _command: int, number: int) -> None:
        self.asked.append(number)
        if number != signal.SIGKILL:
            raise self.error


def signalled(runner: Failing, numbers: Sequence[int]) -> bytes:
    """What a user reads of a command that is sent ``numbers``."""

    async def scenario() -> bytes:
        reading, writing = os.pipe()
        unused: Any = None
        services = RunServices(runner, Plain(), unused, "gvisor", ThreadPoolExecutor(2))  # type: ignore[arg-type]
        user = UserStreams(None, os.open(os.devnull, os.O_WRONLY), writing)
        run = AgentRun(services, Command(("true",)), user, unused)
        run._started.set()
        for number in numbers:
            run.signal(number)
        await asyncio.gather(*run._deliveries)
        user.close()
        with open(reading, "rb") as left:
            return left.read()

    return asyncio.run(scenario())


@pytest.mark.parametrize("kind", [StepError, SessionBusy, FrameError])
def test_a_signal_that_was_not_delivered_is_said_among_the_commands_errors(
    monkeypatch: pytest.MonkeyPatch, kind: type[AffiantError]
) -> None:
    monkeypatch.setattr(command_execution, "_DELIVERY_S", 0.0)
    said = signalled(Failing(kind("gVisor did not answer in time")), [signal.SIGTERM])
    assert said == b"affiant: signal 15 was not delivered: gVisor did not answer in time\n"


def test_signals_are_delivered_in_order_and_sigkill_waits_for_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command_execution, "_DELIVERY_S", 0.1)
    runner = Failing(StepError("not yet"))
    signalled(runner, [signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL])
    assert runner.asked[:2] == [signal.SIGSTOP, signal.SIGKILL]
    assert runner.asked.index(signal.SIGCONT) > max(
        at for at, number in enumerate(runner.asked) if number == signal.SIGSTOP
    )


def test_an_output_is_watched_only_while_it_is_waited_for() -> None:
    """At its end a pipe is ready for ever: watched on, it would take a processor until the command's end is known."""

    async def scenario() -> tuple[list[bool], bytes]:
        reading, writing = os.pipe()
        unused: Any = None
        services = RunServices(unused, Plain(), unused, "gvisor", ThreadPoolExecutor(2))  # type: ignore[arg-type]
        output = _Output(services, UserOutput(writing), threading.Event())
        loop = asyncio.get_running_loop()
        watched = [loop.remove_reader(output._reading)]
        copying = asyncio.create_task(output.copy())
        os.write(output.write_end, b"one")
        while await asyncio.to_thread(os.read, reading, 3) != b"one":
            pass
        await asyncio.sleep(0.01)
        os.write(output.write_end, b"two")
        output.close_write_end()
        await copying
        watched.append(loop.remove_reader(output._reading))
        output.close()
        output._user.close()
        with open(reading, "rb") as left:
            return watched, left.read()

    assert asyncio.run(scenario()) == ([False, False], b"two")
