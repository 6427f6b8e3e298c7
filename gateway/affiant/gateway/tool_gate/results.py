"""What an agent gets of the tool gate: results of calls, the listing, and errors as members of JSON-RPC. Sans I/O.

A server's result goes on in MCP's form, bounded, without the gateway's secrets.

Only what is known is passed on: the content, in the kinds that MCP names, the structured content, and whether it is an
error. Everything is written again from what was read, so that it holds nothing that was not looked at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from affiant.secrets.redaction.redaction import Redactor

__all__ = ["MAX_RESULT", "Result", "error_member", "error_text", "listing", "passed_result", "whole_error"]

_PARSE: Final = -32700
_INVALID: Final = -32600
_NO_METHOD: Final = -32601
_BAD_PARAMS: Final = -32602
_REFUSED: Final = -32010
_FAILED: Final = -32011

MAX_RESULT: Final = 4 << 20
"""Bytes of one result's JSON."""
_MAX_BLOCKS: Final = 1024
_MAX_ERROR: Final = 300
"""Characters of a server's own words where it answers with an error."""

_BLOCKS: Final[Mapping[str, tuple[Mapping[str, type], tuple[str, ...]]]] = {
    "text": ({"text": str}, ()),
    "image": ({"data": str, "mimeType": str}, ()),
    "audio": ({"data": str, "mimeType": str}, ()),
    "resource_link": ({"uri": str, "name": str}, ("description", "mimeType", "title", "size")),
    "resource": ({"resource": dict}, ()),
}
"""Kind of a content block -> members that it must have, and may have."""
_RESOURCE: Final = ("uri", "mimeType", "text", "blob")


@dataclass(frozen=True, slots=True)
class Result:
    """A result as it goes on: its JSON, whether the tool says that it failed, and whether anything was redacted."""

    data: bytes
    failed: bool
    redacted: bool


def passed_result(raw: Mapping[str, object], redactor: Redactor) -> Result:
    """The result ``raw``, written again.

    Raises:
        ``upstream.answer``: not a result of a call, or too large.
    """
    blocks = raw.get("content")
    if not isinstance(blocks, list) or len(blocks) > _MAX_BLOCKS:
        raise _unusable(
            "the result has no content", expected=f"a list of at most {_MAX_BLOCKS}", where="content"
        )
    result: dict[str, object] = {"content": [_block(block) for block in blocks]}
    structured, failed = raw.get("structuredContent"), raw.get("isError", False)
    if not isinstance(failed, bool) or not isinstance(structured, (dict, type(None))):
        raise _unusable("the result is of another form", where="isError, structuredContent")
    if structured is not None:
        result["structuredContent"] = structured
    result["isError"] = failed
    return _written(result, redactor, failed=failed)


def _block(block: object) -> Mapping[str, object]:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(block, dict) or not isinstance(kind, str) or kind not in _BLOCKS:
        raise _unusable(
            "content of an unknown kind", expected=", ".join(_BLOCKS), found=ascii(kind)[:40], where="content"
        )
    required, optional = _BLOCKS[kind]
    if not all(isinstance(block.get(name), wanted) for name, wanted in required.items()):
        raise _unusable("content of another form", found=kind, where="content")
    kept = {name: block[name] for name in (*required, *optional) if block.get(name) is not None}
    if kind == "resource":
        inner = kept["resource"]
        assert isinstance(inner, dict)
        kept["resource"] = {name: inner[name] for name in _RESOURCE if isinstance(inner.get(name), str)}
    return {"type": kind, **kept}


def _written(result: Mapping[str, object], redactor: Redactor, *, failed: bool) -> Result:
    try:
        data = json.dumps(result, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")
    except (ValueError, RecursionError):  # a lone surrogate is a ValueError too
        raise _unusable("the result is no JSON that every reader takes") from None
    if len(data) > MAX_RESULT:
        raise _unusable("the result is too large", expected=f"at most {MAX_RESULT} bytes")
    if not redactor:
        return Result(data, failed, redacted=False)
    found = redactor.redact(data)
    if found.replaced:
        try:
            json.loads(found.data)
        except ValueError:
            raise _unusable("the result holds this gateway's credential") from None
    return Result(found.data, failed, redacted=bool(found.replaced))


def error_text(text: str, redactor: Redactor) -> str:
    """A server's own words for an error: short, printable, without the gateway's secrets."""
    data = text.encode("utf-8", "replace")  # all of it: what is cut before could end within a secret
    return printable(redactor.redact(data).data.decode("utf-8", "replace"), limit=_MAX_ERROR)


def _unusable(
    what: str, *, where: str | None = None, expected: object = None, found: object = None
) -> MalformedError:
    return MalformedError(what, where=where, expected=expected, found=found, code="upstream.answer")


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
