"""Which isolation this machine can give, and the choice that never goes below the minimum.

A backend is data here: its name in receipts, its class, and what speaks against it on this machine. What it
does lies in :mod:`gvisor` and :mod:`bubblewrap`; the runner drives both in the same way. This file talks to
the machine (programs, kernel) in :func:`probe` only.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from affiant.errors import ConfigurationError
from affiant.sandbox.base.privileges import Owner
from affiant.sandbox.isolation.backends.bubblewrap import bwrap_program
from affiant.sandbox.isolation.backends.call_program import program_machines
from affiant.sandbox.isolation.backends.entering import LEAST_LANDLOCK, ending
from affiant.sandbox.isolation.backends.executing import sealed
from affiant.sandbox.isolation.backends.gvisor import (
    OLDEST_RELEASE,
    release_year,
    runsc_program,
    runsc_release,
)
from affiant.sandbox.isolation.plan.isolation_class import BackendName, IsolationClass
from affiant.sandbox.isolation.plan.linux import landlock_version
from affiant.sandbox.isolation.plan.plan import AGENT_GID, AGENT_UID

__all__ = ["NEEDS_ROOT", "Availability", "choose", "file_owner", "probe"]

_PROBE_SECONDS: Final = 20
_INSTALL: Final = "Run scripts/install_sandbox_runtime.sh"
NEEDS_ROOT: Final = "gVisor needs root"
"""The one reason against gVisor that nothing installed would change."""


@dataclass(frozen=True, slots=True)
class Availability:
    """What a backend is on this machine. An empty ``reasons`` means that it can be used."""

    backend: BackendName
    release: str
    reasons: tuple[str, ...]

    @property
    def usable(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.reasons


def probe() -> Mapping[BackendName, Availability]:
    """Look at this machine: programs, kernel, and whether it really makes the namespaces (5 to 20 ms each)."""
    return {BackendName.GVISOR: _probe_gvisor(), BackendName.BUBBLEWRAP: _probe_bubblewrap()}


def choose(minimum: IsolationClass, found: Mapping[BackendName, Availability]) -> Availability:
    """The strongest usable backend at or above ``minimum``.

    Raises:
        ``isolation.unavailable``: there is none; the text says what is missing.
    """
    eligible = [name for name in BackendName if name.isolation.reaches(minimum)]
    for name in eligible:
        if name in found and found[name].usable:
            return found[name]
    missing = "; ".join(
        f"{name.value}: {', '.join(found[name].reasons)}" for name in eligible if name in found
    )
    lower, strong = found.get(BackendName.BUBBLEWRAP), found.get(BackendName.GVISOR)
    only_root = (
        minimum is IsolationClass.USERSPACE_KERNEL and strong is not None and strong.reasons == (NEEDS_ROOT,)
    )
    hint = "Run as root" if only_root else f"{_INSTALL} as root"
    if minimum is IsolationClass.USERSPACE_KERNEL and lower is not None and lower.usable:
        hint += ", or add --min-isolation namespace (weaker; the receipts say so)"
    raise ConfigurationError(
        "no isolation on this machine is strong enough",
        expected=minimum.value,
        found=missing or "nothing",
        hint=f"{hint}.",
        code="isolation.unavailable",
    )


def file_owner(backend: BackendName, session: str) -> Owner:
    """Who must own the session's files, so that the agent inside can use them and no other session's user is it.

    Under bubblewrap, as root, every session has a user of its own, above all ranges that systems assign
    (0x7000_0000 up). Under gVisor the machine never sees the agent's processes, only its file accesses.
    """
    if os.geteuid() != 0:
        return Owner(os.geteuid(), os.getegid())
    match backend:
        case BackendName.GVISOR:
            return Owner(AGENT_UID, AGENT_GID)
        case BackendName.BUBBLEWRAP:
            number = int.from_bytes(hashlib.sha256(session.encode()).digest()[:4], "big") & 0x0FFFFFFF
            return Owner(0x70000000 + number, 0x70000000 + number)


def _probe_gvisor() -> Availability:
    program = runsc_program()
    if program is None:
        return Availability(BackendName.GVISOR, "", (f"runsc is not installed ({_INSTALL})",))
    release = runsc_release(program)
    reasons = _machine()
    if release_year(release) < OLDEST_RELEASE:
        reasons.append(f"runsc is older than {OLDEST_RELEASE} ({release or 'no version'})")
    if os.geteuid() != 0:
        reasons.append(NEEDS_ROOT)
    elif not _runs("unshare", "--mount", "--net", "--pid", "--fork", "true"):
        reasons.append("the kernel gives root no new namespaces here")
    if not any(os.access(place, os.X_OK) for place in ("/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip")):
        reasons.append(f"ip is not installed ({_INSTALL})")
    return Availability(BackendName.GVISOR, release, tuple(reasons))


def _probe_bubblewrap() -> Availability:
    program = bwrap_program()
    reasons = []
    if program is None:
        reasons.append(f"bwrap is not installed ({_INSTALL})")
    elif not _runs(*_trial(program)):
        reasons.append("the kernel does not let bubblewrap make a sandbox here")
    version = landlock_version()
    if version < LEAST_LANDLOCK:
        reasons.append(f"Landlock is too old or off (ABI {version}, needed {LEAST_LANDLOCK})")
    reasons += _machine() or _anonymous_executables()
    release = "" if program is None else f"bubblewrap, Landlock ABI {version}"
    return Availability(BackendName.BUBBLEWRAP, release, tuple(reasons))


def _machine() -> list[str]:
    known = platform.machine() in program_machines()
    return [] if known else [f"no static program for {platform.machine()}"]


def _anonymous_executables() -> list[str]:
    """What speaks against executing a sealed file, as each command is started; one that only ends is."""
    try:
        fd = sealed(ending(platform.machine()))
    except OSError as error:
        return [f"the kernel makes no anonymous executable: {error.strerror}"]
    try:
        works = _runs(f"/proc/self/fd/{fd}", passed=(fd,))
    finally:
        os.close(fd)
    return [] if works else ["the kernel executes no anonymous file here"]


def _trial(program: str) -> Sequence[str]:
    """A sandbox with ``/usr`` alone, as the session's will be made: user, process and network namespaces."""
    namespaces = ("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent")
    links = ("--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64")
    shown = ("--ro-bind", "/usr", "/usr", *links, "--proc", "/proc", "--dev", "/dev")
    return (program, *namespaces, *shown, "--", "/usr/bin/true")


def _runs(*argv: str, passed: Sequence[int] = ()) -> bool:
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            check=False,
            timeout=_PROBE_SECONDS,
            env={"PATH": "/usr/bin:/bin"},
            pass_fds=passed,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
