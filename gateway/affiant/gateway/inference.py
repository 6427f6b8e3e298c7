"""``POST /v1/chat/completions``: one request from its first byte to the record that ends it.

The order, and what each step owes to the next (trust rules, 3):

1. the session, from the proof's key; the proof, for the head: from here on the request has an ``agt.seq``;
2. the body, bounded by itself and with all others; its SHA-256, for which the proof must be too;
3. form, policy: what is refused up to the choice of an upstream ends in a ``refusal``;
4. ``open`` is durable: only now a byte goes upstream;
5. the same bytes are forwarded, or the same without tools that the profile does not list;
6. the answer is relayed as it comes, hashed; tool calls are judged and recorded before they go on;
7. the record is durable: only now the last byte, or the terminal event, leaves.

However it ends, it ends in one record: complete, client_abort, upstream_abort, policy_stop, gateway_error, or a
refusal. Where no record can be made durable the client gets no complete answer.

The record has the proof's counter, with two exceptions. A proof that is refused has none. A request whose body
never came to its end, and that was not answered, leaves the counter to its supervisor, who had no answer either
and writes the refusal that carries it. A body that is refused unread (too large by far, too late, no memory) is
answered, so the counter stands here. In both cases ``lim`` says ``body-unread``: the session's key signed for this
head and counter, but the digest that it signed was not compared with a body.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from affiant.attestation.encoding import from_b64u, sha256_name
from affiant.attestation.proof import ProofOfHead
from affiant.attestation.shapes import ShapeMismatch
from affiant.attestation.trace_context import TRACEPARENT, trace_of
from affiant.errors import AffiantError
from affiant.gateway.account import Account, Verdict
from affiant.gateway.answers import end_of, media_type, require_plain
from affiant.gateway.authentication import Authenticator, is_of_session
from affiant.gateway.bodies import Bodies, Body, Share, drop_rest
from affiant.gateway.chat import ChatRequest, parse_chat, without_tools
from affiant.gateway.client_response import ClientResponse
from affiant.gateway.errors import (
    Busy,
    Draining,
    GatewayFault,
    JournalUnavailable,
    RequestAbandoned,
    RequestMalformed,
    ToolNotAllowed,
)
from affiant.gateway.errors_http import error_body, error_headers, status_of
from affiant.gateway.http_request import (
    NONCE_HEADER,
    ClientGone,
    Receive,
    Scope,
    Send,
    header,
    header_values,
    proof_head,
    require_media_type,
    require_proof,
)
from affiant.gateway.key_guard import KeyGuard
from affiant.gateway.openai_upstream import read_whole
from affiant.gateway.policy_gate import decide_model, judge_of, may_offer, tools_verdict
from affiant.gateway.published_log import PublishedLog
from affiant.gateway.receipts import for_agent
from affiant.gateway.recorder import Recorded, Recorder
from affiant.gateway.refusal_budget import RefusalBudget
from affiant.gateway.relay import Relay, Step, usage_of
from affiant.gateway.routing import Upstreams
from affiant.gateway.sessions import Session
from affiant.gateway.tool_filter import Judge, ToolCall, judge_answer, judge_error
from affiant.gateway.upstream import UpstreamAnswer

__all__ = ["ChatCompletions"]

_PATH: Final = "/chat/completions"
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
_TOLD_OF: Final = (b"content-type", b"content-encoding")
"""Headers of an answer that a refusal may name."""
_log = logging.getLogger("affiant.gateway")


@dataclass(frozen=True, slots=True)
class ChatCompletions:
    """The route, and what it needs.

    Args:
        log: where it is too far behind, nothing is taken.
        body_max: largest request body, bytes. bodies: bounds them all.
        refusals: bounds the records of requests that belong to no session.
        draining: whether the gateway is being stopped.
    """

    recorder: Recorder
    log: PublishedLog
    authenticator: Authenticator
    upstreams: Upstreams
    keyset_digest: str
    body_max: int
    bodies: Bodies
    refusals: RefusalBudget
    draining: Callable[[], bool]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; an ASGI application."""
        trace = trace_of(header_values(scope, TRACEPARENT))
        account = Account(self.recorder, self.recorder.new_id(), scope["method"], scope["path"][:256], trace)
        try:
            with self.bodies.memory.share() as share:
                await _Exchange(self, scope, receive, send, account=account, share=share).run()
        finally:
            account.leave()


class _Exchange:
    """One request under way."""

    def __init__(
        self,
        route: ChatCompletions,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        account: Account,
        share: Share,
    ) -> None:
        self._route = route
        self._scope = scope
        self._receive = receive
        self._client = ClientResponse(send, keyset=route.keyset_digest, receipt=account.jti)
        self._account = account
        self._share = share
        self._body: Body | None = None
        self._receipted = True
        """Whether the answer names its record: not where a session's supervisor would take it for its counter's."""
        self._relay: Relay | None = None
        self._guard = KeyGuard(None)
        self._inline = False

    async def run(self) -> None:
        """Serve the request; whatever happens, it ends in a record if one can be made."""
        try:
            await self._serve()
        except AffiantError as error:
            await self._fail(error)
        except ClientGone:
            self._abandon()
        except asyncio.CancelledError:
            self._abandon()
            raise
        except Exception:  # noqa: BLE001 - a mistake of ours must still end in a record
            _log.exception("a request failed")
            self._receipted = self._account.number is not None
            await self._fail(GatewayFault("the gateway failed"))

    async def _serve(self) -> None:
        self._route.recorder.require()
        self._route.log.require()
        session = await self._authenticate()
        request, forwarded = self._decide(session)
        self._account.require_formable()
        await self._account.open()
        upstream = await self._route.upstreams.choose(request.model)  # may ask what they list
        self._guard, self._account.forwarding = upstream.guard, True
        accept = _EVENTS if request.stream else _JSON
        await self._unless_gone(
            self._forward(
                upstream.request(
                    "POST",
                    _PATH,
                    forwarded,
                    attempts=self._account.attempts,
                    accept=accept.encode("ascii"),
                    trace=self._account.trace,
                )
            )
        )

    # -- 1 and 2: who asks, and for what -------------------------------------------------------------------

    async def _authenticate(self) -> Session:
        route, account = self._route, self._account
        proof = require_proof(self._scope)
        session = route.authenticator.session_of(proof)
        assert proof is not None
        try:
            head = proof_head(self._scope)
        except AffiantError:  # the proof cannot be judged, so no record is the session's
            self._receipted = False
            raise
        try:
            held = route.authenticator.verify(session, proof, head, counted=True)
        except AffiantError as error:
            if is_of_session(error) and not session.sealed:
                account.belongs_to(session)
            raise
        if session.sealed:  # its close is the last record: none can hold this counter, so none is named to it
            self._receipted = False
            session.require_open(now=route.authenticator.clock().timestamp())
        account.belongs_to(session)  # whatever follows is recorded
        await self._read(held)
        session.require_open(now=route.authenticator.clock().timestamp())
        if route.draining():
            raise Draining("the gateway is being stopped")
        return session

    async def _read(self, held: ProofOfHead) -> None:
        """Read the body; it is the one that was signed for, or refused."""
        account, route = self._account, self._route
        account.unread = True
        try:
            body = await route.bodies.read(self._scope, self._receive, self._share, limit=route.body_max)
        except Exception as error:  # raised again; whoever is still there is answered
            account.cseq = None if isinstance(error, ClientGone) else held.cseq
            raise
        self._body, account.unread = body, False
        account.digest, account.size = f"sha256:{body.sha256.hex()}", body.size
        account.cseq = held.covering(body.sha256).cseq

    # -- 3: may it go on? ----------------------------------------------------------------------------------

    def _decide(self, session: Session) -> tuple[ChatRequest, bytes]:
        assert self._body is not None
        require_media_type(self._scope, _JSON)
        body = self._body.require(self._route.body_max)
        self._account.nonce = _nonce(header(self._scope, NONCE_HEADER))
        self._inline = _wants_inline(header(self._scope, "Affiant-Receipt"))
        request = parse_chat(body)
        policy = session.admitted.policy
        rules = decide_model(policy, request.model, self._account)
        verdict = tools_verdict(policy, request.tools, rules)
        forwarded = without_tools(body, may_offer(policy)) if verdict.decision == "redact" else body
        self._account.request, self._account.verdict = request, verdict
        self._account.forwarded = sha256_name(forwarded)
        return request, forwarded

    # -- 4 to 7: there and back ----------------------------------------------------------------------------

    async def _unless_gone(self, work: Coroutine[None, None, None]) -> None:
        """Do ``work``, but give it up once the client is gone."""
        task = asyncio.create_task(work)
        watch = asyncio.create_task(self._gone())
        try:
            await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ClientGone
            task.result()
        finally:
            watch.cancel()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, AffiantError):
                await task

    async def _gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _forward(self, asked: Coroutine[None, None, UpstreamAnswer]) -> None:
        answer = await asked
        try:
            self._guard.require_absent(*(answer.header(name) or b"" for name in _TOLD_OF))
            if media_type(answer) == _EVENTS and answer.status == 200 and self._wants_stream:
                await self._relay_stream(answer)
            else:
                await self._pass_whole(answer)
        finally:
            answer.abort()

    @property
    def _wants_stream(self) -> bool:
        return self._account.request is not None and self._account.request.stream

    async def _pass_whole(self, answer: UpstreamAnswer) -> None:
        require_plain(answer, _JSON)
        body = await read_whole(answer)
        self._guard.require_absent(body)
        judge = self._judge()
        if answer.status < 300:  # a client takes every 2xx for an answer
            await self._record_calls(judge_answer(body, judge))
        elif judge is not None:
            judge_error(body)
        self._account.usage = usage_of(body)
        recorded = self._account.inference(
            "complete", status=answer.status, hidden={"dig": sha256_name(body), "len": len(body)}
        )
        await recorded.durable
        inline = [(b"affiant-receipt", for_agent(recorded.issued).encode("ascii"))] if self._inline else []
        await self._client.whole(answer.status, body, inline)

    async def _relay_stream(self, answer: UpstreamAnswer) -> None:
        require_plain(answer, _EVENTS)
        self._relay = relay = Relay(self._judge())
        await self._client.start(answer.status, _EVENTS, [(b"cache-control", b"no-store")])
        terminal = b""
        while not terminal:
            chunk = await answer.read()
            step = relay.feed(chunk) if chunk else relay.finish()
            self._guard.require_absent(b"".join(step.events), step.terminal)
            await self._release(relay, step)
            terminal = step.terminal
        relay.count(terminal)
        self._account.usage = relay.usage
        recorded = self._account.inference("complete", status=self._client.status, hidden=relay.hidden)
        await recorded.durable
        comment = f": affiant-receipt {for_agent(recorded.issued)}\n" if self._inline else ""
        await self._client.body(comment.encode("ascii") + terminal, more=False)

    async def _release(self, relay: Relay, step: Step) -> None:
        await self._record_calls(step.calls)
        if step.events:
            relay.count(*step.events)
            await self._client.body(b"".join(step.events), more=True)

    async def _record_calls(self, calls: Sequence[ToolCall]) -> None:
        """One durable record for each call, before any of them goes on."""
        if calls:
            made = [self._account.tool(call) for call in calls]
            await asyncio.gather(*(recorded.durable for recorded in made))

    def _judge(self) -> Judge | None:
        assert self._account.session is not None
        assert self._account.request is not None
        policy = self._account.session.admitted.policy
        return judge_of(policy, self._account.request.tools) if policy.restricts_tools else None

    # -- how it ends otherwise -----------------------------------------------------------------------------

    async def _fail(self, error: AffiantError) -> None:
        """End with ``error``: recorded, durable, then told."""
        account = self._account
        if isinstance(error, JournalUnavailable) or account.recorded is not None:
            await self._fail_unrecorded(error)
            return
        if isinstance(error, ToolNotAllowed) and account.verdict is not None:
            account.verdict = Verdict("deny", account.verdict.rules)
        try:
            if self._client.started:
                await self._end_stream(error)
                return
            if account.number is None:
                self._route.refusals.take()
            body = error_body(error)
            hidden = {"dig": sha256_name(body), "len": len(body)}
            await self._record_failure(error, body, hidden, status=status_of(error)).durable
            await self._tell(error, receipt=self._receipted)
        except (JournalUnavailable, Busy) as failure:
            await self._fail_unrecorded(failure)

    async def _end_stream(self, error: AffiantError) -> None:
        """The API's own error event ends the stream; it is covered by the digest like all before it."""
        assert self._relay is not None
        event = self._relay.error_event(error)
        self._relay.count(event)
        self._account.usage = self._relay.usage
        await self._record_failure(error, event, self._relay.hidden, status=self._client.status).durable
        await self._client.body(event, more=False)

    def _record_failure(
        self, error: AffiantError, told: bytes, hidden: Mapping[str, object], *, status: int
    ) -> Recorded:
        """The record of a request that failed; if its own cannot be formed, one that says only that."""
        account = self._account
        try:
            if not account.forwarding:
                return account.refusal(error, told)
            return account.inference(end_of(error), status=status, hidden=hidden)
        except ShapeMismatch as failure:
            _log.error("a record could not be formed: %s", failure.where)
            return account.last_refusal(GatewayFault("the record could not be formed"), told)

    async def _fail_unrecorded(self, error: AffiantError) -> None:
        """Nothing durable says how this ended: the client gets an error, or a stream that is cut."""
        if self._client.started:
            raise ConnectionAbortedError("no record, no answer")
        told = error if isinstance(error, (JournalUnavailable, Busy)) else GatewayFault("the gateway failed")
        await self._tell(told, receipt=False)

    async def _tell(self, error: AffiantError, *, receipt: bool) -> None:
        """Answer with ``error``. Where the body has not been read, the answer goes first, and then the body."""
        unread = self._body is None
        headers = (*error_headers(error), (b"connection", b"close")) if unread else error_headers(error)
        await self._client.whole(status_of(error), error_body(error), headers, receipt=receipt, more=unread)
        if unread:
            await drop_rest(self._receive)
            await self._client.body(b"", more=False)

    def _abandon(self) -> None:
        """The client is gone, or the server ends: the record says what it was handed."""
        account = self._account
        if account.recorded is not None or not account.recorder.healthy:
            return
        if account.number is not None:
            hidden = self._relay.hidden if self._relay is not None else _NOTHING
            gone = RequestAbandoned("the client closed the connection")
            self._record_failure(gone, b"", hidden, status=self._client.status)


_NOTHING: Final = {"dig": sha256_name(b""), "len": 0}


def _nonce(text: str | None) -> str | None:
    if text is not None:
        from_b64u(text, size=32)
    return text


def _wants_inline(text: str | None) -> bool:
    if text not in (None, "inline"):
        raise RequestMalformed("no wish for a receipt", expected="inline", where="Affiant-Receipt")
    return text is not None
