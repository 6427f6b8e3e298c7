"""What waits for approval in the sessions of this boot: kept in memory, decided by signatures, written down first.

Two enforce. A supervisor posts the actions that its proxy holds, and fetches the statements that approvers left for
them: it judges those itself, and believes nothing here but that they are signed. A tool call that this gateway lets
through is asked for, judged and claimed here (:meth:`GatewayApprovals.ask`, :meth:`GatewayApprovals.claim`). Either
way a statement counts only once its ``approval`` record is durable, and those who wait see it no earlier.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.signatures.approvers.errors import NotAnApprover, StatementForAnother
from affiant.attestation.signatures.approvers.identities import NamedIdentities
from affiant.attestation.signatures.approvers.statement import Statement, read_statement
from affiant.errors import StateError
from affiant.gateway.sessions.recorder import Recorded, Recorder, policy_members
from affiant.gateway.sessions.sessions import Session, SessionState, SessionTable
from affiant.policy.approvals.action import Action, Draft, parse_action
from affiant.policy.approvals.errors import (
    ActionMalformed,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalPending,
    ApprovalUsed,
    TooManyApprovals,
)
from affiant.policy.approvals.queue import MAX_WAITING, WAITING, ApprovalQueue, Grant, Phase, Waiting

__all__ = ["Approved", "Approvers", "GatewayApprovals", "Post"]

Approvers = Collection[str]
"""The sender of a request: a key's thumbprint, or the names of an identity under each trusted root that knows it."""

_MAX_TARGET = 2048
_FEW = 64
_MAX_LISTED = 4096
"""Actions: as many as can wait in all sessions at a time."""


@dataclass(frozen=True, slots=True)
class Approved:
    """A grant of this gateway's, and the ids of the ``approval`` records that it rests on."""

    queue: ApprovalQueue
    grant: Grant
    records: tuple[str, ...]

    @property
    def apr(self) -> Mapping[str, object]:
        """``apr`` of the intent that it lets be recorded: the statement that completed the quorum."""
        return apr_members(self.grant.action, self.grant.statements[-1])

    def dispatched(self) -> None:
        """Its intent is durable."""
        self.queue.dispatched(self.grant)

    def over(self, *, known: bool) -> None:
        """It ended; ``known``: what became of it is recorded."""
        if known:  # where the session ended meanwhile, it stays unknown
            self.queue.observed(self.grant.action.name, Phase.DONE)
        else:
            self.queue.lost(self.grant)


@dataclass(frozen=True, slots=True)
class Post:
    """One action as an approver may see it."""

    waiting: Waiting
    quorum: int


@dataclass(slots=True)
class _Box:
    """One session's queue, and which statements are recorded: statement -> id of the record, by action."""

    session: Session
    queue: ApprovalQueue
    recorded: dict[str, dict[str, str]] = field(default_factory=dict)
    written: dict[str, Recorded] = field(default_factory=dict)
    """Records on their way to the disk, by the statement that they hold: one that is posted twice has one."""
    intents: dict[str, str] = field(default_factory=dict)
    """Id of a supervisor's intent -> the action that it begins."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    held: int = 0
    """Requests of the session that this gateway holds until approvers have spoken."""

    def wake(self) -> None:
        """Wake all that wait for something of this session."""
        self.changed.set()
        self.changed = asyncio.Event()


class GatewayApprovals:
    """All of it.

    Args:
        recorder: writes the ``approval`` records.
        clock: the time that records are dated by, UTC.
    """

    def __init__(
        self,
        *,
        recorder: Recorder,
        sessions: SessionTable,
        clock: Callable[[], datetime],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._recorder = recorder
        self._sessions = sessions
        self._clock = clock
        self._random_bytes = random_bytes
        self._boxes: dict[str, _Box] = {}
        self._looked_through_at = _FEW

    # -- for sessions ------------------------------------------------------------------------------------------

    def post(self, session: Session, raw: bytes) -> Waiting:
        """Take an action that the supervisor of ``session`` holds; the same again is the same.

        Raises:
            ActionMalformed, ApprovalExpired, TooManyApprovals: it is not taken. ``session.closed``: nothing is.
        """
        action = parse_action(raw)
        if action.plane != "egress":
            raise ActionMalformed("not an action that a supervisor holds", expected="egress", where="plane")
        session.require_open(now=self._now())
        return self._box(session).queue.post(action, now=self._now())

    def statements(self, session: Session, name: str) -> Mapping[str, object]:
        """What approvers said of an action of ``session``, as far as it is recorded: ``state`` and ``statements``."""
        box = self._box(session)
        found = box.queue.look(name, now=self._now())
        recorded = box.recorded.get(name, {})
        said = [
            {"statement": each.text, "record": recorded[each.text]}
            for each in found.statements
            if each.text in recorded
        ]
        return {"state": found.phase.value, "statements": said}

    def observe(self, session: Session, record: VerifiedReceipt) -> None:
        """Take in what a supervisor's record reports of an action; nothing is decided by it."""
        box = self._boxes.get(session.id)
        if box is None or record.kind != "egress":
            return
        name = record.member("apr", "dig")
        if isinstance(name, str) and record.member("ph") == "intent":
            box.queue.observed(name, Phase.DISPATCHED)
            box.intents[record.jti] = name
        elif record.member("ph") == "outcome" and isinstance(begun := record.member("par"), list):
            for intent in begun:
                if (done := box.intents.pop(intent, None)) is not None:
                    box.queue.observed(done, Phase.DONE)

    # -- for calls of tools that this gateway makes ------------------------------------------------------------

    @contextmanager
    def holding(self, session: Session) -> Iterator[None]:
        """Count one request that is held for approval.

        Raises:
            TooManyApprovals: as many of the session are.
        """
        box = self._box(session)
        if box.held >= MAX_WAITING:
            raise TooManyApprovals(
                "too many requests of this session wait for approval", expected=f"at most {MAX_WAITING}"
            )
        box.held += 1
        try:
            yield
        finally:
            box.held -= 1

    def ask(self, session: Session, drafts: Sequence[Draft]) -> tuple[Action, ...]:
        """Ask for approval of what this gateway is about to let through, all of it or nothing.

        Raises:
            ApprovalDenied, TooManyApprovals, ActionUnshowable: nothing new is asked for. ``session.closed``: nor here.
        """
        session.require_open(now=self._now())
        waiting = self._box(session).queue.ask_all(
            drafts, nonce=lambda: b64u(self._random_bytes(16)), now=self._now()
        )
        return tuple(each.action for each in waiting)

    async def approved(self, session: Session, actions: Sequence[Action]) -> None:
        """Return once each of ``actions`` is approved, and all that approvers said of them is recorded.

        Raises:
            ApprovalDenied, ApprovalExpired: one never will be. ApprovalUsed: another call took it.
            ``session.closed``: the session has ended meanwhile.
        """
        box = self._box(session)
        while True:
            session.require_open(now=self._now())
            if self._are_approved(box, actions):
                return
            await self._changed(box, actions)

    def claim(self, session: Session, actions: Sequence[Action]) -> tuple[Approved, ...]:
        """Take the approvals of all ``actions``, once, or none of them; one step of the event loop.

        Raises:
            ApprovalPending, ApprovalDenied, ApprovalExpired, ApprovalUsed: nothing is taken.
            ``session.closed``: nor here.
        """
        session.require_open(now=self._now())
        box = self._box(session)
        if not self._are_approved(box, actions):
            raise ApprovalPending("not approved yet")
        grants = box.queue.claim_all([action.name for action in actions], now=self._now())
        return tuple(Approved(box.queue, grant, self._records(box, grant)) for grant in grants)

    def require_time(self, approved: Approved) -> None:
        """Return if what was taken may still be begun.

        Raises:
            ApprovalExpired: its time is over.
        """
        approved.queue.require_time(approved.grant, now=self._now())

    def _are_approved(self, box: _Box, actions: Sequence[Action]) -> bool:
        waiting = [action for action in actions if not self._is_approved(box, action.name)]  # asks each
        return not waiting

    def _is_approved(self, box: _Box, name: str) -> bool:
        found = box.queue.look(name, now=self._now())
        match found.phase:
            case Phase.DENIED:
                raise ApprovalDenied("an approver has denied this", where=name)
            case Phase.EXPIRED:
                raise ApprovalExpired("it was not approved in time", where=name)
            case Phase.PENDING:
                return False
            case Phase.APPROVED:
                return all(each.text in box.recorded.get(name, {}) for each in found.statements)
            case _:
                raise ApprovalUsed("its approval was used before", where=name)

    @staticmethod
    def _records(box: _Box, grant: Grant) -> tuple[str, ...]:
        recorded = box.recorded[grant.action.name]
        return tuple(recorded[each.text] for each in grant.statements)

    async def _changed(self, box: _Box, actions: Sequence[Action]) -> None:
        """Wait until a decision arrives, an action's time is over, or a second has passed."""
        left = min(action.not_after - self._now() for action in actions)
        try:
            async with asyncio.timeout(min(max(left, 0.01), 1.0)):
                await box.changed.wait()
        except TimeoutError:
            return

    # -- for approvers -----------------------------------------------------------------------------------------

    def names(self, kid: str) -> bool:
        """Whether some session of this boot names this key, or this identity, as an approver."""
        return any(box.queue.may_approve(kid) for box in self._boxes.values())

    def identities(self) -> frozenset[NamedIdentities]:
        """Those that sessions of this boot name as approvers, by the trusted roots that judge them."""
        return frozenset(box.queue.identities for box in self._current() if box.queue.identities.who)

    def listed(self, who: Approvers) -> tuple[Post, ...]:
        """Every action that waits for one of ``who``, and then what ended last, within a bound."""
        every = self._of(who)
        waiting = [post for post in every if post.waiting.phase in WAITING]
        ended = [post for post in every if post.waiting.phase not in WAITING]
        return tuple((waiting + ended[::-1])[:_MAX_LISTED])

    def _of(self, who: Approvers) -> tuple[Post, ...]:
        """Every action that one of ``who`` may approve, or could have."""
        return tuple(
            Post(waiting, box.queue.approval.quorum)
            for box in self._current()
            if any(map(box.queue.may_approve, who))
            for waiting in box.queue.all(now=self._now())
        )

    def shown(self, who: Approvers, name: str) -> Post:
        """One of them.

        Raises:
            ``not_found``: there is none, or it is none of theirs.
        """
        for post in self._of(who):
            if post.waiting.action.name == name:
                return post
        raise StateError("no such action waits for you", code="not_found")

    async def decide(self, who: Approvers, name: str, text: str) -> Mapping[str, object]:
        """Count a statement of one of ``who``, once it is recorded; ``state`` and ``record``.

        Raises:
            ``not_found``: no such action of theirs. JournalUnavailable: not recorded.
            AffiantError: as the queue rejects it.
        """
        action = self.shown(who, name).waiting.action
        box = self._boxes[action.session]
        box.session.require_open(now=self._now())
        given = read_statement(text, box.queue.identities)
        kid = given.kid
        if kid not in who:  # a statement counts only from the person who made it
            raise NotAnApprover("signed by another person than the request", expected=min(who), found=kid)
        if given.action != name:
            raise StatementForAnother("a statement about another action", expected=name, found=given.action)
        waiting = box.queue.count(given, now=self._now())
        statement = next(each for each in waiting.statements if each.kid == kid)
        recorded = box.recorded.setdefault(name, {})
        if statement.text != text or text in recorded:  # they had approved it before: that statement counts
            return {"state": waiting.phase.value, "record": recorded.get(statement.text)}
        written = box.written.get(text) or self._record(box.session, action, statement)
        box.written[text] = written
        await written.durable
        box.written.pop(text, None)
        recorded[text] = written.jti
        box.wake()
        return {"state": waiting.phase.value, "record": written.jti}

    def _record(self, session: Session, action: Action, statement: Statement) -> Recorded:
        if (
            statement.bundle is not None
        ):  # durable before the record, which names it: the journal keeps the order
            self._recorder.keep_object("policies", statement.bundle, session=session.id)
        end, decision = ("complete", "allow") if statement.approves else ("refused", "deny")
        return self._recorder.session_record(
            session,
            "approval",
            {
                "act": {"typ": "approval", "end": end},
                "pol": policy_members(session, decision),
                "apr": apr_members(action, statement),
            },
            {
                "act": {"name": action.plane, "arg": action.name, "tgt": _target(action)},
                "pol": {"rules": action.rules},
            },
            number=None,
        )

    def restricted(self, session: Session) -> None:
        """The profile of ``session`` was restricted: what waits was asked for under another, and expires."""
        box = self._boxes.get(session.id)
        if box is not None:
            policy = session.admitted.policy
            box.queue.narrow(policy=policy.digest, approval=policy.policy.approval)
            box.wake()

    # -- keeping -----------------------------------------------------------------------------------------------

    def _box(self, session: Session) -> _Box:
        box = self._boxes.get(session.id)
        if box is None:
            if len(self._boxes) >= self._looked_through_at:  # twice as many as were left: each costs the same
                self._looked_through_at = 2 * len(self._current()) + _FEW
            box = self._boxes[session.id] = _Box(session, _queue_of(session))
        return box

    def _current(self) -> tuple[_Box, ...]:
        """The boxes of sessions that are known; of those that have ended, nothing waits any more."""
        for session, box in tuple(self._boxes.items()):
            if box.session.state is not SessionState.OPEN:
                box.queue.close()
            if self._sessions.by_id(session) is not box.session:
                del self._boxes[session]
        return tuple(self._boxes.values())

    def _now(self) -> float:
        return self._clock().timestamp()


def apr_members(action: Action, statement: Statement) -> Mapping[str, object]:
    """``apr`` of a record."""
    return {
        "dig": action.name,
        "kid": statement.kid,
        "sig": statement.sig,
        "exp": statement.expires,
        "via": statement.via,
    }


def _queue_of(session: Session) -> ApprovalQueue:
    policy = session.admitted.policy
    return ApprovalQueue(
        session=session.id,
        policy=policy.digest,
        approval=policy.policy.approval,
        never={session.admitted.statement.receipt_kid},
    )


def _target(action: Action) -> str:
    request, call = action.members.get("request"), action.members.get("call")
    if isinstance(request, Mapping):
        return f"{request['method']} {request['url']}"[:_MAX_TARGET]
    assert isinstance(call, Mapping)
    return str(call["tool"])
