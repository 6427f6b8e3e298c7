"""The session's own directories, opened without following a link, and shown in the runner's private folder.

The session's folder is written by less privileged processes, and in it lie trees that a hostile agent wrote.
So no path in it is ever resolved by name with privilege: every step is one ``openat`` with ``O_NOFOLLOW``,
and what was opened is what is mounted. Directories that a mount needs and that are not there are made.

Read-only and carved-out are made true here, by the machine's kernel, before any backend sees the mounts. The
backends say them once more inside; but an agent who becomes root in a user namespace of gVisor's kernel could
remount what only that kernel holds to be read-only.

Where an agent can read its mount table (``/proc/self/mountinfo``, under bubblewrap), a bind mount would show the path
of the session's folder on its file system. So the session's directories are shown there through overlays of one layer
each: what is written goes straight into them, and the table shows the overlay's root. An image that was unpacked into
the session's folder is shown through a read-only overlay. Where the kernel or the file system gives no overlay, they
are bound, and the path shows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from affiant.sandbox.base.privileges import Owner
from affiant.sandbox.isolation.plan.errors import SandboxFailed
from affiant.sandbox.isolation.plan.leftover_record import FOLDER
from affiant.sandbox.isolation.plan.linux import (
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    bind_mount,
    make_read_only,
    mount,
    mount_table,
    unmount,
)
from affiant.sandbox.isolation.plan.plan import Bind, SandboxPlan, covers
from affiant.sandbox.isolation.plan.rootfs import Shown

__all__ = ["paths_show", "remove_overlays", "show_image", "show_session"]

_OVERLAY: Final = "overlay-"
_LEVELS: Final = 4
"""Of what is removed: ``overlay-0/work/work/index``."""

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def show_session(
    plan: SandboxPlan, *, session_dir: Path, at: Path, owner: Owner | None, hidden: bool
) -> tuple[Shown, ...]:
    """Mount every entry of ``plan`` below ``at``; make the mount points that carve-outs and entries need.

    Args:
        owner: who gets the directories that are made, and the outermost ones; None: the present user.
        hidden: no mount may show where the session's folder is.

    Raises:
        SandboxFailed: a link or a file is where a directory of the session must be.
    """
    for mask in plan.masks:
        for bind in plan.workspaces:
            if covers(bind.target, mask.target):
                source = bind.source + mask.target[len(bind.target) :]
                os.close(_open_beneath(session_dir, source, owner=owner))
    shown = []
    overlays: dict[str, Path] = {}
    for number, bind in enumerate(plan.binds):
        place = at / f"session-{number}"
        with _opened(bind, session_dir, overlays, owner) as fd:
            if owner is not None and bind in plan.workspaces:
                os.fchown(fd, owner.uid, owner.gid)
            if hidden and bind in plan.workspaces and _overlay(fd, session_dir, at / f"{_OVERLAY}{number}"):
                overlays[bind.source] = at / f"{_OVERLAY}{number}"
                bind_mount(str(overlays[bind.source]), str(_made(place)))
            else:
                bind_mount(f"/proc/self/fd/{fd}", str(_made(place)))
        for hole in plan.carved_out(bind.target):
            _cover(place, hole)
        if not bind.writable:
            make_read_only(str(place))
        shown.append(Shown(bind.target, str(place), bind.writable))
    return tuple(shown)


@contextmanager
def _opened(bind: Bind, session_dir: Path, overlays: dict[str, Path], owner: Owner | None) -> Iterator[int]:
    """A descriptor of what ``bind`` shows: in its outermost entry's overlay, else in the session's folder."""
    base, inner = session_dir, bind.source
    for source, overlay in overlays.items():
        if covers(source, bind.source):
            base, inner = overlay, bind.source[len(source) + 1 :]
    fd = _open_beneath(base, inner, owner=owner)
    try:
        yield fd
    finally:
        os.close(fd)


def _overlay(upper: int, session_dir: Path, place: Path) -> bool:
    """Mount the directory ``upper`` at ``place`` as the one layer of an overlay; whether the kernel gives that."""
    folder = f"{FOLDER}/{place.name}"
    with ExitStack() as opened:
        lower, work = (
            _open_beneath(session_dir, f"{folder}/{name}", owner=None) for name in ("lower", "work")
        )
        opened.callback(os.close, lower)
        opened.callback(os.close, work)
        layers = {"lowerdir": lower, "upperdir": upper, "workdir": work}
        options = ",".join(f"{name}=/proc/self/fd/{fd}" for name, fd in layers.items())
        try:
            mount("affiant", str(_made(place)), "overlay", MS_NOSUID | MS_NODEV, f"{options},{_own_option()}")
        except OSError:
            place.rmdir()
            return False
    return True


def _own_option() -> str:
    """In a user namespace of its own, root may not read the attributes that overlays keep otherwise."""
    alone = Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]
    return "userxattr" if alone else "index=off"


def remove_overlays(session_dir: Path, *, at: Path | None) -> None:
    """Unmount the overlays, and remove what the kernel made for them in the session's folder. Idempotent.

    Args:
        at: where they are mounted; None: the runner is gone, and its mounts with it.
    """
    for place in () if at is None else sorted(at.glob(f"{_OVERLAY}*")):
        with suppress(OSError):
            unmount(str(place))
    with suppress(OSError, SandboxFailed):
        folder = _open_beneath(session_dir, FOLDER, owner=None)
        try:
            for name in os.listdir(folder):
                if name.startswith(_OVERLAY):
                    _remove_empty(folder, name, _LEVELS)
        finally:
            os.close(folder)


def _remove_empty(parent: int, name: str, levels: int) -> None:
    """Remove a directory that holds nothing but empty directories; no file, and no link is followed."""
    with suppress(OSError):  # the kernel's own has mode 000, and is empty
        fd = os.open(name, _DIRECTORY, dir_fd=parent)
        try:
            for below in os.listdir(fd) if levels > 1 else ():
                _remove_empty(fd, below, levels - 1)
        finally:
            os.close(fd)
    with suppress(OSError):
        os.rmdir(name, dir_fd=parent)


def paths_show(session_dir: Path, *, at: Path) -> bool:
    """Whether the table of mounts, which the agent can read, names the session's folder for what is below ``at``."""
    places = (mounted.root.split("/") for mounted in mount_table() if Path(mounted.at).is_relative_to(at))
    return any(session_dir.name in place for place in places)


def _made(place: Path) -> Path:
    place.mkdir(mode=0o755)
    return place


def _cover(place: Path, hole: str) -> None:
    """An empty, read-only directory over ``hole`` below the mounted ``place``; no link is followed."""
    fd = _open_beneath(place, hole, owner=None)
    try:
        flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
        mount("affiant", f"/proc/self/fd/{fd}", "tmpfs", flags, "size=4096,mode=0555")
    finally:
        os.close(fd)


def show_image(shown: Sequence[Shown], *, at: Path, session_dir: Path | None = None) -> tuple[Shown, ...]:
    """The root's own parts, mounted below ``at``: the user that starts the sandbox may not reach them by name.

    Args:
        session_dir: the folder whose path no mount may show; None: every path may show.
    """
    moved = []
    for number, item in enumerate(_through_overlay(shown, session_dir, at)):
        place = at / f"root-{number}"
        if Path(item.source).is_dir():
            place.mkdir(mode=0o755)
        else:
            place.touch(mode=0o644)
        bind_mount(item.source, str(place))
        make_read_only(str(place))
        moved.append(Shown(item.target, str(place), item.writable))
    return tuple(moved)


def _through_overlay(shown: Sequence[Shown], session_dir: Path | None, at: Path) -> Iterator[Shown]:
    """``shown``, with what lies in the session's folder taken from a read-only overlay over the image there."""
    overlays: dict[str, Path | None] = {}
    for item in shown:
        source = Path(item.source).resolve()
        if session_dir is None or session_dir not in source.parents:
            yield item
            continue
        image, *inner = source.relative_to(session_dir).parts
        if image not in overlays:
            place = at / f"{_OVERLAY}{image}"
            overlays[image] = place if _lower_overlay(session_dir, image, at / "empty", place) else None
        overlay = overlays[image]
        yield item if overlay is None else replace(item, source=str(overlay.joinpath(*inner)))


def _lower_overlay(session_dir: Path, image: str, empty: Path, place: Path) -> bool:
    """Mount the directory ``image`` of the session at ``place``, read-only; whether the kernel gives that.

    An overlay without an upper layer has two lower ones at least.
    """
    with ExitStack() as opened:
        top, bottom = os.open(_made(empty), _DIRECTORY), _open_beneath(session_dir, image, owner=None)
        opened.callback(os.close, top)
        opened.callback(os.close, bottom)
        layers = ":".join(f"/proc/self/fd/{fd}" for fd in (top, bottom))
        try:
            flags = MS_RDONLY | MS_NOSUID | MS_NODEV
            mount("affiant", str(_made(place)), "overlay", flags, f"lowerdir={layers},{_own_option()}")
        except OSError:
            place.rmdir()
            return False
    return True


def _open_beneath(base: Path, relative: str, *, owner: Owner | None) -> int:
    """A descriptor of the directory ``relative`` below ``base``, made where it is missing, following no link.

    Raises:
        SandboxFailed: something else than a directory is on the way.
    """
    fd = os.open(base, _DIRECTORY)
    try:
        for segment in relative.split("/") if relative else ():
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
