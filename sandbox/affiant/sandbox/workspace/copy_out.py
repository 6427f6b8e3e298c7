"""Takes the changes out of a sandbox's tree, which a hostile agent wrote, into a directory of the user's.

1. The tree is read by descriptors, links are never followed (:mod:`walk`).
2. Only what was added or changed is written, new directories too if they are empty; nothing in the output is ever
   deleted.
3. Files arrive without owner, setuid and other special bits; devices, pipes, sockets and names that are not
   printable are skipped and said.
4. A link arrives only if it can never lead out of the tree (:func:`tree.link_stays_inside`).
5. In the output no link is followed either: a file is written beside its place and renamed onto it, which
   replaces a link that is there; a link in place of a directory is an error.
6. Every file in the output is whole: if one cannot be written (a full disk), nothing of it stays.

Doing it twice gives the same output and the same summary.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from affiant.errors import NotAllowedError, UnreachableError
from affiant.sandbox.workspace.tree import (
    Changes,
    Entry,
    Kind,
    Skipped,
    TreeUnreadable,
    compare,
    link_stays_inside,
    tree_digest,
)
from affiant.sandbox.workspace.walk import (
    WHOLE,
    Found,
    Limits,
    descended,
    escaped,
    open_directory,
    read_chunks,
    read_tree,
)

__all__ = ["Left", "Taken", "changes_left", "content_left", "copy_out"]

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DRAFT: Final = ".affiant-output{}.new"
"""What a file is called until it is whole; the number is one that no name in the session's tree has."""


@dataclass(frozen=True, slots=True)
class Left:
    """What the session left behind, before anything of it was written elsewhere."""

    entries: tuple[Entry, ...]
    """All of its tree that can be copied."""
    changes: Changes

    @property
    def wanted(self) -> frozenset[str]:
        """Files and links that were added or changed."""
        return frozenset((*self.changes.added, *self.changes.changed))


@dataclass(frozen=True, slots=True)
class Taken:
    """What the session left behind: its changes, and the digest of its whole tree at the end."""

    changes: Changes
    digest: str


def copy_out(
    source: Path,
    output: Path,
    *,
    before: Iterable[Entry],
    limits: Limits = WHOLE,
    exclude: frozenset[str] = frozenset(),
) -> Taken:
    """Write into ``output`` what in ``source`` differs from ``before``.

    Args:
        source: the session's directory, after the sandbox has ended.
        output: made if missing; what it already holds stays, except files that the changes replace.
        before: the entries that :func:`copy_in` returned; empty if there was no input.
        exclude: the profile's carve-outs: never copied, whatever the agent made there.

    Raises:
        ``workspace.output``: the output holds a link or file where a directory is needed, or the reverse.
        TreeTooLarge: the agent left more than the limits; nothing was written.
        TreeUnreadable: the machine did not let us read what the agent left.
        ``workspace.unwritable``: the machine did not let us write; the files written before are whole.
    """
    left = changes_left(source, before=before, limits=limits, exclude=exclude)
    draft, folders = _draft_name(left.entries), frozenset(left.changes.folders)
    try:
        output.mkdir(mode=0o755, parents=True, exist_ok=True)
        with open_directory(source) as tree, open_directory(output.resolve()) as place:
            for entry in left.entries:
                if entry.path in folders:
                    with _parents(place, entry.path, make=True):
                        pass
                elif entry.path in left.wanted:
                    _write(entry, tree, place, limits, draft)
    except OSError as error:
        raise UnreachableError(
            "the output cannot be written",
            where=escaped(str(output)),
            found=error.strerror,
            code="workspace.unwritable",
        ) from error
    return Taken(left.changes, tree_digest(left.entries))


def changes_left(
    source: Path,
    *,
    before: Iterable[Entry],
    limits: Limits = WHOLE,
    exclude: frozenset[str] = frozenset(),
) -> Left:
    """What in ``source`` differs from ``before``; the arguments are those of :func:`copy_out`.

    Raises:
        TreeTooLarge, TreeUnreadable: as :func:`copy_out` has them.
    """
    skipped: list[Skipped] = []
    try:
        entries = read_tree(source, limits=limits, exclude=exclude, skipped=skipped)
    except OSError as error:
        raise TreeUnreadable("what the session left cannot be read", found=error.strerror) from error
    changes = compare(before, entries)
    wanted = {*changes.added, *changes.changed}
    wanted -= _misleading([entry for entry in entries if entry.path in wanted], skipped)
    kept = Changes(
        added=tuple(path for path in changes.added if path in wanted),
        changed=tuple(path for path in changes.changed if path in wanted),
        removed=changes.removed,
        skipped=tuple(skipped),
        folders=changes.folders,
    )
    return Left(entries, kept)


@contextmanager
def content_left(entry: Entry, tree: int, limits: Limits = WHOLE) -> Iterator[tuple[int, Iterator[bytes]]]:
    """The size and the content of the file ``entry`` below the descriptor ``tree``, reached without following a link.

    Raises:
        TreeUnreadable: it is not what was read before.
    """
    above, _, name = entry.path.rpartition("/")
    with _parents(tree, above, make=False) as origin:
        size = os.stat(name, dir_fd=origin, follow_symlinks=False).st_size
        found = Found(entry.path, name, origin, entry.kind, entry.executable, 0)
        yield size, read_chunks(found, at_most=min(size, limits.total_bytes))


def _misleading(entries: Iterable[Entry], skipped: list[Skipped]) -> set[str]:
    """The links that could lead out of the tree; each is noted in ``skipped``."""
    found = set()
    for entry in entries:
        if entry.kind is Kind.LINK and not link_stays_inside(entry.path, entry.content):
            skipped.append(Skipped(escaped(entry.path), "workspace.link_leaves_tree"))
            found.add(entry.path)
    return found


def _draft_name(entries: Iterable[Entry]) -> str:
    names = {segment for entry in entries for segment in entry.path.split("/")}
    return next(name for number in count() if (name := _DRAFT.format(number or "")) not in names)


def _write(entry: Entry, tree: int, output: int, limits: Limits, draft: str) -> None:
    """One file or link, from below ``tree`` to below ``output``, each parent reached without a link."""
    above, _, name = entry.path.rpartition("/")
    with _parents(output, above, make=True) as place:
        _clear(draft, place)
        try:
            if entry.kind is Kind.LINK:
                os.symlink(entry.content, draft, dir_fd=place)
            else:
                with _parents(tree, above, make=False) as origin:
                    _write_draft(
                        Found(entry.path, name, origin, entry.kind, entry.executable, 0), draft, place, limits
                    )
            os.rename(draft, name, src_dir_fd=place, dst_dir_fd=place)
        except BaseException as error:  # raised again, or as what it means
            _clear(draft, place)
            if isinstance(error, (IsADirectoryError, NotADirectoryError, FileExistsError)):
                raise NotAllowedError(
                    "the output has a directory where the session made a file",
                    where=escaped(entry.path),
                    code="workspace.output",
                ) from error
            raise


def _write_draft(found: Found, draft: str, place: int, limits: Limits) -> None:
    fd = os.open(draft, _NEW_FILE, 0o755 if found.executable else 0o644, dir_fd=place)
    with os.fdopen(fd, "wb") as file:
        for chunk in read_chunks(found, at_most=limits.total_bytes):
            file.write(chunk)


def _clear(name: str, place: int) -> None:
    """Remove what an interrupted earlier run may have left."""
    try:
        os.unlink(name, dir_fd=place)
    except FileNotFoundError:
        return


def _parents(base: int, path: str, *, make: bool) -> AbstractContextManager[int]:
    """A descriptor of the directory ``path`` below ``base``, reached without following a link."""
    names = path.split("/") if path else ()
    return descended(base, names, lambda parent, name: _step(parent, name, path, make=make))


def _step(parent: int, name: str, path: str, *, make: bool) -> int:
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=parent)
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError as error:
        raise NotAllowedError(
            "a link or file is where a directory is needed",
            where=escaped(path),
            found=error.strerror,
            code="workspace.output",
        ) from error
