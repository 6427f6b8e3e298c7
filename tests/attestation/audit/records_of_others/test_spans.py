"""OTLP JSON: which spans are items, and what each says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affiant.attestation.audit.records_of_others.facts import Facts
from affiant.attestation.audit.records_of_others.item import Item, NotAnItem, Unreadable
from affiant.attestation.audit.records_of_others.spans import read_spans

CHAT = {
    "gen_ai.operation.name": {"stringValue": "chat"},
    "gen_ai.request.model": {"stringValue": "gpt"},
    "gen_ai.response.id": {"stringValue": "chatcmpl-1"},
    "gen_ai.usage.input_tokens": {"intValue": "7"},
    "gen_ai.usage.output_tokens": {"intValue": 3},
    "gen_ai.request.temperature": {"doubleValue": 0.7},
    "http.response.status_code": {"intValue": "200"},
}


def span(attributes: dict | None = None, **changes: object) -> dict:
    attributes = CHAT if attributes is None else attributes
    return {
        "traceId": "1" * 32,
        "spanId": "ABCDEF0123456789",
        "name": "chat gpt",
        "kind": 3,
        "startTimeUnixNano": "1795262400000000000",
        "endTimeUnixNano": "1795262405250999999",
        "attributes": [{"key": key, "value": value} for key, value in attributes.items()],
        **changes,
    }


def read(*spans: object) -> list:
    return list(read_spans(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]})))


def test_a_span_of_a_request_to_a_model_is_an_item() -> None:
    assert read(span()) == [
        Item(
            1795262400000,
            1795262405250,
            facts=Facts(
                status=200, model="gpt", tokens_in=7, tokens_out=3, trace=("1" * 32, "abcdef0123456789")
            ),
            maybe_receipt="chatcmpl-1",
            reference="chatcmpl-1",
        )
    ]


def test_other_work_is_counted_and_is_no_item() -> None:
    tool = CHAT | {"gen_ai.operation.name": {"stringValue": "execute_tool"}}
    assert read(span(tool), span({}), span()) == [*[NotAnItem("a span of other work")] * 2, *read(span())]


@pytest.mark.parametrize("name", ["affiant.receipt.id", "http.response.header.affiant-receipt-id"])
@pytest.mark.parametrize(
    "value", [{"stringValue": "r" * 22}, {"arrayValue": {"values": [{"stringValue": "r" * 22}]}}]
)
def test_a_span_that_names_a_receipt_is_an_item_whatever_its_operation(name: str, value: dict) -> None:
    (found,) = read(span({name: value}))
    assert found.receipt == "r" * 22


@pytest.mark.parametrize(
    "changes",
    [
        {"traceId": "1" * 31},
        {"spanId": None},
        {"startTimeUnixNano": "2026-11-21T12:00:00Z"},
        {"startTimeUnixNano": 1.5},
        {"startTimeUnixNano": "0"},
        {"endTimeUnixNano": "9" * 21},
        {"endTimeUnixNano": "1795262300000000000"},
        {"attributes": 7},
        {"attributes": [{"value": {}}]},
        {
            "attributes": [
                *span()["attributes"],
                {"key": "gen_ai.request.model", "value": {"stringValue": "x"}},
            ]
        },
        {"attributes": span(CHAT | {"gen_ai.usage.input_tokens": {"intValue": "-1"}})["attributes"]},
        {"attributes": span(CHAT | {"gen_ai.usage.input_tokens": {"stringValue": "many"}})["attributes"]},
        {"attributes": span(CHAT | {"affiant.receipt.id": {"stringValue": "short"}})["attributes"]},
    ],
)
def test_a_span_that_is_wrong_is_unreadable_and_the_next_one_is_read(changes: dict) -> None:
    wrong, right = read({**span(), **changes}, span())
    assert isinstance(wrong, Unreadable)
    assert isinstance(right, Item)


@pytest.mark.parametrize(
    "document", [[], {"resourceSpans": 1}, {"resourceSpans": [1]}, {"resourceSpans": [{"scopeSpans": [7]}]}]
)
def test_what_is_not_otlp_is_unreadable(document: object) -> None:
    assert [type(each) for each in read_spans(json.dumps(document))] == [Unreadable]


def test_a_document_without_spans_has_none() -> None:
    assert list(read_spans("{}")) == []


@given(
    st.recursive(
        st.one_of(st.none(), st.integers(), st.text(max_size=5)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(
                st.sampled_from(["resourceSpans", "scopeSpans", "spans", "attributes", "key", "value"]),
                inner,
                max_size=4,
            ),
        ),
        max_leaves=12,
    )
)
def test_no_document_is_more_than_unreadable(document: object) -> None:
    assert all(isinstance(each, (Item, NotAnItem, Unreadable)) for each in read_spans(json.dumps(document)))
