"""The namespaces in which a sandbox is started: they end with the runner, whatever ends the runner.

The runner moves itself into a mount and a network namespace of its own and makes a process namespace whose
first process, :class:`Enclosure`'s *init*, does nothing but wait. Every program of the sandbox lives in that
process namespace, every mount in that mount namespace, every interface in an unnamed network namespace. The
kernel kills init when the runner dies (PR_SET_PDEATHSIG), everything in the namespace when init dies, and
frees mounts and interfaces with their last user. So a ``kill -9`` leaves nothing to clean but files.

Without root the same happens inside a user namespace in which the runner is root over its own user alone.

Where the machine lets this user make one, the sandbox has a memory cgroup too (cgroups(7), version 1 or 2): one below
or beside the runner's own, with one limit. The kernel then counts all of its memory, mapped or not, and keeps the
limit at once. No cgroup that was there before is changed. A cgroup outlives its processes. The runner removes its own;
if the runner was killed, the next command does (:mod:`affiant.sandbox.isolation.runner.reconcile`).
This file talks to the kernel; it is only ever used in a process with one thread.
"""

from __future__ import annotations

import os
import re
import resource
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from affiant.sandbox.isolation.plan import linux
from affiant.sandbox.isolation.plan.errors import SandboxFailed

__all__ = [
    "PRIVATE",
    "Enclosure",
    "MemoryGroup",
    "isolate_runner",
    "make_memory_group",
    "remove_memory_group",
    "start_init",
]

PRIVATE: Final = Path("/run/affiant")
"""The runner's private folder: on a tmpfs over /run that only the runner's mount namespace has."""

_DIES_FIRST: Final = "500"
"""oom_score_adj (proc(5)): -1000 to 1000."""

_PRIVATE_SIZE: Final = "size=268435456,mode=0711"
"""256 MiB bound what runsc writes of its own (state, log, configuration)."""


_GROUP_NAME: Final = re.compile(r"affiant-[0-9a-f]{16}\Z")
_REMOVAL_SECONDS: Final = 2.0
_NO_LIMIT: Final = {
    "memory.max": ["max"],
    "memory.high": ["max"],
    "memory.swap.max": ["max"],
    "pids.max": ["max"],
    "cpu.max": ["max"],
    "cpuset.cpus": [],
    "io.max": [],
}
"""File of a cgroup -> its first word where that limits nothing."""
_LARGEST_CHARGE: Final = 8 * resource.getpagesize()
"""Bytes that the kernel charges at once, at most, before it ends a process (mmzone.h, PAGE_ALLOC_COSTLY_ORDER)."""


@dataclass(slots=True)
class MemoryGroup:
    """A memory cgroup of the sandbox's own, by descriptors: names are the runner's mount namespace's."""

    path: Path
    _parent: int
    _folder: int
    _procs: int
    _version: int

    def join(self) -> None:
        """Put the calling process into it, and with it what it will start."""
        os.write(self._procs, b"0")

    @property
    def exceeded(self) -> bool:
        """Whether the kernel has ended one of its processes because the cgroup had reached its own limit.

        The kernel also ends processes when the machine, or a cgroup further up, has no memory left.
        """
        with suppress(OSError):
            if self._version == 2:
                events = self._counts("memory.events.local")
                return events.get("oom_kill", 0) > 0 and events.get("oom", 0) > 0
            if self._counts("memory.oom_control").get("oom_kill", 0) > 0:
                most, limit = (
                    int(self._read(name)) for name in ("memory.max_usage_in_bytes", "memory.limit_in_bytes")
                )
                return most > limit - _LARGEST_CHARGE
        return False

    def remove(self) -> None:
        """Remove it, once its processes are gone. Idempotent."""
        if self._parent < 0:
            return
        deadline = time.monotonic() + _REMOVAL_SECONDS
        while True:
            try:
                os.rmdir(self.path.name, dir_fd=self._parent)
            except FileNotFoundError:
                break
            except OSError:  # the last process is on its way out
                if time.monotonic() > deadline:
                    break
                time.sleep(0.01)
            else:
                break
        for fd in (self._procs, self._folder, self._parent):
            os.close(fd)
        self._parent = -1

    def _counts(self, name: str) -> dict[str, int]:
        lines = (line.split() for line in self._read(name).decode().splitlines())
        return {field: int(value) for field, value in lines}

    def _read(self, name: str) -> bytes:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._folder)
        try:
            return os.read(fd, 4096)
        finally:
            os.close(fd)


def make_memory_group(limit: int, *, record: Callable[[str], None]) -> MemoryGroup | None:
    """A memory cgroup with ``limit`` bytes and no swap; None: this user may make none on this machine.

    Args:
        record: called with the path of each cgroup before it is made: so no end of the runner leaves an unknown one.
    """
    for version, parent in _places_of_groups():
        if not str(parent).isprintable():  # not UTF-8: no record can name it
            continue
        name = f"affiant-{secrets.token_hex(8)}"
        record(str(parent / name))
        try:
            (parent / name).mkdir(mode=0o700)
        except OSError:
            continue
        try:
            group = _limited(parent, name, version, limit)
        except OSError:  # the controller is not handed on to children here
            with suppress(OSError):
                (parent / name).rmdir()
            continue
        if _can_join(group):
            return group
        group.remove()
    return None


def remove_memory_group(path: str) -> None:
    """Remove the cgroup that a killed runner left at ``path``, if that names one of ours; the kernel removes no other
    than an empty one.
    """
    place = Path(path)
    ours = _GROUP_NAME.match(place.name) is not None and ".." not in place.parts
    if ours and any(place.is_relative_to(mounted) for _, mounted, _ in _mounts_of_groups()):
        with suppress(OSError):
            place.rmdir()


def _can_join(group: MemoryGroup) -> bool:
    """Whether a process of this user may move into it: one tries."""
    child = os.fork()
    if child == 0:
        try:
            group.join()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def _limited(parent: Path, name: str, version: int, limit: int) -> MemoryGroup:
    group = parent / name
    limits = (
        {"memory.max": limit, "memory.swap.max": 0, "memory.oom.group": 1}
        if version == 2
        else {"memory.limit_in_bytes": limit, "memory.memsw.limit_in_bytes": limit, "memory.swappiness": 0}
    )
    required, *others = limits
    (group / required).write_text(str(limits[required]))
    for other in others:  # a kernel without accounting of swap has not all of them
        with suppress(OSError):
            (group / other).write_text(str(limits[other]))
    directory = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    return MemoryGroup(
        path=group,
        _parent=os.open(parent, directory),
        _folder=os.open(group, directory),
        _procs=os.open(group / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC),
        _version=version,
    )


def _places_of_groups() -> Iterator[tuple[int, Path]]:
    """Where a cgroup could be made: below the runner's own; in version 2 also beside it, if its own has no limit.

    In version 2 a cgroup with processes has no children with limits. What runs beside the runner's own cgroup escapes
    the limits of that one (``MemoryMax=`` and ``TasksMax=`` of a systemd unit), but none further up.
    """
    for version, own in _own_groups():
        yield version, own
        if version == 2 and not own.is_mount() and _is_unlimited(own):
            yield version, own.parent


def _is_unlimited(group: Path) -> bool:
    """Whether no controller limits the cgroup of version 2 itself (cgroups, cgroup-v2.rst)."""
    for name, word in _NO_LIMIT.items():
        try:
            said = (group / name).read_text().split()
        except FileNotFoundError:  # that controller is not on for it
            continue
        except OSError:
            return False
        if said[:1] != word:
            return False
    return True


def _own_groups() -> Iterator[tuple[int, Path]]:
    """The runner's own cgroups with memory in them, as mounted here; version 2 first."""
    for version, mounted, root in _mounts_of_groups():
        own = _own_path(version)
        if own is not None:
            inner = os.path.relpath(own, root)
            yield version, mounted if inner.startswith("..") else mounted / inner


def _mounts_of_groups() -> Iterator[tuple[int, Path, str]]:
    """Version, mount point, and which part of the hierarchy is mounted there (proc(5), mountinfo)."""
    found = []
    for mount in linux.mount_table():
        if mount.kind == "cgroup2":
            found.append((2, Path(mount.at), mount.root))
        elif mount.kind == "cgroup" and "memory" in mount.options:
            found.append((1, Path(mount.at), mount.root))
    yield from sorted(found, reverse=True)


def _own_path(version: int) -> str | None:
    """This process's place in the hierarchy (cgroups(7), /proc/pid/cgroup)."""
    for line in os.fsdecode(Path("/proc/self/cgroup").read_bytes()).rstrip("\n").split("\n"):
        number, controllers, path = line.split(":", 2)
        if (version == 2 and number == "0") or (version == 1 and "memory" in controllers.split(",")):
            return path
    return None


@dataclass(slots=True)
class Enclosure:
    """The process namespace's first process, descriptors of the namespaces it is in, and the memory cgroup."""

    init: int
    mounts: int
    network: int
    memory: MemoryGroup | None = None

    def enter(self) -> None:
        """In a forked child: enter init's namespaces, and die with the runner.

        Signals that the runner ignores are not ignored here, no core is ever written (it would hold the agent's
        memory), and when the machine runs out of memory the sandbox goes before what watches it.
        """
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        Path("/proc/self/oom_score_adj").write_text(_DIES_FIRST)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        linux.die_with_parent()
        linux.setns(self.network, linux.CLONE_NEWNET)
        linux.setns(self.mounts, linux.CLONE_NEWNS)

    def enter_counted(self) -> None:
        """As :meth:`enter`, for a command of the sandbox: its memory counts against the limit."""
        if self.memory is not None:
            self.memory.join()
        self.enter()

    def kill(self) -> None:
        """SIGKILL to everything in the process namespace; returns before the kernel is done. Idempotent."""
        if self.init != 0:
            os.kill(self.init, signal.SIGKILL)

    def destroy(self) -> None:
        """Kill everything in the process namespace, and wait until the kernel has done so. Idempotent.

        The caller has reaped its own children in there: the kernel waits for them as well.
        """
        if self.init == 0:
            return
        self.kill()
        os.waitpid(self.init, 0)
        self.init = 0
        os.close(self.mounts)
        os.close(self.network)


def isolate_runner() -> None:
    """Move this process into mount, network and process namespaces of its own, with a private folder.

    The next child is the process namespace's first: see :func:`start_init`.

    Raises:
        SandboxFailed: the kernel does not allow it.
    """
    try:
        if os.geteuid() != 0:
            _become_root_of_own_user_namespace()
        linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWNET | linux.CLONE_NEWPID)
        linux.make_mounts_slave()
        linux.mount("affiant", "/run", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, _PRIVATE_SIZE)
        PRIVATE.mkdir(mode=0o711)
    except OSError as error:
        raise SandboxFailed(
            "the kernel gives this process no namespaces of its own",
            found=error.strerror,
            hint="Run as root, or allow unprivileged user namespaces.",
        ) from error


def _become_root_of_own_user_namespace() -> None:
    """user_namespaces(7): one identity, ours, mapped to 0; no group may be dropped (setgroups deny)."""
    uid, gid = os.geteuid(), os.getegid()
    linux.unshare(linux.CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def start_init(*, own_network: bool, hide_network_settings: bool) -> Enclosure:
    """Start the first process of the process namespace, in a copy of the mounts as they are now.

    Args:
        own_network: give init a network namespace apart from the runner's (the far one stays with the runner).
        hide_network_settings: cover /proc/sys/net for init: runsc takes a visible ``dev_weight`` for the
            machine's own network namespace and refuses to start.

    Raises:
        SandboxFailed: it did not start; the text says at which step.
    """
    ready, tell = os.pipe()
    init = os.fork()
    if init == 0:
        os.close(ready)
        _be_init(tell, own_network=own_network, hide_network_settings=hide_network_settings)
    os.close(tell)
    try:
        failure = os.read(ready, 4096)
    finally:
        os.close(ready)
    if failure != b"ok":
        os.waitpid(init, 0)
        raise SandboxFailed(
            "the sandbox's first process did not start", found=failure.decode("utf-8", "replace")
        )
    return Enclosure(
        init=init,
        mounts=os.open(f"/proc/{init}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC),
        network=os.open(f"/proc/{init}/ns/net", os.O_RDONLY | os.O_CLOEXEC),
    )


def _be_init(tell: int, *, own_network: bool, hide_network_settings: bool) -> NoReturn:
    """The first process: set up, say so, hold nothing, reap orphans, wait to be killed."""
    try:
        linux.die_with_parent()
        if os.getppid() not in {0, 1}:  # the parent is outside of our process namespace, so its number is 0
            raise OSError(0, "not the first process of a process namespace")
        linux.unshare(linux.CLONE_NEWNS | (linux.CLONE_NEWNET if own_network else 0))
        linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
        if hide_network_settings:
            linux.mount("affiant", "/proc/sys/net", "tmpfs", linux.MS_RDONLY)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        os.write(tell, b"ok")
        os.closerange(0, os.sysconf("SC_OPEN_MAX"))
        while True:
            signal.pause()
    except BaseException as error:  # noqa: BLE001 - a forked child must never return into its parent's code
        os.write(tell, (str(error) or type(error).__name__).encode()[:4096])
    finally:
        os._exit(1)
