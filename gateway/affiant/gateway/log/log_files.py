"""The log's files in a local folder: read bounded, written whole, durable in the order that the log needs.

:meth:`LogFiles.write` replaces a file and does not wait for the disk; :meth:`LogFiles.settle` makes everything written
so far durable. The log settles its tiles before it writes the checkpoint that implies them, and settles again: a crash
leaves files that no checkpoint implies, never a checkpoint whose files are not there.

Everything here is the operator's and untrusted: what is read is compared with a root that the log's own key has signed.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from affiant.attestation.tlog.tiles import EntryBundle, Tile, parse_path
from affiant.files import sync_folder
from affiant.folders import make_private

__all__ = ["CHECKPOINT", "LogFiles"]

CHECKPOINT: Final = "checkpoint"
_MAX_FILE: Final = 256 * (2 + 0xFFFF)
"""The largest entry bundle that the form allows; a tile has 8 KiB."""


class LogFiles:
    """The files of one log.

    Args:
        folder: its root; made, 0700, where it is missing.
    """

    def __init__(self, folder: Path) -> None:
        make_private(folder)
        self.folder = folder
        self._files: list[int] = []
        self._folders: set[Path] = {folder}

    def read(self, path: str) -> bytes | None:
        """The bytes of the checkpoint, a tile or an entry bundle; None where there is none.

        Raises:
            OSError: it is there and cannot be read.
            TileMalformed: the path names nothing of a log.
        """
        if path != CHECKPOINT:
            parse_path(path)
        try:
            descriptor = os.open(self.folder / path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        with open(descriptor, "rb") as file:
            return file.read(_MAX_FILE)

    def write(self, path: str, data: bytes) -> None:
        """Replace the file at ``path``; durable after :meth:`settle`.

        Raises:
            OSError: the disk is full, or fails. The previous content is unchanged.
        """
        place = self.folder / path
        self._make_folders(place.parent)
        draft = place.with_name(f".{place.name}.new")
        descriptor = os.open(
            draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        self._files.append(descriptor)
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if path == CHECKPOINT:
            os.fdatasync(descriptor)  # its name must never point to bytes that are not there
        draft.replace(place)
        self._folders.add(place.parent)

    def settle(self) -> None:
        """Make what was written durable.

        Raises:
            OSError: it is not.
        """
        try:
            for descriptor in self._files:
                os.fdatasync(descriptor)
            for folder in self._folders:
                sync_folder(folder)
        finally:
            self._forget()

    def remove_partials(self, resource: Tile | EntryBundle) -> None:
        """Remove the partial files under the name of a full one; what cannot be removed does no harm."""
        shutil.rmtree(self.folder / f"{resource.path()}.p", ignore_errors=True)

    def close(self) -> None:
        """Let go of what was not settled."""
        self._forget()

    def _forget(self) -> None:
        for descriptor in self._files:
            os.close(descriptor)
        self._files.clear()
        self._folders.clear()

    def _make_folders(self, folder: Path) -> None:
        missing = []
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for each in reversed(missing):
            each.mkdir(mode=0o700)
            self._folders |= {each, each.parent}
