"""Serves the runner's control socket: one thread, one sandbox, one loop.

The loop waits for the control socket, the ends of the sandbox and of its commands, and a clock for the limits. A
refused command is an answer, never an end; a closed socket is the end of everything.
"""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Final

from affiant.errors import AffiantError
from affiant.sandbox.base.template_order import peer_process
from affiant.sandbox.isolation.plan.driver import Ended, Stdio
from affiant.sandbox.isolation.plan.errors import FrameError, SandboxFailed, StepError
from affiant.sandbox.isolation.plan.file_access import FileAct, call_from_json
from affiant.sandbox.isolation.plan.leftover_record import (
    ProcessName,
    RunnerRecord,
    remove_record,
    write_record,
)
from affiant.sandbox.isolation.plan.protocol import (
    command_from_json,
    plan_from_json,
    receive_frame,
    send_frame,
)
from affiant.sandbox.isolation.runner.children import Children
from affiant.sandbox.isolation.runner.file_child import be_file_child
from affiant.sandbox.isolation.runner.given_trees import check_trees
from affiant.sandbox.isolation.runner.lifecycle import Sandbox, State
from affiant.sandbox.isolation.runner.network import PROXY_PORT

__all__ = ["Reply", "Runner"]

_WATCH_MILLISECONDS: Final = 100
_MOST_FILE_CALLS: Final = 16
_MOST_SIGNALS: Final = 64
"""Under way at once."""
_MAX_CA_BUNDLE: Final = 4 << 20
_SIGNALS: Final = frozenset(
    {
        signal.SIGCONT,
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGKILL,
        signal.SIGQUIT,
        signal.SIGSTOP,
        signal.SIGTERM,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGWINCH,
    }
)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer and the descriptors that go with it; the descriptors are closed once it is sent."""

    members: Mapping[str, object] = field(default_factory=dict)
    descriptors: tuple[int, ...] = ()


@dataclass(slots=True)
class Runner:
    """Serves one control socket until it closes or ``cleanup`` is done."""

    control: socket.socket
    sandbox: Sandbox
    _waiting: list[tuple[int, int]] = field(default_factory=list)
    """Request and command."""
    _ends: dict[int, int] = field(default_factory=dict)
    """A pidfd that tells a command's end -> its number."""
    _files: Children = field(default_factory=lambda: Children("calls on files", _MOST_FILE_CALLS))
    _signals: Children = field(default_factory=lambda: Children("signals", _MOST_SIGNALS))

    def serve(self) -> None:
        """Obey, then leave nothing of the sandbox but the session's files."""
        try:
            while self.sandbox.state is not State.CLEANED and self._turn():
                pass
        finally:
            self._clean_up()

    def _turn(self) -> bool:
        """One round of the loop; False: the supervisor is gone."""
        poll = select.poll()
        children = (self._files, self._signals)
        for fd in (
            self.control.fileno(),
            self.sandbox.end,
            *self._ends,
            *(end for each in children for end in each.ends),
        ):
            if fd is not None:
                poll.register(fd, select.POLLIN)
        watched = self.sandbox.end is not None
        ready = {fd for fd, _ in poll.poll(_WATCH_MILLISECONDS if watched else None)}
        for ended, outcome in (pair for each in children for pair in each.ended(ready)):
            self._answer(ended, {"ok": {}} if outcome is None else {"refused": outcome.to_json()})
        for end in ready & self._ends.keys():
            self._command_ended(end)
        if self.sandbox.end is not None and self.sandbox.end in ready:
            self._sandbox_ended()
        elif watched:
            self.sandbox.watch()
        return self.control.fileno() not in ready or self._obey()

    def _obey(self) -> bool:
        """Take one command and answer it; False: the control socket is closed."""
        request = 0
        descriptors: tuple[int, ...] = ()
        try:
            received = receive_frame(self.control)
            if received is None:
                return False
            members, descriptors = received
            request = _request_number(members)
            reply = self._carry_out(request, members, descriptors)
            if reply is not None:
                self._answer(request, {"ok": reply.members}, reply.descriptors)
        except AffiantError as error:
            self._answer(request, {"refused": error.to_json()})
        except (BrokenPipeError, ConnectionResetError):
            return False
        except OSError as error:  # the machine refused a step: that is an answer, and no end of the runner
            refusal = SandboxFailed("the machine refused a step of the sandbox", found=error.strerror)
            self._answer(request, {"refused": refusal.to_json()})
        finally:
            for fd in descriptors:
                os.close(fd)
        return True

    def _carry_out(
        self, request: int, members: Mapping[str, object], descriptors: Sequence[int]
    ) -> Reply | None:
        """Carry out one command; None: the answer comes later."""
        match members.get("do"):
            case "check":
                named = {name: _digest(members, name) for name in ("input_digest", "runtime", "rootfs")}
                check_trees(self.sandbox.settings, **named)
                return Reply()
            case "prepare":
                return self._prepare(members, descriptors)
            case "start":
                return self._start(members, descriptors)
            case "signal":
                return self._signal(request, members)
            case "wait":
                self._waiting.append((request, _number(members, "command")))
                self._answer_waiting()
                return None
            case "files":
                self._begin_file_call(request, members, descriptors)
                return None
            case "connect":
                return Reply({}, (self.sandbox.connect(_port(members)).detach(),))
            case "measure":
                return Reply(self.sandbox.measure())
            case "kill":
                self.sandbox.kill()
                return Reply()
            case "cleanup":
                self._clean_up()
                return Reply()
            case other:
                raise FrameError("unknown command", found=repr(str(other)[:40]))

    def _prepare(self, members: Mapping[str, object], descriptors: Sequence[int]) -> Reply:
        (ca_bundle,) = _exactly(descriptors, 1)
        plan = plan_from_json(members.get("plan"))
        self._record()
        endpoint, listeners = self.sandbox.prepare(
            plan, _read_all(ca_bundle), record=lambda path: self._record(memory=path)
        )
        memory = self.sandbox.enclosure.memory
        self._record(init=self.sandbox.enclosure.init, memory=None if memory is None else str(memory.path))
        facts = {
            "host": endpoint.host,
            "port": endpoint.port,
            "backend": self.sandbox.settings.backend.value,
            "release": self.sandbox.release,
            "memory": "watchdog" if memory is None else "cgroup",
            "paths": "shown" if self.sandbox.paths_show else "hidden",
        }
        return Reply(facts, (listeners.proxy.detach(), listeners.own_hosts.detach()))

    def _record(self, init: int | None = None, memory: str | None = None) -> None:
        runner, owner = (ProcessName.of(pid) for pid in (os.getpid(), peer_process(self.control)[0]))
        if runner is not None and owner is not None:
            process = None if init is None else ProcessName.of(init)
            write_record(self.sandbox.settings.session_dir, RunnerRecord(runner, owner, process, memory))

    def _start(self, members: Mapping[str, object], descriptors: Sequence[int]) -> Reply:
        stdin, stdout, stderr = _exactly(descriptors, 3)
        terminal = members.get("terminal")
        if not isinstance(terminal, bool):
            raise FrameError("a command without saying whether it has a terminal")
        command = command_from_json(members.get("command"))
        number = self.sandbox.start(command, Stdio(stdin, stdout, stderr), terminal=terminal)
        try:
            self._ends[os.pidfd_open(self.sandbox.running[number].pid)] = number
        except (
            OSError
        ):  # a command that is rejected must not go on; what it has started by now ends with the sandbox
            self.sandbox.kill()
            raise
        return Reply({"command": number})

    def _begin_file_call(
        self, request: int, members: Mapping[str, object], descriptors: Sequence[int]
    ) -> None:
        """Start a call. ``descriptors``: for what comes of it; and of a call that writes, with what it writes."""
        call = call_from_json(members.get("call"))
        place = self.sandbox.file_place(call)
        output, *content = _exactly(descriptors, 1 + (call.act in {FileAct.PUT, FileAct.REMOVE}))
        work = partial(be_file_child, call, place, output=output, content=content[0] if content else None)
        self._files.begin(request, work)

    def _signal(self, request: int, members: Mapping[str, object]) -> Reply | None:
        number = members.get("number")
        if not isinstance(number, int) or number not in _SIGNALS:
            raise FrameError("not a signal that may be sent", found=repr(str(number)[:20]))
        deliver = self.sandbox.signal(_number(members, "command"), number)
        if deliver is None:
            return Reply()
        self._signals.begin(request, deliver)
        return None

    def _command_ended(self, end: int) -> None:
        number = self._ends.pop(end)
        os.close(end)
        if number in self.sandbox.running:
            self.sandbox.command_ended(number)
        self._answer_waiting()

    def _sandbox_ended(self) -> None:
        self._forget_ends()
        self.sandbox.ended()
        self._answer_waiting()

    def _answer_waiting(self) -> None:
        """Answer every ``wait`` for a command that has ended, or that there never was."""
        under_way = [each for each in self._waiting if each[1] in self.sandbox.running]
        for request, number in self._waiting:
            if number in self.sandbox.running:
                continue
            match self.sandbox.outcomes.get(number):
                case Ended() as ended:
                    self._answer(request, {"ok": asdict(ended)})
                case None:
                    self._answer(request, {"refused": StepError("there is no such command").to_json()})
                case error:
                    self._answer(request, {"refused": error.to_json()})
        self._waiting = under_way

    def _clean_up(self) -> None:
        self._forget_ends()
        for children in (self._files, self._signals):
            children.end_all()
        self.sandbox.kill()
        self.sandbox.cleanup()
        self._answer_waiting()
        remove_record(self.sandbox.settings.session_dir)

    def _forget_ends(self) -> None:
        for end in self._ends:
            os.close(end)
        self._ends.clear()

    def _answer(self, request: int, members: Mapping[str, object], descriptors: Sequence[int] = ()) -> None:
        try:
            send_frame(self.control, {"id": request, **members}, descriptors)
        except OSError:  # the other end is gone: the next turn finds the socket closed and ends everything
            return
        finally:
            for fd in descriptors:
                os.close(fd)


def _number(members: Mapping[str, object], name: str) -> int:
    number = members.get(name)
    if not isinstance(number, int) or isinstance(number, bool):
        raise FrameError("a member is not a number", where=name)
    return number


def _digest(members: Mapping[str, object], name: str) -> str | None:
    digest = members.get(name)
    if digest is not None and not isinstance(digest, str):
        raise FrameError("a member is no digest", where=name)
    return digest


def _port(members: Mapping[str, object]) -> int:
    """A port of the agent's own servers; the proxy's is not the agent's."""
    port = members.get("port")
    if type(port) is not int or not 1 <= port <= 65535 or port == PROXY_PORT:
        raise FrameError("not a port of the agent's", found=repr(str(port)[:20]))
    return port


def _request_number(members: Mapping[str, object]) -> int:
    request = members.get("id")
    if not isinstance(request, int) or isinstance(request, bool):
        raise FrameError("a request has no number")
    return request


def _exactly(descriptors: Sequence[int], count: int) -> Sequence[int]:
    if len(descriptors) != count:
        raise FrameError("another number of descriptors", expected=str(count), found=str(len(descriptors)))
    return descriptors


def _read_all(fd: int) -> bytes:
    """The trust bundle: a sealed memory file, read from its start whatever its offset is."""
    data = bytearray()
    while chunk := os.pread(fd, 1 << 20, len(data)):
        data += chunk
        if len(data) > _MAX_CA_BUNDLE:
            raise FrameError("the trust bundle is too large", expected=f"at most {_MAX_CA_BUNDLE} bytes")
    return bytes(data)
