"""The namespaces in which a sandbox is started: they end with the runner, whatever ends the runner.

The runner moves itself into a mount and a network namespace of its own and makes a process namespace whose
first process, :class:`Enclosure`'s *init*, does nothing but wait. Every program of the sandbox lives in that
process namespace, every mount in that mount namespace, every interface in an unnamed network namespace. The
kernel kills init when the runner dies (PR_SET_PDEATHSIG), everything in the namespace when init dies, and
frees mounts and interfaces with their last user. So a ``kill -9`` leaves nothing to clean but files.

Without root the same happens inside a user namespace in which the runner is root over its own user alone.
This file talks to the kernel; it is only ever used in a process with one thread.
"""

from __future__ import annotations

import os
import resource
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from affiant.sandbox.isolation.plan import linux
from affiant.sandbox.isolation.plan.errors import SandboxFailed

__all__ = ["PRIVATE", "Enclosure", "isolate_runner", "start_init"]

PRIVATE: Final = Path("/run/affiant")
"""The runner's private folder: on a tmpfs over /run that only the runner's mount namespace has."""

_DIES_FIRST: Final = "500"
"""oom_score_adj (proc(5)): -1000 to 1000."""

_PRIVATE_SIZE: Final = "size=268435456,mode=0711"
"""256 MiB bound what runsc writes of its own (state, log, configuration)."""


@dataclass(slots=True)
class Enclosure:
    """The process namespace's first process, and descriptors of the namespaces it is in."""

    init: int
    mounts: int
    network: int

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
