"""Where evidence reaches a disk: a folder that was not there, or was empty, and is complete afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fault_scenarios.errors import EvidenceFolderRefused

__all__ = ["write_new_folder"]


def write_new_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write ``files`` (path below the folder -> bytes); no file that is there is replaced.

    Raises:
        EvidenceFolderRefused: the folder holds something, is none, or cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise EvidenceFolderRefused(
                "the folder is not empty", where=str(folder), hint="Name a folder that is not there yet."
            )
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as opened:
                opened.write(content)
    except OSError as error:
        raise EvidenceFolderRefused(
            "the folder cannot be written", where=str(folder), found=error.strerror or "an error"
        ) from error
