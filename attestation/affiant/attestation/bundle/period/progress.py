"""How far a long step is, on a terminal's standard error; nothing elsewhere. The line is gone in the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

import click

__all__ = ["period_progress"]

_WIDTH: Final = 30
_EVERY_S: Final = 0.1


def period_progress() -> Callable[[str, int, int], None]:
    """Says what is being done, how much of it is done, and how much there is; bytes or things."""
    if not sys.stderr.isatty():
        return lambda *_: None
    last = 0.0

    def say(what: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if done < total and now - last < _EVERY_S:
            return
        last = now
        if done >= total:
            click.echo("\r\x1b[K", nl=False, err=True)
            return
        filled = _WIDTH * done // total
        bar = "#" * filled + "-" * (_WIDTH - filled)
        click.echo(f"\r\x1b[K{what:<12} [{bar}] {100 * done // total:3d} %", nl=False, err=True)

    return say
