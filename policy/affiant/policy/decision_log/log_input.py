"""Reads a decision log for a command: line by line, bounded, with progress on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Final

import click

from affiant.policy.decision_log.reader import MAX_LINE, RecordedDecision, read_decision_log

__all__ = ["log_lines", "log_name", "recorded_in", "with_progress"]

_EVERY: Final = 50_000


def log_name(log: IO[bytes]) -> str:
    """The name that errors give the log."""
    return Path(str(getattr(log, "name", "-"))).name


def log_lines(log: IO[bytes]) -> Iterator[bytes]:
    """Each line; of one that is too long, a byte more than may be, and the rest of it is passed over."""
    while line := log.readline(MAX_LINE + 2):
        yield line
        while line and not line.endswith(b"\n"):
            line = log.readline(MAX_LINE)


def recorded_in(logs: Iterable[IO[bytes]], *, agents: Mapping[str, str]) -> Iterator[RecordedDecision]:
    """The decisions of all the logs, one log after the other, with progress.

    Args:
        agents: as ``read_decision_log`` takes them.
    """
    for log in logs:
        yield from with_progress(read_decision_log(log_lines(log), source=log_name(log), agents=agents))


def with_progress(recorded: Iterable[RecordedDecision]) -> Iterator[RecordedDecision]:
    """``recorded``, with a progress bar on standard error if that is a terminal."""
    shown = sys.stderr.isatty()
    for each in recorded:
        if shown and each.line % _EVERY == 0:
            click.echo(f"\r{each.line} decisions", err=True, nl=False)
        yield each
    if shown:
        click.echo("\r\033[K", err=True, nl=False)
