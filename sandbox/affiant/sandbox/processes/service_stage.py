"""The first moments of a service: confine this process, then become the service's own program.

``affiant.sandbox.processes.service_stage --plan-fd N MODULE ARGUMENT...`` reads its plan from descriptor N,
takes the steps of ``exposure`` in a mount namespace of its own, becomes the service's user, and runs MODULE as
``python -m`` would, in this same process: an execve(2) would make it inspectable again (prctl(2),
PR_SET_DUMPABLE). No code of the service runs before the privileges are gone.

With ``--exec PROGRAM ARGUMENT...`` in place of the module it becomes that program, which confines itself, by execve(2).
"""

from __future__ import annotations

import json
import os
import resource
import runpy
import signal
import stat
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from affiant.errors import AffiantError, ConfigurationError
from affiant.sandbox.base.exposure import Cover, Link, Show, Step, step_from_json
from affiant.sandbox.base.privileges import drop_privileges, end_with_parent
from affiant.sandbox.isolation.plan import linux

__all__ = ["expose", "main", "settle_or_exit"]

_REMOUNT: Final = linux.MS_REMOUNT | linux.MS_BIND | linux.MS_NOSUID | linux.MS_NODEV
_PLAN_LIMIT: Final = 1 << 20


def expose(steps: Sequence[Step]) -> None:
    """Take ``steps`` in a new mount namespace; the machine's own view does not change. Root only.

    Raises:
        ``service.unreadable``: a path is gone, or the kernel refuses a mount.
    """
    if not steps:
        return
    shown = [step for step in steps if isinstance(step, Show)]
    sources: dict[str, int] = {}
    try:
        linux.unshare(linux.CLONE_NEWNS)
        linux.make_mounts_slave()
        for show in shown:  # in the new namespace: only its own mounts can be bound (mount(2), EINVAL)
            sources[show.path] = os.open(show.path, os.O_PATH | os.O_CLOEXEC)
        for step in steps:
            _take(step, sources)
        for step in steps:
            if isinstance(step, Cover):
                linux.mount("none", step.path, "none", _REMOUNT | linux.MS_RDONLY)
    except OSError as error:
        raise ConfigurationError(
            "cannot show a service what it needs",
            where=None if error.filename is None else str(error.filename),
            found=error.strerror,
            code="service.unreadable",
        ) from error
    finally:
        for source in sources.values():
            os.close(source)


def _take(step: Step, sources: Mapping[str, int]) -> None:
    match step:
        case Cover(path):
            linux.mount("tmpfs", path, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=0755,size=1m")
        case Link(path, target):
            os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            os.symlink(target, path)
        case Show(path, writable):
            source = sources[path]
            _make_mount_point(path, directory=stat.S_ISDIR(os.fstat(source).st_mode))
            linux.bind_mount(f"/proc/self/fd/{source}", path)
            linux.mount("none", path, "none", _REMOUNT | (0 if writable else linux.MS_RDONLY))


def _make_mount_point(path: str, *, directory: bool) -> None:
    if os.path.lexists(path):
        return
    os.makedirs(path if directory else os.path.dirname(path), mode=0o755, exist_ok=True)
    if not directory:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))


def read_plan(descriptor: int) -> Mapping[str, object]:
    """The plan in ``descriptor``, which is closed.

    Raises:
        ``service.unreadable``: another form.
    """
    with open(descriptor, "rb") as stream:
        plan = json.loads(stream.read(_PLAN_LIMIT))
    if not isinstance(plan, dict) or set(plan) != {"death_signal", "must_read", "parent", "steps", "user"}:
        raise ConfigurationError("not a service's plan", code="service.unreadable")
    return plan


def settle_or_exit(descriptor: int) -> None:
    """:func:`settle` as the plan in ``descriptor`` says; on an error one line and exit status 1."""
    try:
        settle(read_plan(descriptor))
    except AffiantError as error:
        sys.stderr.write(f"affiant: refused: {error} [{error.code}]\n")
        raise SystemExit(1) from error


def settle(plan: Mapping[str, object]) -> None:
    """Everything between being started and running the service's code.

    Raises:
        ``service.unreadable``: the service could not read what it needs.
    """
    steps, must_read, user = plan["steps"], plan["must_read"], plan["user"]
    assert isinstance(steps, list)
    assert isinstance(must_read, list)
    os.umask(0o022)
    expose([step_from_json(step) for step in steps])
    os.chdir("/")
    if isinstance(user, int):
        os.umask(0o077)
        drop_privileges(user)
    else:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for path in must_read:
        if not os.access(path, os.R_OK | (os.X_OK if os.path.isdir(path) else 0)):
            raise ConfigurationError(
                "a service cannot read what it needs under its own user",
                where=path,
                hint=f"Make it readable: chmod -R go+rX {path}",
                code="service.unreadable",
            )
    if plan["death_signal"] is not None:
        end_with_parent(signal.Signals(_int(plan["death_signal"])), parent=_int(plan["parent"]))


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def main(arguments: Sequence[str]) -> None:
    """Confine this process and run the module that ``arguments`` name."""
    option, descriptor, module, *rest = arguments
    if option != "--plan-fd":
        raise SystemExit("usage: service_stage --plan-fd N (MODULE ARGUMENT... | --exec PROGRAM ARGUMENT...)")
    settle_or_exit(int(descriptor))
    if module == "--exec":
        os.execv(rest[0], rest)  # noqa: S606 - an argument list, as Popen takes it
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
