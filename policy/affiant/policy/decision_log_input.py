"""A decision log as commands read it: line by line, bounded, with progress for whoever waits at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Final

import click

from affiant.policy.decision_log import MAX_LINE, RecordedDecision

__all__ = ["log_lines", "log_name", "with_progress"]

_EVERY: Final = 50_000


def log_name(log: IO[bytes]) -> str:
    """The name that refusals give the log."""
    return Path(str(getattr(log, "name", "-"))).name


def log_lines(log: IO[bytes]) -> Iterator[bytes]:
    """Each line; of one that is too long, a byte more than may be, and the rest of it is passed over."""
    while line := log.readline(MAX_LINE + 2):
        yield line
        while line and not line.endswith(b"\n"):
            line = log.readline(MAX_LINE)


def with_progress(recorded: Iterable[RecordedDecision]) -> Iterator[RecordedDecision]:
    """``recorded``, counted on standard error while somebody looks."""
    shown = sys.stderr.isatty()
    for each in recorded:
        if shown and each.line % _EVERY == 0:
            click.echo(f"\r{each.line} decisions", err=True, nl=False)
        yield each
    if shown:
        click.echo("\r\033[K", err=True, nl=False)
