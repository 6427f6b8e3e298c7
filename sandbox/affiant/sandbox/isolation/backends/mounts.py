"""The session's own directories, opened without following a link, and shown in the runner's private folder.

The session's folder is written by less privileged processes, and in it lie trees that a hostile agent wrote.
So no path in it is ever resolved by name with privilege: every step is one ``openat`` with ``O_NOFOLLOW``,
and what was opened is what is mounted. Directories that a mount needs and that are not there are made.

Read-only and carved-out are made true here, by the machine's kernel, before any backend sees the mounts. The
backends say them once more inside; but an agent who becomes root in a user namespace of gVisor's kernel could
remount what only that kernel holds to be read-only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from affiant.sandbox.base.privileges import Owner
from affiant.sandbox.isolation.plan.errors import SandboxFailed
from affiant.sandbox.isolation.plan.linux import (
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    bind_mount,
    make_read_only,
    mount,
)
from affiant.sandbox.isolation.plan.plan import SandboxPlan, covers
from affiant.sandbox.isolation.plan.rootfs import Shown

__all__ = ["show_image", "show_session"]

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def show_session(plan: SandboxPlan, *, session_dir: Path, at: Path, owner: Owner | None) -> tuple[Shown, ...]:
    """Mount every entry of ``plan`` below ``at``; make the mount points that carve-outs and entries need.

    Args:
        owner: who gets the directories that are made, and the outermost ones; None: the present user.

    Raises:
        SandboxFailed: a link or a file is where a directory of the session must be.
    """
    for mask in plan.masks:
        for bind in plan.workspaces:
            if covers(bind.target, mask.target):
                source = bind.source + mask.target[len(bind.target) :]
                os.close(_open_beneath(session_dir, source, owner=owner))
    shown = []
    for number, bind in enumerate(plan.binds):
        place = at / f"session-{number}"
        fd = _open_beneath(session_dir, bind.source, owner=owner)
        try:
            if owner is not None and bind in plan.workspaces:
                os.fchown(fd, owner.uid, owner.gid)
            _mount_fd(fd, place)
        finally:
            os.close(fd)
        for hole in plan.carved_out(bind.target):
            _cover(place, hole)
        if not bind.writable:
            make_read_only(str(place))
        shown.append(Shown(bind.target, str(place), bind.writable))
    return tuple(shown)


def _cover(place: Path, hole: str) -> None:
    """An empty, read-only directory over ``hole`` below the mounted ``place``; no link is followed."""
    fd = _open_beneath(place, hole, owner=None)
    try:
        flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
        mount("affiant", f"/proc/self/fd/{fd}", "tmpfs", flags, "size=4096,mode=0555")
    finally:
        os.close(fd)


def show_image(shown: Sequence[Shown], *, at: Path) -> tuple[Shown, ...]:
    """The root's own parts, mounted below ``at``: the user that starts the sandbox may not reach them by name."""
    moved = []
    for number, item in enumerate(shown):
        place = at / f"root-{number}"
        if Path(item.source).is_dir():
            place.mkdir(mode=0o755)
        else:
            place.touch(mode=0o644)
        bind_mount(item.source, str(place))
        make_read_only(str(place))
        moved.append(Shown(item.target, str(place), item.writable))
    return tuple(moved)


def _open_beneath(base: Path, relative: str, *, owner: Owner | None) -> int:
    """A descriptor of the directory ``relative`` below ``base``, made where it is missing, following no link.

    Raises:
        SandboxFailed: something else than a directory is on the way.
    """
    fd = os.open(base, _DIRECTORY)
    try:
        for segment in relative.split("/"):
            below = _open_or_make(fd, segment, owner)
            os.close(fd)
            fd = below
    except OSError as error:
        os.close(fd)
        raise SandboxFailed(
            "the session's own directory cannot be used",
            where=relative,
            expected="directories, and no link on the way",
            found=error.strerror,
        ) from error
    return fd


def _open_or_make(parent: int, name: str, owner: Owner | None) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        os.mkdir(name, 0o755, dir_fd=parent)
    fd = os.open(name, _DIRECTORY, dir_fd=parent)
    if owner is not None:
        os.fchown(fd, owner.uid, owner.gid)
    return fd


def _mount_fd(fd: int, place: Path) -> None:
    place.mkdir(mode=0o755)
    bind_mount(f"/proc/self/fd/{fd}", str(place))
