"""Writing evidence to a file of the user's: whole or not at all, and never over something else unasked."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from affiant.errors import ConfigurationError

__all__ = ["STANDARD_OUTPUT", "OutputRefused", "check_output", "write_output"]

STANDARD_OUTPUT: Final = Path("-")
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
"""File systems without hard links, as on a memory stick."""


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
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if force:
            draft.replace(path)
        else:
            _link(draft, path, content)
    except OSError as error:
        raise OutputRefused("the output cannot be written", where=str(path), found=error.strerror) from error
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _link(draft: Path, path: Path, content: bytes) -> None:
    """Only where nothing stands, also nothing that came in between."""
    try:
        path.hardlink_to(draft)
    except OSError as error:
        if path.is_symlink() or path.exists():
            _demand_same(path, content, error)
        elif error.errno in _NO_LINKS:
            draft.replace(path)
        else:
            raise


def _demand_same(path: Path, content: bytes, error: OSError) -> None:
    with path.open("rb") as file:
        same = file.read(len(content) + 1) == content
    if not same:
        raise OutputRefused(
            "another file stands at the output", where=str(path), hint="Name another one, or use --force."
        ) from error
