"""OpenTelemetry spans as the collector's file exporter writes them: one OTLP JSON document on each line. Pure.

An item is a span of a request to a model: ``gen_ai.operation.name`` is one of :data:`OPERATIONS`, or the span has the
answer's ``Affiant-Receipt-Id`` as an attribute. Other spans are counted as other work. Attributes are those of the
OpenTelemetry semantic conventions for generative AI (``gen_ai.*``) and HTTP.

| attribute | is |
|---|---|
| ``affiant.receipt.id``, ``http.response.header.affiant-receipt-id`` | the receipt that the caller was given |
| ``gen_ai.response.id`` | a receipt's id if a receipt has it; else the upstream's own, and only shown |
| trace id and span id | what the receipt discloses as ``trc`` |
| ``gen_ai.request.model`` | the model that was asked for |
| ``gen_ai.usage.input_tokens``, ``gen_ai.usage.output_tokens`` | token counts |
| ``http.response.status_code`` | the status |
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from affiant.attestation.audit.records_of_others.facts import Facts
from affiant.attestation.audit.records_of_others.foreign_json import (
    ForeignJSONError,
    decimal_number,
    parse_foreign_object,
)
from affiant.attestation.audit.records_of_others.item import Item, NotAnItem, Read, Unreadable
from affiant.attestation.audit.records_of_others.timestamps import unix_nanoseconds

__all__ = ["OPERATIONS", "read_spans"]

OPERATIONS: Final = frozenset({"chat", "text_completion", "generate_content", "embeddings"})
_RECEIPT_ATTRIBUTES: Final = ("affiant.receipt.id", "http.response.header.affiant-receipt-id")
_RECEIPT: Final = re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII)
_TRACE: Final = re.compile(r"[0-9a-fA-F]{32}", re.ASCII)
_SPAN: Final = re.compile(r"[0-9a-fA-F]{16}", re.ASCII)


def read_spans(line: str) -> Iterator[Read]:
    """Every span of one line's document."""
    try:
        document = parse_foreign_object(line)
        resources = _list(document, "resourceSpans")
    except (ForeignJSONError, ValueError) as error:
        yield Unreadable(str(error))
        return
    for resource in resources:
        try:
            scopes = _list(resource, "scopeSpans")
        except ValueError as error:
            yield Unreadable(str(error))
            continue
        for scope in scopes:
            yield from _spans_of(scope)


def _spans_of(scope: object) -> Iterator[Read]:
    try:
        spans = _list(scope, "spans")
    except ValueError as error:
        yield Unreadable(str(error))
        return
    for span in spans:
        try:
            yield _span(span)
        except ValueError as error:
            yield Unreadable(str(error))


def _list(value: object, name: str) -> list[object]:
    """The array ``name`` of an object, empty where it is left out (as protobuf's JSON form does)."""
    found = value.get(name, []) if isinstance(value, Mapping) else None
    if not isinstance(found, list):
        raise ValueError(f"not OTLP JSON: {name} is no array")  # noqa: TRY004 - caught above
    return found


def _span(span: object) -> Read:
    if not isinstance(span, Mapping):
        raise ValueError("not OTLP JSON: a span that is no object")  # noqa: TRY004 - caught above
    attributes = _attributes(span)
    receipt = next((attributes[name] for name in _RECEIPT_ATTRIBUTES if name in attributes), None)
    if attributes.get("gen_ai.operation.name") not in OPERATIONS and receipt is None:
        return NotAnItem("a span of other work")
    if receipt is not None and (not isinstance(receipt, str) or _RECEIPT.fullmatch(receipt) is None):
        raise ValueError("a receipt id of another form")
    begun, ended = (
        unix_nanoseconds(span.get("startTimeUnixNano")),
        unix_nanoseconds(span.get("endTimeUnixNano")),
    )
    if ended < begun:
        raise ValueError("a span that ended before it began")
    response = attributes.get("gen_ai.response.id")
    reference = response if isinstance(response, str) else None
    return Item(
        begun,
        ended,
        facts=Facts(
            status=_count(attributes, "http.response.status_code"),
            model=_model(attributes),
            tokens_in=_count(attributes, "gen_ai.usage.input_tokens"),
            tokens_out=_count(attributes, "gen_ai.usage.output_tokens"),
            trace=(_id(span, "traceId", _TRACE), _id(span, "spanId", _SPAN)),
        ),
        receipt=receipt,
        maybe_receipt=reference,
        reference=reference,
    )


def _id(span: Mapping[str, object], name: str, form: re.Pattern[str]) -> str:
    value = span.get(name)
    if not isinstance(value, str) or form.fullmatch(value) is None:
        raise ValueError(f"a {name} of another form")
    return value.lower()


def _model(attributes: Mapping[str, object]) -> str | None:
    model = attributes.get("gen_ai.request.model")
    if model is not None and not isinstance(model, str):
        raise ValueError("a model that is no text")
    return model


def _count(attributes: Mapping[str, object], name: str) -> int | None:
    if name not in attributes:
        return None
    number = decimal_number(attributes[name])
    if number is None:
        raise ValueError(f"{name} is no count")
    return number


def _attributes(span: Mapping[str, object]) -> Mapping[str, object]:
    """Name -> value; of an array (captured headers are arrays) its only value."""
    found: dict[str, object] = {}
    for entry in _list(span, "attributes"):
        if not isinstance(entry, Mapping) or not isinstance(entry.get("key"), str):
            raise ValueError("not OTLP JSON: an attribute without a key")  # noqa: TRY004 - caught above
        name = entry["key"]
        if name in found:
            raise ValueError("an attribute occurs twice")
        found[name] = _value(entry.get("value"))
    return found


def _value(value: object) -> object:
    if not isinstance(value, Mapping) or len(value) != 1:
        return None
    ((kind, content),) = value.items()
    if kind == "arrayValue" and isinstance(content, Mapping):
        values = content.get("values")
        return _value(values[0]) if isinstance(values, list) and len(values) == 1 else None
    return content if kind in ("stringValue", "intValue") else None
