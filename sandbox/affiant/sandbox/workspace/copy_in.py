"""Copies a tree into the session's folder, bounded, without following a link out of it.

What arrives is files, directories and links (as links); owners, special bits and extended attributes do not.
Devices, pipes and sockets are refused: an input that holds them is not what its owner thinks it is.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.errors import NotAllowedError
from affiant.sandbox.base.privileges import Owner
from affiant.sandbox.workspace.tree import Entry, Kind, TreeUnreadable, tree_digest
from affiant.sandbox.workspace.walk import (
    WHOLE,
    Found,
    Inodes,
    Limits,
    escaped,
    link_target,
    open_directory,
    read_chunks,
    walk,
)

__all__ = ["Copied", "copy_in"]

_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Copied:
    """What was copied: the entries (for :func:`copy_out` later) and their digest."""

    entries: tuple[Entry, ...]
    digest: str
    commit: str | None = None
    """Of the repository, where the files are those of one."""


def copy_in(
    source: Path,
    target: Path,
    *,
    limits: Limits = WHOLE,
    exclude: frozenset[str] = frozenset(),
    private: Inodes = frozenset(),
    owner: Owner | None = None,
) -> Copied:
    """Copy the tree ``source`` into the empty directory ``target`` (made if missing).

    Args:
        exclude: paths relative to ``source`` that stay out (the profile's carve-outs).
        private: what may not be copied under whatever name.
        owner: whom the copy belongs to; None: the present user.

    Raises:
        SpecialFile, FileNameError, TreeTooLarge: the tree holds what cannot be copied.
        ``session.input_private``: the tree is, or holds, what is private.
        ``workspace.output``: ``target`` is not empty.
        TreeUnreadable: the machine did not let us.
    """
    entries: list[Entry] = []
    total = 0
    try:
        target.mkdir(mode=0o755, parents=True, exist_ok=True)
        with open_directory(source.resolve()) as origin, open_directory(target) as copy:
            if os.listdir(copy):
                raise NotAllowedError(
                    "the copy's directory is not empty", where=escaped(target.name), code="workspace.output"
                )
            _give(copy, owner)
            for found in walk(origin, limits=limits, exclude=exclude, private=private):
                entry, size = _copy(found, copy, limits.total_bytes - total, owner)
                entries.append(entry)
                total += size
    except OSError as error:
        raise TreeUnreadable("the tree cannot be copied", found=error.strerror) from error
    return Copied(tuple(entries), tree_digest(entries))


def _copy(found: Found, copy: int, left: int, owner: Owner | None) -> tuple[Entry, int]:
    """Make one entry below the descriptor ``copy``: every directory there was made by us, links last.

    A path of the walk is made of names that are directories in ``source``; in the copy the same names were
    made as directories, so resolving it here meets no link.
    """
    match found.kind:
        case Kind.DIRECTORY:
            os.mkdir(found.path, 0o755, dir_fd=copy)
            if owner is not None:
                os.chown(found.path, owner.uid, owner.gid, dir_fd=copy, follow_symlinks=False)
            return Entry(found.path, found.kind, executable=False, content=""), 0
        case Kind.LINK:
            target = link_target(found)
            os.symlink(target, found.path, dir_fd=copy)
            if owner is not None:
                os.chown(found.path, owner.uid, owner.gid, dir_fd=copy, follow_symlinks=False)
            return Entry(found.path, found.kind, executable=False, content=target), 0
        case Kind.FILE:
            return _copy_file(found, copy, left, owner)


def _copy_file(found: Found, copy: int, left: int, owner: Owner | None) -> tuple[Entry, int]:
    digest, size = hashlib.sha256(), 0
    fd = os.open(found.path, _NEW_FILE, 0o755 if found.executable else 0o644, dir_fd=copy)
    with os.fdopen(fd, "wb") as file:
        for chunk in read_chunks(found, at_most=left):
            digest.update(chunk)
            size += len(chunk)
            file.write(chunk)
        file.flush()
        _give(fd, owner)
        os.utime(fd, ns=(found.modified_ns, found.modified_ns))
    return Entry(found.path, found.kind, found.executable, f"sha256:{digest.hexdigest()}"), size


def _give(fd: int, owner: Owner | None) -> None:
    if owner is not None:
        os.fchown(fd, owner.uid, owner.gid)
