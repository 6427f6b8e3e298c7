"""What all commands share: how an error is shown, and the exit codes.

Exit codes: 0 done; 2 the command line is wrong; 1 refused, with a stable code, or what there is to say cannot be
written (a full disk). ``affiant verify`` has its own besides (0 affirming, 10 warning, 20 contraindicated, 30 none,
40 simulated). ``affiant run`` passes on the command's own; 125: affiant itself refused or failed, 126: the command
cannot be run, 127: it was not found, 128 + n: it was ended by signal n.
"""

from __future__ import annotations

import errno
import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import click

from affiant.errors import AffiantError, ConfigurationError
from affiant.printable import printable

__all__ = [
    "DISK_TROUBLE",
    "EXIT_REFUSED",
    "ErrorShown",
    "Group",
    "UsageGroup",
    "print_json",
    "printable",
    "refusals",
    "show_error",
    "usage_error",
]

EXIT_REFUSED: Final = 1

DISK_TROUBLE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""A disk that is full or broken, mostly that of standard output: no mistake of ours, and nothing to trace."""


class ErrorShown(click.ClickException):
    """An :class:`~affiant.errors.AffiantError` on its way to the terminal: one line, its code in brackets.

    Where the error knows the line of the document, that follows, with a caret under the place.
    """

    exit_code = EXIT_REFUSED

    def __init__(self, error: AffiantError) -> None:
        super().__init__(str(error))
        self.error = error

    def show(self, file: Any = None) -> None:
        stream = file or sys.stderr
        click.echo(f"affiant: refused: {printable(str(self.error))} [{self.error.code}]", file=stream)
        if self.error.excerpt is not None:
            for line in self.error.excerpt.lines(width=shutil.get_terminal_size().columns):
                click.echo(line, file=stream)


class Group(click.Group):
    """A command group that shows an error as one line and an exit code, never as a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except AffiantError as error:
            raise ErrorShown(error) from error


class UsageGroup(Group):
    """A group in which an error of the configuration is one of the command line: exit code 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ErrorShown as shown:
            if not isinstance(shown.error, ConfigurationError):
                raise
            raise usage_error(shown.error) from shown


@contextmanager
def refusals(typ: str, *, as_json: bool, exit_code: int = EXIT_REFUSED, **members: object) -> Iterator[None]:
    """End with ``exit_code`` after an error, which with --json is a document of ``members``; a mistake of the command
    line stays what it is."""
    try:
        yield
    except ConfigurationError:
        raise
    except AffiantError as refusal:
        if as_json:
            print_json({"typ": typ, "refused": refusal.to_json(), **members})
        else:
            show_error(refusal)
        raise click.exceptions.Exit(exit_code) from refusal


def usage_error(error: AffiantError) -> click.UsageError:
    """``error`` as one of the command line, with its code."""
    return click.UsageError(f"{printable(str(error))} [{error.code}]")


def show_error(error: AffiantError) -> None:
    """Print ``error`` as every command does, without ending the process."""
    ErrorShown(error).show()


def print_json(value: Mapping[str, object]) -> None:
    """One JSON document on standard output, for programs."""
    click.echo(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=True))
