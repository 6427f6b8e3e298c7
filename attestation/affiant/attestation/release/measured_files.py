"""The installed files of this package, measured: what the platform calls a TD's initial contents.

Which files: those of the wheel, without ``*.dist-info/``, ``__pycache__/``, the release manifest and the second
verifier's page. A wheel has them in one folder; a source tree in five, which are portions of one namespace package.
Everything from which ``affiant`` can be imported counts, so a file that was slipped in beside them is measured too.

Only the standard library: the build of the package measures with the same code.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import affiant
from affiant.attestation.release.boot import InstalledFileError

__all__ = [
    "MANIFEST_PATH",
    "VERIFIER_PAGE_PATH",
    "InstalledFileError",
    "MeasuredFile",
    "find_files",
    "held_portions",
    "installed_portions",
    "measure",
    "measure_files",
    "read_file",
]

MANIFEST_PATH: Final = "affiant/release.json"
"""The release manifest, relative to the wheel's root."""

VERIFIER_PAGE_PATH: Final = "affiant/attestation/verifier-page/affiant-verifier.html"
"""The second verifier's page, relative to the wheel's root. No code reads it; not every build has it."""

_NEVER_MEASURED: Final = frozenset({MANIFEST_PATH, VERIFIER_PAGE_PATH})

MeasuredFile = tuple[str, str]
"""A path relative to the wheel's root, ``/`` between its parts, and the file's SHA-256 in lower-case hex."""


def installed_portions() -> tuple[Path, ...]:
    """The folders named ``affiant`` from which this process imports: one of a wheel, five of a source tree."""
    return tuple(dict.fromkeys(Path(entry).resolve() for entry in affiant.__path__))


def held_portions() -> tuple[Path, ...]:
    """The same folders, held open by this process for good, as paths that no folder above them can close to it.

    For a process that is about to become a user who may not enter those above (proc_pid_fd(5)).
    """
    descriptors = [os.open(each, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for each in installed_portions()]
    return tuple(Path(f"/proc/self/fd/{descriptor}") for descriptor in descriptors)


def find_files(portions: Iterable[Path] | None = None) -> Mapping[str, Path]:
    """The files below ``portions`` (default: everything that ``affiant`` imports from), by path in the wheel.

    Raises:
        InstalledFileError: a link, a folder that cannot be read, or one path in two portions.
    """
    found: dict[str, Path] = {}
    for portion in installed_portions() if portions is None else portions:
        for path in _walk(portion):
            name = f"affiant/{path.relative_to(portion).as_posix()}"
            if name in found:
                raise InstalledFileError("one path in two places", found=name, where=str(path))
            if name not in _NEVER_MEASURED and _belongs(name):
                found[name] = path
    return found


def measure_files(portions: Iterable[Path] | None = None) -> tuple[MeasuredFile, ...]:
    """Measure what is installed below ``portions``. As :func:`find_files`.

    Raises:
        InstalledFileError: also where a file cannot be read.
    """
    return measure(find_files(portions))


def measure(files: Mapping[str, Path]) -> tuple[MeasuredFile, ...]:
    """Measure ``files``, given as path in the wheel -> file; what no build lists is left out."""
    return tuple(
        (name, hashlib.sha256(read_file(path)).hexdigest())
        for name, path in sorted(files.items())
        if name not in _NEVER_MEASURED and _belongs(name)
    )


def _belongs(name: str) -> bool:
    return "__pycache__" not in name.split("/") and not name.endswith(".pyc")


def _walk(folder: Path) -> Iterator[Path]:
    """Every file below ``folder``; links are refused, since what stands behind one is not in any build."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise InstalledFileError("a link among the installed files", where=entry.path)
                if not entry.is_dir():
                    yield Path(entry.path)
                elif entry.name != "__pycache__":
                    yield from _walk(Path(entry.path))
    except OSError as error:
        raise InstalledFileError("a folder cannot be read", where=str(folder)) from error


def read_file(path: Path) -> bytes:
    """The bytes of one installed file.

    Raises:
        InstalledFileError: a link, no regular file, or not readable.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InstalledFileError("not a regular file", where=str(path))
            return file.read()
    except OSError as error:
        raise InstalledFileError("a file cannot be read", where=str(path)) from error
