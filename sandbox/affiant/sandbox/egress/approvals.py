"""Requests that a person must approve: held, shown to approvers through the gateway, and sent once.

The supervisor decides. It writes the action's exact bytes, hands them to the gateway's approval queue, fetches what
approvers left there, and judges their signatures itself against the keys that its own profile names: the queue can
withhold, and can forge nothing. A held request waits for some seconds and is then answered 403 with the action's
name, because clients give up; the same request sent again finds the same action. What was approved goes out in
exactly the bytes that were shown, and only after the intent that names the approval is acknowledged. An approval is
taken in the same step as room under the profile's limits: where there is none, it is left for the same request to
find later.

All of it lives in memory: when the supervisor dies, nothing that waited is ever sent.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from affiant.attestation.encoding.binary_text import b64u, sha256_name
from affiant.attestation.encoding.canonical import JSONError, parse_object
from affiant.attestation.signatures.approvers.identities import MAX_SIGNED
from affiant.errors import AffiantError, UnreachableError
from affiant.policy.approvals.action import Action, BoundSecret, Draft, egress_draft
from affiant.policy.approvals.errors import (
    ActionUnshowable,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalPending,
    ApprovalUsed,
    TooManyApprovals,
)
from affiant.policy.approvals.queue import HOLD_S, ApprovalQueue, Grant, Phase
from affiant.policy.model.profile import Approval
from affiant.sandbox.base.errors import GatewayUnreachable
from affiant.sandbox.egress.decision import AllowedRequest
from affiant.sandbox.egress.gateway_route import InferenceGateway
from affiant.sandbox.egress.http.errors import ApprovalNeeded, EgressDenied
from affiant.sandbox.egress.http.request_head import HeaderField
from affiant.sandbox.egress.records_of_egress import Approved
from affiant.secrets.injection.signing_surface import SET_ANEW, is_signing

__all__ = ["EgressApprovals", "GatewayApprovalQueue", "Left", "Permit"]

_POLL_S: Final = 0.5
_MAX_ANSWER: Final = 1 << 20
_MAX_LEFT: Final = 16
"""Statements about one action: as many as a profile may name approvers."""
_RECORD: Final = re.compile(r"[A-Za-z0-9_-]{22}\Z")
_JSON_BODY: Final = ((b"Content-Type", b"application/json"),)
_FRAMING: Final = frozenset({b"host", b"content-length", b"transfer-encoding"})

_REASONS: Final[Mapping[type[AffiantError], str]] = {
    ActionUnshowable: "approval_unshowable",
    ApprovalDenied: "approval_denied",
    ApprovalExpired: "approval_expired",
    ApprovalUsed: "approval_used",
    TooManyApprovals: "approval_too_many",
}


@dataclass(frozen=True, slots=True)
class Left:
    """What an approver left in the gateway's queue: the statement, and the id of the gateway's record of it."""

    statement: str
    record: str


class GatewayApprovalQueue:
    """The gateway's approval queue: actions go out, approvers' statements come in; every request has a proof."""

    def __init__(self, gateway: InferenceGateway, *, session: str) -> None:
        self._gateway = gateway
        self._target = f"/v1/sessions/{session}/approvals"

    async def post(self, action: bytes) -> None:
        """Show an action to its approvers; again is the same.

        Raises:
            GatewayUnreachable: it is not known whether it is there, or it is not taken.
        """
        await self._asked("POST", self._target, action)

    async def fetch(self, name: str) -> Sequence[Left]:
        """What approvers left for the action with this SHA-256 name; what is of no form is passed over.

        Raises:
            GatewayUnreachable: it cannot be read now.
        """
        body = await self._asked("GET", f"{self._target}/{name.removeprefix('sha256:')}", b"")
        try:
            said = parse_object(body, limit=_MAX_ANSWER, strict_form=False).get("statements")
        except JSONError as error:
            raise GatewayUnreachable("the gateway's answer about an approval is none") from error
        found = []
        for each in said[:_MAX_LEFT] if isinstance(said, list) else ():
            match each:
                case {"statement": str(text), "record": str(record)} if len(
                    text
                ) <= MAX_SIGNED and _RECORD.match(record):
                    found.append(Left(text, record))
        return tuple(found)

    async def _asked(self, method: str, target: str, body: bytes) -> bytes:
        headers = _JSON_BODY if body else ()
        reply = await self._gateway.send(method, target, headers, body, cseq=None)
        try:
            data = await reply.body(_MAX_ANSWER)
        finally:
            await reply.close()
        if reply.status != 200:
            raise GatewayUnreachable(
                "the gateway does not take it", where=method, found=f"status {reply.status}"
            )
        return data


@dataclass(frozen=True, slots=True)
class Permit:
    """A request that may be sent, once. Made by :meth:`EgressApprovals.take` only."""

    queue: ApprovalQueue
    grant: Grant
    approved: Approved
    clock: Callable[[], float]

    def require_time(self) -> None:
        """Return if it may still be sent: records and names are waited for after it was taken.

        Raises:
            EgressDenied: its time is over.
        """
        try:
            self.queue.require_time(self.grant, now=self.clock())
        except ApprovalExpired as error:
            raise EgressDenied(
                error.message, reason="approval_expired", rules=tuple(self.grant.action.rules)
            ) from error

    def dispatched(self) -> None:
        """Its intent is acknowledged."""
        self.queue.dispatched(self.grant)

    def over(self, *, known: bool) -> None:
        """It ended; ``known``: what became of it is recorded."""
        if known:
            self.queue.done(self.grant)
        else:
            self.queue.lost(self.grant)


class EgressApprovals:
    """Asks for one session's requests.

    Args:
        session, agent, policy: what the action says of who asks.
        clock: seconds since 1970, which do not go back. hold_s: how long one request is held.
    """

    def __init__(
        self,
        queue: ApprovalQueue,
        remote: GatewayApprovalQueue,
        *,
        session: str,
        agent: str,
        policy: str,
        clock: Callable[[], float],
        random_bytes: Callable[[int], bytes],
        hold_s: float = HOLD_S,
    ) -> None:
        self._queue = queue
        self._remote = remote
        self._session = session
        self._agent = agent
        self._policy = policy
        self._clock = clock
        self._random_bytes = random_bytes
        self._hold_s = hold_s
        self._records: dict[str, str] = {}

    def restrict(self, *, policy: str, approval: Approval) -> None:
        """The profile was restricted: what waits was asked for under another, and expires."""
        self._policy = policy
        self._queue.narrow(policy=policy, approval=approval)

    async def agreed(self, allowed: AllowedRequest, body: bytes) -> Action:
        """Wait until ``allowed`` with this body is approved; its action. Nothing is taken yet.

        Raises:
            EgressDenied: it is denied, it waits still (:class:`ApprovalNeeded`), or it cannot be asked for.
        """
        with self._denying(allowed):
            action = self._queue.ask(self._draft(allowed, body), nonce=self._nonce, now=self._clock()).action
            try:
                await self._remote.post(action.raw)
                async with asyncio.timeout(self._hold_s):
                    await self._until_approved(action)
            except (TimeoutError, ApprovalPending) as error:
                raise self._waits(allowed, action) from error
        return action

    def take(self, allowed: AllowedRequest, action: Action, *, room: Callable[[], None]) -> Permit:
        """Take the approval of ``action``, once; in one turn of the event loop.

        Args:
            room: takes room under the profile's limits; where it raises, the approval is left.

        Raises:
            EgressDenied: another request took it meanwhile, or its time is over; no room is taken.
        """
        now = self._clock()
        with self._denying(allowed):
            try:
                self._queue.require_approved(action.name, now=now)
            except ApprovalPending as error:
                raise self._waits(allowed, action) from error
        room()
        return self._permit(self._queue.claim(action.name, now=now))

    @contextmanager
    def _denying(self, allowed: AllowedRequest) -> Iterator[None]:
        """What is wrong with an approval, as the refusal of the request."""
        try:
            yield
        except EgressDenied:
            raise
        except UnreachableError as error:
            raise EgressDenied(
                "approvers cannot be asked now", reason="approval_unavailable", rules=allowed.rules
            ) from error
        except AffiantError as error:
            reason = _REASONS.get(type(error), "approval_unavailable")
            raise EgressDenied(error.message, reason=reason, rules=allowed.rules) from error

    async def _until_approved(self, action: Action) -> None:
        while True:
            await self._collect(action)
            if self._queue.look(action.name, now=self._clock()).phase is not Phase.PENDING:
                self._queue.require_approved(action.name, now=self._clock())
                return
            await asyncio.sleep(_POLL_S)

    async def _collect(self, action: Action) -> None:
        """Judge what approvers left, each statement once; one that does not count changes nothing."""
        for left in await self._remote.fetch(action.name):
            name = sha256_name(left.statement.encode("utf-8", "replace"))
            if name in self._records:
                continue
            self._records[name] = left.record
            try:
                self._queue.decide(left.statement, now=self._clock())
            except AffiantError:
                continue

    def _permit(self, grant: Grant) -> Permit:
        last = grant.statements[-1]
        statement = {
            "dig": grant.action.name,
            "kid": last.kid,
            "sig": last.sig,
            "exp": last.expires,
            "via": last.via,
        }
        records = tuple(self._records[sha256_name(each.text.encode("utf-8"))] for each in grant.statements)
        return Permit(self._queue, grant, Approved(statement, records), self._clock)

    def _draft(self, allowed: AllowedRequest, body: bytes) -> Draft:
        at = allowed.origin
        return egress_draft(
            session=self._session,
            agent=self._agent,
            policy=self._policy,
            rules=allowed.rules,
            method=allowed.method,
            url=at.url(allowed.target),
            headers=_shown(allowed),
            body=body,
            secrets=[
                BoundSecret(granted.use.name, granted.use.surface, f"{at.host}:{at.port}")
                for granted in allowed.uses
            ],
        )

    def _nonce(self) -> str:
        return b64u(self._random_bytes(16))

    def _waits(self, allowed: AllowedRequest, action: Action) -> ApprovalNeeded:
        return ApprovalNeeded(
            f"an approver must agree first ({allowed.method} {allowed.origin.authority})",
            reason="approval_pending",
            rules=allowed.rules,
            action=action.name,
            not_after=action.not_after,
        )


def _shown(allowed: AllowedRequest) -> list[HeaderField]:
    """The headers as they will be sent; of a request that the broker signs, without those that a signature brings: the
    secret's place says whose it is, and it is over all the rest."""
    signed = any(is_signing(granted.use.surface) for granted in allowed.uses)
    hidden = _FRAMING | SET_ANEW if signed else _FRAMING
    return [each for each in allowed.headers if each[0].lower() not in hidden]
