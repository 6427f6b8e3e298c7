"""One inspected request, from the agent to its host and back.

The order is the whole point (trust rules, 3): canonicalise, decide (of a body that may hold a secret, all of it),
take room under the profile's limits, record the intent, look up and check the address, have a token fetched where one
stands for a secret, hand over to the broker (which substitutes, sends and redacts), record the outcome, and only then
let the last byte of the answer go. A name under a wildcard is the agent's own words to the server of its zone, so
looking it up has an intent whatever the method. Whatever fails on the way fails closed, and is in the chain.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from affiant.attestation.schema.trace_context import TRACEPARENT, trace_of
from affiant.errors import AffiantError, MalformedError, NotAllowedError, StateError
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.model.token_exchange import TokenExchange
from affiant.sandbox.egress.body import RequestBody
from affiant.sandbox.egress.decision import (
    SILENT,
    AllowedRequest,
    DecisionSink,
    GrantedUse,
    as_approved,
    chosen_by_agent,
    judge_held_body,
    judge_request,
    may_hold_secrets,
    may_pass_unheld,
)
from affiant.sandbox.egress.http.agent_http import AgentHTTP, Answer, Memory
from affiant.sandbox.egress.http.denial import denial_of
from affiant.sandbox.egress.http.errors import EgressDenied, RecordsUnavailable
from affiant.sandbox.egress.http.origin import Origin
from affiant.sandbox.egress.http.request_head import RequestHead
from affiant.sandbox.egress.limits import EgressMeters, counting
from affiant.sandbox.egress.records_of_egress import SAFE_METHODS, Action, EgressRecords, Outcome
from affiant.sandbox.egress.resolver import Resolver
from affiant.sandbox.egress.token_fetches import TokenFetch, TokenFetches
from affiant.sandbox.egress.upstream import Sent, Upstream
from affiant.secrets.injection.detection import PlaceholderDetector
from affiant.secrets.injection.placeholder import PlaceholderTable

if TYPE_CHECKING:
    from affiant.sandbox.egress.approvals import EgressApprovals, Permit

__all__ = ["Forwarder", "action_of", "reason_phrase", "refuse"]

_MEMORY: Final = 64 << 20
"""Bytes of bodies with secrets in them that are held at a time, in one session."""

_NOTHING_SENT: Final = Sent(None, None)


def action_of(head: RequestHead, origin: Origin | None, target: str) -> Action:
    """How records name the request at hand."""
    return Action(origin, head.method, target, trace_of(head.values(TRACEPARENT)))


async def refuse(
    http: AgentHTTP,
    records: EgressRecords,
    refusal: AffiantError,
    action: Action,
    *,
    keep_alive: bool,
    typ: str = "egress",
) -> bool:
    """Record a refusal and answer it; returns whether the connection can carry another request."""
    record: str | None = None
    if not isinstance(refusal, RecordsUnavailable):
        try:
            record = await records.refusal(refusal, action, typ=typ)
        except RecordsUnavailable as unavailable:
            refusal = unavailable
    connect, host = action.method == "CONNECT", None if action.origin is None else action.name
    denial = denial_of(refusal, record=record, host=host, connect=connect)
    return await http.deny(denial, keep_alive=keep_alive)


@dataclass(frozen=True, slots=True)
class Forwarder:
    """Everything that a request needs on its way; one for a session.

    ``versions``: of the secrets, by name. ``notes``: takes each decision. ``meters``: what may still be sent.
    ``approvals``: who is asked; None: what needs approval is denied. ``memory``: what bodies with secrets in them may
    take while they are held. ``tokens``: which are being fetched.
    """

    policy: CompiledPolicy
    table: PlaceholderTable
    resolver: Resolver
    upstream: Upstream
    records: EgressRecords
    meters: EgressMeters
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: DecisionSink = SILENT
    approvals: EgressApprovals | None = None
    memory: Memory = field(default_factory=lambda: Memory(_MEMORY))
    tokens: TokenFetches = field(default_factory=TokenFetches)

    def version(self, granted: GrantedUse) -> str:
        """Which version of a secret the broker holds, as records name it."""
        return self.versions.get(granted.use.name, "unknown")[:64]

    async def serve(self, http: AgentHTTP, head: RequestHead, origin: Origin, target: str) -> bool:
        """Serve one request; returns whether the connection can carry another.

        Args:
            target: canonical, and ``Host`` agreed with ``origin``.
        """
        action = action_of(head, origin, target)
        try:
            allowed = judge_request(
                self.policy, self.table, origin=origin, head=head, target=target, notes=self.notes
            )
            body = RequestBody(http, self._detector(head))
        except AffiantError as refusal:
            return await refuse(http, self.records, refusal, action, keep_alive=head.keep_alive)
        try:
            return await self._forward(http, head, action, allowed, body)
        finally:
            body.release()

    async def _forward(
        self, http: AgentHTTP, head: RequestHead, action: Action, allowed: AllowedRequest, body: RequestBody
    ) -> bool:
        """Serve a request whose head may go on."""
        permit: Permit | None = None
        try:
            allowed = await self._with_body(allowed, body)
            begun = await body.prefetch()
            if allowed.asks:
                allowed = as_approved(allowed, self.table)
                permit = await self._approved(http, allowed, body, begun)
            else:
                self._meter(allowed, body, begun)
            intents = await self._intents(action, allowed, permit)
            if permit is not None:
                permit.dispatched()
        except AffiantError as refusal:
            _over(permit, known=False)
            return await refuse(http, self.records, refusal, action, keep_alive=head.keep_alive)
        except BaseException:  # cut before it went out; an approval that was taken is used up; raised again
            _over(permit, known=False)
            with suppress(RecordsUnavailable):
                await self.records.refusal(
                    StateError("broken off before it went out", code="egress.cut"), action
                )
            raise
        exchange = _Exchange(
            forwarder=self,
            http=http,
            answer=Answer(http, head),
            action=action,
            allowed=allowed,
            intents=intents,
            permit=permit,
        )
        try:
            return await exchange.run(body)
        finally:
            _over(permit, known=exchange.known)

    async def _with_body(self, allowed: AllowedRequest, body: RequestBody) -> AllowedRequest:
        """The request with the secrets in its body too, where the profile has one for a body like it, or signs it."""
        if not may_hold_secrets(self.table, allowed):
            return allowed
        held = await body.hold(self.memory)
        if held is None:
            return may_pass_unheld(allowed)
        return judge_held_body(self.policy, self.table, allowed, held, self.notes)

    async def _approved(
        self, http: AgentHTTP, allowed: AllowedRequest, body: RequestBody, begun: int
    ) -> Permit:
        """What an approver lets go out, once, with room for it; abandoned when the agent is gone before that.

        Raises:
            EgressDenied: it was not approved, or not yet, or no approver can be asked.
            LimitReached: there is no room for it; the approval is left.
        """
        if self.approvals is None:
            raise EgressDenied(
                "no approver can be asked here", reason="approval_unavailable", rules=allowed.rules
            )
        whole = body.whole
        if whole is None:
            raise EgressDenied(
                "the body is too large to be read before it is approved",
                reason="approval_unshowable",
                rules=allowed.rules,
            )
        agreed = await http.unless_gone(self.approvals.agreed(allowed, whole))
        if agreed is None:
            raise EgressDenied("the agent did not wait", reason="approval_pending", rules=allowed.rules)
        return self.approvals.take(allowed, agreed, room=lambda: self._meter(allowed, body, begun))

    def _meter(self, allowed: AllowedRequest, body: RequestBody, begun: int) -> None:
        """Take room for the request, before its intent: for all that is known of it, and later for the rest.

        Raises:
            LimitReached: there is none. EgressDenied: that cannot be known.
        """
        with counting(allowed.rules):
            size = _head_size(allowed) + (begun if allowed.length is None else allowed.length)
            passing = self.meters.request(allowed.rules, size)
        if allowed.length is None:
            body.passing, body.rules = passing, allowed.rules

    def _detector(self, head: RequestHead) -> PlaceholderDetector:
        return PlaceholderDetector(
            self.table, content_encoding=head.value(b"content-encoding") or b"identity"
        )

    async def _intents(
        self, action: Action, allowed: AllowedRequest, permit: Permit | None
    ) -> tuple[str, ...]:
        if permit is not None:
            approved = await self.records.intent(action, allowed.rules, approved=permit.approved)
            return (approved, *await self._secret_intents(action, allowed))
        if allowed.uses:
            return await self._secret_intents(action, allowed)
        if allowed.method not in SAFE_METHODS or chosen_by_agent(self.policy, allowed.origin):
            return (await self.records.intent(action, allowed.rules),)
        return ()

    async def _secret_intents(self, action: Action, allowed: AllowedRequest) -> tuple[str, ...]:
        return tuple(
            [
                await self.records.secret(
                    action,
                    name=granted.use.name,
                    rule=granted.rule,
                    ref=granted.ref,
                    version=self.version(granted),
                )
                for granted in allowed.uses
            ]
        )


@dataclass(slots=True)
class _Exchange:
    """A request whose intent is recorded: from here on there is an outcome, whatever happens."""

    forwarder: Forwarder
    http: AgentHTTP
    answer: Answer
    action: Action
    allowed: AllowedRequest
    intents: tuple[str, ...]
    permit: Permit | None = None
    sent: Sent = _NOTHING_SENT
    recorded: bool = False
    known: bool = False
    """Whether the outcome's record is durable."""
    received: hashlib._Hash = field(default_factory=hashlib.sha256)

    async def run(self, body: RequestBody) -> bool:
        """Look up, send, pass the answer on, record the outcome; whether the connection can carry another request."""
        try:
            await self._pass(body)
            await self._record("complete")
            await self.answer.finish()
        except RecordsUnavailable:  # the answer stays interrupted: without its record it did not end well
            return False
        except AffiantError as error:
            return await self._failed(body.refusal or error)
        except OSError:  # the agent is gone: there is no one to answer
            await self._record("aborted")
            return False
        except BaseException:  # the session ends, or a defect: there is an outcome all the same; raised again
            await self._record("aborted")
            raise
        return self.answer.keep_alive and self.http.request_done

    async def _pass(self, body: RequestBody) -> None:
        origin, within = self.allowed.origin, self.forwarder.policy.addresses_for(self.allowed.origin.host)
        address = await self.forwarder.resolver.resolve(origin.host, origin.port, within=within)
        for granted in self.allowed.uses:
            if granted.exchange is not None:
                await self._have_token(granted, granted.exchange)
        if self.permit is not None:
            self.permit.require_time()
        reply = await self.forwarder.upstream.exchange(self.allowed, address, aiter(body))
        try:
            await self.answer.start(reply.status, reason_phrase(reply.status), reply.headers)
            async for chunk in reply.chunks():
                self.received.update(chunk)
                await self.answer.data(chunk)
            self.sent = await reply.sent()
        finally:
            await reply.close()

    async def _have_token(self, granted: GrantedUse, exchange: TokenExchange) -> None:
        forwarder = self.forwarder
        fetch = TokenFetch(
            granted,
            exchange,
            version=forwarder.version(granted),
            within=forwarder.policy.addresses_for(exchange.host),
            trace=self.action.trace,
        )
        await forwarder.tokens.have(fetch, forwarder.upstream, forwarder.resolver, forwarder.records)

    async def _failed(self, error: AffiantError) -> bool:
        refused = isinstance(error, (NotAllowedError, MalformedError))
        await self._record("refused" if refused else "failed")
        if (
            self.answer.started
        ):  # it stays interrupted, and what was refused in the middle of it is in the chain as well
            if refused:
                with suppress(RecordsUnavailable):
                    await self.forwarder.records.refusal(error, self.action)
            return False
        if refused:
            return await refuse(
                self.http, self.forwarder.records, error, self.action, keep_alive=self.answer.keep_alive
            )
        denial = denial_of(error, record=None, host=self.action.name)
        return await self.http.deny(denial, keep_alive=self.answer.keep_alive)

    async def _record(self, end: str) -> None:
        if self.recorded:
            return
        self.recorded = True
        outcome = Outcome(
            end=end,
            sent=self.sent.request,
            received=f"sha256:{self.received.hexdigest()}" if self.answer.started else None,
            spki=self.sent.spki,
            uses=tuple(
                {"ref": granted.ref, "rule": granted.rule, "ver": self.forwarder.version(granted)}
                for granted in self.allowed.uses
            ),
        )
        await self.forwarder.records.outcome(self.action, self.allowed.rules, outcome, intents=self.intents)
        self.known = True


def _over(permit: Permit | None, *, known: bool) -> None:
    """Whether it is known what became of a request that was approved."""
    if permit is not None:
        permit.over(known=known)


def _head_size(allowed: AllowedRequest) -> int:
    """Bytes of the request line and the headers, as judged."""
    line = len(allowed.method) + len(allowed.target) + len("  HTTP/1.1\r\n")
    return line + sum(len(name) + len(value) + len(": \r\n") for name, value in allowed.headers)


def reason_phrase(status: int) -> bytes:
    """The reason phrase of a status code; empty for one that has none."""
    try:
        return HTTPStatus(status).phrase.encode("ascii")
    except ValueError:
        return b""
