"""The control socket between the unprivileged supervisor and its privileged runner.

A ``SOCK_SEQPACKET`` pair: one frame is one packet, a canonical JSON object (RFC 8785) of at most 192 KiB, with
at most 4 descriptors travelling in the very packet that names them. A request is ``{"id": n, "do": command,
...}``; its answer is ``{"id": n, "ok": {...}}`` or ``{"id": n, "refused": {...}}`` (a refusal's members). No
frame carries a secret.

A plan and a command travel as members. Reading them is strict: exact members, exact types, and the whole plan is
derived anew from its file entries rather than believed.

Commands: ``prepare``, ``start``, ``signal``, ``wait``, ``files``, ``connect``, ``measure``, ``kill``, ``cleanup``.
``start`` is answered with the number of the agent's command, which ``signal`` and ``wait`` name.
"""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Final

from affiant.attestation.encoding.canonical import JSONError, canonical, parse_object
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

__all__ = [
    "MAX_FRAME",
    "command_from_json",
    "command_to_json",
    "control_pair",
    "plan_from_json",
    "plan_to_json",
    "receive_frame",
    "send_frame",
]

MAX_FRAME: Final = 192 * 1024
"""Bytes; below the kernel's default bound of one packet (net.core.wmem_default, 212992)."""

_MAX_DESCRIPTORS: Final = 4


def control_pair() -> tuple[socket.socket, socket.socket]:
    """The supervisor's end and the runner's end. Both close on exec; hand the runner's over by its number."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send_frame(
    control: socket.socket, members: Mapping[str, object], descriptors: Sequence[int] = ()
) -> None:
    """Send one frame; the descriptors stay open here.

    Raises:
        FrameError: the frame is larger than one packet may be.
        OSError: the other end is gone.
    """
    frame = canonical(members)
    if len(frame) > MAX_FRAME:
        raise FrameError(
            "a control message is too large",
            expected=f"at most {MAX_FRAME} bytes",
            found=f"{len(frame)} bytes",
        )
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    control.sendmsg([frame], ancillary, socket.MSG_NOSIGNAL)


def receive_frame(control: socket.socket) -> tuple[Mapping[str, object], tuple[int, ...]] | None:
    """The next frame and its descriptors (which the caller now owns); None: the other end is closed.

    Raises:
        FrameError: not a frame of this protocol; its descriptors are closed.
    """
    room = socket.CMSG_SPACE(_MAX_DESCRIPTORS * array.array("i").itemsize)
    data, ancillary, flags, _ = control.recvmsg(MAX_FRAME + 1, room, socket.MSG_CMSG_CLOEXEC)
    received = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            received.frombytes(payload[: len(payload) - len(payload) % received.itemsize])
    if not data and not received:
        return None
    try:
        if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise FrameError("a control message is incomplete")
        return parse_object(data, limit=MAX_FRAME), tuple(received)
    except (JSONError, FrameError) as error:
        for fd in received:
            os.close(fd)
        if isinstance(error, FrameError):
            raise
        raise FrameError("a control message is not canonical JSON") from error


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
