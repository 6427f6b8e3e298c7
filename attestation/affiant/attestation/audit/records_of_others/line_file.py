"""Lines of a file of any size, each bounded: memory does not depend on what is in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, Protocol

from affiant.attestation.audit.records_of_others.errors import SettingsInvalid

__all__ = ["Line", "Readable", "lines_of", "opened"]

Line = tuple[int, str | None, str | None]
"""Number from 1; the text without its end; or why there is none."""

_CHUNK: Final = 1 << 20


class Readable(Protocol):
    """What lines are read from."""

    def readline(self, limit: int, /) -> bytes:
        """The next line with its end, or its first ``limit`` bytes; ``b""`` at the end."""
        ...


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The file, for :func:`lines_of`.

    Raises:
        SettingsInvalid: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise SettingsInvalid("the file cannot be read", where=str(path), found=error.strerror) from error


def lines_of(file: Readable, *, longest: int) -> Iterator[Line]:
    """Every line; empty ones are left out. The end is a line feed, a carriage return before it belongs to it.

    Args:
        longest: bytes; a longer line is passed over without being kept, and said to be too long.
    """
    number = 0
    while piece := file.readline(longest + 2):
        number += 1
        if len(piece.rstrip(b"\r\n")) > longest or (len(piece) == longest + 2 and not piece.endswith(b"\n")):
            while piece and not piece.endswith(b"\n"):
                piece = file.readline(_CHUNK)
            yield number, None, f"longer than {longest} bytes"
            continue
        line = piece.removesuffix(b"\n").removesuffix(b"\r")
        if line:
            yield _read(number, line)


def _read(number: int, line: bytes) -> Line:
    if b"\0" in line:
        return number, None, "a NUL byte"
    try:
        return number, line.decode("utf-8"), None
    except UnicodeDecodeError:
        return number, None, "not UTF-8"
