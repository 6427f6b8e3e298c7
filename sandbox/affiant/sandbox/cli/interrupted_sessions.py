"""Says what each command that needs the state folder tidies up first: sessions whose launcher was killed."""

from __future__ import annotations

from contextlib import suppress

import click

from affiant.command_line import printable
from affiant.sandbox.processes.home import Home
from affiant.sandbox.session_state.interrupted import reap_leftovers

__all__ = ["tell_leftovers"]


def tell_leftovers(home: Home) -> None:
    """End and tidy up what killed launchers left, and say for each, in one line on standard error, what came of it."""
    for interrupted in reap_leftovers(home):
        with suppress(OSError):  # our own lines are not read any more: the command goes on
            click.echo(printable(f"affiant: {interrupted.text}"), err=True)
