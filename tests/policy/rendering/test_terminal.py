"""Text for terminals keeps places beside entries, and says what it leaves out."""

from __future__ import annotations

import click
import pytest

from affiant.policy.rendering.terminal import bounded, check_one_form, counted, entry_lines


def test_an_entry_and_its_place_share_a_line_where_both_fit() -> None:
    assert list(entry_lines("short", indent=2, at="p.yaml:1:1")) == ["  short  [p.yaml:1:1]"]
    long = "word " * 30
    shown = list(entry_lines(long, indent=2, at="p.yaml:1:1"))
    assert all(len(line) <= 100 for line in shown)
    assert shown[1].startswith("      word")
    apart = list(entry_lines("x" * 95, indent=2, at="p.yaml:1:1"))
    assert apart == [f"  {'x' * 95}", "      [p.yaml:1:1]"]


def test_what_steers_a_terminal_is_escaped() -> None:
    assert list(entry_lines("a\x1b[2J", indent=0)) == ["a\\u001b[2J"]


def test_a_list_says_how_much_it_leaves_out() -> None:
    assert list(bounded("abc", most=3)) == ["a", "b", "c"]
    assert list(bounded("abcd", most=3, what="more groups")) == [
        *"abc",
        "and 1 more groups; --json lists all",
    ]
    assert [counted(number, "warning") for number in (0, 1, 2)] == ["0 warnings", "1 warning", "2 warnings"]


def test_two_forms_of_one_report_are_a_wrong_command_line() -> None:
    check_one_form(json=True, markdown=False)
    with pytest.raises(click.UsageError, match="--json, --markdown and --graph exclude each other"):
        check_one_form(json=True, markdown=True, graph=False)
