"""Keeps the actions of one session that wait for approval, and releases each approved action once. In memory only.

States of one action, and what leads from one to the next::

    PENDING --quorum of statements--> APPROVED --claim, once--> CONSUMED --about to be sent--> DISPATCHED --> DONE
       |                                 |                          |                              |
       +--a denial, its time--> DENIED, EXPIRED <--+                +------- cut off: UNKNOWN <----+

A claim is one step under a lock: of two that want the same approval, one gets it. What was consumed is never given
back, whether or not it was done after that. When the process that holds a queue dies, the queue is gone: nothing that
waited is ever done, and no statement can be used again, because every action has a nonce of its own.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.signatures.approvers.errors import NotAnApprover
from affiant.attestation.signatures.approvers.identities import NamedIdentities
from affiant.attestation.signatures.approvers.statement import Statement, judge_statement, read_statement
from affiant.errors import StateError
from affiant.policy.approvals.action import Action, Draft
from affiant.policy.approvals.errors import (
    ActionMalformed,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalPending,
    ApprovalUsed,
    TooManyApprovals,
)
from affiant.policy.model.profile import Approval

__all__ = [
    "HOLD_S",
    "MAX_ASKED",
    "MAX_KEPT",
    "MAX_WAITING",
    "TRANSITIONS",
    "WAITING",
    "ApprovalQueue",
    "Grant",
    "Phase",
    "Waiting",
]

HOLD_S: Final = 25.0
"""How long the caller is held before the response that the action waits: below the timeout of most clients and
proxies.
"""
MAX_WAITING: Final = 16
"""Actions of one session that wait at the same time: a person cannot read more one by one."""
MAX_ASKED: Final = 256
"""Actions that one session may ask approval for altogether."""
MAX_KEPT: Final = 1 << 20
"""Bytes of all of them: they are kept, and shown, until the session is forgotten."""


class Phase(enum.Enum):
    """The state of an action."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    CONSUMED = "consumed"
    DISPATCHED = "dispatched"
    DONE = "done"
    UNKNOWN = "unknown"


TRANSITIONS: Final[Mapping[Phase, frozenset[Phase]]] = {
    Phase.PENDING: frozenset({Phase.APPROVED, Phase.DENIED, Phase.EXPIRED}),
    Phase.APPROVED: frozenset({Phase.CONSUMED, Phase.DENIED, Phase.EXPIRED}),
    Phase.CONSUMED: frozenset({Phase.DISPATCHED, Phase.UNKNOWN}),
    Phase.DISPATCHED: frozenset({Phase.DONE, Phase.UNKNOWN}),
    Phase.DENIED: frozenset(),
    Phase.EXPIRED: frozenset(),
    Phase.DONE: frozenset(),
    Phase.UNKNOWN: frozenset(),
}
"""State -> states that may follow."""

WAITING: Final = frozenset({Phase.PENDING, Phase.APPROVED})
"""States in which an action may still come to be done."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """An action at one time, and what was decided about it."""

    action: Action
    phase: Phase
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Grant:
    """The right to do one action once. Made by :meth:`ApprovalQueue.claim` only."""

    action: Action
    statements: tuple[Statement, ...]


@dataclass(slots=True)
class _Entry:
    action: Action
    key: bytes
    phase: Phase = Phase.PENDING
    statements: dict[str, Statement] = field(default_factory=dict)

    def move(self, phase: Phase) -> None:
        if phase not in TRANSITIONS[self.phase]:
            raise ApprovalUsed(f"an action that is {self.phase.value} does not become {phase.value}")
        self.phase = phase

    def seen(self) -> Waiting:
        return Waiting(self.action, self.phase, tuple(self.statements.values()))


class ApprovalQueue:
    """The approval queue of one session.

    Args:
        session: its id. policy: the digest of its profile.
        approval: who may approve, how many must, and for how long.
        never: thumbprints of the session's own keys: a session cannot approve its own actions.
    """

    def __init__(self, *, session: str, policy: str, approval: Approval, never: Collection[str]) -> None:
        self._session = session
        self._policy = policy
        self._approval = approval
        self._kids = approval.kids
        self._identities = approval.identities
        self._never = frozenset(never)
        self._entries: dict[str, _Entry] = {}
        self._lock = threading.Lock()

    @property
    def approval(self) -> Approval:
        """Who may approve, how many must, and for how long."""
        return self._approval

    @property
    def identities(self) -> NamedIdentities:
        """Those who approve by identity, and under which trusted root that is judged."""
        return self._identities

    def may_approve(self, kid: str) -> bool:
        """Whether statements by the key of this thumbprint, or the identity of this name, count."""
        return kid in self._kids and kid not in self._never

    def ask(self, draft: Draft, *, nonce: Callable[[], str], now: float) -> Waiting:
        """Ask for approval of ``draft``, or find the action by which the same was asked before and still waits.

        Raises:
            ApprovalDenied: the same was denied, and its time is not over yet.
            TooManyApprovals: too much waits, or was asked for. ActionUnshowable: a person could not read it.
        """
        return self.ask_all((draft,), nonce=nonce, now=now)[0]

    def ask_all(
        self, drafts: Sequence[Draft], *, nonce: Callable[[], str], now: float
    ) -> tuple[Waiting, ...]:
        """As :meth:`ask`, for all of ``drafts`` or none: what is done together is asked for together."""
        with self._lock:
            self._expire(now)
            known = [self._known(draft.key, now) for draft in drafts]
            made = int(now)
            actions = [
                draft.issue(nonce=nonce(), made=made, not_after=made + self._approval.ttl)
                for draft, entry in zip(drafts, known, strict=True)
                if entry is None
            ]
            self._require_room(actions)
            new = iter(actions)
            return tuple(
                self._add(next(new), draft.key) if entry is None else entry.seen()
                for draft, entry in zip(drafts, known, strict=True)
            )

    def post(self, action: Action, *, now: float) -> Waiting:
        """Add an action of another caller as it is; adding the same again changes nothing.

        Raises:
            ActionMalformed: of another session or profile, or not within the profile's time.
            ApprovalExpired: its time is over. TooManyApprovals: too much waits, or was asked for.
        """
        if (action.session, action.policy) != (self._session, self._policy):
            raise ActionMalformed("an action of another session or profile", where="session")
        if action.not_after - action.made > self._approval.ttl or action.made > now + 60:
            raise ActionMalformed("an action for longer than the profile lets it wait", where="not_after")
        with self._lock:
            self._expire(now)
            known = self._entries.get(action.name)
            if known is not None:
                return known.seen()
            if now >= action.not_after:
                raise ApprovalExpired("the action's time is over", found=action.not_after)
            self._require_room((action,))
            return self._add(action, b"")

    def decide(self, text: str, *, now: float) -> Waiting:
        """Count one approver's statement. A denial ends the action, also when others have approved it.

        Raises:
            StatementMalformed, StatementUnproven, NotAnApprover, StatementForAnother, StatementStale: it does not
            count. ``approval.unknown``: no such action. ApprovalDenied, ApprovalExpired, ApprovalUsed: it is too late.
        """
        return self.count(read_statement(text, self._identities), now=now)

    def count(self, statement: Statement, *, now: float) -> Waiting:
        """As :meth:`decide`, for a statement that :func:`read_statement` read under this queue's :attr:`identities`."""
        with self._lock:
            self._expire(now)
            if not self.may_approve(statement.kid):
                raise NotAnApprover("the signer may not approve this action", found=statement.kid)
            entry = self._require(statement.action)
            self._require_waiting(entry)
            judge_statement(
                statement,
                action=entry.action.name,
                approvers=self._kids,
                never=self._never,
                made=entry.action.made,
                not_after=entry.action.not_after,
                now=now,
            )
            if not statement.approves:
                entry.statements[statement.kid] = statement
                entry.move(Phase.DENIED)
            else:
                entry.statements.setdefault(statement.kid, statement)  # one person counts once
                if entry.phase is Phase.PENDING and len(entry.statements) >= self._approval.quorum:
                    entry.move(Phase.APPROVED)
            return entry.seen()

    def claim(self, name: str, *, now: float) -> Grant:
        """Take the approval of the action with this name, once.

        Raises:
            ApprovalPending: not approved yet. ``approval.unknown``, ApprovalDenied, ApprovalExpired,
                ApprovalUsed: as named.
        """
        return self.claim_all((name,), now=now)[0]

    def require_approved(self, name: str, *, now: float) -> None:
        """Return if :meth:`claim` would take the approval of the action with this name now; nothing is taken.

        Raises:
            ApprovalPending, ApprovalDenied, ApprovalExpired, ApprovalUsed, ``approval.unknown``: as :meth:`claim`.
        """
        with self._lock:
            self._expire(now)
            self._grant(self._require(name), now)

    def claim_all(self, names: Sequence[str], *, now: float) -> tuple[Grant, ...]:
        """As :meth:`claim`, for all of these names or none; no name appears twice."""
        with self._lock:
            self._expire(now)
            entries = [self._require(name) for name in names]
            grants = tuple(self._grant(entry, now) for entry in entries)
            for entry in entries:
                entry.move(Phase.CONSUMED)
            return grants

    def require_time(self, grant: Grant, *, now: float) -> None:
        """Return if what was taken may still be begun: after a claim, records and servers are waited for.

        Raises:
            ApprovalExpired: its time, or that of too many of its approvals, is over.
        """
        standing = sum(now < each.expires for each in grant.statements)
        if now >= grant.action.not_after or standing < self._approval.quorum:
            raise ApprovalExpired("its time was over before it could be done", where=grant.action.name)

    def dispatched(self, grant: Grant) -> None:
        """The intent is recorded: from here on, the action may have happened."""
        self._move(grant, Phase.DISPATCHED)

    def done(self, grant: Grant) -> None:
        """What became of it is recorded."""
        self._move(grant, Phase.DONE)

    def lost(self, grant: Grant) -> None:
        """Record that the outcome is unknown; no effect if it was known already."""
        with self._lock:
            entry = self._require(grant.action.name)
            if Phase.UNKNOWN in TRANSITIONS[entry.phase]:
                entry.move(Phase.UNKNOWN)

    def observed(self, name: str, phase: Phase) -> None:
        """Record that the enforcer began or finished the action; no effect if it was not approved here."""
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                return
            if phase is Phase.DISPATCHED and entry.phase is Phase.APPROVED:
                entry.move(Phase.CONSUMED)
                entry.move(Phase.DISPATCHED)
            elif phase is Phase.DONE and entry.phase is Phase.DISPATCHED:
                entry.move(Phase.DONE)

    def look(self, name: str, *, now: float) -> Waiting:
        """The action with this name in its current state.

        Raises:
            ``approval.unknown``: there is none.
        """
        with self._lock:
            self._expire(now)
            return self._require(name).seen()

    def all(self, *, now: float) -> tuple[Waiting, ...]:
        """Every action, in the order in which they were asked for."""
        with self._lock:
            self._expire(now)
            return tuple(entry.seen() for entry in self._entries.values())

    def narrow(self, *, policy: str, approval: Approval) -> None:
        """The session goes on under a narrower profile: what waits was asked for under another, and is never done."""
        self.close()
        with self._lock:
            self._policy, self._approval = policy, approval
            self._kids, self._identities = approval.kids, approval.identities

    def close(self) -> None:
        """The session ends: what waits is never done, and the outcome of what has begun is unknown."""
        with self._lock:
            for entry in self._entries.values():
                if entry.phase in WAITING:
                    entry.move(Phase.EXPIRED)
                elif Phase.UNKNOWN in TRANSITIONS[entry.phase]:
                    entry.move(Phase.UNKNOWN)

    # -- under the lock ----------------------------------------------------------------------------------------

    def _add(self, action: Action, key: bytes) -> Waiting:
        entry = self._entries[action.name] = _Entry(action, key)
        return entry.seen()

    def _expire(self, now: float) -> None:
        for entry in self._entries.values():
            if entry.phase in WAITING and now >= entry.action.not_after:
                entry.move(Phase.EXPIRED)

    def _require(self, name: str) -> _Entry:
        entry = self._entries.get(name)
        if entry is None:
            raise StateError("no such action waits for approval", code="approval.unknown", found=name[:80])
        return entry

    def _known(self, key: bytes, now: float) -> _Entry | None:
        """The entry by which the same was asked before, and still waits."""
        for entry in self._entries.values():
            if entry.key == key and entry.phase in WAITING:
                return entry
            if entry.key == key and entry.phase is Phase.DENIED and now < entry.action.not_after:
                raise ApprovalDenied("an approver has denied this", where=entry.action.name)
        return None

    def _grant(self, entry: _Entry, now: float) -> Grant:
        self._require_waiting(entry)
        standing = tuple(each for each in entry.statements.values() if now < each.expires)
        if entry.phase is not Phase.APPROVED or len(standing) < self._approval.quorum:
            raise ApprovalPending(
                "not approved yet",
                found=f"{len(standing)} of {self._approval.quorum}",
                where=entry.action.name,
            )
        return Grant(entry.action, standing)

    def _require_room(self, new: Sequence[Action]) -> None:
        if not new:
            return
        entries = self._entries.values()
        waiting = sum(entry.phase in WAITING for entry in entries)
        kept = sum(len(entry.action.raw) for entry in entries) + sum(len(action.raw) for action in new)
        if waiting + len(new) > MAX_WAITING or len(self._entries) + len(new) > MAX_ASKED or kept > MAX_KEPT:
            raise TooManyApprovals(
                "too many actions of this session wait for approval, or were asked for",
                expected=f"at most {MAX_WAITING} at a time, {MAX_ASKED} and {MAX_KEPT} bytes altogether",
            )

    def _require_waiting(self, entry: _Entry) -> None:
        if entry.phase in WAITING:
            return
        if entry.phase is Phase.DENIED:
            raise ApprovalDenied("an approver has denied this", where=entry.action.name)
        if entry.phase is Phase.EXPIRED:
            raise ApprovalExpired("the approval timed out", where=entry.action.name)
        raise ApprovalUsed("its approval was used before", where=entry.action.name)

    def _move(self, grant: Grant, phase: Phase) -> None:
        with self._lock:
            self._require(grant.action.name).move(phase)
