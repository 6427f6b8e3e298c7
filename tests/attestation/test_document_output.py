"""One renderer for every command's document: labels, tables, blocks; nothing hostile reaches the terminal."""

from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner

from affiant.command_line import Group
from affiant.document_output import DocumentCommand, Output, document_lines
from affiant.errors import ConfigurationError, UnreachableError


def lines(document: dict[str, object]) -> list[str]:
    return list(document_lines(document))


def test_members_are_labels_and_values_without_the_type() -> None:
    shown = lines({"typ": "x/1", "leaf_count": 2, "whole": True, "at": {"a": 1, "b": None}, "level": None})
    assert shown == ["leaf count  2", "whole       yes", "at          a 1", "level       none"]


def test_times_are_shown_as_times() -> None:
    shown = lines({"time": 0, "witnesses": {"w_1": 60}, "leaves": [{"iat": 1}, {"iat": 10**20}]})
    assert shown[0] == "time       1970-01-01T00:00:00Z"
    assert shown[1] == "witnesses  w_1 1970-01-01T00:01:00Z"
    assert shown[-2:] == ["  1970-01-01T00:00:01Z", f"  {10**20}"]


def test_objects_are_a_table_where_it_fits_else_blocks() -> None:
    assert lines({"rows": [{"a": 1, "b": "x"}, {"a": 22}]}) == ["rows", "  a   b", "  1   x", "  22"]
    blocks = lines({"rows": [{"a": 1, "b": "x" * 140}, {"a": 2}]})
    assert blocks == ["rows", "  a  1", f"  b  {'x' * 140}", "", "  a  2"]
    assert lines({"rows": [{"a": 1}]}) == ["rows", "  a  1"]


def test_long_lists_have_a_line_for_each_value() -> None:
    assert lines({"proof": ["a", "b"]}) == ["proof  a, b"]
    assert lines({"proof": ["a" * 70, "b" * 70]}) == ["proof", "  " + "a" * 70, "  " + "b" * 70]


def test_a_value_never_looks_like_several_or_moves_the_cursor() -> None:
    shown = lines({"a\n": "x\x1b[2J\n\u202ey", "b": {"c": "1, d 2"}, "e": [" f"]})
    assert shown == ["a\\n  x\\u001b[2J\\n\\u202ey", "b    c '1, d 2'", "e    ' f'"]
    assert len(lines({"a": "x" * 10_000})[0]) < 4100
    assert lines({"rows": [{"a": "1  2", "b": 3}, {"a": 4}]})[2] == "  '1  2'  3"
    assert lines({"mixed": [{"a": 1}, "b"]})[0] == "mixed"


@click.group(cls=Group)
def commands() -> None:
    """Commands that return documents."""


@commands.command(cls=DocumentCommand, typ="t/1")
@click.argument("what")
def said(*, what: str) -> Output:
    """One document, or an error."""
    if what == "settings":
        raise ConfigurationError("no", code="a.settings")
    if what == "fails":
        raise UnreachableError("gone", code="a.gone")
    return Output({"typ": "t/1", "what": what}, 10, ["the end"])


def test_a_command_prints_its_document_as_text_or_json() -> None:
    text = CliRunner().invoke(commands, ["said", "x"])
    assert (text.exit_code, text.stdout) == (10, "what  x\nthe end\n")
    document = CliRunner().invoke(commands, ["said", "x", "--json"])
    assert (document.exit_code, json.loads(document.stdout)) == (10, {"typ": "t/1", "what": "x"})


@pytest.mark.parametrize(("what", "is_document"), [("fails", True), ("settings", False)])
def test_an_error_is_a_document_too_unless_the_command_line_is_wrong(what: str, *, is_document: bool) -> None:
    plain = CliRunner().invoke(commands, ["said", what])
    assert plain.exit_code == 1 and not plain.stdout and "[a." in plain.stderr
    done = CliRunner().invoke(commands, ["said", what, "--json"])
    assert done.exit_code == 1 and bool(done.stdout) is is_document
    assert not is_document or json.loads(done.stdout)["refused"]["code"] == "a.gone"
