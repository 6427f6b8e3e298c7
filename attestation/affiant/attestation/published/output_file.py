"""Writing a file of the user's: whole or not at all, and never over something that is there."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from affiant.attestation.published.errors import SettingsInvalid

__all__ = ["require_free", "write_new"]


def require_free(path: Path) -> None:
    """Refuse a place that something stands at, or that has no folder; before anything is signed for it.

    Raises:
        SettingsInvalid: either.
    """
    if path.exists() or path.is_symlink():
        raise SettingsInvalid(
            "something stands at the output",
            where=str(path),
            hint="Name another place, or move this one away first.",
        )
    if not path.parent.is_dir():
        raise SettingsInvalid("the folder of the output is missing", where=str(path.parent))


def write_new(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path``, durable before the return.

    Raises:
        SettingsInvalid: something stands there, or it cannot be written.
    """
    require_free(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with draft.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise SettingsInvalid(
            "the output cannot be written", where=str(path), found=error.strerror
        ) from error
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
