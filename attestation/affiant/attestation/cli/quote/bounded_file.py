"""Reads the bounded files and the reader's own trusted keys for the quote commands. It imports each reader on first
use.
"""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from affiant.command_line import printable
from affiant.errors import AffiantError

if TYPE_CHECKING:
    from affiant.attestation.cli.quote.accepted_file import AcceptedFile
    from affiant.attestation.quote.judge.pins import Pins
    from affiant.attestation.quote.judge.quote_file import QuoteFile
    from affiant.attestation.tdx.event_log.measured_log import MeasuredLog
    from affiant.attestation.tdx.pki.roots import TrustRoots
    from affiant.attestation.tdx.policy.settings import AppraisalPolicy

__all__ = ["pins_of", "policy_of", "read_bounded", "read_event_log", "read_quote", "roots_of"]

_DASH: Final = Path("-")


def read_bounded(file: Path, limit: int) -> bytes:
    """The file's bytes (``-``: standard input), or the first ``limit`` + 1 of them, which every parser refuses.

    Raises:
        click.UsageError: it cannot be read.
    """
    if file == _DASH:
        return sys.stdin.buffer.read(limit + 1)
    try:
        with file.open("rb") as opened:
            return opened.read(limit + 1)
    except OSError as error:
        raise click.UsageError(f"{printable(str(file))} cannot be read: {error.strerror}") from error


def read_quote(file: Path) -> QuoteFile:
    """The quote in ``file``: at most as much as one can be, so that a wrong file is refused without being read."""
    from affiant.attestation.quote.judge.quote_file import (  # noqa: PLC0415 - help must stay cheap
        MAX_QUOTE_FILE,
        read_quote_file,
    )

    return read_quote_file(read_bounded(file, MAX_QUOTE_FILE))


def read_event_log(file: Path) -> MeasuredLog:
    """The event log in ``file``."""
    from affiant.attestation.quote.judge.event_log_file import (  # noqa: PLC0415 - as above
        MAX_EVENT_LOG_FILE,
        parse_event_log_file,
    )

    return parse_event_log_file(read_bounded(file, MAX_EVENT_LOG_FILE))


def pins_of(reference: AcceptedFile, at: datetime) -> Pins:
    """What the reference file pins; if it is refused, nothing is judged.

    Raises:
        click.UsageError: it is refused.
    """
    from affiant.attestation.quote.judge.pins import parse_reference_file  # noqa: PLC0415 - as above

    try:
        return parse_reference_file(reference.content, at)
    except AffiantError as error:
        raise click.UsageError(
            f"the reference file is refused: {printable(str(error))} [{error.code}]"
        ) from error


def policy_of(file: AcceptedFile) -> AppraisalPolicy:
    """The appraisal policy in a file; if it is refused, nothing is judged.

    Raises:
        click.UsageError: it is refused.
    """
    from affiant.attestation.tdx.policy.policy_file import parse_appraisal_policy  # noqa: PLC0415 - as above

    try:
        return parse_appraisal_policy(file.content, source=file.name)
    except AffiantError as error:
        raise click.UsageError(f"the policy is refused: {printable(str(error))} [{error.code}]") from error


def roots_of(root: str | None, named: TrustRoots | None) -> TrustRoots:
    """The accepted roots: ``intel``, those of a file, or else those that the reference file or policy names.

    Raises:
        click.UsageError: the file holds no root.
    """
    from affiant.attestation.quote.judge.pins import MAX_ROOT_FILE, parse_root_file  # noqa: PLC0415 - as above
    from affiant.attestation.tdx.pki.roots import TrustRoots as Roots  # noqa: PLC0415 - as above

    if root is None:
        return Roots.intel() if named is None else named
    if root == "intel":
        return Roots.intel()
    try:
        return parse_root_file(read_bounded(Path(root), MAX_ROOT_FILE))
    except AffiantError as error:
        raise click.UsageError(f"--root: {printable(str(error))}") from error
