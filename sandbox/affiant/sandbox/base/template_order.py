"""Asks a template process for a program: a fork of a process with its modules loaded, instead of a new interpreter.

One connection to the template's socket is one order, and one message is one packet::

    caller    the order, with the program's descriptors
    program   {"accepted": PID} with a pidfd, or {"refused": why}
    caller    {"go": true}; without it the program ends, and has not touched a descriptor of the order
    program   {"started": true} before its first line, or {"refused": why}
    template  {"ended": STATUS} when the program has ended

A refused order has started nothing: the caller then starts the program with an interpreter of its own. So it does where
no template listens, or where one does not accept in time. From "go" on the caller starts nothing else before the
program has answered or ended: two processes that use one TD would take each other's replies. The program is a child of
the template, so its exit status comes from there.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import subprocess
import threading
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Protocol

from affiant.attestation.release.running import measured_process, memory_descriptors, program_command
from affiant.errors import StateError, UnreachableError

__all__ = [
    "STATUS_UNKNOWN",
    "ForkedProgram",
    "Order",
    "StartedProgram",
    "forked",
    "open_template",
    "order_of",
    "peer_process",
    "receive_packet",
    "send_packet",
    "start_here",
]

STATUS_UNKNOWN: Final = 255
"""The exit status of a program whose template has ended or does not answer: no other process knows it."""

_ACCEPTS_WITHIN_S: Final = 5.0
_STARTS_WITHIN_S: Final = 45.0
"""Longer than the program waits for its TD's replies: 10 s for the report, 30 s for the memory."""
_ENDS_WITHIN_S: Final = 5.0
_REPORTS_WITHIN_S: Final = 1.0
"""How long a template may take to report the status of a program that has ended."""
_PACKET: Final = 1 << 16
_DESCRIPTORS: Final = 16


class StartedProgram(Protocol):
    """A program that was started, by either way; ``subprocess.Popen`` is one."""

    @property
    def pid(self) -> int:
        """Its process id."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, once it has ended; negative: the signal that ended it.

        Raises:
            subprocess.TimeoutExpired: it has not ended in time.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a caller asks of a template.

    Args:
        program: the module, one of the template's list. arguments: as after ``python -m MODULE``.
        environment: all of the program's environment.
        descriptors: the numbers under which the program gets the descriptors that come with the order.
        stage: which of them holds what ``service_stage`` is to do first; None: nothing.
        td: which of them is the simulated TD that the program runs in; its measured image must be the template's.
        image: the digest of the caller's own image, where ``td`` is None.
    """

    program: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    descriptors: tuple[int, ...]
    stage: int | None = None
    td: int | None = None
    image: str | None = None


def order_of(members: Mapping[str, object]) -> Order:
    """The order in a packet, read strictly.

    Raises:
        ``service.order``: it has another form.
    """
    match members:
        case {
            "program": str(program),
            "arguments": [*arguments],
            "environment": dict(environment),
            "descriptors": [*descriptors],
            "stage": int() | None as stage,
            "td": int() | None as td,
            "image": str() | None as image,
            **rest,
        } if (
            not rest
            and all(isinstance(each, str) for each in (*arguments, *environment, *environment.values()))
            and all(type(each) is int and each >= 2 for each in descriptors)
            and len(set(descriptors)) == len(descriptors)
            and all(each is None or each in descriptors for each in (stage, td))
            and (td is None) != (image is None)
        ):
            return Order(
                program=program,
                arguments=tuple(map(str, arguments)),
                environment=environment,
                descriptors=tuple(each for each in descriptors if isinstance(each, int)),
                stage=stage,
                td=td,
                image=image,
            )
    raise StateError("not an order to a template process", code="service.order")


class ForkedProgram:
    """A program that a template has forked for this process."""

    def __init__(self, pid: int, pidfd: int, connection: socket.socket) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self._connection = connection
        self._status: int | None = None
        self._waiting = threading.Lock()

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, as of ``subprocess.Popen``, or :data:`STATUS_UNKNOWN`. Threads may share it.

        Args:
            timeout: seconds until it has ended; its status may then take one more.

        Raises:
            subprocess.TimeoutExpired: it has not ended in time.
        """
        with self._waiting:
            if self._status is None:
                if not _readable(self.pidfd, timeout):
                    raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
                self._status = self._reported()
                self.close()
            return self._status

    def _reported(self) -> int:
        """The status that the template reports; it may be stopped, or have ended."""
        with suppress(OSError, StateError):
            if _readable(self._connection, _REPORTS_WITHIN_S):
                status = receive_packet(self._connection)[0].get("ended")
                return status if isinstance(status, int) else STATUS_UNKNOWN
        return STATUS_UNKNOWN

    def close(self) -> None:
        """Ask nothing more of it; it runs on."""
        if self.pidfd >= 0:
            self._connection.close()
            os.close(self.pidfd)
            self.pidfd = -1

    def end(self) -> None:
        """Kill it, and return when it has ended.

        Raises:
            ``service.silent``: it does not end.
        """
        try:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            if not _readable(self.pidfd, _ENDS_WITHIN_S):
                raise UnreachableError(
                    "a program that a template process forked neither starts nor ends",
                    found=f"process {self.pid}",
                    hint="End the template process (affiant session template), then start the session again",
                    code="service.silent",
                )
        finally:
            self.close()


def open_template(path: Path) -> int | None:
    """A descriptor that names the template's socket, in whatever view it is used; None: there is none.

    The caller closes it. It grants nothing by itself: the template looks at the user who connects.
    """
    with suppress(OSError):
        return os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    return None


def forked(template: int, order: Order, descriptors: Sequence[int]) -> ForkedProgram | None:
    """The program that a template forks for ``order``; None: it has started nothing.

    Args:
        template: as :func:`open_template` returns it.
        descriptors: what becomes ``order.descriptors``; they stay the caller's.

    Raises:
        ``service.silent``: it is not known whether the program runs, because it neither starts nor ends.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program = None
    try:
        connection.settimeout(_ACCEPTS_WITHIN_S)
        connection.connect(f"/proc/self/fd/{template}")
        if peer_process(connection)[1] in {0, os.geteuid()}:
            send_packet(connection, asdict(order), descriptors)
            program = _accepted(connection)
    except (OSError, StateError):  # no template, or one that has ended meanwhile
        pass
    if program is None:
        connection.close()
        return None
    if _has_started(connection):
        connection.settimeout(None)
        return program
    program.end()
    return None


def _accepted(connection: socket.socket) -> ForkedProgram | None:
    members, received = receive_packet(connection)
    match members:
        case {"accepted": int(pid)} if len(received) == 1:
            return ForkedProgram(pid, received[0], connection)
    for each in received:
        os.close(each)
    return None


def _has_started(connection: socket.socket) -> bool:
    """Say go; whether the program then runs."""
    with suppress(OSError, StateError):
        send_packet(connection, {"go": True})
        connection.settimeout(_STARTS_WITHIN_S)
        return receive_packet(connection)[0] == {"started": True}
    return False


def start_here(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    control: int,
    template: int | None = None,
    own_session: bool = True,
) -> StartedProgram:
    """Start another program of the image that this process runs: as a fork of a template, or else by an interpreter.

    Args:
        command: as ``program_command`` begins it.
        control: the one descriptor that it gets beside our standard error.
        template: names the socket of a template process, which forks it if it can; None: there is none.
        own_session: whether an interpreter gets a session and a process group of its own, as a fork always does.
    """
    process: StartedProgram | None = None
    if template is not None and (measured := measured_process()) is not None:
        program, *arguments = command[len(program_command("")) - 1 :]
        order = Order(
            program=program,
            arguments=tuple(arguments),
            environment=environment,
            descriptors=(2, control),
            image=measured.image_digest,
        )
        process = forked(template, order, (2, control))
    return process or subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        pass_fds=(control, *memory_descriptors()),
        env=environment,
        cwd="/",
        start_new_session=own_session,
    )


def peer_process(connection: socket.socket) -> tuple[int, int]:
    """Process id and user at the other end when it was connected (unix(7), SO_PEERCRED)."""
    size = struct.calcsize("3i")
    pid, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return int(pid), int(user)


def send_packet(
    connection: socket.socket, members: Mapping[str, object], descriptors: Sequence[int] = ()
) -> None:
    """Send one message.

    Raises:
        OSError: the other end is gone.
    """
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))] if descriptors else []
    connection.sendmsg([json.dumps(members).encode("ascii")], ancillary, socket.MSG_NOSIGNAL)


def receive_packet(connection: socket.socket) -> tuple[Mapping[str, object], tuple[int, ...]]:
    """One message and its descriptors, which close on exec; nothing at all where the other end is gone.

    Raises:
        ``service.order``: no object, or cut off.
    """
    space = socket.CMSG_SPACE(_DESCRIPTORS * array("i").itemsize)
    try:
        data, ancillary, flags, _ = connection.recvmsg(_PACKET, space, socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:
        return {}, ()
    received = array("i")
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            received.frombytes(content[: len(content) - len(content) % received.itemsize])
    try:
        members = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        members = None
    if not isinstance(members, dict) or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        for each in received:
            os.close(each)
        raise StateError("not a message of a template process", code="service.order")
    return members, tuple(received)


def _readable(end: socket.socket | int, within_s: float | None) -> bool:
    poll = select.poll()
    poll.register(end, select.POLLIN)
    return bool(poll.poll(None if within_s is None else within_s * 1000))
