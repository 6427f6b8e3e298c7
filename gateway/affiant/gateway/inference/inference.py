"""One model request of any dialect, from its first byte to the record that ends it.

The order, and what each step owes to the next (trust rules, 3):

1, 2. who asks, and for what: ``request_run``;
3. form, policy, limits: what is refused up to the choice of an upstream ends in a ``refusal``;
4. ``open`` is durable, and the request has an upstream slot (:mod:`.upstream_queue`): only now a byte goes upstream;
5. the same bytes are forwarded, or the same without tools that the profile does not list;
6. the answer is relayed as it comes, hashed; tool calls are judged, counted and recorded before they go on; one that a
   person must approve is held until then, with all that follows it (:mod:`.held_calls`);
7. the record is durable: only now the last byte, or the terminal event, leaves.

However it ends, it ends in one record: complete, client_abort, upstream_abort, policy_stop, gateway_error, or a
refusal. Where no record can be made durable the client gets no complete answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from affiant.attestation.encoding.binary_text import from_b64u, sha256_name
from affiant.attestation.schema.agent_routes import AgentRoute
from affiant.attestation.schema.trace_context import TRACEPARENT, trace_of
from affiant.errors import AffiantError, MalformedError
from affiant.gateway.approvals.queue import GatewayApprovals
from affiant.gateway.dialects.answered_models import AnsweredModels
from affiant.gateway.dialects.dialect import Dialect, ModelRequest
from affiant.gateway.dialects.forwarded_headers import forwarded_headers, returned_headers
from affiant.gateway.dialects.judged_calls import MAX_HELD, Judge, ToolCall
from affiant.gateway.dialects.relay import Relay, Step, usage_of
from affiant.gateway.dialects.strict_json import read_response, require_no_calls
from affiant.gateway.inference.held_calls import (
    KEEP_ALIVE,
    PassedCall,
    agreed,
    call_draft,
    kept_alive,
)
from affiant.gateway.inference.response_headers import removed_tools_header
from affiant.gateway.inference.stored_requests import (
    STORED,
    keeper_of,
    response_of,
    stored_request,
    written_query,
)
from affiant.gateway.log.published_log import PublishedLog
from affiant.gateway.requests.account import Account, HeldCall, RequestDecision
from affiant.gateway.requests.authentication import Authenticator
from affiant.gateway.requests.policy_gate import (
    OriginOf,
    decide_fetches,
    decide_model,
    decide_tools,
    judge_of,
    may_offer,
    own_origin,
    require_answered,
    require_listed,
    undigested_origin,
)
from affiant.gateway.requests.request_run import NOTHING, RefusalBudget, SessionRequest
from affiant.gateway.service.tool_offers import ToolOffers
from affiant.gateway.sessions.decisions import GatewayDecisions
from affiant.gateway.sessions.recorder import Recorded, Recorder, for_agent
from affiant.gateway.sessions.sessions import Session
from affiant.gateway.sessions.stored_responses import StoredResponse
from affiant.gateway.tool_gate.approving import APPROVAL_REFUSALS
from affiant.gateway.upstream.cooldown import PAUSES
from affiant.gateway.upstream.model_routing import Upstreams
from affiant.gateway.upstream.openai_upstream import read_whole
from affiant.gateway.upstream.response_checks import UpstreamKeyRedaction, end_of, media_type, require_plain
from affiant.gateway.upstream.slots import UpstreamSlot, estimated_cost
from affiant.gateway.upstream.upstream import Upstream, UpstreamResponse
from affiant.gateway.wire.bodies import Bodies, Share
from affiant.gateway.wire.errors import (
    GatewayDraining,
    ModelAnswerError,
    RequestMalformed,
    ToolNotAllowedError,
    UpstreamNotConnected,
)
from affiant.gateway.wire.errors_http import status_of
from affiant.gateway.wire.http_request import (
    NONCE_HEADER,
    Header,
    Receive,
    Scope,
    Send,
    forwardable,
    header,
    header_values,
    require_media_type,
)
from affiant.policy.approvals.action import Action
from affiant.policy.canonical.tool_origin import Origin
from affiant.policy.decision.limit_errors import LimitReached
from affiant.policy.decision.meters import nanoseconds

__all__ = ["ModelRoute"]

_BASE: Final = "/v1"
"""What the path of an upstream's base takes the place of."""
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
_MOST_NAMED: Final = 16
"""Stopped calls of one response that have a record each: no response shall fill a session's chain."""
_NO_KEY: Final = UpstreamKeyRedaction(None)
_log = logging.getLogger("affiant.gateway")


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """The route, and what it needs.

    Args:
        dialect: how requests and responses are read. route: as agents name it.
        log: where it is too far behind, nothing is taken.
        body_max: largest request body, bytes. event_max: largest event of a stream. bodies: bounds all request bodies.
        refusals: bounds the records of requests that belong to no session.
        draining: whether the gateway is being stopped. seconds: a clock that never goes back, for limits.
        tools: the servers of tools, for where an offered tool comes from.
        decisions: takes what policy decides, if there is a decision log.
        model_aliases: of the configuration: names under which an upstream answers as the model that was asked for.
        approvals: where calls in responses wait for a person's approval.
    """

    dialect: Dialect
    route: AgentRoute
    recorder: Recorder
    log: PublishedLog
    authenticator: Authenticator
    upstreams: Upstreams
    keyset_digest: str
    body_max: int
    event_max: int
    bodies: Bodies
    refusals: RefusalBudget
    draining: Callable[[], bool]
    decisions: GatewayDecisions
    approvals: GatewayApprovals
    seconds: Callable[[], float]
    model_aliases: Mapping[str, Sequence[str]]
    tools: ToolOffers | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; an ASGI application."""
        trace = trace_of(header_values(scope, TRACEPARENT))
        account = Account(
            self.recorder, self.recorder.new_id(), self.route.method, self.route.template, trace
        )
        try:
            with self.bodies.memory.share() as share, self.bodies.held.share() as held:
                await InferenceRequest(
                    self, scope, receive, send, account=account, share=share, held=held
                ).run()
        finally:
            account.leave()


class InferenceRequest(SessionRequest):
    """One request under way."""

    def __init__(
        self,
        route: ModelRoute,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        account: Account,
        share: Share,
        held: Share,
    ) -> None:
        super().__init__(route, scope, receive, send, account=account, share=share)
        self._upstreams = route.upstreams
        self._tools = route.tools
        self._dialect = route.dialect
        self._template = route.route.template
        self._target = self._template.removeprefix(_BASE)
        self._agent_route = route.route
        self._about_stored = STORED in route.route.template
        self._bound: str | None = None
        """The upstream that keeps what the request names."""
        self._decisions = route.decisions
        self._aliases = route.model_aliases
        self._event_max = route.event_max
        self._origin_of: OriginOf = undigested_origin
        self._relay: Relay | None = None
        self._guard = _NO_KEY
        self._inline = False
        self._wants_stream = False
        self._more_headers: tuple[Header, ...] = ()
        """Of the response, beside the gateway's own: what was removed, and what the upstream says of its rates."""
        self._forwarded = b""
        self._approvals = route.approvals
        self._held_share = held
        self._slot: UpstreamSlot | None = None
        self._upstream: Upstream | None = None
        self._stoppable: Sequence[ToolCall] = ()
        """The calls of the response that a limit, or who must approve them, may stop now."""
        self._passed: Sequence[PassedCall] = ()
        """Those that were approved."""

    async def answer(self, session: Session) -> None:
        """As :meth:`~.request_run.SessionRequest.answer`."""
        request = self._read_request(session)
        self._wants_stream = request.stream and self._agent_route.streams
        await self._unless_gone(self._answer(session, request))

    async def _answer(self, session: Session, request: ModelRequest) -> None:
        if request.tools:
            await self._find_origins(session, request)
        self._forwarded = self._decide(session, request)
        self._account.require_formable()
        await self._account.open()
        if self._bound is None:
            tried = [await self._upstreams.choose(request.model)]  # may ask what they list
        else:
            tried = [self._upstreams.by_id(self._bound)]
        while True:
            session.require_open(now=self._route.authenticator.clock().timestamp())  # which may take its time
            try:
                await self._in_slot(session, tried[-1])
            except UpstreamNotConnected as error:
                if self._bound is not None:
                    raise
                tried.append(await self._upstreams.instead_of(tried, request.model, error))
            else:
                return

    # -- 3: may it go on? ----------------------------------------------------------------------------------

    def _read_request(self, session: Session) -> ModelRequest:
        body, route = self._request_body, self._agent_route
        if not self._about_stored:
            require_media_type(self._scope, _JSON)
        self._account.nonce = _nonce(header(self._scope, NONCE_HEADER))
        self._inline = _wants_inline(header(self._scope, "Affiant-Receipt"))
        self._account.headers = forwarded_headers(self._template, forwardable(self._scope))
        if not self._about_stored:
            request = self._dialect.read_request(body)
            if request.continues is not None or request.items:
                self._bound = session.stored.upstream_of(request.continues, request.items)
            return request
        name = response_of(route, self._scope["path"])
        kept = session.stored.find(name)
        self._bound = kept.upstream
        query = written_query(route.method, route.template, self._scope["query_string"].decode("latin-1"))
        self._target = self._target.format(response=name) + (f"?{query}" if query else "")
        return stored_request(kept, query, body)

    async def _find_origins(self, session: Session, request: ModelRequest) -> None:
        """Ask the servers of tools what they serve, if a rule for an offered tool names one."""
        policy = session.admitted.policy
        if policy.pins_tools or self._decisions.writes(session):
            self._origin_of = own_origin
        if self._tools is None:
            return
        names = {tool.name for tool in request.tools if tool.name is not None}
        named = {name for name in names if policy.tool_servers(name)}
        if named:
            await self._account.open()
            self._origin_of = await self._tools.origins(session, named)

    def _decide(self, session: Session, request: ModelRequest) -> bytes:
        body, policy = self._request_body, session.admitted.policy
        sink = self._decisions.of(session, self._denied)
        rules = decide_model(policy, request, self._account, sink=sink)
        provided = require_listed(policy, request, sink=sink)
        decided = decide_tools(policy, request, (*rules, *provided), self._origin_of, sink=sink)
        allowed = may_offer(policy, self._origin_of)
        redacted = decided.decision == "redact"
        if redacted:
            removed = [
                tool.called or "?" for tool in request.tools if tool.called is None or not allowed(tool)
            ]
            self._more_headers = removed_tools_header(removed)
        forwarded = self._dialect.without_tools(body, allowed) if redacted else body
        urls = self._dialect.read_request(forwarded).urls if redacted and request.urls else request.urls
        if urls:
            fetched = decide_fetches(policy, urls, self._account, sink=sink)
            decided = replace(decided, rules=(*decided.rules, *fetched))
        size = len(forwarded)
        if request.continues is not None:
            size += session.stored.find(request.continues).tokens  # the upstream adds them to the prompt
        self._account.reservation = session.limits.reserve(
            request.model,
            request.answer,
            rules=rules,
            size=size,
            now=nanoseconds(self._route.seconds()),
        )
        self._account.request, self._account.decided = request, decided
        self._account.forwarded = sha256_name(forwarded)
        return forwarded

    # -- 4 to 7: there and back ----------------------------------------------------------------------------

    async def _in_slot(self, session: Session, upstream: Upstream) -> None:
        """Wait for a slot of ``upstream``, if one has to be waited for, and take it."""
        request = self._account.request
        assert request is not None
        self._upstream = upstream
        slots = self._upstreams.slots_at(upstream)
        slot = self._slot = slots.enter(session, estimated_cost(request.answer, size=len(self._forwarded)))
        try:
            if not slot.has_come:
                self._require_wanted(session)
                await slot.come()
                self._require_wanted(session)
            self._guard, self._account.forwarding = upstream.guard, True
            accept = _EVENTS if self._wants_stream else _JSON
            await self._forward(
                upstream.request(
                    self._account.method,
                    self._target,
                    self._forwarded,
                    attempts=self._account.attempts,
                    accept=accept.encode("ascii"),
                    trace=self._account.trace,
                    headers=self._account.headers,
                )
            )
        finally:
            slot.end(cost=self._account.cost(slot.cost))
            for passed in self._passed:
                passed.approved.over(known=passed.signed)

    def _require_wanted(self, session: Session) -> None:
        """Return if a request that has no slot yet may have one later."""
        session.require_open(now=self._route.authenticator.clock().timestamp())
        session.require_not_held()

    async def _forward(self, asked: Coroutine[None, None, UpstreamResponse]) -> None:
        answer = await asked
        self._account.answered = answer.status
        try:
            told_of = answer.header(b"content-type") or b"", answer.header(b"content-encoding") or b""
            if answer.status in PAUSES:
                self._cool_down(answer)
            self._guard.require_absent(*told_of)  # headers that an error may name
            returned = returned_headers(answer.headers)
            for _, value in returned:
                self._guard.require_absent(value)
            self._more_headers += returned
            if media_type(answer) == _EVENTS and answer.status == 200 and self._wants_stream:
                await self._relay_stream(answer)
            else:
                await self._pass_whole(answer)
        finally:
            answer.abort()

    def _cool_down(self, answer: UpstreamResponse) -> None:
        """Keep what the upstream says of a pause; then its slots are for nobody until that is over."""
        assert self._slot is not None
        now = self._route.authenticator.clock()
        self._slot.cooldown.take(answer.status, answer.header(b"retry-after"), now=now)

    @property
    def _request(self) -> ModelRequest:
        assert self._account.request is not None
        return self._account.request

    async def _pass_whole(self, answer: UpstreamResponse) -> None:
        require_plain(answer, _JSON)
        body = await read_whole(answer)
        self._guard.require_absent(body)
        calls = self._judged(body, taken=answer.status < 300)  # a client takes every 2xx for an answer
        if calls:
            if any(call.waiting is not None for call in calls):
                self._require_holdable(len(body))
            await self._record_calls(calls, size=len(body))
        self._account.complete = True
        if self._passed:
            self._sign_outcomes("complete")
        recorded = self._account.inference(
            "complete", status=answer.status, hidden={"dig": sha256_name(body), "len": len(body)}
        )
        await recorded.durable
        inline = (
            [(b"affiant-receipt", for_agent(recorded.issued.sdjwt).encode("ascii"))] if self._inline else []
        )
        await self._client.whole(answer.status, body, [*inline, *self._more_headers])

    def _judged(self, body: bytes, *, taken: bool) -> Sequence[ToolCall]:
        """The calls in a whole response; what is parsed of it is kept no longer than this takes."""
        judge = self._judge()
        if not taken and judge is None:
            self._account.usage = usage_of(body, self._dialect)
            return ()
        value = read_response(body)
        calls: Sequence[ToolCall] = ()
        if taken:
            self._models().take(value)
            calls = self._dialect.judge_response(value, judge)
        else:
            require_no_calls(value)
        if not self._about_stored:  # it was stated when the response was made
            self._account.usage = self._dialect.usage_in(value, streamed=False)
        return calls

    async def _relay_stream(self, answer: UpstreamResponse) -> None:
        require_plain(answer, _EVENTS)
        self._relay = relay = Relay(
            self._dialect,
            self._judge(),
            self._models(),
            answers=self._request.answer.answers,
            event_max=self._event_max,
        )
        await self._client.start(
            answer.status, _EVENTS, [(b"cache-control", b"no-store"), *self._more_headers]
        )
        step = Step()
        while not step.ended and not step.asks:
            step = await self._next_step(answer, relay)
            if not step.asks:
                await self._release(relay, step)
        if step.asks:
            step = await kept_alive(
                self._held(answer, relay, step),
                keep_alive=self._keep_alive,
                require_serving=self._require_serving,
            )
        if not self._about_stored:
            self._account.usage = relay.usage
        if step.asks:
            relay.forget()
            await self._release(relay, step)
        if step.terminal:
            relay.count(step.terminal)
        self._account.complete = True
        if self._passed:
            self._sign_outcomes("complete")
        recorded = self._account.inference("complete", status=self._client.status, hidden=relay.hidden)
        await recorded.durable
        comment = f": affiant-receipt {for_agent(recorded.issued.sdjwt)}\n" if self._inline else ""
        await self._client.body(comment.encode("ascii") + step.terminal, more=False)

    async def _next_step(self, answer: UpstreamResponse, relay: Relay) -> Step:
        chunk = await answer.read()
        step = relay.feed(chunk) if chunk else relay.finish()
        self._guard.require_absent(*step.events, step.terminal)
        return step

    async def _held(self, answer: UpstreamResponse, relay: Relay, step: Step) -> Step:
        """``step``, with a call that needs approval, and what follows it: asked for once the upstream is free."""
        events, calls, size = [*step.events], [*step.calls], sum(map(len, step.events))
        self._stoppable = calls
        self._require_holdable(size)
        while not step.ended:
            step = await self._next_step(answer, relay)
            events += step.events
            calls += step.calls
            size += sum(map(len, step.events))
            self._require_holdable(size)
        return Step(tuple(events), tuple(calls), step.terminal, ended=True)

    async def _release(self, relay: Relay, step: Step) -> None:
        if step.calls:
            await self._record_calls(step.calls, size=sum(map(len, step.events)))
        if step.events:
            await self._client.body(b"".join(step.events), more=True)
            self._require_client()
            relay.count(*step.events)  # not before: a client that stalls here is never handed them

    @staticmethod
    def _require_holdable(size: int) -> None:
        if size > MAX_HELD:
            raise MalformedError(
                "the response is too large to be held for approval",
                expected=f"at most {MAX_HELD} bytes",
                code="upstream.answer",
            )

    async def _record_calls(self, calls: Sequence[ToolCall], *, size: int) -> None:
        """Approval of those that need it, room for all, and a durable record for each, before any of them goes on.

        Args:
            size: bytes of what they are in.
        """
        session = self._account.session
        assert session is not None
        self._stoppable = asking = [call for call in calls if call.waiting is not None]
        self._stoppable = asking = [call for call in asking if self._is_agents(call)]
        actions = await self._agreed(session, asking, size=size) if asking else ()
        self._stoppable = calls
        now = nanoseconds(self._route.seconds())
        session.limits.take_answered(calls, now=now)
        self._stoppable = asking
        if actions:  # nothing is awaited between the limits and this: it fails where it was used meanwhile
            found = self._approvals.claim(session, actions)
            self._passed = [
                PassedCall(
                    HeldCall(call.name, self._account.jti, call.arguments_digest, call.rules), approved
                )
                for call, approved in zip(asking, found, strict=True)
            ]
        made = [self._account.tool(call) for call in calls if call not in asking]
        for passed in self._passed:
            recorded = self._account.gate_intent(passed.recorded_as, passed.approved)
            passed.intent = recorded.jti
            made.append(recorded)
        await asyncio.gather(*(recorded.durable for recorded in made))
        for passed in self._passed:
            passed.approved.dispatched()
            self._approvals.require_time(passed.approved)

    def _is_agents(self, call: ToolCall) -> bool:
        """Whether the agent makes the call itself; a server's tool is called at the tool gate, which asks too."""
        return self._origin(call.name).server is None

    async def _agreed(self, session: Session, calls: Sequence[ToolCall], *, size: int) -> Sequence[Action]:
        """Return once people agree to all of ``calls``."""
        drafts = [call_draft(session, call, self._origin(call.name)) for call in calls]
        self._let_others(size)
        return await agreed(
            self._approvals,
            session,
            drafts,
            keep_alive=self._keep_alive,
            require_serving=self._require_serving,
        )

    def _let_others(self, size: int) -> None:
        """People take their time: the request has no upstream slot meanwhile, and memory for the response alone.

        Raises:
            ``gateway.memory``: that is used up.
        """
        assert self._account.request is not None
        assert self._slot is not None
        tokens = self._account.usage.tokens(answers=self._account.request.answer.answers)
        self._slot.end(cost=self._slot.cost if tokens is None else tokens)
        self._account.request = replace(self._account.request, tools=())
        self.forget_body()
        self._forwarded = b""
        self._held_share.take(size)

    def _origin(self, name: str) -> Origin:
        """Where the tool comes from that the request offers under this name."""
        assert self._account.session is not None
        assert self._account.request is not None
        origin_of = own_origin if self._origin_of is undigested_origin else self._origin_of
        offered = may_offer(self._account.session.admitted.policy, origin_of)
        tools = self._account.request.tools
        found = {origin_of(tool) for tool in tools if tool.name == name and offered(tool)}
        if len(found) > 1:
            raise ToolNotAllowedError(
                "the request offers two tools of one name, and an approval is of one",
                code="tool.needs_approval",
            )
        return next(iter(found), Origin())

    def _require_serving(self) -> None:
        if self._route.draining():
            raise GatewayDraining("the gateway is being stopped")

    async def _keep_alive(self) -> None:
        """Send a comment in a stream that is held; a whole response has not begun."""
        if self._relay is not None:
            await self._client.body(KEEP_ALIVE, more=True)
            self._require_client()
            self._relay.count(KEEP_ALIVE)

    def _sign_outcomes(self, end: str) -> None:
        """Sign the outcomes of the held calls; durable with the record of the request, which follows."""
        for passed in self._passed:
            if passed.intent and not passed.signed:
                self._account.held_outcome(passed.recorded_as, passed.intent, end)
                passed.signed = True

    def _models(self) -> AnsweredModels:
        account = self._account
        assert account.session is not None
        assert account.request is not None
        listed = account.session.admitted.policy.policy.models is not None
        seen = self._keeper() if account.request.stored else None
        return AnsweredModels(self._dialect, self._take_model, listed=listed, seen=seen)

    def _keeper(self) -> Callable[[Mapping[str, object]], None]:
        """What keeps the ids of a response that the upstream stores."""
        assert self._account.session is not None
        assert self._upstream is not None
        kept = StoredResponse(self._upstream.id, self._request.model)
        usage_in = partial(self._dialect.usage_in, streamed=self._wants_stream)
        return keeper_of(self._account.session.stored, kept, usage_in)

    def _take_model(self, name: str) -> None:
        """The record names the first model that the answer names, or the one that may not answer."""
        account = self._account
        assert account.session is not None
        assert account.request is not None
        if account.answered_model is None:
            account.answered_model = name
        sink = self._decisions.of(account.session, self._denied)
        policy = account.session.admitted.policy
        require_answered(policy, account.request.model, name, self._aliases, sink=sink)

    def _judge(self) -> Judge | None:
        assert self._account.session is not None
        assert self._account.request is not None
        policy = self._account.session.admitted.policy
        if not policy.restricts_tools:
            return None
        sink = self._decisions.of(self._account.session, self._denied)
        return judge_of(policy, self._account.request.tools, self._origin_of, sink=sink)

    # -- how it ends otherwise -----------------------------------------------------------------------------

    def response_to(self, error: AffiantError) -> tuple[int, bytes]:
        """As :meth:`~.request_run.SessionRequest.response_to`, in the API's own form."""
        return status_of(error), self._dialect.error_body(error)

    async def end_started(self, error: AffiantError) -> None:
        """The API's own error event ends the stream; it is covered by the digest like all before it."""
        assert self._relay is not None
        event = self._dialect.error_event(error)
        self._relay.count(event)
        if not self._about_stored:
            self._account.usage = self._relay.usage
        await self._record_failure(error, event, self._relay.hidden, status=self._client.status).durable
        await self._client.body(event, more=False)

    def failure(
        self, error: AffiantError, body: bytes, hidden: Mapping[str, object], *, status: int
    ) -> Recorded:
        """As :meth:`~.request_run.SessionRequest.failure`: from where it is forwarded on, of the inference."""
        account = self._account
        if isinstance(error, (LimitReached, ModelAnswerError, ToolNotAllowedError)):
            account.decided = RequestDecision("deny", error.rules)
            if isinstance(error, ModelAnswerError):
                account.answered_model = error.model
        elif isinstance(error, APPROVAL_REFUSALS):
            asking = dict.fromkeys(rule for call in self._stoppable for rule in call.rules)
            account.decided = RequestDecision("deny", tuple(asking))
        if not account.forwarding:
            return account.refusal(error, body)
        self._sign_outcomes("aborted")
        self._sign_stopped(error)
        stopped = account.decided is not None and account.decided.decision == "deny"
        return account.inference("policy_stop" if stopped else end_of(error), status=status, hidden=hidden)

    def denials(self, error: AffiantError) -> Sequence[tuple[str, str]]:
        """As :meth:`~.request_run.SessionRequest.denials`: the calls that are not approved."""
        if isinstance(error, APPROVAL_REFUSALS) or error.code == "tool.needs_approval":
            held = [("tool", call.name) for call in self._stoppable[:_MOST_NAMED]]
            return held or super().denials(error)
        return super().denials(error)

    def _sign_stopped(self, error: AffiantError) -> None:
        """Name the calls that ``error`` stops, each in a record of its own; the first ones, where they are many."""
        if isinstance(error, ToolNotAllowedError) and error.tool:
            self._account.stopped_call(error.tool, error.arguments, error.reason or error.code, error.rules)
        if isinstance(error, (ToolNotAllowedError, LimitReached, *APPROVAL_REFUSALS)):
            assert self._account.session is not None
            for call in self._stoppable[:_MOST_NAMED]:
                rules = error.rules if isinstance(error, LimitReached) else call.rules
                self._account.stopped_call(call.name, call.arguments_digest, error.code, rules)

    @property
    def handed(self) -> Mapping[str, object]:
        """What of the answer the client was handed."""
        return NOTHING if self._relay is None else self._relay.hidden


def _nonce(text: str | None) -> str | None:
    if text is not None:
        from_b64u(text, size=32)
    return text


def _wants_inline(text: str | None) -> bool:
    if text not in (None, "inline"):
        raise RequestMalformed("no wish for a receipt", expected="inline", where="Affiant-Receipt")
    return text is not None
