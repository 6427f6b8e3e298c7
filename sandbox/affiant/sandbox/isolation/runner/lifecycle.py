"""One sandbox from nothing to nothing: the runner's state, and what is allowed in each.

::

    new --prepare--> prepared --start--> running --(command ends)--> ended
    any of them --cleanup--> cleaned

Every step is made once. A refused ``prepare`` or ``start`` leads to ``ended``: nothing is tried twice in one
enclosure.
"""

from __future__ import annotations

import enum
import os
import platform
import socket
import stat
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.errors import AffiantError, ConfigurationError
from affiant.sandbox.base.privileges import Owner
from affiant.sandbox.isolation.backends.backend import file_owner
from affiant.sandbox.isolation.backends.bubblewrap import bwrap_program
from affiant.sandbox.isolation.backends.bubblewrap_driver import BubblewrapDriver
from affiant.sandbox.isolation.backends.enclosure import (
    PRIVATE,
    Enclosure,
    MemoryGroup,
    isolate_runner,
    make_memory_group,
    start_init,
)
from affiant.sandbox.isolation.backends.gvisor import dated_release, runsc_program, runsc_release
from affiant.sandbox.isolation.backends.gvisor_driver import GVisorDriver
from affiant.sandbox.isolation.backends.mounts import (
    paths_show,
    remove_overlays,
    show_image,
    show_session,
)
from affiant.sandbox.isolation.backends.seccomp import seccomp_program
from affiant.sandbox.isolation.plan.driver import Driver, Prepared, Stdio
from affiant.sandbox.isolation.plan.errors import StepError
from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.isolation.plan.leftover_record import write_file
from affiant.sandbox.isolation.plan.plan import Command, Limits, SandboxPlan
from affiant.sandbox.isolation.plan.rootfs import build_root
from affiant.sandbox.isolation.runner.network import Endpoint, join_namespaces, listen_on_loopback
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

__all__ = ["Sandbox", "State"]

_NEW_MOUNTS_AT: Final = Path("/run")
_SHOWN_AT: Final = PRIVATE / "shown"
_FILES_SECONDS: Final = 2.0
_MEMORY_SECONDS: Final = 0.5


class State(enum.Enum):
    """Where the sandbox is; see the module's drawing."""

    NEW = "new"
    PREPARED = "prepared"
    RUNNING = "running"
    ENDED = "ended"
    CLEANED = "cleaned"


@dataclass(slots=True)
class Sandbox:
    """The one sandbox of a runner. Not thread-safe: the runner has one thread."""

    settings: Settings
    state: State = State.NEW
    pid: int = 0
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
    _outcome: int | AffiantError | None = None
    _ended_by: AffiantError | None = None

    @property
    def enclosure(self) -> Enclosure:
        """The namespaces, once prepared.

        Raises:
            StepError: not prepared yet, or cleaned up.
        """
        if self._enclosure is None:
            raise StepError("there is no sandbox", expected="prepare comes first", found=self.state.value)
        return self._enclosure

    @property
    def outcome(self) -> int | AffiantError | None:
        """How the command ended; None while it has not."""
        return self._outcome

    def prepare(
        self, plan: SandboxPlan, ca_bundle: bytes, *, record: Callable[[str], None]
    ) -> tuple[Endpoint, socket.socket]:
        """Make everything that the command needs; return where the proxy listens, and its socket.

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
        _keep_to(plan.limits.cpus, session=plan.session)
        self._memory = make_memory_group(plan.limits.memory_bytes, record=record)
        isolate_runner()
        self._prepared = self._show(plan, ca_bundle, owner)
        self._enclosure = start_init(own_network=gvisor, hide_network_settings=gvisor)
        self._enclosure.memory = self._memory
        self._driver = self._make_driver(owner)
        found = join_namespaces(1, enter_near=self._enclosure.enter) if gvisor else listen_on_loopback()
        self.state = State.PREPARED
        return found

    def _make_driver(self, owner: Owner | None) -> Driver:
        match self.settings.backend:
            case BackendName.GVISOR:
                program = _found(runsc_program(), "runsc")
                self.release = dated_release(runsc_release(program))
                return GVisorDriver(program, self.enclosure)
            case BackendName.BUBBLEWRAP:
                program = _found(bwrap_program(), "bwrap")
                counted = self.enclosure.memory is not None
                filter_program = seccomp_program(platform.machine(), memory_counted=counted)
                return BubblewrapDriver(program, self.enclosure, filter_program, owner)

    def _show(self, plan: SandboxPlan, ca_bundle: bytes, owner: Owner | None) -> Prepared:
        """The skeleton, and in the runner's private folder everything that will be mounted into it."""
        root, shown_at = PRIVATE / "root", _SHOWN_AT
        root.mkdir(mode=0o755)
        shown_at.mkdir(mode=0o711)
        session_dir = self.settings.session_dir
        hidden = (
            self.settings.backend is BackendName.BUBBLEWRAP
        )  # gVisor's own kernel shows no path of this machine
        parts = build_root(plan, at=root, ca_bundle=ca_bundle)
        image = show_image(parts, at=shown_at, session_dir=session_dir if hidden else None)
        session = show_session(plan, session_dir=session_dir, at=shown_at, owner=owner, hidden=hidden)
        self.paths_show = hidden and paths_show(session_dir, at=shown_at)
        return Prepared(plan, (*image, *session), root)

    def start(self, command: Command, stdio: Stdio) -> None:
        """Run ``command``; its streams must not be regular files.

        Raises:
            AffiantError: out of turn, or the backend could not be started.
        """
        self._expect(State.PREPARED)
        for name, fd in (("stdout", stdio.stdout), ("stderr", stdio.stderr)):
            if stat.S_ISREG(os.fstat(fd).st_mode):
                raise ConfigurationError(
                    "an output stream of the sandbox may not be a regular file",
                    where=name,
                    expected="a pipe, a socket or a terminal: gVisor would overwrite the file from its start",
                    code="isolation.plan",
                )
        self.state = State.ENDED
        if self._driver is None or self._prepared is None:  # pragma: no cover - PREPARED means both are there
            raise StepError("there is no sandbox")
        limits = self._prepared.plan.limits
        if self._files.is_dir():
            before = time.monotonic()
            total = measure_files(self._files)
            check_input(total, limits)
            self._looked_at_files(limits, total, before=before, free=free_bytes(self._files))
        self.pid = self._driver.start(self._prepared, command, stdio)
        self.state = State.RUNNING

    def signal(self, number: int) -> None:
        """Deliver a signal to the command: see :meth:`Driver.signal`."""
        self._expect(State.RUNNING)
        if self._driver is not None:
            self._driver.signal(number)

    def watch(self) -> None:
        """Measure, and end a sandbox that is over its limits; the outcome then says which."""
        if self._prepared is not None and self.state is State.RUNNING:
            limits = self._prepared.plan.limits
            try:
                self._watch_memory(limits)
                self._watch_files(limits)
            except AffiantError as error:
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

    def _require_limits(self) -> None:
        """What was beyond a limit when the command ended, and between two looks."""
        if self._prepared is not None:
            limits = self._prepared.plan.limits
            self._require_memory(limits)
            if self._files.is_dir():
                check_files(measure_files(self._files), limits)

    def ended(self) -> None:
        """The backend's program has ended: reap it, and decide the outcome."""
        self._expect(State.RUNNING)
        _, status = os.waitpid(self.pid, 0)
        self.state = State.ENDED
        try:
            if self._ended_by is not None:
                raise self._ended_by
            self._require_limits()
            if self._driver is not None:
                self._outcome = self._driver.judge(os.waitstatus_to_exitcode(status))
        except AffiantError as error:
            self._outcome = error
        self._keep_log()

    def kill(self) -> None:
        """End everything in the sandbox at once. Idempotent."""
        if self._enclosure is not None:
            self._enclosure.kill()

    def cleanup(self) -> None:
        """Give everything back; afterwards nothing of the sandbox is left but the session's files. Idempotent.

        The order matters: the kernel takes the process namespace down only when each of its processes has been
        reaped by its parent, and the sandbox's own program is a child of the runner.
        """
        self.kill()
        if self.state is State.RUNNING:
            self.ended()
        if self._enclosure is not None:
            self._enclosure.destroy()
            self._enclosure = None
        if self._driver is not None:
            self._driver.close()
            self._driver = None
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
