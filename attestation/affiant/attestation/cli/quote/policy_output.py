"""Writes an output file whole or not at all, and never over an existing file."""

from __future__ import annotations

from pathlib import Path

from affiant.attestation.signatures.sigstore.errors import SettingsInvalid
from affiant.files import write_whole

__all__ = ["require_free", "write_new"]


def require_free(path: Path) -> None:
    """Refuse a place that something is at, or that has no folder; before anything is signed for it.

    Raises:
        SettingsInvalid: either.
    """
    if path.exists() or path.is_symlink():
        raise SettingsInvalid(
            "something is at the output",
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
    try:
        write_whole(path, data, replace=False)
    except OSError as error:
        raise SettingsInvalid(
            "the output cannot be written", where=str(path), found=error.strerror
        ) from error
