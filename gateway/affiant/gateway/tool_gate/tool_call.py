"""``POST /mcp``: what an agent asks of its tools, from the first byte to the record that ends it.

As every request of a session (``request_run``), and then:

3. every message of the body is read; once ``open`` is durable, servers are asked what they serve; every message is
   judged: one that is refused refuses all of them, and nothing is done;
   calls that need approval wait for it, together, with what their paths lead to, no longer than a client waits; then
   what the servers serve is asked and judged again, and the approvals are taken, all or none;
4. an intent for each call is durable: only now a byte of it goes to a server;
5. the calls are made, all of the body at once, and an approved one with copies of what its paths led to; results are
   bounded and redacted;
6. each call has its outcome, and the last of them, or the answer's own record, the proof's counter;
7. all of that is durable: only now the answer leaves.

Answers are JSON, never a stream: a server behind the gate has no way to ask an agent for anything.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.encoding.binary_text import from_b64u, sha256_name
from affiant.attestation.schema.trace_context import TRACEPARENT, trace_of
from affiant.errors import AffiantError, MalformedError
from affiant.gateway.approvals.queue import Approved, GatewayApprovals
from affiant.gateway.log.published_log import PublishedLog
from affiant.gateway.requests.account import Account, GateCall, RequestDecision
from affiant.gateway.requests.authentication import Authenticator
from affiant.gateway.requests.request_run import RefusalBudget, SessionRequest
from affiant.gateway.sessions.decisions import GatewayDecisions
from affiant.gateway.sessions.recorder import Recorded, Recorder
from affiant.gateway.sessions.sessions import Session
from affiant.gateway.tool_gate.approving import (
    APPROVAL_REFUSALS,
    approved_arguments,
    approved_in_time,
    call_draft,
    claimed,
)
from affiant.gateway.tool_gate.catalogue import Catalogue, ServedTool
from affiant.gateway.tool_gate.gate import ToolGate
from affiant.gateway.tool_gate.link import ServerError
from affiant.gateway.tool_gate.messages import (
    MAX_BODY,
    CallParams,
    Envelope,
    Message,
    RequestId,
    call_params,
    parse_envelope,
)
from affiant.gateway.tool_gate.path_copies import PathChanged, PathCopies
from affiant.gateway.tool_gate.responding import (
    CANCELLED,
    VERSIONS,
    error_member,
    failed,
    handshake,
    listing,
    require_known,
    response,
    whole,
    whole_error,
)
from affiant.gateway.tool_gate.results import MAX_RESULT, error_text, passed_result
from affiant.gateway.wire.bodies import Bodies, Share
from affiant.gateway.wire.errors import Busy, RequestMalformed, ToolNotAllowedError
from affiant.gateway.wire.http_request import (
    NONCE_HEADER,
    Receive,
    Scope,
    Send,
    header,
    header_values,
    require_media_type,
)
from affiant.policy.approvals.action import Action, BoundPath, Draft
from affiant.policy.approvals.errors import ApprovalExpired
from affiant.policy.approvals.queue import HOLD_S
from affiant.policy.decision.decide import Decision, Effect
from affiant.policy.decision.limit_errors import LimitReached
from affiant.policy.decision.meters import nanoseconds
from affiant.policy.decision.questions import Question

__all__ = ["ToolGateRoute"]

_JSON: Final = "application/json"
_MAX_CALLS: Final = 4000
"""Of one session: each has two records, and a bundle of them must be one that can be carried out."""


@dataclass(frozen=True, slots=True)
class ToolGateRoute:
    """The route, and what it needs; as :class:`~affiant.gateway.inference.inference.ModelRoute`."""

    gate: ToolGate
    recorder: Recorder
    log: PublishedLog
    authenticator: Authenticator
    keyset_digest: str
    bodies: Bodies
    refusals: RefusalBudget
    draining: Callable[[], bool]
    decisions: GatewayDecisions
    approvals: GatewayApprovals
    seconds: Callable[[], float]
    body_max: int = MAX_BODY
    hold_s: float = HOLD_S
    _made: dict[str, int] = field(default_factory=dict)
    _under_way: dict[tuple[str, RequestId], list[asyncio.Task[None]]] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; an ASGI application."""
        trace = trace_of(header_values(scope, TRACEPARENT))
        account = Account(self.recorder, self.recorder.new_id(), scope["method"], scope["path"][:256], trace)
        try:
            with self.bodies.memory.share() as share:
                await ToolGateRequest(self, scope, receive, send, account=account, share=share).run()
        finally:
            account.leave()

    def take_calls(self, session: str, count: int) -> None:
        """Count the calls of a session.

        Raises:
            Busy: it has made too many.
        """
        made = self._made.get(session, 0) + count
        if made > _MAX_CALLS:
            raise Busy("the session has made too many calls", expected=f"at most {_MAX_CALLS}")
        self._made[session] = made

    def forget(self, living: set[str]) -> None:
        """Keep nothing of sessions that have ended."""
        for session in set(self._made) - living:
            del self._made[session]

    def cancel(self, session: str, identifier: object) -> None:
        """Give up the call that a session made under this id, if that is one call."""
        if isinstance(identifier, (int, str)) and not isinstance(identifier, bool):
            tasks = self._under_way.get((session, identifier), [])
            if len(tasks) == 1:  # of two clients' calls with one id, it is not known which is meant
                tasks[0].cancel()

    def watched(self, session: str, identifier: RequestId, task: asyncio.Task[None]) -> Callable[[], None]:
        """Let a call be cancelled by its id, until what is returned is called."""
        tasks = self._under_way.setdefault((session, identifier), [])
        tasks.append(task)

        def over() -> None:
            tasks.remove(task)
            if not tasks:
                self._under_way.pop((session, identifier), None)

        return over


@dataclass(slots=True)
class _Call:
    """One ``tools/call`` under way. What is known of it grows until its outcome is signed."""

    identifier: RequestId
    tool: ServedTool
    params: CallParams
    decision: Decision
    recorded_as: GateCall
    draft: Draft | None = None
    """What approvers are asked; None: no approval is needed."""
    paths: tuple[BoundPath, ...] = ()
    """What it shows of the paths among the arguments."""
    approved: Approved | None = None
    intent: str = ""
    end: str = "aborted"
    answer: bytes = b""
    redacted: bool = False
    signed: bool = False


class ToolGateRequest(SessionRequest):
    """One request under way."""

    def __init__(
        self,
        route: ToolGateRoute,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        account: Account,
        share: Share,
    ) -> None:
        super().__init__(route, scope, receive, send, account=account, share=share)
        self._gate_route = route
        self._gate = route.gate
        self._session = ""
        self._envelope: Envelope | None = None
        self._parsed = False
        self._answers: dict[RequestId, bytes] = {}
        self._calls: list[_Call] = []
        self._asking: dict[str, None] = {}
        """Rules by which a call needs approval."""
        self._actions: tuple[Action, ...] = ()

    # -- 3: may it be done? --------------------------------------------------------------------------------

    async def answer(self, session: Session) -> None:
        """As :meth:`~.request_run.SessionRequest.answer`."""
        self._session = session.id
        require_media_type(self._scope, _JSON)
        self._account.nonce = _nonce(header(self._scope, NONCE_HEADER))
        body = self._request_body
        self._parsed = True
        self._envelope = envelope = parse_envelope(body)
        self._require_version(envelope)
        for message in envelope.messages:
            require_known(message)
        catalogue = await self._catalogue(session, envelope)
        session.require_open(
            now=self._gate_route.authenticator.clock().timestamp()
        )  # servers may take their time
        decided = self._judge(envelope, catalogue)
        await self._draft(session)
        for message in envelope.messages:
            if message.method == CANCELLED:
                self._gate_route.cancel(self._session, message.params.get("requestId"))
        if self._calls:
            await self._call_all(session, envelope, decided)
        else:
            await self._finish(envelope, decided)

    def _require_version(self, envelope: Envelope) -> None:
        """Return if headers say what the body does: two readers must not see two requests."""
        version = header(self._scope, "MCP-Protocol-Version")
        first = envelope.messages[0]
        if version not in (None, *VERSIONS) and first.method != "server/discover":
            raise RequestMalformed(
                "not a version of MCP that the tool gate knows",
                expected=", ".join(VERSIONS),
                found=ascii(version)[:40],
                where="MCP-Protocol-Version",
            )
        named = {"Mcp-Method": first.method, "Mcp-Name": first.params.get("name")}
        for name, said in named.items():
            found = header(self._scope, name)
            if found is not None and (envelope.batch or found != said):
                raise RequestMalformed("a header says something else than the body", where=name)

    async def _catalogue(self, session: Session, envelope: Envelope) -> Catalogue | None:
        """What the servers serve, if a message asks for it."""
        asked = [message for message in envelope.messages if message.method in ("tools/list", "tools/call")]
        if not asked:
            return None
        await self._account.open()  # to ask what a server serves is to ask a server
        names = {call_params(message).name for message in asked if message.method == "tools/call"}
        every = any(message.method == "tools/list" for message in asked)
        return await self._gate.catalogue(session.id, session.admitted.policy, None if every else names)

    def _judge(self, envelope: Envelope, catalogue: Catalogue | None) -> RequestDecision:
        """Judge every message before anything is done for one of them."""
        rules: dict[str, None] = {}
        redacted = False
        for message in envelope.messages:
            match message.method:
                case "tools/call":
                    assert catalogue is not None
                    self._calls.append(self._call(message, catalogue))
                case "tools/list":
                    assert catalogue is not None
                    shown = catalogue.visible()
                    self._keep(message, listing(message, shown))
                    redacted = redacted or len(shown) < len(catalogue.tools)
                    for tool in shown:
                        rules |= dict.fromkeys(catalogue.policy.decide_tool(tool.name, tool.origin).rules)
                case "initialize":
                    self._keep(message, handshake(message))
                case "ping":
                    self._keep(message, {})
                case _:
                    continue
        return RequestDecision("redact" if redacted else "allow", tuple(rules))

    def _call(self, message: Message, catalogue: Catalogue) -> _Call:
        assert message.id is not None
        params = call_params(message)
        assert self._account.session is not None
        sink = self._gate_route.decisions.of(self._account.session, self._denied)
        digest = sha256_name(params.text.encode("utf-8"))
        try:
            tool, decision = catalogue.judge(params.name, params.arguments, params.text, sink=sink)
        except ToolNotAllowedError as error:  # raised again; its record names the call
            error.tool, error.arguments = params.name, digest
            raise
        recorded_as = GateCall(tool.name, tool.server, digest, decision.rules)
        if decision.effect is Effect.ASK:
            self._asking |= dict.fromkeys(decision.rules)
        return _Call(message.id, tool, params, decision, recorded_as)

    async def _draft(self, session: Session) -> None:
        """Write down what approvers are asked of each call that needs them, with what its paths lead to now."""
        for call in self._calls:
            if call.decision.effect is Effect.ASK:
                folders = self._gate.folders.get(call.tool.server, ())
                call.draft, call.paths = await call_draft(
                    session, call.tool, call.params, call.decision, folders=folders
                )

    def _keep(self, message: Message, result: Mapping[str, object]) -> None:
        assert message.id is not None
        data = json.dumps(result, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        if len(data) > MAX_RESULT or self._gate.redactor.redact(data).replaced:
            raise MalformedError(
                "the list of tools is too large, or holds this gateway's credential", code="upstream.answer"
            )
        self._answers[message.id] = response(message.id, data)

    # -- is it approved? -----------------------------------------------------------------------------------

    async def _call_all(self, session: Session, envelope: Envelope, decided: RequestDecision) -> None:
        known = False
        try:
            asking = [call for call in self._calls if call.draft is not None]
            if asking:
                await self._unless_gone(self._agreed(session, envelope))
            self._gate_route.take_calls(session.id, len(self._calls))
            now = nanoseconds(self._gate_route.seconds())
            session.limits.gate_calls.take([call.recorded_as.rules for call in self._calls], now=now)
            if asking:  # nothing is awaited between the limits and this: it fails where it was used meanwhile
                found = claimed(self._gate_route.approvals, session, self._actions)
                for call, approved in zip(asking, found, strict=True):
                    call.approved = approved
            await self._intend()
            await self._unless_gone(self._make())
            await self._finish(envelope, decided)
            known = True
        finally:
            for call in self._calls:
                if call.approved is not None:
                    call.approved.over(known=known)

    async def _agreed(self, session: Session, envelope: Envelope) -> None:
        """Return once people agree to what is still the same; an agent that leaves before that gets nothing done."""
        await self._held(session)
        await self._judge_again(session, envelope)

    async def _held(self, session: Session) -> None:
        """Wait until all of the body is approved; the agent may take a call of it back, and with it the body."""
        task = asyncio.create_task(self._approved(session))
        over = [self._gate_route.watched(session.id, call.identifier, task) for call in self._calls]
        try:
            await asyncio.wait({task})
        finally:
            for each in over:
                each()
            task.cancel()
        if task.cancelled():
            raise ToolNotAllowedError(
                "the call was taken back while it waited for approval", code="tool.cancelled"
            )
        task.result()

    async def _approved(self, session: Session) -> None:
        drafts = [call.draft for call in self._calls if call.draft is not None]
        route = self._gate_route
        self._actions = await approved_in_time(route.approvals, session, drafts, hold_s=route.hold_s)

    async def _judge_again(self, session: Session, envelope: Envelope) -> None:
        """Return if every call is still what it was when approvers were asked; its server may say otherwise now.

        Raises:
            ``tool.schema_changed``, ``tool.unknown``, ToolNameAmbiguous: one is not.
        """
        catalogue = await self._catalogue(session, envelope)
        assert catalogue is not None
        sink = self._gate_route.decisions.of(session, self._denied)

        def denials(question: Question, decision: Decision, *, offered: bool = False) -> None:
            if decision.effect is Effect.DENY:  # that it asks was reported before
                sink(question, decision, offered=offered)

        for call in self._calls:
            params = call.params
            tool, decision = catalogue.judge(params.name, params.arguments, params.text, sink=denials)
            if (tool.origin, decision) != (call.tool.origin, call.decision):
                raise ToolNotAllowedError(
                    "a server says something else of a tool than when approval was asked for",
                    reason="tool_schema_changed",
                    rules=decision.rules,
                    code="tool.schema_changed",
                )

    # -- 4 to 6: done, and recorded ------------------------------------------------------------------------

    async def _intend(self) -> None:
        """Nothing goes to a server before this has returned."""
        account = self._account
        pending = []
        for call in self._calls:
            recorded = account.gate_intent(call.recorded_as, call.approved)
            call.intent = recorded.jti
            pending.append(recorded.durable)
        await asyncio.gather(*pending)
        for call in self._calls:
            if call.approved is not None:
                call.approved.dispatched()

    async def _make(self) -> None:
        await asyncio.gather(*(self._cancellable(call) for call in self._calls))

    async def _cancellable(self, call: _Call) -> None:
        """Make a call; the agent may take it back, and then it is answered as aborted."""
        task = asyncio.create_task(self._made(call))
        over = self._gate_route.watched(self._session, call.identifier, task)
        try:
            await asyncio.wait({task})
        finally:
            over()
            task.cancel()
        if task.cancelled():
            self._failed(
                call, ToolNotAllowedError("the call was cancelled", code="tool.cancelled"), end="aborted"
            )
        else:
            task.result()

    async def _made(self, call: _Call) -> None:
        try:
            with self._copied(call) as copies:
                raw = await self._gate.call(
                    self._session,
                    call.tool,
                    _sent(call, copies),
                    ready=lambda: self._require_approved(call, copies),
                )
            result = passed_result(raw, self._gate.redactor)
        except ServerError as error:
            text = error_text(str(error.args[0]), self._gate.redactor)
            self._failed(
                call,
                MalformedError("the server answered with an error", found=text, code="tool.server_error"),
                end="failed",
            )
        except (ApprovalExpired, PathChanged) as error:
            self._failed(call, error, end="refused")
        except AffiantError as error:
            self._failed(call, error, end="failed")
        else:
            call.end = "failed" if result.failed else "complete"
            call.redacted, call.answer = result.redacted, result.data
            self._answers[call.identifier] = response(call.identifier, result.data)

    @contextmanager
    def _copied(self, call: _Call) -> Iterator[Mapping[str, str]]:
        """Path -> copy of what approvers were shown of it, for the length of the call."""
        if not call.paths:
            yield {}
            return
        assert self._gate.copies is not None
        with self._gate.copies.made(call.paths) as copies:
            yield copies

    def _require_approved(self, call: _Call, copies: Mapping[str, str]) -> None:
        """Return if what a call rests on still holds, now that its server can be asked."""
        if call.approved is not None:
            self._gate_route.approvals.require_time(call.approved)
            paths = call.approved.grant.action.members["paths"]
            assert isinstance(paths, list)
            PathCopies.require_same(copies, paths)

    def _failed(self, call: _Call, error: AffiantError, *, end: str) -> None:
        member = error_member(error, receipt=self._account.jti)
        call.end, call.answer = end, json.dumps(member, ensure_ascii=False).encode("utf-8")
        self._answers[call.identifier] = failed(call.identifier, member)

    async def _finish(self, envelope: Envelope, decided: RequestDecision) -> None:
        answers = [self._answers[identifier] for identifier in envelope.ids]
        body = whole(answers, batch=envelope.batch) if answers else b""
        if self._calls:
            recorded = self._outcomes()
        else:
            methods = " ".join(message.method for message in envelope.messages)
            recorded = [self._account.gate_answer(methods, body, decided)]
        await asyncio.gather(*(each.durable for each in recorded))
        await self._client.whole(200 if answers else 202, body)

    def _outcomes(self) -> list[Recorded]:
        """One for each call, the last with the proof's counter; each call as far as it came."""
        recorded = []
        for call in self._calls:
            if call.intent and not call.signed:
                recorded.append(
                    self._account.gate_outcome(
                        call.recorded_as,
                        call.intent,
                        call.end,
                        call.answer,
                        redacted=call.redacted,
                        last=call is self._calls[-1],
                    )
                )
                call.signed = True
        return recorded

    # -- how it ends otherwise -----------------------------------------------------------------------------

    def failure(
        self, error: AffiantError, body: bytes, hidden: Mapping[str, object], *, status: int
    ) -> Recorded:
        """As :meth:`~.request_run.SessionRequest.failure`: once calls were intended, their outcomes."""
        del hidden, status
        if self._calls and all(call.intent for call in self._calls):
            return self._outcomes()[-1]
        if isinstance(error, (ToolNotAllowedError, LimitReached)):
            self._account.decided = RequestDecision("deny", error.rules)
        elif isinstance(error, APPROVAL_REFUSALS):
            self._account.decided = RequestDecision("deny", tuple(self._asking))
        return self._account.refusal(error, body)

    def response_to(self, error: AffiantError) -> tuple[int, bytes]:
        """As :meth:`~.request_run.SessionRequest.response_to`; of JSON-RPC once the body was read for one."""
        if not self._parsed:
            return super().response_to(error)
        status = 200 if self._envelope is not None and not isinstance(error, MalformedError) else 400
        return status, whole_error(self._envelope, error, receipt=self._account.jti)


def _sent(call: _Call, copies: Mapping[str, str]) -> Mapping[str, object]:
    """The arguments that a server gets: of a call that was approved, in the very order that was shown."""
    if call.approved is None:
        return call.params.arguments
    return approved_arguments(call.approved.grant.action, copies)


def _nonce(text: str | None) -> str | None:
    if text is not None:
        from_b64u(text, size=32)
    return text
