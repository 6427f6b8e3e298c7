"""Starts executables from sealed bytes, and reads how their command ended."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from typing import Final

from affiant.sandbox.isolation.backends.entering import read_reports
from affiant.sandbox.isolation.plan.driver import Ended, Started
from affiant.sandbox.isolation.plan.errors import CommandNotRun

__all__ = ["judge", "sealed"]

_NOT_FOUND: Final = (errno.ENOENT, errno.ENOTDIR)
_MFD_EXEC: Final = 0x10
"""Without it the file cannot be executed where ``vm.memfd_noexec`` is 1."""
_LEAST_LOST: Final = 129
"""Exit status of a runsc whose process inside was ended by a signal; its own failures are 128."""


def sealed(content: bytes) -> int:
    """A descriptor, open for reading alone, of an anonymous executable that no process can ever change.

    Raises:
        OSError: the kernel makes no anonymous file that can be executed (vm.memfd_noexec=2).
    """
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        fd = os.memfd_create("affiant", flags | _MFD_EXEC)
    except OSError as error:
        if error.errno != errno.EINVAL:  # only a kernel before 6.3 does not know the flag
            raise
        fd = os.memfd_create("affiant", flags)
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(content)
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(fd)


def judge(started: Started, status: int) -> Ended | None:
    """How a command ended; None: its end is not known, so the sandbox may have ended under it.

    Args:
        status: of the runner's child (waitstatus_to_exitcode).

    Raises:
        CommandNotRun: the command could not be executed.
    """
    said = read_reports(started.said(), started.command)
    wall = round(1e6 * (time.monotonic() - started.at))
    match said.failed:
        case ("command", _):
            missing = all(number in _NOT_FOUND for number in said.places)
            text = "was not found" if missing else "cannot be executed"
            raise CommandNotRun(f"the command {text} in the sandbox", exit_code=127 if missing else 126)
        case ("directory", number):
            raise CommandNotRun(
                f"the command's working directory cannot be entered: {os.strerror(number)}", exit_code=126
            )
        case ("fork", number):
            raise CommandNotRun(
                f"the sandbox reached its process limit: {os.strerror(number)}", exit_code=126
            )
        case (step, number):
            raise CommandNotRun(
                f"the command could not be confined, so it was not run ({step}: {os.strerror(number)})",
                exit_code=126,
            )
    if said.status is not None:
        code = os.waitstatus_to_exitcode(said.status)
        return Ended(128 - code if code < 0 else code, wall, said.processor_us, said.peak_bytes)
    if said.pid and (status < 0 or status >= _LEAST_LOST):  # its waiting process was ended by the agent
        return Ended(128 - status if status < 0 else status, wall)
    return None
