"""Writes text for terminals: wrapped entries with their place, aligned columns, bounded lists.

An option that every command about profile files has is here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from textwrap import wrap
from typing import Final

import click

from affiant.command_line import printable

__all__ = [
    "aligned",
    "bounded",
    "check_floor_unused",
    "check_one_form",
    "counted",
    "entry_lines",
    "floor_option",
    "middle_cut",
    "print_lines",
    "some",
]

floor_option = click.option(
    "--floor",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    envvar="AFFIANT_FLOOR",
    show_envvar=True,
    help="The organisation's baseline policy: its denials, limits and approvers hold for every profile.",
)

_WIDTH: Final = 100
_WIDEST: Final = 40
"""Of a column: one long name shall not push all others off the screen."""


def check_one_form(**wanted: bool) -> None:
    """Reject a command line that asks for two forms of one report.

    Args:
        wanted: whether each option was given, by its name without the dashes.

    Raises:
        click.UsageError: two were given.
    """
    if sum(wanted.values()) > 1:
        *names, last = [f"--{name}" for name in wanted]
        raise click.UsageError(f"{', '.join(names)} and {last} exclude each other: choose one")


def check_floor_unused(*, instead: str) -> None:
    """Reject ``--floor`` on a command line that reads no profile under it; AFFIANT_FLOOR is ignored there.

    Args:
        instead: what to do, as the message says it.

    Raises:
        click.UsageError: it was given.
    """
    given = click.get_current_context().get_parameter_source("floor")
    if given is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError(
            f"`--floor` has no effect here, because the command reads no profile: {instead}"
        )


def print_lines(lines: Iterable[str]) -> None:
    """Each line on standard output, without characters that steer a terminal."""
    for line in lines:
        click.echo(printable(line))


def counted(number: int, what: str) -> str:
    """``1 warning``, ``2 warnings``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def some(names: Sequence[str], *, most: int = 8) -> str:
    """The first ``most`` of ``names``, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def middle_cut(text: str, *, most: int, mark: str = "\u2026") -> str:
    """``text`` with ``mark`` for its middle, if it is longer than ``most`` and the mark: texts differ at their ends."""
    if len(text) <= most + len(mark):
        return text
    return f"{text[: most - most // 2]}{mark}{text[len(text) - most // 2 :]}"


def bounded(lines: Iterable[str], *, most: int, what: str = "more") -> Iterator[str]:
    """The first ``most`` lines, and how many others there are."""
    found = list(lines)
    yield from found[:most]
    if len(found) > most:
        yield f"and {len(found) - most} {what}; --json lists all"


def entry_lines(text: str, *, indent: int, at: str = "") -> Iterator[str]:
    """One entry and its place: on one line if both fit into 100 columns, else the place below."""
    start, deeper = " " * indent, " " * (indent + 4)
    lines = _wrapped(printable(text), start, deeper)
    if not at:
        yield from lines
    elif len(lines[-1]) + len(at) + 4 <= _WIDTH:
        yield from lines[:-1]
        yield f"{lines[-1]}  [{at}]"
    else:
        yield from lines
        yield from _wrapped(f"[{at}]", deeper, deeper + " ")


def _wrapped(text: str, first: str, other: str) -> Sequence[str]:
    return wrap(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=other,
        break_long_words=False,
        break_on_hyphens=False,
    )


def aligned(headings: Sequence[str], rows: Iterable[Sequence[str]], *, block: int) -> Iterator[str]:
    """Lines in columns, the headings first, if there is any row.

    A width grows with the longest text of a block of rows, up to a bound, and never shrinks. The last column is as wide
    as it likes. Nothing is cut off.

    Args:
        block: rows that are read before the first of them is given out; 1: each at once.
    """
    widths = [len(heading) for heading in headings]
    each = iter(rows)
    first = True
    while taken := list(islice(each, block)):
        for row in taken:
            widths = [max(width, min(len(text), _WIDEST)) for width, text in zip(widths, row, strict=True)]
        if first:
            yield _row(headings, widths)
            first = False
        yield from (_row(row, widths) for row in taken)


def _row(row: Sequence[str], widths: Sequence[int]) -> str:
    before = [text.ljust(width) for text, width in zip(row[:-1], widths, strict=False)]
    return "  ".join([*before, row[-1]])
