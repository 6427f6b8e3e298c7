"""``sessions.affiant.internal``: MCP by which an agent starts sessions of other agents, as its profile allows.

Served is ``POST /mcp`` with one JSON message a request; a response is JSON, never a stream. Every other request is
denied and recorded, and so is every request where the profile lets the agent start nothing. What a call may do is
decided, recorded and carried out behind :class:`SessionTools`; this module reads and writes messages.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from affiant.attestation.schema.trace_context import TraceContext
from affiant.errors import AffiantError, MalformedError
from affiant.policy.canonical.tool_messages import (
    CANCELLED,
    MAX_BODY,
    CallParams,
    Message,
    RequestId,
    RequestMalformed,
    call_params,
    failed,
    handshake,
    parse_envelope,
    require_known,
    require_one_page,
    require_version,
    response,
)
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.limit_errors import LimitReached
from affiant.printable import printable
from affiant.sandbox.egress.forward import action_of, reason_phrase, refuse
from affiant.sandbox.egress.http.agent_http import AgentHTTP, Answer, Memory
from affiant.sandbox.egress.http.errors import EgressDenied, reason_of
from affiant.sandbox.egress.http.origin import Origin
from affiant.sandbox.egress.http.request_head import RequestHead
from affiant.sandbox.egress.records_of_egress import EgressRecords

__all__ = ["SESSIONS_ORIGINS", "SessionTools", "SessionsRoute", "ToolAnswer"]

SESSIONS_HOST: Final = "sessions.affiant.internal"
SESSIONS_ORIGINS: Final = frozenset({Origin("http", SESSIONS_HOST, 80), Origin("https", SESSIONS_HOST, 443)})

_MEMORY: Final = 8 << 20
"""Bytes of all requests that are being read."""
_PARSE: Final = -32700
_INVALID: Final = -32600
_NO_METHOD: Final = -32601
_REFUSED: Final = -32010


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The outcome of a call: the JSON of its result, or the error that rejects it.

    ``record``: the id of the intent, or of the ``refusal`` record; None: there is none.
    """

    result: bytes
    error: AffiantError | None
    record: str | None

    @classmethod
    def of_error(cls, error: AffiantError, *, record: str | None) -> ToolAnswer:
        """A call that was not made."""
        return cls(b"", error, record)


class SessionTools(Protocol):
    """What carries calls out."""

    def listed(self) -> Sequence[Mapping[str, object]]:
        """The tools that the agent may call."""
        ...

    async def call(self, params: CallParams, trace: TraceContext | None) -> ToolAnswer:
        """Judge, record and make one call; cancelled, it still has its record."""
        ...

    def restrict(self, policy: CompiledPolicy) -> None:
        """Judge by ``policy`` from now on."""
        ...


@dataclass(frozen=True, slots=True)
class SessionsRoute:
    """Serves what an agent asks of the name; ``tools`` None: its profile lets it start nothing."""

    records: EgressRecords
    tools: SessionTools | None
    memory: Memory = field(default_factory=lambda: Memory(_MEMORY))
    _under_way: dict[RequestId, list[asyncio.Task[ToolAnswer]]] = field(default_factory=dict)

    async def serve(self, http: AgentHTTP, head: RequestHead, origin: Origin, target: str) -> bool:
        """Serve one request; returns whether the connection can carry another."""
        action = action_of(head, origin, target)
        try:
            tools = _served(self.tools, head, target)
            body = await http.whole_body(MAX_BODY, self.memory)
        except AffiantError as refusal:
            return await refuse(http, self.records, refusal, action, keep_alive=head.keep_alive)
        try:
            said = await http.unless_gone(self._answer(tools, head, body, action.trace))
        finally:
            self.memory.give_back(len(body))
        if said is None:
            return False
        status, data = said
        answer = Answer(http, head)
        await answer.start(status, reason_phrase(status), ((b"Content-Type", b"application/json"),))
        await answer.data(data)
        await answer.finish()
        return answer.keep_alive and http.request_done

    async def _answer(
        self, tools: SessionTools, head: RequestHead, body: bytes, trace: TraceContext | None
    ) -> tuple[int, bytes]:
        """Status and body of the response to one message."""
        message: Message | None = None
        try:
            message = _message(body)
            version = head.value(b"mcp-protocol-version")
            require_version(None if version is None else version.decode("latin-1"), message)
            require_known(message)
            return await self._result(tools, message, trace)
        except AffiantError as error:
            identifier = None if message is None else message.id
            status = 400 if isinstance(error, MalformedError) else 200
            return status, failed(identifier, _member(error, None, unread=message is None))

    async def _result(
        self, tools: SessionTools, message: Message, trace: TraceContext | None
    ) -> tuple[int, bytes]:
        if message.id is None:
            if message.method == CANCELLED:
                self._cancel(message.params.get("requestId"))
            return 202, b""
        match message.method:
            case "initialize":
                return 200, response(message.id, _json(handshake(message, name="affiant-sessions")))
            case "tools/list":
                require_one_page(message)
                return 200, response(message.id, _json({"tools": list(tools.listed())}))
            case "tools/call":
                return 200, await self._called(tools, message.id, call_params(message), trace)
        return 200, response(message.id, b"{}")  # ping

    async def _called(
        self, tools: SessionTools, identifier: RequestId, params: CallParams, trace: TraceContext | None
    ) -> bytes:
        task = asyncio.create_task(tools.call(params, trace))
        same = self._under_way.setdefault(identifier, [])
        same.append(task)
        try:
            await asyncio.wait({task})
        finally:
            same.remove(task)
            if not same:
                del self._under_way[identifier]
            task.cancel()
            await asyncio.wait({task})  # cancelled, it still has its record
        if task.cancelled():
            cancelled = EgressDenied("the call was cancelled", reason="cancelled", rules=())
            return failed(identifier, _member(cancelled, None))
        answer = task.result()
        if answer.error is not None:
            return failed(identifier, _member(answer.error, answer.record))
        return response(identifier, answer.result)

    def _cancel(self, identifier: object) -> None:
        """Cancel the call under this id, if that is one call."""
        if isinstance(identifier, (int, str)) and not isinstance(identifier, bool):
            tasks = self._under_way.get(identifier, [])
            if len(tasks) == 1:
                tasks[0].cancel()


def _served(tools: SessionTools | None, head: RequestHead, target: str) -> SessionTools:
    """What carries the request out.

    Raises:
        EgressDenied: the profile starts nothing, or this is not ``POST /mcp`` with JSON.
    """
    if tools is None:
        raise EgressDenied(
            "the profile does not let this agent start sessions", reason="start_not_listed", rules=()
        )
    kind = (head.value(b"content-type") or b"").partition(b";")[0].strip().lower()
    if (head.method, target) != ("POST", "/mcp") or kind != b"application/json":
        raise EgressDenied(
            f"{SESSIONS_HOST} serves only POST /mcp with application/json", reason="sessions_path", rules=()
        )
    return tools


def _message(body: bytes) -> Message:
    """The one message in ``body``.

    Raises:
        RequestMalformed: another body, or a batch.
    """
    envelope = parse_envelope(body)
    if envelope.batch:
        raise RequestMalformed("a batch is not taken here", expected="one message")
    return envelope.messages[0]


def _member(error: AffiantError, record: str | None, *, unread: bool = False) -> Mapping[str, object]:
    """The ``error`` of a response: what was refused, by its stable code."""
    data: dict[str, object] = {"code": error.code, "reason": reason_of(error), "receipt": record}
    if isinstance(error, LimitReached) and error.retry_after_s is not None:
        data["retry_after_s"] = error.retry_after_s
    if unread:
        code = _PARSE
    elif error.code == "tool.method":
        code = _NO_METHOD
    else:
        code = _INVALID if isinstance(error, MalformedError) else _REFUSED
    return {"code": code, "message": printable(str(error), limit=500), "data": data}


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
