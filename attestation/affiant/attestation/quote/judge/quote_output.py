"""Writes evidence to a file: whole or not at all, and over an existing file only if asked to."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from affiant.errors import ConfigurationError
from affiant.files import write_whole

__all__ = ["STANDARD_OUTPUT", "OutputRefused", "check_output", "write_output"]

STANDARD_OUTPUT: Final = Path("-")


class OutputRefused(ConfigurationError):
    """The output cannot be written, or something else stands there."""

    code = "quote.output"


def check_output(path: Path) -> None:
    """Refuse a place that could not be written to, before anything is taken for it.

    Raises:
        OutputRefused: a terminal, a missing folder, or something that is no regular file.
    """
    if path == STANDARD_OUTPUT:
        if sys.stdout.isatty():
            raise OutputRefused(
                "a quote is bytes, which would disturb a terminal", hint="Name a file, or pipe it on."
            )
        return
    if not path.parent.is_dir():
        raise OutputRefused("the folder of the output is missing", where=str(path.parent))
    if (path.exists() or path.is_symlink()) and not path.is_file():
        raise OutputRefused("the output is no regular file", where=str(path))


def write_output(path: Path, content: bytes, *, force: bool) -> None:
    """Write ``content`` to ``path``; the same bytes may stand there, others only with ``force``.

    Raises:
        OutputRefused: something else stands there, or it cannot be written.
    """
    if path == STANDARD_OUTPUT:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        write_whole(path, content, replace=force)
    except FileExistsError as error:
        _demand_same(path, content, error)
    except OSError as error:
        raise OutputRefused("the output cannot be written", where=str(path), found=error.strerror) from error


def _demand_same(path: Path, content: bytes, error: OSError) -> None:
    same = False
    with suppress(OSError), path.open("rb") as file:
        same = file.read(len(content) + 1) == content
    if not same:
        raise OutputRefused(
            "another file is at the output", where=str(path), hint="Name another one, or use --force."
        ) from error
