"""The programs that run in a sandbox before anything of the agent's: lists of system calls. Pure.

:func:`first_process` is the sandbox's own first process: it confines itself, says so, reaps and waits.
:func:`command_program` starts one command beside it: it enters the sandbox's namespaces (bubblewrap; gVisor does that
by itself), confines itself in the same way, and executes the command. :func:`signalling` sends a signal from inside.

A command's program is two processes. The outer one waits for the inner one, which becomes the command, and reports
how it ended and what it used. The inner one closes the report when it executes the command. What fails before that is
reported with the kernel's error, and the command is not run. Signals that end or stop a command are blocked until then:
the outer process never takes one, and the inner one takes those that came too early.

Attacks on entering, and what meets them. The program is a sealed, anonymous file (under gVisor: a file that is mounted
read-only), so nothing of the machine can be overwritten through ``/proc/PID/exe`` (CVE-2019-5736). It holds no
descriptor but the streams, the namespaces' and the report's, and closes all but streams and report before it is
confined. It is never dumpable, so ``/proc/PID/mem``, ``fd`` and ``environ`` are closed to the agent, whose filter has
neither ptrace nor process_vm_writev (gVisor of 2024 shows ``environ`` all the same; it holds HOME alone). Under
bubblewrap it has dropped root before it enters; the capabilities over the sandbox's user namespace that entering
takes are dropped, bounding set and all, before it executes the command.

Landlock (Documentation/userspace-api/landlock.rst): every access right of the kernel's ABI is handled, so
what no rule grants is denied. ABI 3 is the least that governs all ways of writing (truncate). Each command has a domain
of its own, so none can trace another. Signals and abstract sockets are not scoped (ABI 6): a later command ends what an
earlier one left in the background, and process and network namespaces hold both within the sandbox.

The agent has moved and linked files when a later command enters. So the places of the rules are opened without
following a link: a directory that replaces a writable one has only the rights of what lies around it.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from affiant.sandbox.isolation.backends.call_program import CallProgram, Place
from affiant.sandbox.isolation.plan import linux
from affiant.sandbox.isolation.plan.driver import ENDING
from affiant.sandbox.isolation.plan.plan import Command, Limits

__all__ = [
    "LEAST_LANDLOCK",
    "REPORT_DESCRIPTOR",
    "Confinement",
    "Landlock",
    "Namespaces",
    "Report",
    "command_program",
    "ending",
    "first_process",
    "is_ready",
    "read_reports",
    "signalling",
]

LEAST_LANDLOCK: Final = 3
"""Of the kernel's Landlock ABI."""

REPORT_DESCRIPTOR: Final = 3
"""Where a program of gVisor's finds its report."""

# System calls of x86-64 (arch/x86/entry/syscalls/syscall_64.tbl).
_WRITE, _CLOSE, _RT_SIGACTION, _RT_SIGPROCMASK, _IOCTL, _PAUSE, _NANOSLEEP = 1, 3, 13, 14, 16, 34, 35
_FORK, _EXECVE = 57, 59
_WAIT4, _KILL, _FCNTL, _CHDIR, _SETSID, _CAPSET, _PRCTL, _SETRLIMIT = 61, 62, 72, 80, 112, 126, 157, 160
_EXIT_GROUP, _SETNS, _SECCOMP, _CLOSE_RANGE, _OPENAT2 = 231, 308, 317, 436, 437
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446

_F_SETFD, _FD_CLOEXEC = 2, 1
_TIOCSCTTY: Final = 0x540E
_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 4, 24, 38, 47
_PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
_CAPABILITIES: Final = 64
"""More than any kernel has; dropping one that it does not have is an error without consequence."""
_CAPABILITY_VERSION: Final = 0x20080522
_SECCOMP_SET_MODE_FILTER: Final = 1
_ALL_DESCRIPTORS: Final = 0xFFFFFFFF
_ANY_CHILD: Final = -1
_SIG_DFL, _SIG_IGN = 0, 1
_SIG_BLOCK, _SIG_UNBLOCK = 0, 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL_DEV = (
    1,
    1 << 1,
    1 << 2,
    1 << 3,
    1 << 14,
    1 << 15,
)
_RIGHTS_OF_ABI: Final = {3: (1 << 15) - 1, 4: (1 << 15) - 1}
_RIGHTS_SINCE_5: Final = (1 << 16) - 1
_READING: Final = _EXECUTE | _READ_FILE | _READ_DIR
_ON_FILES: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_RULE_PATH_BENEATH: Final = 1
_AT_FDCWD: Final = -100
_RESOLVE_NO_SYMLINKS: Final = 0x04

_FROM_TERMINAL: Final = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGHUP,
    signal.SIGTERM,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
)

_STEPS: Final = (
    "namespaces",
    "privileges",
    "landlock",
    "limits",
    "filter",
    "fork",
    "directory",
    "waited",
    "status",
)
_RUSAGE: Final = 144
"""struct rusage of a 64-bit kernel: two timevals, then ru_maxrss in KiB."""
_CONTINUED: Final[Mapping[int, int]] = {signal.SIGKILL: 20, **dict.fromkeys(ENDING - {signal.SIGKILL}, 4)}
"""Signal -> how often a command's outer process is continued after it, until it has ended."""
_PAUSE_NANOSECONDS: Final = 50_000_000
_MOST_PLACES: Final = 256
"""Places in which a command is looked for: a report stays below what a pipe takes at once."""


@dataclass(frozen=True, slots=True)
class Landlock:
    """What a process may reach, of the kernel's ``abi``: all to read, ``folders`` and ``files`` to write as well."""

    abi: int
    folders: tuple[str, ...]
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Confinement:
    """What every process of the agent's is held by, from its first instruction on.

    Args:
        machine: ``uname -m``. filter_program: the system calls that it may not make.
        landlock: None: the kernel under the agent is gVisor's, which has its own view of files alone.
    """

    machine: str
    limits: Limits
    filter_program: bytes
    landlock: Landlock | None


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Descriptors of the namespaces that a command enters.

    Args:
        owner: the user namespace that owns the others. users: the one that the sandbox's processes are in.
    """

    owner: int
    users: int
    processes: int
    mounts: int
    others: Mapping[int, int]
    """Kind (CLONE_NEW...) -> descriptor."""

    @property
    def descriptors(self) -> tuple[int, ...]:
        """All of them."""
        return (self.owner, self.users, self.processes, self.mounts, *self.others.values())


@dataclass(frozen=True, slots=True)
class Report:
    """What a program said last.

    Args:
        failed: the step that failed, with the kernel's error; None: none did.
        places: the kernel's errors for the places in which the command was looked for.
        pid: the inner process, as the outer one counts; 0: there is none.
        status: how the command ended (wait(2)); None: it has not.
        processor_us, peak_bytes: what it used, with the processes that it waited for.
    """

    failed: tuple[str, int] | None = None
    places: tuple[int, ...] = ()
    pid: int = 0
    status: int | None = None
    processor_us: int = 0
    peak_bytes: int = 0


class _Steps:
    """A program with a report."""

    def __init__(self, confinement: Confinement, report: int, *, places: int = 0) -> None:
        self.confinement = confinement
        self.program = CallProgram(confinement.machine)
        self.report = report
        self._size = 8 * (len(_STEPS) + places) + _RUSAGE
        self._slots = self.program.data(bytes(self._size))

    def slot(self, name: str, number: int = 0) -> Place:
        """Where the result of a step stands in the report."""
        index = len(_STEPS) + number if name == "place" else _STEPS.index(name)
        return self._slots.after(8 * index)

    @property
    def usage(self) -> Place:
        """Where the kernel writes what the command used: at the report's end."""
        return self._slots.after(self._size - _RUSAGE)

    def must(self, step: str, number: int, *arguments: int | Place) -> None:
        """A call without which nothing of the agent may run."""
        self.program.call(number, *arguments, error="failed", result=self.slot(step))

    def tell(self) -> None:
        """Send the report."""
        self.program.call(_WRITE, self.report, self._slots, self._size)

    def end(self) -> None:
        """The end of a program whose step failed."""
        self.program.label("failed")
        self.tell()
        self.program.call(_EXIT_GROUP, 127)

    def signals(self, numbers: Sequence[int], disposition: int) -> None:
        """Ignore signals, or take them as usual again."""
        action = self.program.data(struct.pack("<QQQQ", disposition, 0, 0, 0))
        for number in numbers:
            self.program.call(_RT_SIGACTION, number, action, 0, 8)

    def mask(self, how: int, numbers: Sequence[int]) -> None:
        """Block signals, which then wait, or take those that have come."""
        blocked = self.program.data(struct.pack("<Q", sum(1 << (number - 1) for number in numbers)))
        self.program.call(_RT_SIGPROCMASK, how, blocked, 0, 8)

    def close_others(self) -> None:
        """Close every descriptor but the streams and the report."""
        if self.report > 3:
            self.program.call(_CLOSE_RANGE, 3, self.report - 1, 0)
        self.program.call(_CLOSE_RANGE, self.report + 1, _ALL_DESCRIPTORS, 0)

    def confine(self, *, capabilities_stay: bool = False) -> None:
        """Limits, no new privileges, Landlock, no capability, the filter: in this order, for good."""
        call, must, data = self.program.call, self.must, self.program.data
        for kind, value in _limits(self.confinement.limits).items():
            must("limits", _SETRLIMIT, kind, data(struct.pack("<QQ", value, value)))
        must("privileges", _PRCTL, _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if self.confinement.landlock is not None:
            self._restrict(self.confinement.landlock)
        for capability in range(_CAPABILITIES):
            call(_PRCTL, _PR_CAPBSET_DROP, capability, 0, 0, 0)
        call(_PRCTL, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
        if not capabilities_stay:
            self.drop_capabilities()
        words = self.confinement.filter_program
        program = self.program.structure(struct.pack("<Hxxxxxx", len(words) // 8), data(words))
        must("filter", _SECCOMP, _SECCOMP_SET_MODE_FILTER, 0, program)

    def drop_capabilities(self) -> None:
        """Have none in effect, permitted or inheritable (capset(2), version 3)."""
        head = self.program.data(struct.pack("<Ii", _CAPABILITY_VERSION, 0))
        self.must("privileges", _CAPSET, head, self.program.data(bytes(24)))

    def _restrict(self, landlock: Landlock) -> None:
        """Landlock's rules. Descriptors are given out from the lowest on: 0 to 2 and the report are open."""
        ruleset, place = (4, 5) if self.report == 3 else (3, 5 if self.report == 4 else 4)
        rights = _RIGHTS_OF_ABI.get(landlock.abi, _RIGHTS_SINCE_5)
        attributes = self.program.data(struct.pack("<Q", rights))
        self.must("landlock", _LANDLOCK_CREATE_RULESET, attributes, 8, 0)
        how = self.program.data(struct.pack("<QQQ", os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_NO_SYMLINKS))
        rules = [
            ("/", rights & _READING),
            *((path, rights) for path in landlock.folders),
            *((path, rights & _ON_FILES) for path in landlock.files),
        ]
        for path, granted in rules:
            self.must("landlock", _OPENAT2, _AT_FDCWD, self.program.text(path), how, 24)
            rule = self.program.data(struct.pack("<Qi", granted, place))  # packed: 12 bytes
            self.must("landlock", _LANDLOCK_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0)
            self.must("landlock", _CLOSE, place)
        self.must("landlock", _LANDLOCK_RESTRICT_SELF, ruleset, 0)
        self.must("landlock", _CLOSE, ruleset)


def _limits(limits: Limits) -> Mapping[int, int]:
    return {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_NPROC: limits.processes,
    }


def first_process(confinement: Confinement, *, report: int | None) -> bytes:
    """The executable of a sandbox's first process. It reaps what is left to it, and never ends by itself.

    Args:
        report: the descriptor on which it says that it is ready; None: it has none, and its start is seen otherwise.
    """
    steps = _Steps(confinement, REPORT_DESCRIPTOR if report is None else report)
    steps.close_others()
    steps.signals((signal.SIGCHLD, *_FROM_TERMINAL), _SIG_IGN)
    steps.confine()
    steps.tell()
    steps.program.call(_CLOSE_RANGE, 0, _ALL_DESCRIPTORS, 0)
    steps.program.label("wait")
    steps.program.call(_PAUSE, error="wait", zero="wait", positive="wait")
    steps.end()
    return steps.program.elf()


def command_program(
    confinement: Confinement,
    order: Command,
    *,
    report: int,
    namespaces: Namespaces | None,
    terminal: bool = False,
) -> bytes:
    """The executable that starts one command in a sandbox and reports its end.

    Args:
        report: the descriptor of the report.
        namespaces: what it enters; None: it is started inside.
        terminal: its streams are a terminal, which is to control it.
    """
    places = _places(order)
    steps = _Steps(confinement, report, places=len(places))
    program, inside = steps.program, namespaces is None
    program.call(_FCNTL, report, _F_SETFD, _FD_CLOEXEC)
    program.call(_PRCTL, _PR_SET_DUMPABLE, 0, 0, 0, 0)
    steps.mask(_SIG_BLOCK, _FROM_TERMINAL)
    if namespaces is None:
        steps.close_others()
        steps.confine()
    else:
        steps.must("namespaces", _SETNS, namespaces.owner, linux.CLONE_NEWUSER)
        steps.must("namespaces", _SETNS, namespaces.processes, linux.CLONE_NEWPID)
    program.call(_FORK, error="failed", zero="inner", result=steps.slot("fork"))
    _wait(steps)
    program.label("inner")
    if namespaces is not None:
        for kind, descriptor in namespaces.others.items():
            steps.must("namespaces", _SETNS, descriptor, kind)
        steps.must("namespaces", _SETNS, namespaces.mounts, linux.CLONE_NEWNS)
        steps.must("namespaces", _SETNS, namespaces.users, linux.CLONE_NEWUSER)
        steps.close_others()
    if not (terminal and inside):  # gVisor has made the outer process the terminal's
        program.call(_SETSID)
    if terminal and not inside:
        program.call(_IOCTL, 0, _TIOCSCTTY, 0)
    if namespaces is not None:
        steps.confine()
    steps.must("directory", _CHDIR, program.text(order.cwd))
    steps.signals(_FROM_TERMINAL, _SIG_DFL)
    steps.mask(_SIG_UNBLOCK, _FROM_TERMINAL)
    _execute(steps, order, places)
    steps.end()
    return program.elf()


def _wait(steps: _Steps) -> None:
    """The outer process: hold no stream and no capability, say that it runs, wait, say how it ended."""
    call = steps.program.call
    for stream in range(3):
        call(_CLOSE, stream)
    steps.close_others()
    steps.drop_capabilities()
    steps.tell()
    steps.program.label("wait")
    status, waited = steps.slot("status"), steps.slot("waited")
    call(_WAIT4, _ANY_CHILD, status, 0, steps.usage, error="wait", result=waited)
    steps.tell()
    call(_EXIT_GROUP, 0)


def _execute(steps: _Steps, order: Command, places: Sequence[str]) -> None:
    program = steps.program
    arguments = program.pointers([program.text(word) for word in order.argv])
    environment = program.pointers([program.text(f"{name}={value}") for name, value in order.env.items()])
    for number, place in enumerate(places):
        program.call(_EXECVE, program.text(place), arguments, environment, result=steps.slot("place", number))


def _places(order: Command) -> tuple[str, ...]:
    """Where the command may be: as execvp(3) looks for it, in the command's own PATH."""
    name = order.argv[0]
    if "/" in name:
        return (name,)
    folders = order.env.get("PATH", os.defpath).split(":")
    return tuple(os.path.join(folder, name) for folder in folders)[:_MOST_PLACES]


def ending(machine: str) -> bytes:
    """The executable that only ends."""
    program = CallProgram(machine)
    program.call(_EXIT_GROUP, 0)
    return program.elf()


def signalling(
    confinement: Confinement, targets: Sequence[int], number: int, *, outer: int | None = None
) -> bytes:
    """The executable that sends a signal to a command's processes; it ends with 0 if it reached one of them.

    Its capabilities stay: it starts with CAP_KILL alone, as a user whom the agent can send no signal.

    Args:
        targets: pids inside. outer: the command's outer process, which the agent may have stopped: it is continued, so
            that it can report. If it has not ended a second after SIGKILL, it is killed too.
    """
    steps = _Steps(confinement, REPORT_DESCRIPTOR)
    program, last = steps.program, f"reached {len(targets)}"
    program.call(_PRCTL, _PR_SET_DUMPABLE, 0, 0, 0, 0)
    steps.close_others()
    steps.confine(capabilities_stay=True)
    for index, target in enumerate(targets):
        program.call(_KILL, target, number, zero=f"reached {index + 1}")
    if outer is not None and number == signal.SIGKILL:
        program.call(_KILL, outer, signal.SIGCONT, zero=last)
    steps.end()
    for index, target in enumerate(targets):
        program.label(f"reached {index}")
        program.call(_KILL, target, number)
    program.label(last)
    if outer is not None:
        pause = program.data(struct.pack("<qq", 0, _PAUSE_NANOSECONDS))
        for _ in range(_CONTINUED.get(number, 0)):  # what is being ended may stop it once more
            program.call(_KILL, outer, signal.SIGCONT, error="ended")
            program.call(_NANOSLEEP, pause, 0)
        program.call(_KILL, outer, number if number == signal.SIGKILL else signal.SIGCONT)
    program.label("ended")
    program.call(_EXIT_GROUP, 0)
    return program.elf()


def is_ready(sent: bytes) -> bool:
    """Whether the first process reported that every step was taken."""
    words = len(_STEPS)
    return len(sent) == 8 * words + _RUSAGE and min(struct.unpack_from(f"<{words}q", sent)) >= 0


def read_reports(sent: bytes, order: Command) -> Report:
    """What the two processes of :func:`command_program` reported, together. Strict: what is no report is none."""
    places = len(_places(order))
    size = 8 * (len(_STEPS) + places) + _RUSAGE
    found = Report()
    for start in range(0, len(sent) - size + 1, size):
        words = struct.unpack_from(f"<{len(_STEPS) + places}q", sent, start)
        slots, tried = dict(zip(_STEPS, words, strict=False)), words[len(_STEPS) :]
        failed = next(((name, -value) for name, value in slots.items() if value < 0), None)
        if failed is None and all(value < 0 for value in tried) and tried:
            failed = ("command", errno.ENOENT)
        if failed is not None:
            found = Report(failed=failed, places=tuple(-value for value in tried))
        elif found.failed is None and slots["waited"] > 0:
            times = struct.unpack_from("<5q", sent, start + size - _RUSAGE)
            processor = 1_000_000 * (times[0] + times[2]) + times[1] + times[3]
            found = Report(
                pid=slots["fork"],
                status=slots["status"],
                processor_us=processor,
                peak_bytes=times[4] * 1024,
            )
        elif found.failed is None:
            found = Report(pid=slots["fork"])
    return found
