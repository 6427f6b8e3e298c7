"""Reads and writes a request, the strict JSON file that carries an authority's signed orders to the gateway's operator.

::

    {"typ":"affiant-erasure-request/1","origin","orders":[{"del":[...],"aut"}, ...]}     each becomes one record
    {"typ":"affiant-hold-request/1","origin","orders":[{"tgt","basis","aut","rel"?}]}

The members of an order are those of its record (``docs/formats/records.md``). The file needs no secrecy and no
signature of its own: what counts in it is signed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from affiant.attestation.encoding.canonical import JSONError, parse_object
from affiant.attestation.erasure.errors import RequestFileMalformed
from affiant.attestation.schema.records import KINDS
from affiant.attestation.schema.shapes import Array, Const, Obj, Pattern, ShapeMismatch

__all__ = ["MAX_ORDERS", "MAX_REQUEST", "Request", "parse_request"]

MAX_REQUEST: Final = 1 << 20
"""Bytes of a request."""
MAX_ORDERS: Final = 64
"""Orders of one request."""
_ORIGIN: Final = Pattern(r"[!-*,-~]{1,255}", "a log's origin")
_TYPES: Final = {"affiant-erasure-request/1": "erasure", "affiant-hold-request/1": "hold"}


@dataclass(frozen=True, slots=True)
class Request:
    """Orders of one kind, ``erasure`` or ``hold``, for one log; their signatures are not verified."""

    kind: str
    origin: str
    orders: Sequence[Mapping[str, Any]]

    def to_bytes(self) -> bytes:
        """The file."""
        typ = next(name for name, kind in _TYPES.items() if kind == self.kind)
        document = {"typ": typ, "origin": self.origin, "orders": list(self.orders)}
        return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=True) + "\n").encode("ascii")


def _shape(kind: str) -> Obj:
    row = KINDS[kind]
    order = Obj(row.required, row.optional)
    return Obj(
        {"typ": Const(f"affiant-{kind}-request/1"), "origin": _ORIGIN, "orders": Array(order, 1, MAX_ORDERS)}
    )


def parse_request(data: bytes) -> Request:
    """The request in ``data``.

    Raises:
        RequestFileMalformed: anything else.
    """
    try:
        value = parse_object(data, limit=MAX_REQUEST, strict_form=False)
        kind = _TYPES.get(str(value.get("typ")))
        if kind is None:
            raise RequestFileMalformed("not a request", expected=" or ".join(_TYPES))
        _shape(kind).check(value, "request")
    except (JSONError, ShapeMismatch) as error:
        raise RequestFileMalformed(f"not a request: {error}") from error
    orders: Any = value["orders"]
    return Request(kind, str(value["origin"]), tuple(orders))
