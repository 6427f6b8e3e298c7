"""What the tool gate answers beside results: its listing, and errors as members of JSON-RPC. Sans I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from affiant.errors import AffiantError, MalformedError
from affiant.gateway.tool_gate.approving import APPROVAL_REFUSALS, ToolCallWaits
from affiant.gateway.tool_gate.catalogue import ServedTool
from affiant.gateway.wire.errors import ToolNotAllowedError
from affiant.policy.canonical.tool_messages import (
    Envelope,
    Message,
    RequestId,
    failed,
    require_one_page,
    whole,
)
from affiant.policy.decision.limit_errors import LimitReached
from affiant.printable import printable

__all__ = ["error_member", "listing", "whole_error"]

_PARSE: Final = -32700
_INVALID: Final = -32600
_NO_METHOD: Final = -32601
_BAD_PARAMS: Final = -32602
_REFUSED: Final = -32010
_FAILED: Final = -32011


def listing(message: Message, tools: Sequence[ServedTool]) -> Mapping[str, object]:
    """The result of ``tools/list``: all of them, in one page.

    Raises:
        RequestMalformed: it asks for another page.
    """
    require_one_page(message)
    return {"tools": [tool.to_json() for tool in tools]}


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
        return failed(None, {**member, "code": _PARSE})
    ids: Sequence[RequestId | None] = envelope.ids or (None,)
    return whole([failed(identifier, member) for identifier in ids], batch=envelope.batch)
