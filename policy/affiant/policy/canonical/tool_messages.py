"""Reads and writes MCP's messages (JSON-RPC 2.0) for the programs that judge an agent's calls of tools. Sans-IO.

A body that two readers could read differently is rejected as a whole: a duplicate member, a member that is not known,
``NaN``, an integer beyond 2**53, a lone surrogate, two messages of one id. An agent sends requests and notifications.
A response is rejected, because no server of tools may ask an agent for anything.

Of MCP's methods only the handshake, ``ping``, ``tools/list``, ``tools/call`` and the notifications that go with them
are known. Every other method (resources, prompts, sampling, completion, logging, tasks) is rejected: what is not judged
is not passed on. There is no state of a connection: ``Mcp-Session-Id`` is neither given nor read.

>>> parse_envelope(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}').messages[0].method
'ping'
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn

from affiant.attestation.encoding.canonical import MAX_INTEGER
from affiant.errors import MalformedError, NotAllowedError

__all__ = [
    "CANCELLED",
    "MAX_BODY",
    "MAX_MESSAGES",
    "VERSIONS",
    "CallParams",
    "Envelope",
    "Message",
    "RequestId",
    "RequestMalformed",
    "arguments_text",
    "call_params",
    "failed",
    "handshake",
    "parse_envelope",
    "parse_json",
    "require_known",
    "require_one_page",
    "require_version",
    "response",
    "whole",
]

VERSIONS: Final = ("2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions of MCP with a handshake, over streamable HTTP; an agent that knows none of them is offered the last."""
CANCELLED: Final = "notifications/cancelled"
_NOTIFICATIONS: Final = ("notifications/initialized", CANCELLED, "notifications/progress")
_REQUESTS: Final = ("initialize", "ping", "tools/call", "tools/list")

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


class RequestMalformed(MalformedError):
    """A request's body or a header is not of its form."""

    code = "request.malformed"


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


def parse_json(data: bytes | str) -> object:
    """The value of one JSON text; each member once, finite numbers, bounded nesting.

    Raises:
        RequestMalformed: anything else.
    """
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data  # json would guess UTF-16 and more
        return _STRICT.decode(text)
    except UnicodeDecodeError as error:
        raise RequestMalformed("the body is not UTF-8") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise RequestMalformed("the body is not JSON", where=where) from error
    except RecursionError as error:
        raise RequestMalformed("the body is nested too deep") from error
    except ValueError as error:  # an integer of thousands of digits (CPython's own bound)
        raise RequestMalformed("a number is too long") from error


def _unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise RequestMalformed("a member is duplicated", hint="Two readers would see two requests")
    return members


def _not_finite(text: str) -> NoReturn:
    raise RequestMalformed("not a number", found=text)


_STRICT: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_not_finite)


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
    return CallParams(name, arguments, arguments_text(arguments))


def arguments_text(arguments: Mapping[str, object]) -> str:
    """The JSON text of arguments, sorted: what is judged, shown to approvers and digested.

    Raises:
        ValueError: a number that is not finite.
    """
    return json.dumps(arguments, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def _require_members(value: Mapping[str, object], known: tuple[str, ...]) -> None:
    """Return if ``value`` has only ``known`` members; what is not known could be what another reader judges by."""
    unknown = sorted(set(value) - set(known))
    if unknown:
        raise RequestMalformed(
            "a member that is not taken", expected=", ".join(known), found=ascii(unknown[0][:40])
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


# -- what is known, and what is answered -----------------------------------------------------------------------------


def require_known(message: Message) -> None:
    """Return if the message's method is one of those that are judged.

    Raises:
        ``tool.method``: it is not. RequestMalformed: a request without id, or a notification with one.
    """
    notifies = message.method.startswith("notifications/")
    if notifies == (message.id is not None) and message.method in (*_NOTIFICATIONS, *_REQUESTS):
        raise RequestMalformed("a request has an id, and a notification has none", where="id")
    if message.method not in (_NOTIFICATIONS if notifies else _REQUESTS):
        raise NotAllowedError(
            "the tool gate does not pass this method on",
            expected=", ".join(_REQUESTS),
            found=ascii(message.method)[:80],
            code="tool.method",
        )


def require_version(version: str | None, first: Message) -> None:
    """Return if the header ``MCP-Protocol-Version`` is absent or names a known revision.

    Raises:
        RequestMalformed: another one. ``server/discover`` may carry any: it asks which there are.
    """
    if version not in (None, *VERSIONS) and first.method != "server/discover":
        raise RequestMalformed(
            "not a version of MCP that the tool gate knows",
            expected=", ".join(VERSIONS),
            found=ascii(version)[:40],
            where="MCP-Protocol-Version",
        )


def handshake(message: Message, *, name: str) -> Mapping[str, object]:
    """The result of ``initialize``, by the server that calls itself ``name``."""
    wanted = message.params.get("protocolVersion")
    return {
        "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[-1],
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": {"name": name, "version": "1"},
    }


def require_one_page(message: Message) -> None:
    """Return if a ``tools/list`` asks for the first page: there is no other.

    Raises:
        RequestMalformed: it asks for another page.
    """
    if message.params.get("cursor") is not None:
        raise RequestMalformed("the list has one page", where="params.cursor")


def response(identifier: RequestId, result: bytes) -> bytes:
    """A response that holds ``result``, which is JSON."""
    return b'{"jsonrpc":"2.0","id":' + _json(identifier) + b',"result":' + result + b"}"


def failed(identifier: RequestId | None, member: Mapping[str, object]) -> bytes:
    """A response that holds an error; None: it is not known to which request."""
    return _json({"jsonrpc": "2.0", "id": identifier, "error": member})


def whole(responses: Sequence[bytes], *, batch: bool) -> bytes:
    """The body that holds these responses."""
    return b"[" + b",".join(responses) + b"]" if batch else responses[0]


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
