"""Judges the bundle in one file, and gives the records that the verdict rests on. I/O boundary: reads files.

For commands that go on from authentic records. A period's archive has its own verdict; for its records and appraisals
it is read once more, as one bundle of all its receipts, which are in memory then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from affiant.attestation.bundle.bundle import MAX_BUNDLE, Bundle
from affiant.attestation.bundle.period.archive_reader import PeriodBundle
from affiant.attestation.verdict.accepted_values import TrustFile
from affiant.attestation.verdict.verdict import Verdict
from affiant.attestation.verifier.case.case import Case
from affiant.attestation.verifier.case.question import Question
from affiant.attestation.verifier.files.bundle_files import (
    BundleTooLarge,
    BundleUnreadable,
    is_period,
    read_bundle,
)
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import examine_bundle, examine_case
from affiant.errors import AffiantError

__all__ = ["open_case"]


@contextmanager
def open_case(
    path: Path,
    trust: TrustFile,
    *,
    at: datetime,
    build: str,
    unless: Callable[[str, str], bool] = lambda _digest, _trust: False,
) -> Iterator[tuple[Verdict, Case | None] | None]:
    """The verdict on the bundle in ``path`` and its case, which can be read until the block ends.

    Args:
        unless: told the names of the file and of the trust file; if it says so, nothing is judged and None is given.

    Raises:
        BundleUnreadable, BundleTooLarge: as named. MalformedError: an archive that is none (``zip.*``, ``period.*``).
    """
    name = _named(path)
    question = Question(trust=trust, verifiers=STANDARD_VERIFIERS, at=at, build=build)
    if unless(name, trust.digest):
        yield None
    elif is_period(path):
        from affiant.attestation.verifier.period.verify_period import examine_period  # noqa: PLC0415 - only if asked

        verdict = examine_period(path, question).verdict
        with PeriodBundle(path) as period:
            yield verdict, examine_case(_whole(period), question, name=name).case
    else:
        examined = examine_bundle(read_bundle(path), question)
        yield examined.verdict, examined.case


def _whole(period: PeriodBundle) -> Bundle | AffiantError:
    """All receipts of a period, as many as a single bundle may hold. What is wrong with it its verdict says."""
    texts: list[str] = []
    size = 0
    try:
        for text in period.receipts():
            size += len(text)
            if size > MAX_BUNDLE:
                raise BundleTooLarge(
                    "more receipts than are judged at once",
                    expected=f"at most {MAX_BUNDLE >> 20} MiB of them",
                    hint="Export shorter periods.",
                )
            texts.append(text)
    except BundleTooLarge:
        raise
    except AffiantError as error:
        return error
    return period.bundle(tuple(texts), {})


def _named(path: Path) -> str:
    """The ``sha256:`` name of a file; never of a device or a pipe, which might not end."""
    try:
        if not path.is_file():
            raise BundleUnreadable("not a file", expected="a bundle in a file", where=str(path))
        with path.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        raise BundleUnreadable("the file cannot be read", where=str(path), found=error.strerror) from error
