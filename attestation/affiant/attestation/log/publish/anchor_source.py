"""Lists the anchors in a log's folder as bytes, to be copied unchanged. They are not verified here."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from affiant.attestation.anchors.anchor_files import ANCHOR_FILE
from affiant.attestation.log_reading.errors import LogUnavailable, PathRefused, ResourceTooLarge
from affiant.attestation.signatures.timestamps.response import MAX_RESPONSE, MAX_TOKENS

__all__ = ["AnchorSource"]

_MAX: Final = MAX_TOKENS * MAX_RESPONSE


class AnchorSource:
    """Those in ``folder``, which need not be there.

    A token lies after its note there, and is published after it: names are in order, and ``.note`` is before ``.tsr``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[int, int]] = {}
        self._seen: dict[str, tuple[int, int]] = {}

    def changed(self) -> Iterator[tuple[str, bytes]]:
        """Path below the log, and content, of each that has not been :meth:`published` as it is.

        Raises:
            LogUnavailable: it cannot be read. PathRefused: a link. ResourceTooLarge: larger than any anchor.
        """
        try:
            names = sorted(name for name in os.listdir(self._folder) if ANCHOR_FILE.match(name))
        except FileNotFoundError:
            return
        except OSError as error:
            raise LogUnavailable(
                "the anchors cannot be read", where=str(self._folder), found=error.strerror
            ) from error
        for name in names:
            path = f"anchors/{name}"
            content = self._read(name, path)
            if content is not None:
                yield path, content

    def published(self, path: str) -> None:
        """The store holds what :meth:`changed` gave last at ``path``."""
        self._known[path] = self._seen[path]

    def forget(self) -> None:
        """Give all of them again."""
        self._known.clear()

    def _read(self, name: str, path: str) -> bytes | None:
        try:
            descriptor = os.open(
                self._folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            )
        except OSError as error:
            raise PathRefused("an anchor cannot be opened", where=path, found=error.strerror) from error
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(descriptor)
            raise PathRefused("not a regular file", where=path)
        with open(descriptor, "rb") as file:
            self._seen[path] = (found.st_size, found.st_mtime_ns)
            if self._known.get(path) == self._seen[path]:
                return None
            content = file.read(_MAX + 1)
        if len(content) > _MAX:
            raise ResourceTooLarge("an anchor is too large", where=path, expected=f"at most {_MAX} bytes")
        return content
