"""Walks a tree that a hostile process may have written, by descriptors alone.

Every directory and file is opened relative to its parent's descriptor with ``O_NOFOLLOW``, and is judged by
``fstat`` of what was opened. No path is resolved twice, so nothing can be exchanged between look and use.
This file talks to the file system.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from affiant.errors import ConfigurationError
from affiant.sandbox.workspace.tree import (
    Entry,
    FileNameError,
    Kind,
    Skipped,
    SpecialFile,
    TreeTooLarge,
    TreeUnreadable,
    tree_digest,
)

__all__ = [
    "WHOLE",
    "Found",
    "Inodes",
    "Limits",
    "chunks_of",
    "descended",
    "escaped",
    "link_target",
    "look_at",
    "open_directory",
    "read_chunks",
    "read_tree",
    "runtime_digest",
    "walk",
]

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK: Final = 1 << 20


def _always() -> None:
    """Go on: the walk has no reason to end early."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a tree may hold; more is an error; nothing is truncated.

    ``proceed`` is called for each entry and each piece of a file; it raises once the rest is not wanted any more.
    """

    files: int = 100_000
    total_bytes: int = 4 << 30
    depth: int = 64
    proceed: Callable[[], None] = field(default=_always, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Found:
    """One entry on the walk. ``parent`` is a descriptor of its directory, valid until the next step."""

    path: str
    name: str
    parent: int
    kind: Kind
    executable: bool
    modified_ns: int
    proceed: Callable[[], None] = _always
    """As :class:`Limits` has it."""


Inodes = frozenset[tuple[int, int]]
"""Files and directories by device and inode."""

Refusal = FileNameError | SpecialFile | TreeUnreadable
Refuse = Callable[[str, Refusal], None]
"""What to do with an entry that cannot be copied, other than to raise: note it and go on."""

WHOLE: Final = Limits()
"""What is allowed unless the caller says otherwise."""


def walk(
    root: int,
    *,
    limits: Limits,
    exclude: frozenset[str] = frozenset(),
    private: Inodes = frozenset(),
    refuse: Refuse | None = None,
) -> Iterator[Found]:
    """Every entry below the directory ``root``, each directory before what is in it, in order of names.

    Args:
        root: a descriptor; it stays the caller's.
        exclude: paths that are passed over, with what is below them.
        private: what may not be met under whatever name.
        refuse: called for what cannot be copied: devices, pipes, sockets, unprintable names, unreadable
            directories; None: they are raised.

    Raises:
        SpecialFile, FileNameError, TreeUnreadable: such an entry, unless ``refuse`` takes it.
        TreeTooLarge: more entries or levels than the limits.
        ``session.input_private``: the tree is, or holds, what is private.
    """
    _require_public(os.fstat(root), "", private)
    steps = _walk(
        root, "", limits.depth, exclude=exclude, private=private, refuse=refuse, proceed=limits.proceed
    )
    for count, found in enumerate(steps):
        if count >= limits.files:
            raise TreeTooLarge("too many files", expected=f"at most {limits.files}")
        limits.proceed()
        yield found


def _walk(
    parent: int,
    prefix: str,
    levels: int,
    *,
    exclude: frozenset[str],
    private: Inodes,
    refuse: Refuse | None,
    proceed: Callable[[], None],
) -> Iterator[Found]:
    if levels == 0:
        raise TreeTooLarge("directories nested too deep", where=escaped(prefix[:200]))
    with os.scandir(parent) as listing:
        names = sorted(entry.name for entry in listing)
    for name in names:
        path = prefix + name
        if path in exclude:
            continue
        try:
            found = _judge(parent, name, path, private, proceed)
            yield found
            if found.kind is Kind.DIRECTORY:
                with open_directory(name, parent) as below:
                    yield from _walk(
                        below,
                        path + "/",
                        levels - 1,
                        exclude=exclude,
                        private=private,
                        refuse=refuse,
                        proceed=proceed,
                    )
        except FileNotFoundError:  # it was removed while we looked: then it is not there
            continue
        except (FileNameError, SpecialFile, TreeUnreadable) as error:
            if refuse is None:
                raise
            refuse(path, error)
        except OSError as error:  # a directory that lists its names and gives no access to them
            unreadable = TreeUnreadable("it cannot be read", where=escaped(path), found=error.strerror)
            if refuse is None:
                raise unreadable from error
            refuse(path, unreadable)


def look_at(parent: int, name: str) -> Found:
    """The entry ``name`` of the directory ``parent``; a link is not followed.

    Raises:
        SpecialFile, FileNameError: it is neither file, directory nor link, or its name is not printable.
    """
    return _judge(parent, name, name, frozenset(), _always)


def _judge(parent: int, name: str, path: str, private: Inodes, proceed: Callable[[], None]) -> Found:
    if not name.isprintable():
        raise FileNameError("a file's name is not printable Unicode", where=escaped(path))
    facts = os.stat(name, dir_fd=parent, follow_symlinks=False)
    _require_public(facts, path, private)
    if stat.S_ISDIR(facts.st_mode):
        kind = Kind.DIRECTORY
    elif stat.S_ISREG(facts.st_mode):
        kind = Kind.FILE
    elif stat.S_ISLNK(facts.st_mode):
        kind = Kind.LINK
    else:
        raise SpecialFile("a device, pipe or socket cannot be copied", where=escaped(path))
    executable = kind is Kind.FILE and bool(facts.st_mode & stat.S_IXUSR)
    return Found(path, name, parent, kind, executable, facts.st_mtime_ns, proceed)


def _require_public(facts: os.stat_result, path: str, private: Inodes) -> None:
    if (facts.st_dev, facts.st_ino) in private:
        raise ConfigurationError(
            "this is the state folder, a secret store or a key under another name, and no agent may reach that",
            where=escaped(path) or ".",
            hint="Give the session a folder without it",
            code="session.input_private",
        )


@contextmanager
def open_directory(path: str | Path, parent: int | None = None) -> Iterator[int]:
    """A descriptor of a directory that is no link itself.

    Raises:
        TreeUnreadable: it cannot be opened.
    """
    try:
        fd = os.open(path, _DIRECTORY, dir_fd=parent)
    except OSError as error:
        raise TreeUnreadable(
            "a directory cannot be read", where=escaped(str(path)), found=error.strerror
        ) from error
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def descended(base: int, names: Iterable[str], enter: Callable[[int, str], int]) -> Iterator[int]:
    """The directory at ``names`` below ``base``; ``enter`` opens one in its parent and follows no link."""
    fd = os.dup(base)
    try:
        for name in names:
            below = enter(fd, name)
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


def read_chunks(found: Found, *, at_most: int) -> Iterator[bytes]:
    """The content of a file, in pieces.

    Raises:
        SpecialFile: it is no regular file any more.
        TreeTooLarge: more than ``at_most`` bytes.
        TreeUnreadable: it cannot be opened or read.
    """
    try:
        fd = os.open(found.name, _FILE, dir_fd=found.parent)
    except OSError as error:
        raise TreeUnreadable(
            "a file cannot be read", where=escaped(found.path), found=error.strerror
        ) from error
    try:
        for chunk in chunks_of(fd, found.path, at_most=at_most):
            found.proceed()
            yield chunk
    finally:
        os.close(fd)


def chunks_of(fd: int, path: str, *, at_most: int, cut: bool = False) -> Iterator[bytes]:
    """The content of the file that was opened as ``fd``, in pieces; ``cut``: its first ``at_most`` bytes.

    Raises:
        SpecialFile: it is no regular file.
        TreeTooLarge: more than ``at_most`` bytes, and not ``cut``.
        TreeUnreadable: it cannot be read.
    """
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise SpecialFile(
            "not a regular file, or a file that was exchanged for something else", where=escaped(path)
        )
    size = 0
    while chunk := _read(fd, path):
        if size + len(chunk) > at_most:
            if not cut:
                raise TreeTooLarge("too many bytes", where=escaped(path))
            yield chunk[: at_most - size]
            return
        size += len(chunk)
        yield chunk


def _read(fd: int, path: str) -> bytes:
    try:
        return os.read(fd, _CHUNK)
    except OSError as error:
        raise TreeUnreadable("a file cannot be read", where=escaped(path), found=error.strerror) from error


def read_tree(
    directory: Path,
    *,
    limits: Limits = WHOLE,
    exclude: frozenset[str] = frozenset(),
    private: Inodes = frozenset(),
    skipped: list[Skipped] | None = None,
) -> tuple[Entry, ...]:
    """The entries of ``directory``, with the digest of every file.

    Args:
        skipped: where to note what is no file, directory or link; None: such an entry is refused.
    """
    entries: list[Entry] = []
    left = limits.total_bytes

    def note(path: str, error: Refusal) -> None:
        if skipped is None:
            raise error
        skipped.append(Skipped(escaped(path), error.code))

    with open_directory(directory) as root:
        for found in walk(root, limits=limits, exclude=exclude, private=private, refuse=note):
            try:
                content, size = _content(found, left)
            except (FileNameError, SpecialFile, TreeUnreadable) as error:
                note(found.path, error)
                continue
            left -= size
            entries.append(Entry(found.path, found.kind, found.executable, content))
    return tuple(entries)


def _content(found: Found, at_most: int) -> tuple[str, int]:
    """An entry's ``content``, and how many bytes were read for it."""
    match found.kind:
        case Kind.DIRECTORY:
            return "", 0
        case Kind.LINK:
            return link_target(found), 0
        case Kind.FILE:
            digest, size = hashlib.sha256(), 0
            for chunk in read_chunks(found, at_most=at_most):
                size += len(chunk)
                digest.update(chunk)
            return f"sha256:{digest.hexdigest()}", size


def link_target(found: Found) -> str:
    """Where a link points, as text.

    Raises:
        FileNameError: the target is not Unicode.
    """
    target = os.readlink(found.name, dir_fd=found.parent)
    if not target.isprintable():
        raise FileNameError("a link's target is not printable Unicode", where=escaped(found.path))
    return target


def runtime_digest(directory: Path, *, limits: Limits = WHOLE, private: Inodes = frozenset()) -> str:
    """The digest of a prepared environment (``--runtime``), as the manifest names it."""
    return tree_digest(read_tree(directory.resolve(), limits=limits, private=private))


def escaped(path: str) -> str:
    """``path`` with every character that is not printable shown as an escape, and bounded."""
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in path)
    return shown if len(shown) <= 300 else shown[:300] + "..."
