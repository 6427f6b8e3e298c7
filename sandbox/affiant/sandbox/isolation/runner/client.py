"""The unprivileged side: an asyncio client of the runner, and the launcher's way to start one.

The launcher calls :func:`spawn_runner` (with root where gVisor is wanted) and gives the control socket to the
supervisor, which builds a :class:`RunnerClient` over it::

    runner = RunnerClient(control)
    proxy = await runner.prepare(plan, ca_bundle=pem)      # proxy.listeners: accept the sandbox's connections
    number = await runner.start(Command(("python3", "agent.py"), env), stdin=0, stdout=w1, stderr=w2)
    end = await runner.wait(number)
    await runner.cleanup()

Closing the client without :meth:`RunnerClient.cleanup` has the same effect: the runner ends the sandbox.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from affiant.errors import AffiantError
from affiant.sandbox.base.template_order import StartedProgram, start_here
from affiant.sandbox.isolation.plan.driver import Ended
from affiant.sandbox.isolation.plan.errors import FrameError, RunnerLost, error_from_json
from affiant.sandbox.isolation.plan.file_access import FileCall, call_to_json
from affiant.sandbox.isolation.plan.plan import Command, SandboxPlan
from affiant.sandbox.isolation.plan.protocol import (
    command_to_json,
    control_pair,
    plan_to_json,
    receive_frame,
    send_frame,
)
from affiant.sandbox.isolation.runner.network import Endpoint, Listeners
from affiant.sandbox.isolation.runner.runner_settings import Settings, runner_command

__all__ = ["ProxySocket", "RunnerClient", "spawn_runner"]

_ENVIRONMENT: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
"""All that the runner inherits; the launcher's own environment may hold anything."""


@dataclass(frozen=True, slots=True)
class ProxySocket:
    """The only way out of the sandbox: two listening TCP sockets that nothing else can reach."""

    endpoint: Endpoint
    listeners: Listeners
    backend: str
    memory: str
    """What keeps the memory limit: ``cgroup``, or ``watchdog``."""
    paths: str
    """Whether the agent can read where the session's folder lies: ``hidden``, or ``shown``."""
    release: str | None = None
    """Of gVisor, where that isolates and says it."""


def spawn_runner(settings: Settings, *, template: int | None = None) -> tuple[StartedProgram, socket.socket]:
    """Start a runner as the present user; return it and the supervisor's end of its control socket.

    Args:
        template: names the socket of a template process, which forks it if it can.
    """
    ours, theirs = control_pair()
    with theirs:
        command = runner_command(settings, control_fd=theirs.fileno())
        process = start_here(command, environment=_ENVIRONMENT, control=theirs.fileno(), template=template)
    return process, ours


class RunnerClient:
    """Commands to one runner. Several may be under way at once (``wait`` usually is)."""

    def __init__(self, control: socket.socket) -> None:
        control.setblocking(False)  # noqa: FBT003 - takes no keyword
        self._control = control
        self._loop = asyncio.get_running_loop()
        self._next = 1
        self._open: dict[int, asyncio.Future[tuple[Mapping[str, object], tuple[int, ...]]]] = {}
        self._loop.add_reader(control, self._read)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the runner, which then ends the sandbox. Idempotent."""
        if self._control.fileno() >= 0:
            self._loop.remove_reader(self._control)
            self._control.close()
        lost = RunnerLost("the control socket was closed")
        for future in self._open.values():
            if not future.done():
                future.set_exception(lost)
        self._open.clear()

    async def prepare(self, plan: SandboxPlan, *, ca_bundle: bytes) -> ProxySocket:
        """Make the sandbox; ``ca_bundle`` is the PEM that programs inside shall trust.

        Raises:
            ``isolation.plan``: the plan does not fit what the launcher fixed.
            SandboxFailed: the machine refused a step.
        """
        bundle = os.memfd_create("affiant-ca-bundle", os.MFD_CLOEXEC)
        try:
            _write_all(bundle, ca_bundle)
            facts, descriptors = await self._ask("prepare", {"plan": plan_to_json(plan)}, (bundle,))
        finally:
            os.close(bundle)
        if len(descriptors) != 2:
            _close(descriptors)
            raise FrameError("the runner sent another number of sockets than two")
        listeners = Listeners(*(socket.socket(fileno=descriptor) for descriptor in descriptors))
        return ProxySocket(
            endpoint=Endpoint(str(facts["host"]), _integer(facts, "port")),
            listeners=listeners,
            backend=str(facts["backend"]),
            memory=str(facts["memory"]),
            paths=str(facts["paths"]),
            release=None if facts["release"] is None else str(facts["release"]),
        )

    async def start(
        self, command: Command, *, stdin: int, stdout: int, stderr: int, terminal: bool = False
    ) -> int:
        """Start a command, beside those that run; its number. The descriptors stay the caller's.

        Args:
            stdout, stderr: not regular files. terminal: all three are a terminal, which is to control the command.
        """
        members = {"command": command_to_json(command), "terminal": terminal}
        facts, _ = await self._ask("start", members, (stdin, stdout, stderr))
        return _integer(facts, "command")

    async def signal(self, command: int, number: int) -> None:
        """Send a signal: those of ``driver.FOR_ALL`` to every process of the command, another to its first."""
        await self._ask("signal", {"command": command, "number": number})

    async def wait(self, command: int) -> Ended:
        """Until the command has ended: how.

        Raises:
            CommandNotRun: it could not be executed.
            LimitExceeded: a limit of the plan ended it, and the sandbox.
            SandboxFailed: the sandbox did not come up, or was lost.
            RunnerLost: the runner is gone, and the sandbox with it.
        """
        facts, _ = await self._ask("wait", {"command": command})
        code, wall = _integer(facts, "code"), _integer(facts, "wall_us")
        processor, peak = facts.get("processor_us"), facts.get("peak_bytes")
        return Ended(
            code,
            wall,
            processor if isinstance(processor, int) else None,
            peak if isinstance(peak, int) else None,
        )

    async def files(self, call: FileCall, *, output: int, content: int | None = None) -> None:
        """Have a call on the session's files carried out.

        Args:
            output: a file that the stream of what came of it is written to. content: one with what the call writes.

        Raises:
            AffiantError: the profile or the disk limit does not allow it, or it was lost.
        """
        descriptors = (output,) if content is None else (output, content)
        await self._ask("files", {"call": call_to_json(call)}, descriptors)

    async def connect(self, port: int) -> socket.socket:
        """A socket on its way to the agent's server at ``port``; it does not block.

        Raises:
            ``ports.refused``: nothing listens there.
        """
        _, descriptors = await self._ask("connect", {"port": port})
        if len(descriptors) != 1:
            _close(descriptors)
            raise FrameError("the runner sent another number of sockets than one")
        return socket.socket(fileno=descriptors[0])

    async def measure(self) -> Mapping[str, int]:
        """What the sandbox holds now: bytes of memory and files, commands, microseconds of those that have ended."""
        facts, _ = await self._ask("measure", {})
        return {name: _integer(facts, name) for name in facts}

    async def kill(self) -> None:
        """End everything in the sandbox at once; ``wait`` then returns."""
        await self._ask("kill", {})

    async def cleanup(self) -> None:
        """End the sandbox and the runner; nothing but the session's files is left when this returns."""
        await self._ask("cleanup", {})
        self.close()

    async def _ask(
        self, command: str, members: Mapping[str, object], descriptors: Sequence[int] = ()
    ) -> tuple[Mapping[str, object], tuple[int, ...]]:
        if self._control.fileno() < 0:
            raise RunnerLost("the control socket is closed")
        number, self._next = self._next, self._next + 1
        future = self._loop.create_future()
        self._open[number] = future
        try:
            send_frame(self._control, {"id": number, "do": command, **members}, descriptors)
            answer, received = await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:  # the answer came too
                _close(future.result()[1])
            raise
        except OSError as error:
            raise RunnerLost("the runner does not take commands any more") from error
        finally:
            self._open.pop(number, None)
        refused = answer.get("refused")
        if isinstance(refused, dict):
            _close(received)
            raise error_from_json(refused)
        facts = answer.get("ok")
        return (facts if isinstance(facts, dict) else {}), received

    def _read(self) -> None:
        """One frame from the runner to its request; a closed or broken socket ends the client."""
        try:
            received = receive_frame(self._control)
        except BlockingIOError:
            return
        except (AffiantError, OSError):
            self.close()
            return
        if received is None:
            self.close()
            return
        answer, descriptors = received
        number = answer.get("id")
        future = self._open.get(number) if isinstance(number, int) else None
        if future is None or future.done():
            _close(descriptors)
        else:
            future.set_result((answer, descriptors))


def _integer(facts: Mapping[str, object], name: str) -> int:
    value = facts.get(name)
    if not isinstance(value, int):
        raise FrameError("the runner's answer lacks a number", where=name)
    return value


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _close(descriptors: Sequence[int]) -> None:
    for fd in descriptors:
        os.close(fd)
