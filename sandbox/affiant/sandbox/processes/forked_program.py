"""The first moments of a program that a template process has forked: from a copy of the template to what was ordered.

Called once, in the child. In order:

1. the caller must be confined exactly as this process is: users, capabilities, namespaces but for mounts, filters;
2. the program gets the caller's limits, priority, control groups and mounts;
3. the order is accepted, and the caller says go: only then may the program's TD be asked anything;
4. the image that was measured into that TD must be the one that the template loaded, else the order is refused;
5. the program gets a session of its own, its own descriptors, environment and command line, and nothing of the
   template's or of another program;
6. it goes through ``service_stage`` where it was ordered to, and runs.

What protects a program's memory (its user, not dumpable, locked) is not inherited by a fork. Every program does that
to itself in its ``main``, as it does when an interpreter starts it.
"""

from __future__ import annotations

import ctypes
import fcntl
import importlib
import os
import resource
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from types import CodeType
from typing import Final, Protocol, runtime_checkable

from affiant.attestation.release.running import MeasuredProcess
from affiant.attestation.release.start import memory_of_td
from affiant.attestation.simulated.served.client import SimulatedTD
from affiant.errors import AffiantError, StateError
from affiant.sandbox.base.template_order import Order, order_of, receive_packet, send_packet
from affiant.sandbox.isolation.plan import linux
from affiant.sandbox.processes.service_stage import settle_or_exit

__all__ = ["PROGRAMS", "LoadedImage", "Template", "run_order"]

PROGRAMS: Final[Mapping[str, str]] = {
    "affiant.sandbox.supervisor": "affiant.sandbox.supervisor.__main__",
    "affiant.sandbox.isolation.runner.runner": "affiant.sandbox.isolation.runner.runner",
    "affiant.secrets.broker.process": "affiant.secrets.broker.process",
}
"""What may be ordered, and the module whose ``main`` that is."""

_GO_WITHIN_S: Final = 10.0
_SAME_STATUS: Final = frozenset(
    {
        *("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"),
        *("NoNewPrivs", "Seccomp", "Seccomp_filters"),
    }
)
_SAME_NAMESPACES: Final = ("cgroup", "ipc", "net", "pid", "pid_for_children", "time", "user", "uts")
_LIMITS: Final = frozenset(
    getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")
) - {resource.RLIMIT_CORE, resource.RLIMIT_NOFILE}
"""Without that of core files, which no service writes, and that of descriptors, which comes last."""
_PR_SET_DUMPABLE: Final = 4
_EXIT_UNHANDLED: Final = 1
_LAST_DESCRIPTOR: Final = 1 << 20


@runtime_checkable
class LoadedImage(MeasuredProcess, Protocol):
    """An image that this process has loaded, and the SHA-256 of each of its files."""

    image_files: Mapping[str, str]

    code: Mapping[str, bytes] | None
    """Compiled code by path, from which modules are loaded; None: they are read from files."""

    def get_code(self, fullname: str) -> CodeType:
        """The code of a module, whose file was compared with the image."""
        ...


class Template:
    """What a template knows of itself, computed once.

    Args:
        image: what it loaded. mrtd: the measurement of a TD that is launched with that image.
    """

    def __init__(self, image: LoadedImage, mrtd: bytes) -> None:
        self.image = image
        self.mrtd = mrtd


def run_order(template: Template, connection: socket.socket, caller: int) -> int:
    """Become the program that is ordered over ``connection``, and run it; its exit status.

    Args:
        caller: the process id of who ordered, by the kernel's word.
    """
    connection.settimeout(_GO_WITHIN_S)
    try:
        order, received = _received(connection)
        if order.td is None:
            _require_same(order.image, expected=template.image.image_digest)
        limit = _take_over(caller)
        if not _is_to_go(connection):
            return 0
        if order.td is not None:
            td = received[order.descriptors.index(order.td)]
            _require_same(_measured_in(td, template.image), expected=template.mrtd.hex())
        send_packet(connection, {"started": True})
    except (AffiantError, OSError, ValueError) as error:
        with suppress(OSError):
            send_packet(connection, {"refused": str(error)})
        with suppress(OSError):
            sys.stderr.write(f"affiant: the template refused an order: {error}\n")  # still the template's
        return 0
    connection.close()
    return _run(order, received, limit, template.image)


def _received(connection: socket.socket) -> tuple[Order, tuple[int, ...]]:
    """The order and its descriptors.

    Raises:
        ``service.order``: not one that a template takes.
    """
    members, received = receive_packet(connection)
    order = order_of(members)
    if order.program not in PROGRAMS or len(received) != len(order.descriptors):
        raise StateError("not a program of this template", code="service.order")
    return order, received


def _is_to_go(connection: socket.socket) -> bool:
    """Accept the order; whether the caller still wants it."""
    own = os.pidfd_open(os.getpid())
    try:
        send_packet(connection, {"accepted": os.getpid()}, (own,))
    finally:
        os.close(own)
    return receive_packet(connection)[0] == {"go": True}


def _measured_in(td: int, image: MeasuredProcess) -> str:
    """The measurement of the TD behind ``td``, hexadecimal; its memory becomes the image's.

    Raises:
        AffiantError, OSError, ValueError: it does not answer.
    """
    with SimulatedTD(os.dup(td)) as guest:
        found = guest.report().mrtd.hex()
    image.memory_fd = memory_of_td(td)
    return found


def _require_same(found: str | None, *, expected: str) -> None:
    if found != expected:
        raise StateError(
            "the template loaded another image than was measured",
            expected=expected,
            found=found,
            code="service.order",
        )


def _take_over(caller: int) -> tuple[int, int]:
    """Take what a child of ``caller`` would inherit from it; its limit of descriptors, which comes last.

    Raises:
        ``service.order``: it is confined otherwise than this process, which a fork cannot follow.
        OSError, ValueError: it is gone, or the kernel refuses.
    """
    own, others = Path("/proc/self"), Path(f"/proc/{caller}")
    if _status(own) != _status(others) or os.readlink(others / "root") != "/":
        raise StateError("the caller is confined otherwise than the template", code="service.order")
    for name in _SAME_NAMESPACES:
        if os.readlink(own / "ns" / name) != os.readlink(others / "ns" / name):
            raise StateError("the caller is in other namespaces", found=name, code="service.order")
    _join_groups(own, others)
    os.sched_setaffinity(0, os.sched_getaffinity(caller))
    os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, caller))
    if (io_priority := linux.io_priority(caller)) != linux.io_priority(0):
        linux.set_io_priority(io_priority)
    badness = (others / "oom_score_adj").read_text()
    if badness != (own / "oom_score_adj").read_text():
        (own / "oom_score_adj").write_text(badness)
    for limit in _LIMITS:
        wanted = resource.prlimit(caller, limit)
        if wanted != resource.getrlimit(limit):
            resource.setrlimit(limit, wanted)
    files = resource.prlimit(caller, resource.RLIMIT_NOFILE)
    most = max(files[1], resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (most, most)
    )  # the caller's own comes when all are in their places
    if os.readlink(own / "ns/mnt") != os.readlink(others / "ns/mnt"):
        view = os.open(others / "ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        try:
            linux.setns(view, linux.CLONE_NEWNS)
        finally:
            os.close(view)
    os.chdir("/")
    return files


def _status(process: Path) -> Mapping[str, str]:
    lines = (line.partition(":") for line in (process / "status").read_text().splitlines())
    found = {name: value for name, _, value in lines if name in _SAME_STATUS}
    with suppress(OSError):  # no security module tells
        found["label"] = (process / "attr/current").read_text()
    return found


def _join_groups(own: Path, others: Path) -> None:
    """Join the caller's control groups: what limits and counts the caller does so here."""
    here, there = ((each / "cgroup").read_text().splitlines() for each in (own, others))
    if here == there:
        return
    mounts = [mount for mount in linux.mount_table() if mount.kind in {"cgroup", "cgroup2"}]
    for line in set(there) - set(here):
        _, controllers, path = line.split(":", 2)
        wanted = set(controllers.split(",")) - {""}
        for mount in mounts:
            if (wanted and wanted <= set(mount.options)) or (not wanted and mount.kind == "cgroup2"):
                folder = Path(mount.at) / os.path.relpath(path, mount.root)
                (folder / "cgroup.procs").write_text(str(os.getpid()))
                break
        else:
            raise StateError(
                "the caller is in a control group that is not mounted here", code="service.order"
            )


def _become(
    order: Order, received: Sequence[int], limit: tuple[int, int], image: MeasuredProcess
) -> Callable[[Sequence[str]], int]:
    """Leave everything of the template behind; the program's ``main``."""
    os.setsid()
    image.memory_fd = _place_descriptors(order, received, image.memory_fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    os.environ.clear()
    os.environ.update(order.environment)
    sys.argv = [order.program, *order.arguments]
    _show_as(sys.argv)
    _make_dumpable()
    if order.stage is not None:
        settle_or_exit(order.stage)
    main: Callable[[Sequence[str]], int] = importlib.import_module(PROGRAMS[order.program]).main
    return main


def _place_descriptors(order: Order, received: Sequence[int], memory: int | None) -> int | None:
    """Put each descriptor under its number, and close all others; where the TD's memory is then."""
    taken = frozenset(order.descriptors)
    moved = [_duplicate(each, taken) for each in received]
    kept = None if memory is None else _duplicate(memory, taken)
    free = 3
    for each in sorted((*moved, *(() if kept is None else (kept,)))):
        os.closerange(free, each)
        free = each + 1
    os.closerange(free, _LAST_DESCRIPTOR)
    for number, source in zip(order.descriptors, moved, strict=True):
        os.dup2(source, number, inheritable=number == 2)
        os.close(source)
    empty = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in (0, 1):
        os.dup2(empty, number)
    os.close(empty)
    return kept


def _duplicate(descriptor: int, taken: AbstractSet[int]) -> int:
    """A copy under a number that is none of ``taken``; copies on the way there are closed with all others."""
    while (copy := fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)) in taken:
        pass
    return copy


def _show_as(words: Sequence[str]) -> None:
    """Write ``words`` where the kernel reads this process's command line (proc(5)), as far as there is room."""
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    if not 0 < start < end:  # the kernel does not say
        return
    shown = b"\0".join(os.fsencode(word) for word in (sys.executable, "-I", "-m", *words))
    room = end - start
    ctypes.memmove(start, shown[: room - 1].ljust(room, b"\0"), room)


def _make_dumpable() -> None:
    """As a new program is; ``main`` then takes it back, when it is its own user."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


def _run(order: Order, received: Sequence[int], limit: tuple[int, int], image: MeasuredProcess) -> int:
    """Become the program and run it as an interpreter would; the exit status."""
    try:
        return _become(order, received, limit, image)(order.arguments)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        sys.stderr.write(f"{ended.code}\n")
    except BaseException as error:  # noqa: BLE001 - shown as the program has it shown, which may be by its kind alone
        sys.excepthook(type(error), error, error.__traceback__)
    return _EXIT_UNHANDLED
