"""JSON-RPC 2.0 as the tool gate reads it: exact bytes in, messages out, as strict JSON.

What two readers could read differently is refused whole: a duplicate member, a name almost a known one, ``NaN``, an
integer beyond 2**53, a lone surrogate, two messages of one id. An agent sends requests and notifications; a response is
refused, because a server behind the gate is never let to ask an agent for anything.

>>> parse_envelope(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}').messages[0].method
'ping'
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.encoding.canonical import MAX_INTEGER
from affiant.gateway.dialects.strict_json import folded, inexact, parse_json
from affiant.gateway.wire.errors import RequestMalformed

__all__ = [
    "MAX_BODY",
    "MAX_MESSAGES",
    "CallParams",
    "Envelope",
    "Message",
    "RequestId",
    "call_params",
    "parse_envelope",
]

MAX_BODY: Final = 256 << 10
"""Bytes of one request's body; the arguments of one call have a bound of their own."""
MAX_MESSAGES: Final = 8
"""In a batch; each call costs two records."""
_MAX_ID: Final = 128
_MAX_METHOD: Final = 64
_MAX_DEPTH: Final = 40
_MEMBERS: Final = ("id", "jsonrpc", "method", "params")
_CALL_MEMBERS: Final = ("_meta", "arguments", "name")

RequestId = int | str


@dataclass(frozen=True, slots=True)
class Message:
    """A request, or a notification where ``id`` is None."""

    id: RequestId | None
    method: str
    params: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Envelope:
    """What one body holds: one message, or a ``batch`` of them."""

    messages: tuple[Message, ...]
    batch: bool

    @property
    def ids(self) -> tuple[RequestId, ...]:
        """Of the requests, in order."""
        return tuple(message.id for message in self.messages if message.id is not None)


@dataclass(frozen=True, slots=True)
class CallParams:
    """A tool's name, its arguments, and the JSON text of exactly these, sorted: what is judged is what is sent."""

    name: str
    arguments: Mapping[str, object]
    text: str


def parse_envelope(body: bytes) -> Envelope:
    """The messages in ``body``.

    Raises:
        RequestMalformed: anything else.
    """
    value = parse_json(body)
    _require_plain(value, 0)
    if not isinstance(value, list):
        return Envelope((_message(value),), batch=False)
    if not 1 <= len(value) <= MAX_MESSAGES:
        raise RequestMalformed(
            "not a batch that is taken", expected=f"1 to {MAX_MESSAGES} messages", found=len(value)
        )
    envelope = Envelope(tuple(map(_message, value)), batch=True)
    if len({(type(each), each) for each in envelope.ids}) != len(envelope.ids):
        raise RequestMalformed("two requests of one id", where="id")
    return envelope


def _message(value: object) -> Message:
    if not isinstance(value, dict):
        raise RequestMalformed("a message is no object", found=type(value).__name__)
    _require_members(value, _MEMBERS)
    if value.get("jsonrpc") != "2.0":
        raise RequestMalformed("not JSON-RPC", expected="2.0", where="jsonrpc")
    method, params = value.get("method"), value.get("params", {})
    if not isinstance(method, str) or not 1 <= len(method) <= _MAX_METHOD:
        raise RequestMalformed("no method", where="method")
    if not isinstance(params, dict):
        raise RequestMalformed("not an object", where="params")
    return Message(_id(value["id"]) if "id" in value else None, method, params)


def _id(value: object) -> RequestId:
    if isinstance(value, str) and len(value) <= _MAX_ID:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise RequestMalformed(
        "not a request's id", expected=f"an integer, or text of at most {_MAX_ID} characters", where="id"
    )


def call_params(message: Message) -> CallParams:
    """What a ``tools/call`` asks for.

    Raises:
        RequestMalformed: it is of another form.
    """
    _require_members(message.params, _CALL_MEMBERS)
    name, arguments = message.params.get("name"), message.params.get("arguments", {})
    if not isinstance(name, str):
        raise RequestMalformed("no tool's name", where="params.name")
    if not isinstance(arguments, dict):
        raise RequestMalformed("not an object", where="params.arguments", found=type(arguments).__name__)
    text = json.dumps(arguments, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return CallParams(name, arguments, text)


def _require_members(value: Mapping[str, object], known: tuple[str, ...]) -> None:
    """Return if ``value`` has only ``known`` members; what is not known could be what another reader judges by."""
    unknown = sorted(set(value) - set(known))
    if unknown:
        raise RequestMalformed(
            "a member that is not taken",
            expected=inexact(value, folded(*known)) or ", ".join(known),
            found=ascii(unknown[0][:40]),
        )


def _require_plain(value: object, depth: int) -> None:
    """Return if every reader keeps ``value`` as it is."""
    if depth > _MAX_DEPTH:
        raise RequestMalformed("nested too deep", expected=f"at most {_MAX_DEPTH} levels")
    match value:
        case dict():
            for name, item in value.items():
                _require_plain(name, depth)
                _require_plain(item, depth + 1)
        case list():
            for item in value:
                _require_plain(item, depth + 1)
        case str():
            try:
                value.encode("utf-8")
            except UnicodeEncodeError:
                raise RequestMalformed("text holds a lone surrogate") from None
        case bool() | None:
            return
        case int() if abs(value) > MAX_INTEGER:
            raise RequestMalformed("an integer that not every reader keeps", expected="within 2**53")
        case float() if not math.isfinite(value):
            raise RequestMalformed("a number that is not finite")
        case _:
            return
