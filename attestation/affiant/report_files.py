"""Reports that a command writes beside what it prints: each whole or not at all, and none in place of what is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from affiant.command_line import DISK_TROUBLE, printable
from affiant.files import is_stream, write_whole

__all__ = ["keep_apart", "write_report"]


def keep_apart(reports: Sequence[Path | None], *, inputs: Iterable[Path]) -> None:
    """Refuse a report in place of what is read, or of another report: what is read may be the only copy.

    Args:
        reports: None for one that was not asked for.

    Raises:
        click.UsageError: one of them is.
    """
    if any(str(each) == "-" for each in reports):
        raise click.UsageError("a report is written to a file: '-' would mix it with what is printed")
    given: Sequence[Path] = [each for each in reports if each is not None and not is_stream(each)]
    read = {each.resolve() for each in inputs}
    for place in given:
        if place.resolve() in read:
            raise click.UsageError(f"{_shown(place)} is read, and would be replaced. Name another file.")
    if len({each.resolve() for each in given}) != len(given):
        raise click.UsageError("two reports at one place: the second would replace the first")


def write_report(path: Path, report: str, *, replace: bool = True) -> None:
    """A report that was cut off would say less than was found; what is no file is written to, never replaced.

    Args:
        replace: False: refuse to write over a file.

    Raises:
        click.UsageError: nothing can be written there. click.ClickException: the disk is full or broken.
    """
    try:
        if is_stream(path):
            path.write_bytes(report.encode())
        else:
            write_whole(path, report.encode(), replace=replace)
    except OSError as error:
        kind = click.ClickException if error.errno in DISK_TROUBLE else click.UsageError
        raise kind(f"{_shown(path)} cannot be written: {error.strerror}") from error


def _shown(path: Path) -> str:
    return printable(str(path)).replace("\n", "\\n")
