"""A plan and a command as JSON members, and back through every check: what the control socket carries.

The unprivileged half of the supervisor writes these, the privileged runner reads them, so reading is strict:
exact members, exact types, and the whole plan is derived anew from its file entries rather than believed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields

from affiant.sandbox.isolation.plan.errors import FrameError
from affiant.sandbox.isolation.plan.plan import (
    Access,
    Command,
    DirectoryRoot,
    FileGrant,
    HostUsr,
    Limits,
    RootFS,
    SandboxPlan,
    plan_sandbox,
)

__all__ = ["command_from_json", "command_to_json", "plan_from_json", "plan_to_json"]


def plan_to_json(plan: SandboxPlan) -> Mapping[str, object]:
    """The facts from which :func:`plan_from_json` derives the same plan again."""
    entries = [
        {"path": bind.target, "access": (Access.READ_WRITE if bind.writable else Access.READ_ONLY).value}
        for bind in plan.binds
    ]
    return {
        "session": plan.session,
        "files": [*entries, *({"path": mask.target, "access": Access.NONE.value} for mask in plan.masks)],
        "rootfs": plan.rootfs.path if isinstance(plan.rootfs, DirectoryRoot) else None,
        "runtime": plan.runtime,
        "hostname": plan.hostname,
        "limits": asdict(plan.limits),
    }


def plan_from_json(members: object) -> SandboxPlan:
    """The plan that ``members`` describe, derived through :func:`plan_sandbox`.

    Raises:
        FrameError: other members or types than :func:`plan_to_json` writes.
        ``isolation.plan``: the plan itself is refused.
    """
    plan = _exact(members, "session", "files", "rootfs", "runtime", "hostname", "limits")
    files = plan["files"]
    if not isinstance(files, list):
        raise FrameError("the plan's files are not a list")
    rootfs: RootFS = HostUsr() if plan["rootfs"] is None else DirectoryRoot(_text(plan["rootfs"]))
    return plan_sandbox(
        _text(plan["session"]),
        tuple(_grant(entry) for entry in files),
        rootfs=rootfs,
        runtime=None if plan["runtime"] is None else _text(plan["runtime"]),
        hostname=_text(plan["hostname"]),
        limits=_limits(plan["limits"]),
    )


def command_to_json(command: Command) -> Mapping[str, object]:
    """The command's members."""
    return {"argv": list(command.argv), "env": dict(command.env), "cwd": command.cwd}


def command_from_json(members: object) -> Command:
    """The command that ``members`` describe.

    Raises:
        FrameError: other members or types than :func:`command_to_json` writes.
        ``isolation.plan``: nothing to run, a NUL, or a working directory that is not canonical.
    """
    command = _exact(members, "argv", "env", "cwd")
    argv, env = command["argv"], command["env"]
    if not isinstance(argv, list) or not isinstance(env, dict):
        raise FrameError("a command is an argument list and an environment object")
    return Command(
        tuple(_text(item) for item in argv),
        {name: _text(value) for name, value in env.items()},
        _text(command["cwd"]),
    )


def _grant(entry: object) -> FileGrant:
    members = _exact(entry, "path", "access")
    try:
        return FileGrant(_text(members["path"]), Access(members["access"]))
    except ValueError as error:
        raise FrameError("unknown access of a file entry", found=repr(str(members["access"])[:40])) from error


def _limits(value: object) -> Limits:
    members = _exact(value, *(known.name for known in fields(Limits)))
    return Limits(**{name: _count(each) for name, each in members.items() if (name, each) != ("cpus", None)})


def _exact(value: object, *names: str) -> Mapping[str, object]:
    if not isinstance(value, dict) or set(value) != set(names):
        raise FrameError("an object with other members than its own", expected=", ".join(names))
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise FrameError("a member is not text", found=type(value).__name__)
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise FrameError("a member is not an integer", found=type(value).__name__)
    return value
