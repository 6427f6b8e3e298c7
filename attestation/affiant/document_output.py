"""Prints a command's one document: as JSON with ``--json``, else rendered as text for a terminal.

Each member is a label and a value. A list of objects is a table where it fits, else a block for each object. Names and
values may come from others: they are escaped, bounded, and stay on one line each.

>>> print(*document_lines({"typ": "x/1", "log_size": 2, "ok": True, "at": {"origin": "a", "index": 1}}), sep="\\n")
log size  2
ok        yes
at        origin a, index 1
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from affiant.command_line import EXIT_REFUSED
from affiant.errors import AffiantError, ConfigurationError
from affiant.printable import one_line, shown_time

__all__ = ["AS_JSON", "DocumentCommand", "Output", "document_lines", "print_output"]

AS_JSON: Final = "affiant.as_json"
_WIDTH: Final = 120
_TABLE_WIDTH: Final = 140
_LIMIT: Final = 4000
"""Characters of a value that are shown; a verifier key of ML-DSA-44 has 1,780."""
_TIMES: Final = frozenset({"iat", "time", "witnesses"})
"""Members that are seconds since 1970, or objects of them."""


@dataclass(frozen=True, slots=True)
class Output:
    """What a :class:`DocumentCommand` returns.

    Args:
        document: printed as JSON, or as text by ``document_lines``.
        ending: lines for a person after the text; they say nothing that the document does not.
    """

    document: Mapping[str, object]
    exit_code: int = 0
    ending: Iterable[str] = ()


class DocumentCommand(click.Command):
    """A command with ``--json`` that returns its :class:`Output`. ``ctx.meta[AS_JSON]``: whether that was given.

    Args:
        typ: with ``--json`` an error is a document of this type too; None: it is shown as without.
    """

    def __init__(self, *args: Any, typ: str | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self.typ = typ
        text = "Print one JSON document instead of text."
        self.params.append(click.Option(["--json", "as_json"], is_flag=True, help=text))

    def invoke(self, ctx: click.Context) -> Any:
        as_json = ctx.meta[AS_JSON] = ctx.params.pop("as_json")
        try:
            output = super().invoke(ctx)
        except AffiantError as error:
            if not as_json or self.typ is None or isinstance(error, ConfigurationError):
                raise
            print_output(Output({"typ": self.typ, "refused": error.to_json()}), as_json=True)
            ctx.exit(self.exit_code_of(error))
        print_output(output, as_json=as_json)
        ctx.exit(output.exit_code)

    def exit_code_of(self, error: AffiantError) -> int:  # noqa: ARG002 - for subclasses
        """The exit code after ``error`` was printed as a document."""
        return EXIT_REFUSED


def print_output(output: Output, *, as_json: bool, one_line: bool = False) -> None:
    """``output`` as JSON or as text; ``one_line``: JSON on one line, for one of many documents."""
    if as_json:
        click.echo(json.dumps(output.document, indent=None if one_line else 2, sort_keys=True))
        return
    for line in (*document_lines(output.document), *output.ending):
        click.echo(line)


def document_lines(document: Mapping[str, object]) -> Iterator[str]:
    """The lines of ``document``; its ``typ`` is for programs."""
    named = {one_line(name, limit=_LIMIT): value for name, value in document.items() if name != "typ"}
    return _members({name: _readable(name, value) or "none" for name, value in named.items()}, "")


def _readable(name: str, value: Any) -> Any:
    """``value`` of member ``name`` as a person reads it: times as such, nothing where there is nothing."""
    match value:
        case Mapping():
            below = {each: _readable(name if name in _TIMES else each, one) for each, one in value.items()}
            return {one_line(each, limit=_LIMIT): one for each, one in below.items() if one}
        case list() | tuple():
            return [_readable(name, each) for each in value]
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int() if name in _TIMES:
            return shown_time(value)
        case _:
            return one_line(str(value), limit=_LIMIT)


def _members(document: Mapping[str, Any], indent: str, *, nested: bool = False) -> Iterator[str]:
    """``nested``: the names may be others' (of witnesses, codes), and stay as they are."""
    width = min(max(map(len, document), default=0), 24)
    for name, value in document.items():
        label = name if nested else name.replace("_", " ")
        head, deeper = f"{indent}{label:<{width}}  ", f"{indent}  "
        if isinstance(value, str) or (_is_flat(value) and len(head) + len(_inline(value)) <= _WIDTH):
            yield head + _inline(value)
            continue
        yield head.rstrip()
        if isinstance(value, dict):
            yield from _members(value, deeper, nested=True)
        elif all(isinstance(each, dict) for each in value):
            yield from _objects(value, deeper)
        else:
            yield from (deeper + _inline(each) for each in value)


def _objects(rows: Sequence[Mapping[str, Any]], indent: str) -> Iterator[str]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    if len(rows) > 1 and all(_is_flat(value) for row in rows for value in row.values()):
        cells = [[_cell(row.get(name, "")) for name in names] for row in rows]
        cells.insert(0, [name.replace("_", " ") for name in names])
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        if len(indent) + sum(widths) + 2 * len(widths) <= _TABLE_WIDTH:
            yield from ((indent + "  ".join(map(str.ljust, line, widths))).rstrip() for line in cells)
            return
    for number, row in enumerate(rows):
        if number:
            yield ""
        yield from _members(row, indent)


def _cell(value: Any) -> str:
    """``value`` in a table, whose columns are two spaces apart."""
    text = _inline(value)
    return repr(text) if "  " in text else text


def _is_flat(value: Any) -> bool:
    """Whether ``value`` may be shown on one line: text, a list of texts, or an object of these."""
    if isinstance(value, dict):
        return not any(isinstance(each, dict) or not _is_flat(each) for each in value.values())
    return isinstance(value, str) or all(isinstance(each, str) for each in value)


def _inline(value: Any) -> str:
    """``value`` on one line; a text that could be taken for several values is quoted."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return ", ".join(f"{name} {_quoted(each)}" for name, each in value.items())
    return ", ".join(map(_quoted, value))


def _quoted(value: Any) -> str:
    if not isinstance(value, str):
        return f"({_inline(value)})"
    return repr(value) if "," in value or value != value.strip() else value
