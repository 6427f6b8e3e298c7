"""Writes a stream of files below a directory, following no link, each file whole or not at all.

A file is written beside its place and renamed onto it, which replaces a file or link that is there. A link or file
in place of a folder is an error. Nothing is deleted. What arrives has no owner and no special bits of its origin.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Final

from affiant.errors import NotAllowedError
from affiant.sandbox.workspace.tree import Entry, Kind, Skipped, link_stays_inside
from affiant.sandbox.workspace.walk import descended, escaped

__all__ = ["Unpacking", "write_file"]

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DRAFTS: Final = 100


@dataclass(slots=True)
class Unpacking:
    """Unpacks below the directory ``base``; how far it has come is known whatever happens.

    Args:
        base: a descriptor; it stays the caller's.
        only_inside: leave out links that could lead out of the tree.
    """

    base: int
    only_inside: bool = False
    files: int = 0
    length: int = 0
    skipped: list[Skipped] = field(default_factory=list)

    def unpack(self, stream: Iterable[tuple[Entry, Iterator[bytes]]]) -> None:
        """Write every entry.

        Raises:
            ``workspace.output``: a link or file is where a folder is needed, or the reverse.
            OSError: the machine did not let us.
        """
        for entry, chunks in stream:
            above, _, name = entry.path.rpartition("/")
            if entry.kind is Kind.DIRECTORY:
                with self._folder(entry.path):
                    continue
            if (
                entry.kind is Kind.LINK
                and self.only_inside
                and not link_stays_inside(entry.path, entry.content)
            ):
                self.skipped.append(Skipped(escaped(entry.path), "workspace.link_leaves_tree"))
                continue
            with self._folder(above) as place:
                self.length += write_file(place, name, entry, chunks)
                self.files += 1

    def _folder(self, path: str) -> AbstractContextManager[int]:
        """A descriptor of the folder ``path``, made where it is missing, reached without following a link."""
        return descended(self.base, path.split("/") if path else (), _step)


def _step(parent: int, name: str) -> int:
    with suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=parent)
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except NotADirectoryError as error:
        raise NotAllowedError(
            "a link or file is where a directory is needed", where=escaped(name), code="workspace.output"
        ) from error


def write_file(place: int, name: str, entry: Entry, chunks: Iterable[bytes]) -> int:
    """Write one file or link in the directory ``place``, whole or not at all; how many bytes that were.

    Raises:
        ``workspace.output``: a directory is there.
    """
    draft, descriptor = _drafted(place, entry)
    size = 0
    try:
        if descriptor is not None:
            with open(descriptor, "wb") as file:
                for chunk in chunks:
                    file.write(chunk)
                    size += len(chunk)
        os.rename(draft, name, src_dir_fd=place, dst_dir_fd=place)
    except BaseException as error:  # raised again, or as what it means
        with suppress(OSError):
            os.unlink(draft, dir_fd=place)
        if isinstance(error, (IsADirectoryError, NotADirectoryError)):
            raise NotAllowedError(
                "a directory is where a file shall be", where=escaped(name), code="workspace.output"
            ) from error
        raise
    return size


def _drafted(place: int, entry: Entry) -> tuple[str, int | None]:
    """The name of a new, empty file in ``place`` and its descriptor; or of a new link."""
    for number in range(_DRAFTS):
        draft = f".affiant-{os.getpid()}-{number}.new"
        with suppress(FileExistsError):
            if entry.kind is Kind.LINK:
                os.symlink(entry.content, draft, dir_fd=place)
                return draft, None
            return draft, os.open(draft, _NEW_FILE, 0o755 if entry.executable else 0o644, dir_fd=place)
    raise FileExistsError
