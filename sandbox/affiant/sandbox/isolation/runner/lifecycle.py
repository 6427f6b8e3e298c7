"""One sandbox from nothing to nothing: the runner's state, and what is allowed in each.

::

    new --prepare--> prepared --(first process ends, a limit)--> ended
    any of them --cleanup--> cleaned

A prepared sandbox has a first process that waits. Commands are started beside it, any number, several at once, each
under a number; what they leave in the background lives on until the sandbox ends. A refused ``prepare`` leads to
``ended``: nothing is tried twice in one enclosure. A limit that is hit ends the sandbox, with every command in it.
"""

from __future__ import annotations

import enum
import os
import platform
import select
import signal
import socket
import stat
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from affiant.errors import AffiantError, ConfigurationError, NotAllowedError
from affiant.sandbox.base.privileges import Owner
from affiant.sandbox.isolation.backends.backend import file_owner
from affiant.sandbox.isolation.backends.bubblewrap import bwrap_program, landlock_of
from affiant.sandbox.isolation.backends.bubblewrap_driver import BubblewrapDriver
from affiant.sandbox.isolation.backends.enclosure import (
    PRIVATE,
    Enclosure,
    MemoryGroup,
    isolate_runner,
    make_memory_group,
    start_init,
)
from affiant.sandbox.isolation.backends.entering import Confinement
from affiant.sandbox.isolation.backends.executing import judge
from affiant.sandbox.isolation.backends.gvisor import dated_release, runsc_program, runsc_release
from affiant.sandbox.isolation.backends.gvisor_driver import GVisorDriver
from affiant.sandbox.isolation.backends.mounts import (
    paths_show,
    remove_overlays,
    show_image,
    show_session,
)
from affiant.sandbox.isolation.backends.seccomp import seccomp_program
from affiant.sandbox.isolation.plan.driver import Driver, Ended, Prepared, Started, Stdio
from affiant.sandbox.isolation.plan.errors import CommandNotRun, LimitExceeded, SandboxFailed, StepError
from affiant.sandbox.isolation.plan.file_access import FileAct, FileCall, place_of
from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.isolation.plan.leftover_record import write_file
from affiant.sandbox.isolation.plan.linux import landlock_version
from affiant.sandbox.isolation.plan.plan import OWN_HOSTS, Command, Limits, SandboxPlan
from affiant.sandbox.isolation.plan.rootfs import build_root
from affiant.sandbox.isolation.runner.file_child import FilePlace
from affiant.sandbox.isolation.runner.network import (
    NEAR,
    OWN_HOSTS_AT,
    Endpoint,
    Listeners,
    begin_connection,
    join_namespaces,
    listen_on_loopback,
)
from affiant.sandbox.isolation.runner.runner_settings import Settings
from affiant.sandbox.isolation.runner.watchdog import (
    check_files,
    check_input,
    check_memory,
    free_bytes,
    measure_files,
    measure_memory,
    measure_unlinked,
    memory_exceeded,
)

__all__ = ["KILL_SECONDS", "Sandbox", "State"]

_NEW_MOUNTS_AT: Final = Path("/run")
_SHOWN_AT: Final = PRIVATE / "shown"
_FILES_SECONDS: Final = 2.0
_MEMORY_SECONDS: Final = 0.5


class State(enum.Enum):
    """Where the sandbox is; see the module's drawing."""

    NEW = "new"
    PREPARED = "prepared"
    ENDED = "ended"
    CLEANED = "cleaned"


_END_SECONDS: Final = 0.5
"""So long after a command was lost its sandbox may take to be seen ending: that then is the reason."""
_KILLED: Final = 137
KILL_SECONDS: Final = 15.0
"""So long a command may run on after SIGKILL was sent to it."""


@dataclass(slots=True)
class Sandbox:
    """The one sandbox of a runner. Not thread-safe: the runner has one thread."""

    settings: Settings
    state: State = State.NEW
    end: int | None = None
    """A pidfd that tells the sandbox's end, once its first process is there."""
    running: dict[int, Started] = field(default_factory=dict)
    """The commands under way, by number."""
    outcomes: dict[int, Ended | AffiantError] = field(default_factory=dict)
    """How the others ended."""
    _kill_due: dict[int, float] = field(default_factory=dict)
    """Commands that SIGKILL was sent to -> when each must have ended (time.monotonic)."""
    _numbers: int = 0
    _enclosure: Enclosure | None = None
    _driver: Driver | None = None
    release: str | None = None
    """Of gVisor, once prepared, where that isolates and says it."""
    paths_show: bool = False
    """Whether the agent can read where the session's folder lies; known once prepared."""
    _prepared: Prepared | None = None
    _memory: MemoryGroup | None = None
    _memory_due: float = 0.0
    _files_due: float = 0.0
    _files_again: float = 0.0
    _files_room: int = 0
    _free: int = 0
    _killed: bool = False
    _ended_by: AffiantError | None = None
    _owner: Owner | None = None

    @property
    def enclosure(self) -> Enclosure:
        """The namespaces, once prepared.

        Raises:
            StepError: not prepared yet, or cleaned up.
        """
        if self._enclosure is None:
            raise StepError("there is no sandbox", expected="prepare comes first", found=self.state.value)
        return self._enclosure

    def prepare(
        self, plan: SandboxPlan, ca_bundle: bytes, *, record: Callable[[str], None]
    ) -> tuple[Endpoint, Listeners]:
        """Make everything that the command needs; return where the proxy listens, and its sockets.

        Args:
            record: called with the path of the memory cgroup before it is made.

        Raises:
            AffiantError: the plan does not fit the settings, or the machine refused a step.
        """
        self._expect(State.NEW)
        if plan.rootfs != self.settings.rootfs or plan.runtime != self.settings.runtime:
            raise ConfigurationError(
                "the plan names another root or runtime than the launcher did", code="isolation.plan"
            )
        if self.settings.session_dir.is_relative_to(_NEW_MOUNTS_AT):
            raise ConfigurationError(
                "the session's folder may not lie in /run", where="--session-dir", code="isolation.plan"
            )
        self.state = State.ENDED
        gvisor = self.settings.backend is BackendName.GVISOR
        owner = file_owner(self.settings.backend, plan.session) if os.geteuid() == 0 else None
        self._owner = owner
        _keep_to(plan.limits.cpus, session=plan.session)
        self._memory = make_memory_group(plan.limits.memory_bytes, record=record)
        isolate_runner()
        self._prepared = self._show(plan, ca_bundle, owner)
        self._enclosure = start_init(own_network=gvisor, hide_network_settings=gvisor)
        self._enclosure.memory = self._memory
        self._driver = self._make_driver(plan, owner)
        self._driver.begin(self._prepared)
        found = join_namespaces(1, enter_near=self._enclosure.enter) if gvisor else listen_on_loopback()
        self.state = State.PREPARED
        return found

    def _make_driver(self, plan: SandboxPlan, owner: Owner | None) -> Driver:
        machine = platform.machine()
        counted = self.enclosure.memory is not None
        filter_program = seccomp_program(machine, memory_counted=counted)
        match self.settings.backend:
            case BackendName.GVISOR:
                program = _found(runsc_program(), "runsc")
                self.release = dated_release(runsc_release(program))
                filter_program = seccomp_program(
                    machine, memory_counted=True
                )  # its memory is counted as a whole
                confinement = Confinement(machine, plan.limits, filter_program, None)
                return GVisorDriver(program, self.enclosure, confinement)
            case BackendName.BUBBLEWRAP:
                program = _found(bwrap_program(), "bwrap")
                landlock = landlock_of(plan, landlock_version())
                confinement = Confinement(machine, plan.limits, filter_program, landlock)
                return BubblewrapDriver(program, self.enclosure, confinement, owner)

    def _show(self, plan: SandboxPlan, ca_bundle: bytes, owner: Owner | None) -> Prepared:
        """The skeleton, and in the runner's private folder everything that will be mounted into it."""
        root, shown_at = PRIVATE / "root", _SHOWN_AT
        root.mkdir(mode=0o755)
        shown_at.mkdir(mode=0o711)
        session_dir = self.settings.session_dir
        hidden = (
            self.settings.backend is BackendName.BUBBLEWRAP
        )  # gVisor's own kernel shows no path of this machine
        hosts = dict.fromkeys(OWN_HOSTS, OWN_HOSTS_AT[self.settings.backend])
        parts = build_root(plan, at=root, ca_bundle=ca_bundle, hosts=hosts)
        image = show_image(parts, at=shown_at, session_dir=session_dir if hidden else None)
        session = show_session(plan, session_dir=session_dir, at=shown_at, owner=owner, hidden=hidden)
        self.paths_show = hidden and paths_show(session_dir, at=shown_at)
        return Prepared(plan, (*image, *session), root)

    def start(self, command: Command, stdio: Stdio, *, terminal: bool = False) -> int:
        """Start ``command`` and return its number; its streams must not be regular files.

        Args:
            terminal: they are a terminal, which is to control it.

        Raises:
            AffiantError: out of turn, beyond a limit, or the backend could not start it.
        """
        if self._ended_by is not None:
            raise self._ended_by
        self._expect(State.PREPARED)
        if self._killed:
            raise StepError("the sandbox was ended", expected=State.PREPARED.value, found=State.ENDED.value)
        for name, fd in (("stdout", stdio.stdout), ("stderr", stdio.stderr)):
            if stat.S_ISREG(os.fstat(fd).st_mode):
                raise ConfigurationError(
                    "an output stream of the sandbox may not be a regular file",
                    where=name,
                    expected="a pipe, a socket or a terminal: gVisor would overwrite the file from its start",
                    code="isolation.plan",
                )
        if self._driver is None or self._prepared is None:  # pragma: no cover - PREPARED means both are there
            raise StepError("there is no sandbox")
        limits = self._prepared.plan.limits
        if self._numbers == 0 and self._files.is_dir():
            before = time.monotonic()
            total = measure_files(self._files)
            check_input(total, limits)
            self._looked_at_files(limits, total, before=before, free=free_bytes(self._files))
        if self.end is None:
            self.end = self._driver.first()
        self._numbers += 1
        self.running[self._numbers] = self._driver.start(command, stdio, terminal=terminal)
        return self._numbers

    def signal(self, number: int, signal_number: int) -> Callable[[], None] | None:
        """Deliver a signal to command ``number``, or return what delivers it: see :meth:`Driver.signal`.

        A command that still runs :data:`KILL_SECONDS` after SIGKILL ends with the whole sandbox (:meth:`watch`).

        Raises:
            StepError: no such command is under way.
        """
        started = self.running.get(number)
        if started is None or self._driver is None:
            raise StepError(
                "the signal found no process", expected="a command that has started and still runs"
            )
        if signal_number == signal.SIGKILL:
            self._kill_due.setdefault(number, time.monotonic() + KILL_SECONDS)
        return self._driver.signal(started, signal_number)

    def file_place(self, call: FileCall) -> FilePlace:
        """Where a call on the session's files acts, if the profile allows it and the disk limit leaves room.

        Raises:
            AffiantError: it does not, or there is no sandbox.
        """
        if self._ended_by is not None:
            raise self._ended_by
        if self._prepared is None or self.state is State.CLEANED:
            raise StepError("there is no sandbox", expected="prepare comes first", found=self.state.value)
        place = place_of(self._prepared.plan, call)
        if call.act is FileAct.PUT:
            self._require_room(call.length)
        root = next(item.source for item in self._prepared.shown if item.target == place.bind.target)
        limits = self._prepared.plan.limits
        return FilePlace(root, place.relative, place.carved_out, self._owner, limits)

    def connect(self, port: int) -> socket.socket:
        """A socket on its way to the agent's server at ``port``.

        Raises:
            ``ports.refused``: nothing listens there. StepError: there is no sandbox.
        """
        if self._enclosure is None or self.state is State.CLEANED:
            raise StepError("there is no sandbox", expected="prepare comes first", found=self.state.value)
        gvisor = self.settings.backend is BackendName.GVISOR
        return begin_connection(NEAR if gvisor else "127.0.0.1", port)

    def _require_room(self, length: int) -> None:
        """Take ``length`` bytes from what the disk limit leaves, by the last look at the files or by a new one."""
        if length > self._files_room and self._prepared is not None:
            limits = self._prepared.plan.limits
            self._files_room = limits.files_bytes - measure_files(self._files)
            if length > self._files_room:
                raise NotAllowedError(
                    "the session's files would become larger than its disk limit",
                    expected=f"at most {max(self._files_room, 0)} bytes more of {limits.files_bytes}",
                    found=f"{length} bytes",
                    code="files.disk",
                )
        self._files_room -= length

    def measure(self) -> Mapping[str, int]:
        """What the sandbox holds now, and what its commands that have ended used.

        Raises:
            StepError: there is no sandbox. LimitExceeded: so many files that they cannot be looked at.
        """
        namespace = os.readlink(f"/proc/{self.enclosure.init}/ns/pid")
        ended = [each for each in self.outcomes.values() if isinstance(each, Ended)]
        return {
            "memory_bytes": measure_memory(namespace),
            "files_bytes": measure_files(self._files) if self._files.is_dir() else 0,
            "commands_running": len(self.running),
            "commands_ended": len(self.outcomes),
            "processor_us": sum(each.processor_us or 0 for each in ended),
        }

    def watch(self) -> None:
        """Measure, and end a sandbox that is over its limits; the outcome of its commands then says which."""
        if self._prepared is not None and self.state is State.PREPARED and self.end is not None:
            limits = self._prepared.plan.limits
            try:
                self._watch_kills()
                self._watch_memory(limits)
                self._watch_files(limits)
            except AffiantError as error:
                self._end_by(error)

    def _watch_kills(self) -> None:
        now = time.monotonic()
        if any(due <= now for number, due in self._kill_due.items() if number in self.running):
            raise SandboxFailed(
                "a command did not end after SIGKILL, so the sandbox was ended",
                expected=f"its end within {KILL_SECONDS} seconds",
            )

    def _end_by(self, error: AffiantError) -> None:
        self._ended_by = error
        self.enclosure.kill()

    @property
    def _files(self) -> Path:
        return self.settings.session_dir / "files"

    def _watch_memory(self, limits: Limits) -> None:
        self._require_memory(limits)
        if self._memory is not None:  # the kernel keeps the limit
            return
        now = time.monotonic()
        if now >= self._memory_due:
            self._memory_due = now + _MEMORY_SECONDS
            check_memory(measure_memory(os.readlink(f"/proc/{self.enclosure.init}/ns/pid")), limits)

    def _require_memory(self, limits: Limits) -> None:
        if self._memory is not None and self._memory.exceeded:
            raise memory_exceeded(limits, found="more was asked for, and the kernel ended a process")

    def _watch_files(self, limits: Limits) -> None:
        """Look at the session's files now and then: a look takes at most a twentieth of the time.

        It takes at most a fifth where the file system fills up so fast that the session may be the reason.
        """
        before = time.monotonic()
        if not self._files.is_dir():
            return
        free = free_bytes(self._files)
        filling = self._free - free > self._files_room // 2 and before >= self._files_again
        if before < self._files_due and not filling:
            return
        total = measure_files(self._files) + self._unlinked()
        check_files(total, limits)
        self._looked_at_files(limits, total, before=before, free=free)

    def _looked_at_files(self, limits: Limits, total: int, *, before: float, free: int) -> None:
        """Decide when the next look is due, by how long this one took and what is left."""
        after = time.monotonic()
        self._free, self._files_room = free, limits.files_bytes - total
        self._files_again = after + 5 * (after - before)
        self._files_due = after + max(_FILES_SECONDS, 20 * (after - before))

    def _unlinked(self) -> int:
        shown = () if self._prepared is None else self._prepared.shown
        places = [self._files, *(Path(item.source) for item in shown if item.writable)]
        devices = {os.stat(place).st_dev for place in places}
        return measure_unlinked(os.readlink(f"/proc/{self.enclosure.init}/ns/pid"), devices)

    def _look_at_limits(self) -> None:
        """What is beyond a limit when a command ends; files only where enough was written since the last look."""
        if self._prepared is not None:
            self._require_memory(self._prepared.plan.limits)
            self._files_again = 0.0
            self._watch_files(self._prepared.plan.limits)

    def _require_limits(self) -> None:
        """What was beyond a limit when the sandbox ended, and between two measurements."""
        if self._prepared is not None:
            limits = self._prepared.plan.limits
            self._require_memory(limits)
            if self._files.is_dir():
                check_files(measure_files(self._files), limits)

    def command_ended(self, number: int) -> None:
        """A command's own program has ended: reap it, and decide its outcome."""
        started = self.running[number]
        _, status = os.waitpid(started.pid, 0)
        try:
            outcome = judge(started, os.waitstatus_to_exitcode(status))
            if _is_unreported(outcome) and (self._ended_by is not None or self._ends()):
                self.ended(number)  # it did not end by itself
                return
            self._look_at_limits()
            self.outcomes[number] = (
                outcome
                or self._outcome_of_killed(number, started)
                or SandboxFailed("the command ended without a report of its exit status")
            )
        except LimitExceeded as error:
            self._end_by(error)
            self.outcomes[number] = error
        except AffiantError as error:
            self.outcomes[number] = self._ended_by or error
        del self.running[number]
        started.close()

    def _ends(self) -> bool:
        """Whether the sandbox has ended, or does so in a moment."""
        poll = select.poll()
        if self.end is not None:
            poll.register(self.end, select.POLLIN)
        return bool(poll.poll(_END_SECONDS * 1000))

    def ended(self, reaped: int | None = None) -> None:
        """The sandbox has ended: reap its commands, and decide the outcome of each.

        Args:
            reaped: the number of one that has been reaped.
        """
        self.state = State.ENDED
        if self.end is not None:
            os.close(self.end)
            self.end = None
        reason = self._reason()
        for number, started in sorted(self.running.items()):
            outcome: Ended | AffiantError | None = None
            try:
                status = 0 if number == reaped else os.waitpid(started.pid, 0)[1]
                outcome = judge(started, os.waitstatus_to_exitcode(status)) if number != reaped else None
            except AffiantError as error:
                outcome = error
            killed = self._outcome_of_killed(number, started)
            # the limit is why it ended, or could not start any more, if one was reached
            if _is_unreported(outcome) or isinstance(outcome, CommandNotRun):
                limit = reason if number not in self._kill_due or isinstance(reason, LimitExceeded) else None
                outcome = limit or outcome or killed
            self.outcomes[number] = outcome or SandboxFailed("the sandbox ended unexpectedly")
            started.close()
        self.running.clear()
        self._keep_log()

    def _outcome_of_killed(self, number: int, started: Started) -> Ended | None:
        """How a command ended that was to be killed; None: it was not."""
        if not self._killed and number not in self._kill_due:
            return None
        return Ended(_KILLED, round(1e6 * (time.monotonic() - started.at)))

    def _reason(self) -> AffiantError | None:
        """The limit that ended the sandbox; None: none did."""
        try:
            if self._ended_by is None:
                self._require_limits()
        except AffiantError as error:
            self._ended_by = error
        return self._ended_by

    def kill(self) -> None:
        """End everything in the sandbox at once. Idempotent."""
        self._killed = True
        if self._enclosure is not None:
            self._enclosure.kill()

    def cleanup(self) -> None:
        """Give everything back; afterwards nothing of the sandbox is left but the session's files. Idempotent.

        The order matters: the kernel takes the process namespace down only when each of its processes has been
        reaped by its parent, and the sandbox's own program is a child of the runner.
        """
        self.kill()
        if self.state is State.PREPARED:
            self.ended()
        if self._driver is not None:  # it reaps what of the backend is a child of the runner
            self._driver.close()
            self._driver = None
        if self._enclosure is not None:
            self._enclosure.destroy()
            self._enclosure = None
        if self._memory is not None:
            self._memory.remove()
            self._memory = None
        remove_overlays(self.settings.session_dir, at=_SHOWN_AT)
        self.state = State.CLEANED

    def _keep_log(self) -> None:
        log = b"" if self._driver is None else self._driver.log()
        if log:
            write_file(self.settings.session_dir, "runsc.log", log)

    def _expect(self, state: State) -> None:
        if self.state is not state:
            raise StepError(
                "the step does not fit the sandbox's state", expected=state.value, found=self.state.value
            )


def _is_unreported(outcome: Ended | AffiantError | None) -> bool:
    """Whether nothing inside said how a command ended: it did not end by itself."""
    return outcome is None or (isinstance(outcome, Ended) and outcome.processor_us is None)


def _keep_to(cpus: int | None, *, session: str) -> None:
    """Keep this process and all it starts to ``cpus`` processors; which ones depends on the session."""
    allowed = sorted(os.sched_getaffinity(0))
    if cpus is not None and cpus < len(allowed):
        first = zlib.crc32(session.encode()) % len(allowed)
        os.sched_setaffinity(0, {allowed[(first + n) % len(allowed)] for n in range(cpus)})


def _found(program: str | None, name: str) -> str:
    if program is None:
        raise ConfigurationError(
            f"{name} is not installed",
            hint="Run scripts/install_sandbox_runtime.sh as root.",
            code="isolation.unavailable",
        )
    return program
