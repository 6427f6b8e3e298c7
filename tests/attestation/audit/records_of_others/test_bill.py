"""Bills: columns by name, one spelling for each number, and spans held against sums."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.audit.reconcile.conftest_reconcile import claim

from affiant.attestation.audit.reconcile.buckets import judge_buckets
from affiant.attestation.audit.reconcile.results import State
from affiant.attestation.audit.records_of_others.bill import (
    BilledSpan,
    BillFormat,
    read_header,
    read_row,
    read_span_row,
)
from affiant.attestation.audit.records_of_others.errors import SettingsInvalid
from affiant.attestation.audit.records_of_others.facts import Facts
from affiant.attestation.audit.records_of_others.item import Item, Unreadable

FORM = BillFormat(
    {"time": "When", "model": "Model", "input": "In", "output": "Out", "id": "Id"}, models={"gpt-2026": "gpt"}
)
HEADER = "Id,When,Model,In,Out,Price"
PLACES = read_header(HEADER, FORM)
HOUR = 3_600_000
T = 495_906 * HOUR


def test_a_row_says_when_what_and_how_much() -> None:
    found = read_row('req-1,2026-11-21T12:00:05Z,"gpt-2026",7,3,"0,01"', PLACES, FORM)
    assert found == Item(
        1795262405000,
        1795262405000,
        facts=Facts(model="gpt", tokens_in=7, tokens_out=3),
        maybe_receipt="req-1",
        reference="req-1",
    )


@pytest.mark.parametrize(
    "row",
    [
        "req-1,2026-11-21T12:00:05Z,gpt,7,3",
        "req-1,2026-11-21T12:00:05Z,gpt,7,3,0,0",
        "req-1,21.11.2026,gpt,7,3,0",
        'req-1,2026-11-21T12:00:05Z,gpt,"1,234",3,0',
        "req-1,2026-11-21T12:00:05Z,gpt,7.0,3,0",
        "req-1,2026-11-21T12:00:05Z,gpt,-7,3,0",
        "req-1,2026-11-21T12:00:05Z,gpt,٧,3,0",
        "req-1,2026-11-21T12:00:05Z,,7,3,0",
        'req-1,"2026-11-21T12:00:05Z,gpt,7,3,0',
        'req-1,2026-11-21T12:00:05Z,gpt,7,3,"0',
    ],
)
def test_what_could_be_meant_otherwise_is_unreadable(row: str) -> None:
    assert isinstance(read_row(row, PLACES, FORM), Unreadable)


@given(st.text(max_size=80))
def test_no_text_is_more_than_unreadable(row: str) -> None:
    assert isinstance(read_row(row, PLACES, FORM), (Item, Unreadable))
    assert isinstance(read_span_row(row, PLACES, FORM), (BilledSpan, Unreadable))


@pytest.mark.parametrize(
    "header", ["Id,When,Model,In", "Id,When,When,Model,In,Out", '"', "Id;When;Model;In;Out"]
)
def test_a_header_without_its_columns_is_refused(header: str) -> None:
    with pytest.raises(SettingsInvalid):
        read_header(header, FORM)


def test_a_byte_order_mark_is_no_part_of_the_first_column() -> None:
    assert read_header("\ufeff" + HEADER, FORM) == PLACES


@pytest.mark.parametrize(
    ("form", "text", "readable"),
    [
        ("unix", "1795262405", True),
        ("unix", "1795262405.5", False),
        ("date", "2026-11-21", True),
        ("date", "2026-02-30", False),
        ("date", "21/11/2026", False),
        ("rfc3339", "1795262405", False),
    ],
)
def test_a_time_has_the_one_spelling_that_was_named(form: str, text: str, readable: bool) -> None:
    found = read_row(f"x,{text},gpt,1,1,0", PLACES, BillFormat(FORM.columns, form))
    assert isinstance(found, Item) == readable


# -- spans -----------------------------------------------------------------------------------------------------


def judged(billed: list[BilledSpan], claims: list, *, tolerance: int = 5000) -> list:
    return list(judge_buckets(enumerate(billed), claims, span=HOUR, tolerance=tolerance))


def at(seconds: int, **facts: object):
    return claim(f"r{seconds}", T // 1000 + seconds, model="gpt", **facts)


def test_counts_and_sums_that_agree_match() -> None:
    claims = [at(100, tokens_in=7, tokens_out=3), at(200, tokens_in=5, tokens_out=1)]
    (end,) = judged([BilledSpan(T, "gpt", 2, 12, 4)], claims)
    assert (end.state, end.lines, len(end.claims)) == (State.MATCHED, (0,), 2)


@pytest.mark.parametrize("billed", [(3, 12, 4), (2, 13, 4), (2, 12, 5)])
def test_whatever_was_billed_beyond_the_receipts_is_missing(billed: tuple) -> None:
    claims = [at(100, tokens_in=7, tokens_out=3), at(200, tokens_in=5, tokens_out=1)]
    (end,) = judged([BilledSpan(T, "gpt", *billed)], claims)
    assert end.state is State.MISSING


def test_less_than_the_receipts_is_ambiguous() -> None:
    (end,) = judged([BilledSpan(T, "gpt", 1, None, None)], [at(100), at(200)])
    assert end.state is State.AMBIGUOUS


def test_what_is_not_disclosed_is_said_and_counts_alone_are_compared() -> None:
    (end,) = judged([BilledSpan(T, "gpt", 2, 99, None)], [at(100, tokens_in=7), at(200)])
    assert end.state is State.MATCHED
    assert "input tokens not compared: 1 of 2 receipts do not disclose theirs" in end.notes


def test_nothing_to_compare_is_no_match() -> None:
    (end,) = judged([BilledSpan(T, "gpt", None, 99, None)], [at(100)])
    assert end.state is State.AMBIGUOUS
    assert end.notes[-1] == "nothing could be compared"


def test_rows_of_one_span_are_summed_and_a_row_that_stands_twice_is_missing() -> None:
    claims = [at(100), at(200)]
    row = BilledSpan(T, "gpt", 1, None, None)
    assert judged([row, row], claims)[0].state is State.MATCHED
    assert judged([row, row, row], claims)[0].state is State.MISSING


def test_a_receipt_at_the_border_may_belong_to_the_next_span() -> None:
    claims = [at(100), at(3598)]
    moved = [BilledSpan(T, "gpt", 1, None, None), BilledSpan(T + HOUR, "gpt", 1, None, None)]
    assert [end.state for end in judged(moved, claims)] == [State.AMBIGUOUS, State.AMBIGUOUS]
    beyond = [BilledSpan(T, "gpt", 2, None, None), BilledSpan(T + HOUR, "gpt", 2, None, None)]
    assert [end.state for end in judged(beyond, claims)] == [State.MATCHED, State.MISSING]


def test_what_was_cut_off_may_have_been_billed() -> None:
    claims = [at(100), claim("cut", T // 1000 + 200, model="gpt", expected=False)]
    assert judged([BilledSpan(T, "gpt", 1, None, None)], claims)[0].state is State.MATCHED
    assert judged([BilledSpan(T, "gpt", 2, None, None)], claims)[0].state is State.AMBIGUOUS
    assert judged([BilledSpan(T, "gpt", 3, None, None)], claims)[0].state is State.MISSING


def test_another_model_is_another_span_and_receipts_alone_are_listed() -> None:
    ends = judged([BilledSpan(T, "other", 1, None, None)], [at(100)])
    assert [(end.model, end.state, end.lines) for end in ends] == [
        ("gpt", State.MATCHED, ()),
        ("other", State.MISSING, (0,)),
    ]


@given(st.permutations(range(6)), st.integers(0, 8))
def test_the_order_of_rows_and_receipts_changes_no_state(order: list[int], billed: int) -> None:
    claims = [at(600 * n, tokens_in=n) for n in range(6)]
    rows = [BilledSpan(T, "gpt", billed, 15, None), BilledSpan(T, "gpt", 0, 0, None)]
    states = [end.state for end in judged(rows, claims)]
    assert states == [end.state for end in judged(rows[::-1], [claims[n] for n in order])]
