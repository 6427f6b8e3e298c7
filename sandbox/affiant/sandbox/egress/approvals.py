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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from affiant.attestation.encoding.binary_text import b64u, sha256_name
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
from affiant.sandbox.egress.decision import AllowedRequest
from affiant.sandbox.egress.http.errors import ApprovalNeeded, EgressDenied
from affiant.sandbox.egress.http.request_head import HeaderField
from affiant.sandbox.egress.records_of_egress import Approved
from affiant.secrets.injection.signing_surface import SET_ANEW, is_signing

__all__ = ["EgressApprovals", "Left", "Permit", "RemoteApprovalQueue"]

_POLL_S: Final = 0.5
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


class RemoteApprovalQueue(Protocol):
    """The gateway's approval queue, as this session uses it."""

    async def post(self, action: bytes) -> None:
        """Show an action to its approvers; again is the same.

        Raises:
            UnreachableError: it is not known whether it is there. AffiantError: it is not taken.
        """
        ...

    async def fetch(self, name: str) -> Sequence[Left]:
        """What approvers left for the action with this SHA-256 name.

        Raises:
            UnreachableError, AffiantError: it cannot be read now.
        """
        ...


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
        remote: RemoteApprovalQueue,
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
