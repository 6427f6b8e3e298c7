"""What paths among the arguments of a call lead to, read once: below the folders that the configuration names.

An approver is shown what is read here, and the server gets a copy of just that (``path_copies``). A writer to the
folder may be hostile, and may change it meanwhile: from the opened folder on, the kernel takes one name after the
other, follows no link, and leaves the folder by no ``..`` and no mount (openat2(2)); what is opened is looked at before
a byte is read, and only a regular file of one name counts that everybody may read, in folders that everybody may enter:
a file that is open to all may lie in one that is not. More would lend a server what this gateway can read.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Sequence
from typing import Final

from affiant.policy.approvals.action import MAX_ACTION, BoundPath
from affiant.policy.approvals.errors import ActionUnshowable
from affiant.policy.canonical.paths import covers

__all__ = ["read_paths"]

_OPENAT2: Final = 437
"""The number of the system call, the same on all architectures."""
_NO_LINKS: Final = 0x02 | 0x04
"""RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS (linux/openat2.h)."""
_BENEATH: Final = _NO_LINKS | 0x01 | 0x08
"""And RESOLVE_NO_XDEV, RESOLVE_BENEATH."""
_LIBRARY: Final = ctypes.CDLL(None, use_errno=True)
_TRIES: Final = 8
_MAX_PATHS: Final = 64


class _How(ctypes.Structure):
    """``struct open_how``: three unsigned integers of 64 bits."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def read_paths(folders: Sequence[str], paths: Sequence[tuple[str, str]]) -> tuple[BoundPath, ...]:
    """Each path with its content, which together are no more than a person reads.

    Args:
        folders: absolute. paths: the argument that holds each, and the path, which is canonical.

    Raises:
        ActionUnshowable: one leads out of the folders, or to no such file, or to too much.
    """
    if len(paths) > _MAX_PATHS:
        raise ActionUnshowable("too many paths to be read before it is approved", expected=str(_MAX_PATHS))
    found: dict[str, bytes] = {}
    room = MAX_ACTION
    for _, path in paths:
        if path not in found:  # once: a second reading could see something else
            found[path] = _read(folders, path, room)
            room -= len(found[path])
    return tuple(BoundPath(argument, path, found[path]) for argument, path in paths)


def _read(folders: Sequence[str], path: str, room: int) -> bytes:
    try:
        return _read_below(_folder_of(folders, path), path, room)
    except OSError as error:
        raise _unshowable(f"{error.strerror or 'it cannot be read'}", path) from error


def _folder_of(folders: Sequence[str], path: str) -> str:
    above = [folder for folder in folders if path != folder and covers(folder, path)]
    if not above:
        raise _unshowable(
            "it is in none of the folders that the gateway's configuration names for the server", path
        )
    return max(above, key=len)


def _read_below(folder: str, path: str, room: int) -> bytes:
    place = _found(folder, path)
    try:
        _require_plain(os.fstat(place), path, room)
        file = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    finally:
        os.close(place)
    with open(file, "rb", buffering=0) as opened:
        return _whole(opened.fileno(), path, room)


def _found(folder: str, path: str) -> int:
    """A descriptor that names what is at ``path``; every user may enter ``folder``, and each one on the way."""
    *above, name = path[len(folder) :].lstrip("/").split("/")
    place = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for step, resolve in ((folder, _NO_LINKS), *((each, _BENEATH) for each in above)):
        place = _stepped(place, step, os.O_DIRECTORY, resolve)
        if not os.fstat(place).st_mode & stat.S_IXOTH:
            os.close(place)
            raise _unshowable("not everybody may read what is in its folder", path)
    return _stepped(place, name, 0, _BENEATH)


def _stepped(folder: int, name: str, flags: int, resolve: int) -> int:
    """As :func:`_named`; ``folder`` is closed."""
    try:
        return _named(folder, name, flags, resolve)
    finally:
        os.close(folder)


def _named(folder: int, path: str, flags: int, resolve: int) -> int:
    """A descriptor that names a file and does nothing to it: a device or a pipe is not touched by this (O_PATH)."""
    how = _How(flags | os.O_PATH | os.O_CLOEXEC, 0, resolve)
    for _ in range(_TRIES):
        place = int(
            _LIBRARY.syscall(
                ctypes.c_long(_OPENAT2),
                ctypes.c_int(folder),
                ctypes.c_char_p(os.fsencode(path)),
                ctypes.byref(how),
                ctypes.c_size_t(ctypes.sizeof(how)),
            )
        )
        if place >= 0:
            return place
        if ctypes.get_errno() not in (
            errno.EAGAIN,
            errno.EINTR,
        ):  # something was renamed meanwhile: once more
            break
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))


def _require_plain(status: os.stat_result, path: str, room: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _unshowable("it is no regular file", path)
    if status.st_nlink != 1:
        raise _unshowable("the file has other names, perhaps outside of the folder", path)
    if not status.st_mode & stat.S_IROTH:
        raise _unshowable("not everybody may read the file, so the server could not either", path)
    if status.st_size > room:
        raise _too_large(path)


def _whole(descriptor: int, path: str, room: int) -> bytes:
    """All that is in a file now; it may grow while it is read."""
    content = b""
    while len(content) <= room:
        piece = os.read(descriptor, room + 1 - len(content))
        if not piece:
            return content
        content += piece
    raise _too_large(path)


def _too_large(path: str) -> ActionUnshowable:
    return _unshowable("its content is too large to be read before it is approved", path)


def _unshowable(why: str, path: str) -> ActionUnshowable:
    return ActionUnshowable(
        f"the call needs approval, and the content of a path cannot be bound to one: {why}",
        where=ascii(path)[:300],
    )
