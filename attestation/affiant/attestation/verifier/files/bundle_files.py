"""Finds the bundles that a reader names, and judges each file. I/O boundary: reads files.

A folder stands for every bundle below it. What a file is, its content says, not its name; what cannot be read is a
verdict of its own, so that one bad file neither hides the others nor passes unseen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from affiant.attestation.bundle.bundle import MAX_BUNDLE
from affiant.attestation.bundle.period.archive_reader import is_archive
from affiant.attestation.verdict.errors import SessionUnknown
from affiant.attestation.verifier.case.question import Question
from affiant.attestation.verifier.judged_now import examine_now
from affiant.attestation.verifier.verify_bundle import Examined, examine_bundle, examine_case
from affiant.errors import AffiantError, MalformedError, UnreachableError

__all__ = [
    "BUNDLE_ENDINGS",
    "BundleTooLarge",
    "BundleUnreadable",
    "examine_file",
    "find_bundles",
    "is_period",
    "read_bundle",
]

BUNDLE_ENDINGS: Final = (".affiant.json", ".affiant.zip")
"""What the files of a folder are told by; a file that is named itself may have any name."""


class BundleUnreadable(UnreachableError):
    """A file that is to be judged cannot be read."""

    code = "bundle.unreadable"
    retryable = False


class BundleTooLarge(MalformedError):
    """A file is larger than a bundle of its kind may be."""

    code = "bundle.too_large"


def find_bundles(given: Sequence[Path]) -> Sequence[Path]:
    """The files that ``given`` stands for, in its order: files as they are, of folders every bundle below, sorted.

    A file that is named twice is there once.
    """
    found: dict[Path, Path] = {}
    for path in given:
        for file in _below(path) if path.is_dir() else (path,):
            found.setdefault(file.resolve(), file)
    return tuple(found.values())


def _below(folder: Path) -> Iterator[Path]:
    """Symbolic links to folders are not followed: they may lead round in circles."""
    for path, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            if name.endswith(BUNDLE_ENDINGS):
                yield Path(path, name)


def examine_file(path: Path, question: Question) -> Examined:
    """Judge the bundle in one file; a file that cannot be read is refused as a bundle that cannot be.

    Raises:
        SessionUnknown: the reader asks for a session of which the bundle has no record.
    """
    try:
        if is_period(path):
            return _examine_period(path, question)
        data = read_bundle(path)
    except SessionUnknown:
        raise
    except AffiantError as error:
        return examine_case(error, question, name="not read")
    return (examine_bundle if question.compared is None else examine_now)(data, question)


def is_period(path: Path) -> bool:
    """Whether a file is an archive, by its first bytes."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return is_archive(file.read(4))
    except OSError as error:
        raise BundleUnreadable("the file cannot be read", found=error.strerror) from error


def _examine_period(path: Path, question: Question) -> Examined:
    from affiant.attestation.verifier.period.judged_now import examine_period_now  # noqa: PLC0415 - only if asked
    from affiant.attestation.verifier.period.verify_period import examine_period  # noqa: PLC0415 - as above

    return (examine_period if question.compared is None else examine_period_now)(path, question)


def read_bundle(path: Path) -> bytes:
    """All of a file; never of a device or a pipe, which might not end.

    Raises:
        BundleUnreadable: it is no file, or cannot be read.
        BundleTooLarge: it is larger than a single bundle may be.
    """
    try:
        if not path.is_file():
            raise BundleUnreadable("not a file", expected="a bundle in a file")
        with path.open("rb") as file:
            data = file.read(MAX_BUNDLE + 1)
    except OSError as error:
        raise BundleUnreadable("the file cannot be read", found=error.strerror) from error
    if len(data) > MAX_BUNDLE:
        raise BundleTooLarge("larger than a single bundle may be", expected=f"at most {MAX_BUNDLE >> 20} MiB")
    return data
