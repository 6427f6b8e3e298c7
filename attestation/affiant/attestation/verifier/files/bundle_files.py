"""Finds the bundles that a reader names, and judges each file. I/O boundary: reads files.

A folder stands for every bundle below it. What a file is, its content says, not its name; what cannot be read is a
verdict of its own, so that one bad file neither hides the others nor passes unseen.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from affiant.attestation.bundle.bundle import MAX_BUNDLE
from affiant.attestation.bundle.period.archive_reader import is_archive
from affiant.attestation.tdx.quote.quote import TDQuote
from affiant.attestation.tdx.tcb.collateral import Collateral
from affiant.attestation.verdict.accepted_values import TrustFile
from affiant.attestation.verifier.case.statement_verifiers import StatementVerifiers
from affiant.attestation.verifier.judged_now import examine_now
from affiant.attestation.verifier.verify_bundle import Examined, examine_bundle, unreadable_bundle
from affiant.errors import AffiantError, MalformedError, UnreachableError

__all__ = [
    "BUNDLE_ENDINGS",
    "BundleTooLarge",
    "BundleUnreadable",
    "Comparison",
    "Question",
    "examine_file",
    "find_bundles",
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


@dataclass(frozen=True, slots=True)
class Comparison:
    """Judge again what was archived (``judged_now``, ``judged_now``).

    Args:
        since: the bundle's own time; None: as it says itself.
        collateral: the reader's own; None: the archived one again.
    """

    since: datetime | None
    collateral: Callable[[TDQuote], Collateral] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """How bundles are judged; members as of :func:`~.verifier.verify_bundle.examine_bundle`.

    Args:
        compared: what changed since is asked as well; None: it is not.
    """

    trust: TrustFile
    verifiers: StatementVerifiers
    at: datetime
    build: str
    compared: Comparison | None = None
    request: bytes | None = None
    response: bytes | None = None
    session: str | None = None
    since: datetime | None = None
    """Of a period bundle, the reader's own range: from, and to before."""
    until: datetime | None = None
    processes: int = 1
    timeline: bool = True
    held_against: bool = False
    """Whether others are: a period keeps what it takes only then."""
    progress: Callable[[str, int, int], None] = lambda *_: None


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
    """Judge the bundle in one file; a file that cannot be read is refused as a bundle that cannot be."""
    try:
        if _is_period(path):
            return _examine_period(path, question)
        data = _read(path)
    except AffiantError as error:
        return unreadable_bundle(error, question.trust, at=question.at, build=question.build)
    if question.compared is None:
        return examine_bundle(
            data,
            question.trust,
            verifiers=question.verifiers,
            at=question.at,
            build=question.build,
            request=question.request,
            response=question.response,
            session=question.session,
        )
    return examine_now(
        data,
        question.trust,
        verifiers=question.verifiers,
        now=question.at,
        at=question.compared.since,
        collateral=question.compared.collateral,
        build=question.build,
        request=question.request,
        response=question.response,
        session=question.session,
    )


def _is_period(path: Path) -> bool:
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

    compared = question.compared
    examine = (
        partial(examine_period, at=question.at)
        if compared is None
        else partial(examine_period_now, now=question.at, at=compared.since, collateral=compared.collateral)
    )
    return examine(
        path,
        question.trust,
        verifiers=question.verifiers,
        build=question.build,
        since=question.since,
        until=question.until,
        request=question.request,
        response=question.response,
        session=question.session,
        processes=question.processes,
        timeline=question.timeline,
        held_against=question.held_against,
        progress=question.progress,
    )


def _read(path: Path) -> bytes:
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
