"""``gateway.affiant.internal``: how an agent without any credential reaches the inference gateway.

The agent's own ``Authorization``, its ``X-Api-Key`` and every ``Affiant-`` header are dropped, but for its nonce and
its wish for an inline receipt; the session's proof of possession takes their place, and covers the headers that the
gateway may forward. A nonce or wish of another form is refused: to drop it would let the agent believe that it was
heeded. The body is read whole first, because the proof covers its digest; the answer goes back byte for byte as it
comes. Reachable are the routes of :mod:`~affiant.attestation.schema.agent_routes`; everything else is refused, and
recorded. Prompts and arguments may hold placeholders: they are nothing but that.

A request for inference, or for tools, takes the next counter. Each counter ends in one record of the gateway's or,
where the gateway did not take the request or names no receipt in its answer, in one ``refusal`` of ours that carries
it; no counter is used twice. An agent that leaves ends its request at the gateway at once, whose record says so. What
the gateway records counts in the session's budget of records, as ours does.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from affiant.attestation.records.proof import FORWARDED_HEADERS, MAX_HEADER
from affiant.attestation.schema.agent_routes import route_of
from affiant.errors import AffiantError, MalformedError, NotAllowedError, StateError, UnreachableError
from affiant.sandbox.base.errors import GatewayUnreachable
from affiant.sandbox.egress.forward import action_of, reason_phrase, refuse
from affiant.sandbox.egress.http.agent_http import AgentHTTP, Answer, Memory
from affiant.sandbox.egress.http.denial import denial_of
from affiant.sandbox.egress.http.errors import PathNotServed, RecordsUnavailable, RequestTooLarge
from affiant.sandbox.egress.http.origin import Origin
from affiant.sandbox.egress.http.request_head import HeaderField, RequestHead
from affiant.sandbox.egress.record_budget import RecordBudget
from affiant.sandbox.egress.records_of_egress import Action, EgressRecords

__all__ = ["GATEWAY_HOST", "GATEWAY_ORIGINS", "GatewayAnswer", "GatewayRoute", "InferenceGateway"]

GATEWAY_HOST: Final = "gateway.affiant.internal"
GATEWAY_ORIGINS: Final = frozenset({Origin("http", GATEWAY_HOST, 80), Origin("https", GATEWAY_HOST, 443)})

_MEMORY: Final = 64 << 20
_MAX_TARGET: Final = 2048
_MAX_CONTENT_TYPE: Final = 256
"""Characters; both bounds are the proof's own."""

_PROOF_REFUSED: Final = 401
_REFUSED: Final = 400
"""The least status by which the gateway refuses."""

_RECEIPT_ID: Final = re.compile(rb"[A-Za-z0-9_-]{22}\Z")

_HEEDED: Final = {
    b"affiant-nonce": (
        "Affiant-Nonce",
        re.compile(rb"[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]\Z"),
        "32 bytes in base64url, 43 characters",
    ),
    b"affiant-receipt": ("Affiant-Receipt", re.compile(rb"inline\Z"), "inline"),
}
"""The agent's own headers that the gateway heeds: field -> its name, its form, the form in words."""
_FORWARDABLE: Final = re.compile(rb"[\x20-\x7e]{1,%d}\Z" % MAX_HEADER)
_DROPPED: Final = frozenset(
    {
        b"accept-encoding", b"authorization", b"connection", b"content-length", b"cookie", b"expect", b"forwarded",
        b"host", b"keep-alive", b"proxy-authorization", b"proxy-connection", b"te", b"trailer",
        b"transfer-encoding", b"upgrade", b"via", b"x-api-key", b"x-forwarded-for", b"x-forwarded-proto", b"x-real-ip",
    }
)  # fmt: skip
_ON_BEHALF: Final = (b"Affiant-On-Behalf", b"agent")
"""Says that an agent reads the answer: user and tenant stay hidden (trust rules, 10)."""


class GatewayAnswer(Protocol):
    """An answer of the gateway's. Must be closed."""

    @property
    def status(self) -> int:
        """The status code."""
        ...

    @property
    def headers(self) -> Sequence[HeaderField]:
        """The headers as received."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body, byte for byte, as it comes.

        Raises:
            UnreachableError: the gateway breaks off.
        """
        ...

    async def body(self, limit: int) -> bytes:
        """All of it, where it is shorter than ``limit`` bytes.

        Raises:
            UnreachableError: the gateway breaks off, or it is longer.
        """
        ...

    async def close(self) -> None:
        """Release it; an answer that has not ended is interrupted, which the gateway records."""
        ...


class InferenceGateway(Protocol):
    """The attested gateway of this session."""

    def take_counter(self) -> int:
        """The next ``cseq``."""
        ...

    def send(
        self, method: str, target: str, headers: Sequence[HeaderField], body: bytes, *, cseq: int | None
    ) -> Coroutine[Any, Any, GatewayAnswer]:
        """Send one request with the session's proof.

        Raises:
            UnreachableError: no answer. It is never sent twice.
        """
        ...

    def has(self, cseq: int) -> bool:
        """Whether the gateway has the whole request with this counter, although sending it was cancelled before its
        answer: then its record has the counter."""
        ...


async def _silent() -> None:
    """There is no decision log."""


@dataclass(frozen=True, slots=True)
class GatewayRoute:
    """Serves what an agent asks of the gateway's name.

    Args:
        body_max: bytes of a request's body, as the gateway's measured configuration bounds them.
    """

    gateway: InferenceGateway
    records: EgressRecords
    budget: RecordBudget
    body_max: int
    memory: Memory = field(default_factory=lambda: Memory(_MEMORY))
    decided: Callable[[], Coroutine[Any, Any, None]] = _silent
    """Notes what the gateway decided about a counted request, if there is a decision log; raises if it cannot."""
    _waiting: set[asyncio.Task[GatewayAnswer]] = field(default_factory=set)

    async def settled(self, timeout_s: float) -> None:
        """Wait, within bounds, for the gateway's word on what was sent: then one side has its record, not both."""
        if self._waiting:
            await asyncio.wait(self._waiting, timeout=timeout_s)

    async def serve(self, http: AgentHTTP, head: RequestHead, origin: Origin, target: str) -> bool:
        """Serve one request; returns whether the connection can carry another."""
        action = action_of(head, origin, target)
        try:
            counted = _admitted(head, target)
            if counted:
                self.budget.begin_counted()
            headers = _forwarded(head)
            body = await http.whole_body(min(self.body_max, _MEMORY), self.memory, named="body_max")
        except AffiantError as refusal:
            return await refuse(
                http, self.records, refusal, action, keep_alive=head.keep_alive, typ="inference"
            )
        cseq = self.gateway.take_counter() if counted else None
        try:
            reply = await http.unless_gone(self._sent(head.method, target, headers, body, cseq))
        except AffiantError as error:
            return await self._unanswered(http, head, error, action, cseq)
        except BaseException:  # the counter is taken: it ends in a record whatever happened; raised again
            await self._record(
                GatewayUnreachable("the session ended before the gateway answered"), action, cseq
            )
            raise
        finally:
            self.memory.give_back(len(body))
        if reply is None:
            return await self._left(action, cseq)
        try:
            await self._account(reply, action, cseq)
            return await self._answer(http, head, reply, action, counted=counted)
        finally:
            await reply.close()

    async def _account(self, reply: GatewayAnswer, action: Action, cseq: int | None) -> None:
        """Count a refusal; where the answer shows no record of the counter, write ours.

        A refused proof is not this session's for the gateway, so its receipt there carries no counter.
        """
        if reply.status >= _REFUSED:
            self.budget.refused_by_gateway()
        if reply.status == _PROOF_REFUSED:
            await self._record(
                NotAllowedError("the gateway did not accept the proof", code="gateway.proof_refused"),
                action,
                cseq,
            )
        elif not _receipted(reply):
            await self._record(
                NotAllowedError("the gateway's answer names no receipt", code="gateway.no_receipt"),
                action,
                cseq,
            )

    async def _sent(
        self, method: str, target: str, headers: Sequence[HeaderField], body: bytes, cseq: int | None
    ) -> GatewayAnswer:
        sending = asyncio.create_task(self.gateway.send(method, target, headers, body, cseq=cseq))
        self._waiting.add(sending)
        try:
            return await sending
        finally:
            self._waiting.discard(sending)

    async def _answer(
        self, http: AgentHTTP, head: RequestHead, reply: GatewayAnswer, action: Action, *, counted: bool
    ) -> bool:
        """Pass the answer on; an agent that goes away meanwhile ends it, and the gateway hears of it at once.

        What was decided is noted before the agent gets anything of the answer.
        """
        decided = self.decided if counted else _silent
        try:
            await http.unless_gone(decided())
        except UnreachableError as error:  # the counter has its record
            return await self._unanswered(http, head, error, action, None)
        except StateError:  # there is no decision log any more: the session ends
            return False
        return bool(await http.unless_gone(_pass_on(Answer(http, head), reply, decided)))

    async def _left(self, action: Action, cseq: int | None) -> bool:
        """The agent left before the answer's head, which ended the request at the gateway: one side has its record."""
        if cseq is not None and not self.gateway.has(cseq):
            await self._record(
                GatewayUnreachable("the agent left before the gateway had its request"), action, cseq
            )
        return False

    async def _unanswered(
        self, http: AgentHTTP, head: RequestHead, error: AffiantError, action: Action, cseq: int | None
    ) -> bool:
        unanswered = error if isinstance(error, UnreachableError) else GatewayUnreachable(str(error))
        record = await self._record(unanswered, action, cseq)
        return await http.deny(denial_of(unanswered, record=record), keep_alive=head.keep_alive)

    async def _record(self, refusal: AffiantError, action: Action, cseq: int | None) -> str | None:
        if cseq is None:
            return None
        try:
            return await self.records.refusal(refusal, action, typ="inference", cseq=cseq)
        except RecordsUnavailable:  # the chain has stopped, and the session with it
            return None


async def _pass_on(
    answer: Answer, reply: GatewayAnswer, decided: Callable[[], Coroutine[Any, Any, None]]
) -> bool:
    """Whether the answer came to its end and the connection can carry another request.

    What was ``decided`` while a stream came, calls of tools for instance, is noted before its end.
    """
    try:
        await answer.start(reply.status, reason_phrase(reply.status), reply.headers)
        async for chunk in reply.chunks():
            await answer.data(chunk)
        if _is_stream(reply):
            await decided()
        await answer.finish()
    except (
        UnreachableError,
        StateError,
        OSError,
    ):  # interrupted by either side: the gateway's record says which
        return False
    return answer.keep_alive


def _is_stream(reply: GatewayAnswer) -> bool:
    kinds = [value for name, value in reply.headers if name.lower() == b"content-type"]
    return any(kind.lower().startswith(b"text/event-stream") for kind in kinds)


def _receipted(reply: GatewayAnswer) -> bool:
    named = [value for name, value in reply.headers if name.lower() == b"affiant-receipt-id"]
    return len(named) == 1 and _RECEIPT_ID.match(named[0]) is not None


def _admitted(head: RequestHead, target: str) -> bool:
    """Whether the request takes a counter, if it may be made at all: what no proof could cover is refused here."""
    if len(target) > _MAX_TARGET or len(head.value(b"content-type") or b"") > _MAX_CONTENT_TYPE:
        raise RequestTooLarge("a target or content type that the gateway does not take")
    for lowered, (name, form, expected) in _HEEDED.items():
        value = head.value(lowered)
        if value is not None and form.match(value) is None:
            raise MalformedError(
                "not a value that the gateway heeds", expected=expected, where=name, code="egress.request"
            )
    for name in FORWARDED_HEADERS:
        value = head.value(name.encode("ascii"))
        if value is not None and _FORWARDABLE.match(value) is None:
            raise MalformedError(
                "not a value that the gateway forwards",
                expected=f"1 to {MAX_HEADER} printable ASCII characters",
                where=name,
                code="egress.request",
            )
    path = target.partition("?")[0]
    route = route_of(head.method, path)
    if route is None:
        raise PathNotServed(head.method, path)
    return route.counted


def _forwarded(head: RequestHead) -> tuple[HeaderField, ...]:
    kept: list[HeaderField] = []
    for name, value in head.headers:
        field = name.lower()
        if field in _HEEDED or not (field in _DROPPED or field.startswith(b"affiant-")):
            kept.append((name, value))
    return (*kept, _ON_BEHALF)
