"""What the tool gate answers: messages of JSON-RPC, and what of them it judges. Sans I/O.

Of MCP's methods the gate knows the handshake, ``ping``, ``tools/list``, ``tools/call`` and the notifications that go
with them. Every other method (resources, prompts, sampling, completion, logging, tasks) is refused: what is not
judged is not passed on. There is no state of a connection: ``Mcp-Session-Id`` is neither given nor read, because who
asks is known by the proof of each request alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from affiant.errors import AffiantError, MalformedError, NotAllowedError
from affiant.gateway.tool_gate.approving import APPROVAL_REFUSALS, ToolCallWaits
from affiant.gateway.tool_gate.catalogue import ServedTool
from affiant.gateway.tool_gate.messages import Envelope, Message, RequestId
from affiant.gateway.wire.errors import RequestMalformed, ToolNotAllowedError
from affiant.policy.decision.limit_errors import LimitReached
from affiant.printable import printable

__all__ = [
    "CANCELLED",
    "VERSIONS",
    "error_member",
    "failed",
    "handshake",
    "listing",
    "require_known",
    "response",
    "whole",
    "whole_error",
]

VERSIONS: Final = ("2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions of MCP with a handshake, over streamable HTTP; an agent that knows none of them is offered the last."""
CANCELLED: Final = "notifications/cancelled"
_NOTIFICATIONS: Final = ("notifications/initialized", CANCELLED, "notifications/progress")
_REQUESTS: Final = ("initialize", "ping", "tools/call", "tools/list")

_PARSE: Final = -32700
_INVALID: Final = -32600
_NO_METHOD: Final = -32601
_BAD_PARAMS: Final = -32602
_REFUSED: Final = -32010
_FAILED: Final = -32011


def require_known(message: Message) -> None:
    """Return if the gate knows the message's method.

    Raises:
        ``tool.method``: it does not. RequestMalformed: a request without id, or a notification with one.
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


def handshake(message: Message) -> Mapping[str, object]:
    """The result of ``initialize``."""
    wanted = message.params.get("protocolVersion")
    return {
        "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[-1],
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": {"name": "affiant-tool-gate", "version": "1"},
    }


def listing(message: Message, tools: Sequence[ServedTool]) -> Mapping[str, object]:
    """The result of ``tools/list``: all of them, in one page.

    Raises:
        RequestMalformed: it asks for another page.
    """
    if message.params.get("cursor") is not None:
        raise RequestMalformed("the list has one page", where="params.cursor")
    return {"tools": [tool.to_json() for tool in tools]}


def response(identifier: RequestId, result: bytes) -> bytes:
    """A response that holds ``result``, which is JSON."""
    return b'{"jsonrpc":"2.0","id":' + _json(identifier) + b',"result":' + result + b"}"


def error_member(error: AffiantError, *, receipt: str) -> Mapping[str, object]:
    """The ``error`` of a response: what was refused, by its stable code."""
    data: dict[str, object] = {"code": error.code, "receipt": receipt}
    if isinstance(error, ToolNotAllowedError) and error.reason:
        data["reason"] = error.reason
    if isinstance(error, ToolCallWaits):
        data |= {"actions": error.actions, "not_after": error.not_after}
    if isinstance(error, LimitReached) and error.retry_after_s is not None:
        data["retry_after_s"] = error.retry_after_s
    return {"code": _code(error), "message": printable(str(error), limit=500), "data": data}


def _code(error: AffiantError) -> int:
    if error.code == "tool.method":
        return _NO_METHOD
    if isinstance(error, MalformedError):
        return _INVALID
    if error.code == "tool.arguments":
        return _BAD_PARAMS
    return _REFUSED if isinstance(error, (ToolNotAllowedError, LimitReached, *APPROVAL_REFUSALS)) else _FAILED


def whole_error(envelope: Envelope | None, error: AffiantError, *, receipt: str) -> bytes:
    """The answer to a body of which nothing was done: every request of it gets the error."""
    member = error_member(error, receipt=receipt)
    if envelope is None:  # what cannot be read has no known id
        return _json({"jsonrpc": "2.0", "id": None, "error": {**member, "code": _PARSE}})
    ids: Sequence[RequestId | None] = envelope.ids or (None,)
    each = [_json({"jsonrpc": "2.0", "id": identifier, "error": member}) for identifier in ids]
    return whole(each, batch=envelope.batch)


def failed(identifier: RequestId, member: Mapping[str, object]) -> bytes:
    """A response that holds an error."""
    return _json({"jsonrpc": "2.0", "id": identifier, "error": member})


def whole(responses: Sequence[bytes], *, batch: bool) -> bytes:
    """The body that holds these responses."""
    return b"[" + b",".join(responses) + b"]" if batch else responses[0]


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
