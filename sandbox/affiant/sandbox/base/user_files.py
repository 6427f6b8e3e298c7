"""Files that the user asked for, at places of the user's own: a bundle, a summary.

The disk may be full, the folder gone, the name a device's. Whatever it is, it is a refusal with a stable code and
never a traceback, and nothing half written is left behind.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

from affiant.files import is_stream, put_whole, sync_folder
from affiant.sandbox.base.errors import OutputPlaceError

__all__ = ["copy_user_file", "write_user_file"]


def write_user_file(
    path: Path, data: bytes | Iterable[bytes], *, mode: int = 0o666, stream: bool = True
) -> None:
    """Write ``data``, whole or in pieces, durably and whole or not at all, beside and then in place of ``path``.

    Args:
        mode: of the file, less the umask.
        stream: what is no file (a pipe, a terminal, ``/dev/stdout``) is written to as it is, and never replaced by
            one. False where others could have put something: then it is replaced, and no link is followed.

    Raises:
        OutputPlaceError: the machine did not let us.
    """
    try:
        if stream and is_stream(path):
            with open(path, "wb") as file:
                file.writelines((data,) if isinstance(data, bytes) else data)
        else:
            if path.is_symlink() or is_stream(path):
                path.unlink()
            put_whole(path, data, mode=mode)
            with suppress(OSError):  # the folder cannot be read or synchronised: the file is there
                sync_folder(path.parent)
    except OSError as error:
        raise OutputPlaceError("the file cannot be written", where=str(path), found=error.strerror) from error


def copy_user_file(source: Path, path: Path, *, mode: int = 0o666) -> None:
    """Write what ``source`` holds, piece by piece, as :func:`write_user_file` does.

    Raises:
        OutputPlaceError: the machine did not let us.
    """
    try:
        with source.open("rb") as file:
            write_user_file(path, iter(partial(file.read, 1 << 20), b""), mode=mode)
    except OSError as error:
        raise OutputPlaceError(
            "the file cannot be copied", where=str(source), found=error.strerror
        ) from error
