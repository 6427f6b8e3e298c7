"""Starting, awaiting and ending a service: a process of ours with, where root allows, a user of its own.

What a service gets: a cleaned environment, ``/`` as its folder, ``/dev/null`` as its input, a process group and
session of its own (a terminal's Ctrl-C is the launcher's alone), the descriptors that were named for it, and a
view of closed folders with nothing but its needs in it (``exposure``). What it loses before a line of its
code runs: the user, core files, inspection, the way to new privileges (``service_stage``). Without root
everything runs as the one user there is, and :attr:`ServiceProcess.own_user` says so.

A service with a death signal must be started from a thread that lives as long as the service shall: the kernel ties
"my parent died" to the thread (prctl(2), PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import asyncio
import collections
import json
import os
import select
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

import affiant
from affiant.attestation.release.boot import Image
from affiant.attestation.release.running import first_program
from affiant.errors import StateError, UnreachableError
from affiant.printable import printable
from affiant.sandbox.base.exposure import Facts, Need, exposure_plan, step_to_json
from affiant.sandbox.base.privileges import drop_privileges, is_root
from affiant.sandbox.base.template_order import ForkedProgram, Order, StartedProgram, forked
from affiant.sandbox.base.threads import abandonable

__all__ = [
    "READY_FD",
    "ServiceProcess",
    "ServiceSpec",
    "as_user",
    "clean_environment",
    "code_needs",
    "drop_privileges",
    "start_service",
]

READY_FD: Final = "{ready-fd}"
"""In a service's arguments: the number of the descriptor on which it writes one line when it is ready."""

_STOP_GRACE_S: Final = 5.0
_TAIL_LINES: Final = 20
_LINE_LIMIT: Final = 64 * 1024
_KEPT: Final = ("LANG", "LC_ALL", "LC_CTYPE", "PATH", "TZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec:
    """One service to start.

    Args:
        name: for messages (``gateway``).
        argv: module, then its arguments, as after ``python -m``; may hold :data:`READY_FD` once.
        user: whom to become if started as root. None: stay who we are, because the service itself starts others
            and then calls :func:`drop_privileges`.
        needs: paths to reach beside the code itself.
        fds: descriptors to inherit, under the same numbers.
        home: its ``HOME``.
        death_signal: what it gets when the thread that starts it dies. None: it finds out by itself.
        image: the image whose first program this is. None: not measured.
        td: the descriptor of the simulated TD that it runs in; it inherits that too. None: this machine's own TD.
        inherits: whether it gets our environment, cleaned, beside ``environment``.
        own_view: whether closed folders are covered for it; not for a service that stays the machine's owner.
    """

    name: str
    argv: tuple[str, ...]
    home: Path
    user: int | None = None
    needs: tuple[Need, ...] = ()
    fds: tuple[int, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    death_signal: signal.Signals | None = None
    own_view: bool = True
    image: Image | None = None
    td: int | None = None
    inherits: bool = True


def clean_environment(environment: Mapping[str, str], *, home: Path) -> dict[str, str]:
    """What a service keeps of ``environment``: search path, language, and our own variables."""
    kept = {
        name: value for name, value in environment.items() if name in _KEPT or name.startswith("AFFIANT_")
    }
    return {"PATH": os.defpath, **kept, "HOME": str(home)}


def code_needs() -> tuple[Need, ...]:
    """What any Python process of this installation must read: interpreter, packages, our own source roots."""
    paths = [sys.executable, sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]
    paths += [path for path in sys.path if path.startswith("/")]
    paths += [str(Path(portion).parent) for portion in affiant.__path__]
    return tuple(Need(path) for path in dict.fromkeys(paths) if os.path.exists(path))


def _facts() -> Facts:
    return Facts(is_closed=_is_closed, readlink=_readlink)


def _is_closed(path: str) -> bool:
    try:
        return not os.stat(path).st_mode & stat.S_IXOTH
    except OSError:
        return False


def _readlink(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:  # not a link, or nothing there: opening it will say so
        return None


def start_service(spec: ServiceSpec, *, echo: bool = False, template: int | None = None) -> ServiceProcess:
    """Start ``spec``; :meth:`ServiceProcess.ready` waits for it.

    Args:
        echo: copy what it writes to its standard error to ours as well.
        template: names the socket of a template process, which forks it if it can. The descriptor is inherited, after
            ``--template-fd``: the service starts others in the same way.

    Raises:
        ``service.unreadable``: no plan leads to what it needs.
    """
    own_view = is_root() and spec.own_view
    needs = (*code_needs(), *spec.needs) if own_view else ()
    ready_read, ready_write = os.pipe2(os.O_CLOEXEC)
    try:
        plan_fd = _plan_descriptor(needs, user=spec.user, death_signal=spec.death_signal)
    except BaseException:  # closed whatever happened, and raised again
        os.close(ready_read)
        os.close(ready_write)
        raise
    argv = [str(ready_write) if argument == READY_FD else argument for argument in spec.argv]
    environment = {
        **(clean_environment(os.environ, home=spec.home) if spec.inherits else {}),
        **spec.environment,
    }
    passed = (plan_fd, ready_write, *spec.fds, *(() if spec.td is None else (spec.td,)))
    started: tuple[StartedProgram, IO[bytes]] | None = None
    try:
        if template is not None and spec.td is not None:
            started = _by_template(template, argv, environment, passed, stage=plan_fd, td=spec.td)
        forked_by_template = started is not None
        if started is None:
            started = _by_interpreter(spec, argv, environment, passed, plan_fd)
    except BaseException:  # closed whatever happened, and raised again
        os.close(ready_read)
        raise
    finally:
        os.close(plan_fd)
        os.close(ready_write)
    own_user = is_root() and spec.user is not None
    return ServiceProcess(
        spec.name, *started, ready_read, own_user=own_user, echo=echo, forked=forked_by_template
    )


def _by_interpreter(
    spec: ServiceSpec,
    argv: Sequence[str],
    environment: Mapping[str, str],
    passed: tuple[int, ...],
    plan_fd: int,
) -> tuple[StartedProgram, IO[bytes]]:
    process = subprocess.Popen(
        [*_python(spec), "affiant.sandbox.processes.service_stage", "--plan-fd", str(plan_fd), *argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        pass_fds=passed,
        start_new_session=True,
    )
    assert process.stderr is not None
    return process, process.stderr


def _by_template(
    template: int,
    argv: Sequence[str],
    environment: Mapping[str, str],
    passed: tuple[int, ...],
    *,
    stage: int,
    td: int,
) -> tuple[StartedProgram, IO[bytes]] | None:
    """The same, forked; None: nothing was started, because no template serves or it cannot."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    order = Order(
        program=argv[0],
        arguments=(*argv[1:], "--template-fd", str(template)),
        environment=environment,
        descriptors=(2, *passed, template),
        stage=stage,
        td=td,
    )
    program = None
    try:
        program = forked(template, order, (writing, *passed, template))
    finally:
        os.close(writing)
        if program is None:
            os.close(reading)
    return None if program is None else (program, open(reading, "rb"))


@contextmanager
def as_user(
    program: Sequence[str], user: int, needs: Sequence[Need]
) -> Iterator[tuple[tuple[str, ...], tuple[int, ...]]]:
    """How to run ``program`` as ``user``, in a view that has this installation and its ``needs`` in it. Root only.

    The first value is the argument list, the second the descriptors that it must inherit beside the program's own. The
    program takes the place of what runs before it (execve(2)), so its process id is known from the start.

    Raises:
        ``service.unreadable``: no plan leads to what it needs.
    """
    plan_fd = _plan_descriptor((*code_needs(), *needs), user=user, death_signal=None)
    try:
        stage = (sys.executable, "-I", "-m", "affiant.sandbox.processes.service_stage")
        yield (*stage, "--plan-fd", str(plan_fd), "--exec", *program), (plan_fd,)
    finally:
        os.close(plan_fd)


def _plan_descriptor(needs: Sequence[Need], *, user: int | None, death_signal: signal.Signals | None) -> int:
    """A memory file with what ``service_stage`` is to do before the service runs."""
    plan = {
        "death_signal": death_signal,
        "must_read": [need.path for need in needs if not need.writable] if user is not None else [],
        "parent": os.getpid(),
        "steps": [step_to_json(step) for step in exposure_plan(needs, _facts())],
        "user": user,
    }
    descriptor = os.memfd_create("affiant-service-plan", os.MFD_CLOEXEC)
    os.write(descriptor, json.dumps(plan).encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _python(spec: ServiceSpec) -> tuple[str, ...]:
    """The interpreter, isolated, up to the module to run."""
    return (sys.executable, "-I", "-m") if spec.image is None else first_program(spec.image, spec.td)


class ServiceProcess:
    """A running service. Its starter ends it: :meth:`stop`, or :meth:`wait` if it ends by itself."""

    def __init__(
        self,
        name: str,
        process: StartedProgram,
        stderr: IO[bytes],
        ready: int,
        *,
        own_user: bool,
        echo: bool,
        forked: bool,
    ) -> None:
        self.name = name
        self.own_user = own_user
        """Whether it runs under a user of its own."""
        self.forked = forked
        """Whether a template process forked it, whose child it is then."""
        self._process = process
        self._pidfd: int | None = (
            os.dup(process.pidfd) if isinstance(process, ForkedProgram) else os.pidfd_open(process.pid)
        )
        self._ready: int | None = ready
        self._tail: collections.deque[str] = collections.deque(maxlen=_TAIL_LINES)
        self._drain = threading.Thread(
            target=_drain, args=(stderr, self._tail, echo), name=f"stderr-{name}", daemon=True
        )
        self._drain.start()

    @property
    def pid(self) -> int:
        """Its process id; also that of its process group."""
        return self._process.pid

    @property
    def last_words(self) -> str:
        """The last lines of its standard error, fit to be printed."""
        return printable("\n".join(self._tail))

    @property
    def ended(self) -> bool:
        """Whether its main process has ended."""
        if self._pidfd is None:
            return True
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(0))

    def send_signal(self, number: int) -> None:
        """Send a signal to the service's main process, if it is still there."""
        if self._pidfd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    async def ready(self, *, timeout_s: float = 20.0) -> str:
        """The line that it wrote when it was ready, without its newline. Once.

        Raises:
            ``service.failed``: it ended first; the text carries its last lines.
            ``service.silent``: not in time; it has been killed.
        """
        assert self._ready is not None
        try:
            async with asyncio.timeout(timeout_s):
                line = await _read_line(self._ready)
        except TimeoutError as error:
            await self.stop(grace_s=0)
            raise UnreachableError(
                f"the {self.name} is not ready after {timeout_s:g} s",
                found=self.last_words or None,
                code="service.silent",
            ) from error
        if not line.endswith(b"\n"):
            code = await self.stop(grace_s=1)
            raise StateError(
                f"the {self.name} ended before it was ready",
                found=f"exit status {code}: {self.last_words or 'it said nothing'}",
                code="service.failed",
            )
        return line[:-1].decode("utf-8", "replace")

    async def wait(self) -> int:
        """Its exit status (negative: the signal that ended it), once it has ended.

        What is left of its process group then is killed before its number can be used again.
        """
        if self._pidfd is not None:
            await _readable(self._pidfd)
        if self._pidfd is not None:  # not reaped meanwhile by another waiter
            if not self.forked:  # a template does that, as its parent: the number may be another's here
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            os.close(self._pidfd)
            self._pidfd = None
        if self._ready is not None:
            os.close(self._ready)
            self._ready = None
        # a template that is stopped reports nothing, which is known only after a moment
        code = await abandonable(self._process.wait) if self.forked else self._process.wait()
        self._drain.join(1.0)
        return code

    def release(self) -> None:
        """Leave it running, and have it reaped whenever it ends. Nothing else may be asked of it afterwards."""
        for descriptor in (self._pidfd, self._ready):
            if descriptor is not None:
                os.close(descriptor)
        self._pidfd = self._ready = None
        threading.Thread(target=self._process.wait, name=f"reap-{self.name}", daemon=True).start()

    async def stop(self, *, grace_s: float = _STOP_GRACE_S) -> int:
        """End it and everything in its process group: SIGTERM, then after ``grace_s`` SIGKILL. Idempotent."""
        if grace_s > 0:
            self.send_signal(signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    return await self.wait()
        self.send_signal(signal.SIGKILL)
        return await self.wait()


async def _readable(descriptor: int) -> None:
    """Return when there is something to read. By a copy, because a loop has one watcher for each number."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    own = os.dup(descriptor)
    loop.add_reader(own, event.set)
    try:
        await event.wait()
    finally:
        loop.remove_reader(own)
        os.close(own)


async def _read_line(descriptor: int) -> bytes:
    """Bytes up to and including the first newline, or up to the end."""
    line = b""
    while not line.endswith(b"\n") and len(line) < _LINE_LIMIT:
        await _readable(descriptor)
        part = os.read(descriptor, 4096)
        if not part:
            break
        line += part
    return line


def _drain(stream: IO[bytes], tail: collections.deque[str], echo: bool) -> None:  # noqa: FBT001 - a thread's target
    """Keep the last lines of a service's standard error, so that it never blocks and never fills a disk."""
    with stream:
        for line in iter(lambda: stream.readline(_LINE_LIMIT), b""):
            text = line.decode("utf-8", "replace").rstrip("\n")
            tail.append(text)
            if echo:
                with suppress(OSError, ValueError):  # our own standard error is closed
                    sys.stderr.write(printable(text) + "\n")
