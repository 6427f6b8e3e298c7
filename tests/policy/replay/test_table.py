"""Decisions as a table: aligned, whole, and never more than text."""

from __future__ import annotations

from hypothesis import given
from tests.policy.replay.recorded import DIGEST, LINES, lines, recorded
from tests.properties import thorough

from affiant.policy.rendering.terminal import aligned
from affiant.policy.replay.table import HEADINGS, decision_row


def test_columns_stand_below_their_headings():
    rows = [decision_row(recorded(each)) for each in LINES]
    shown = list(aligned(HEADINGS, rows, block=100))
    assert len(shown) == len(LINES) + 1
    for name in HEADINGS[1:]:
        column = shown[0].index(name)
        assert all(each[column - 2 : column] == "  " for each in shown)
    assert shown[1].split()[:4] == ["2023-11-14T22:13:20Z", "dev", "egress", "deny"]
    assert list(aligned(HEADINGS, [], block=5)) == []


def test_one_long_name_does_not_push_the_others_off_the_screen():
    long, short = ({**LINES[7], "agent": name} for name in ("a" * 60, "b"))
    shown = list(aligned(HEADINGS, [decision_row(recorded(each)) for each in (long, short)], block=9))
    assert "a" * 60 + "  tool " in shown[1]
    assert shown[0].index("plane") == shown[2].index("tool") == 22 + 40 + 2


def test_what_is_not_known_is_a_dash_and_rules_stand_with_their_place():
    untold = {"request": "tool:run", "decision": "allow", "reason": "allowed", "policy_digest": DIGEST}
    assert decision_row(recorded(untold)) == ("-", "-", "tool", "allow", "allowed", "-", "tool:run")
    placed = decision_row(recorded({**untold, "rules": ["tools/0"]}), places={"tools/0": "p.yaml:3:9"})
    assert placed[5] == "tools/0 p.yaml:3:9"
    far = decision_row(recorded({**untold, "ts": 1 << 50}))
    assert far[0] == str(1 << 50)


def test_a_row_is_given_out_before_the_next_is_read():
    def rows():
        yield decision_row(recorded(LINES[0]))
        raise AssertionError("the second row was asked for")

    shown = aligned(HEADINGS, rows(), block=1)
    assert next(shown).startswith("time")
    assert "method_not_listed" in next(shown)


@thorough(50)
@given(lines())
def test_hostile_text_is_text_on_one_line_and_nothing_is_cut_off(members):
    (_, shown) = aligned(HEADINGS, [decision_row(recorded(members))], block=1)
    assert shown.isprintable()
    if str(members["request"]).isprintable():
        assert shown.endswith(str(members["request"]))
