"""Which sessions may be admitted as children of which: announced by the parent's supervisor, under its proof.

A session that another session's agent starts takes from its parent's limits too, so its parent must want it. Its
supervisor announces the child's id, agent and profile; the profile in force lets that agent be started, and not more
often than it says. So do those of all sessions above, in which the start counts too. The session that then asks to be
admitted under this id must have exactly that profile, no wider than the parent's at that time, and its parent must
still be open. A session that was not announced is no child.

What was announced is in memory only, for a few minutes, and is used once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.encoding.canonical import parse_object
from affiant.errors import NotAllowedError, NotFreshError
from affiant.gateway.sessions.sessions import Admitted, Session, SessionTable
from affiant.gateway.wire.errors import Busy, RequestMalformed
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.decide import Decision
from affiant.policy.decision.limit_errors import StartsSpent
from affiant.policy.diff.restriction import require_no_wider

__all__ = ["MAX_ANNOUNCED", "ChildStart", "ChildStarts"]

MAX_ANNOUNCED: Final = 4096
"""Bytes of an announcement."""
_WAITS_S: Final = 300
_MOST_WAITING: Final = 16
"""Of one session: announced and neither admitted nor too old."""
_SESSION: Final = re.compile(r"[A-Za-z0-9_-]{22}\Z")
_DIGEST: Final = re.compile(r"sha384:[0-9a-f]{96}\Z")


@dataclass(frozen=True, slots=True)
class ChildStart:
    """One child that may be admitted. ``until``: seconds since 1970."""

    parent: Session
    agent: str
    policy: str
    until: float

    def require_no_wider(self, child: CompiledPolicy) -> CompiledPolicy:
        """The parent's profile in force, than which ``child`` is no wider.

        Raises:
            ``admission.child``: it is another profile than was announced. NotARestriction: it is wider.
        """
        if child.digest != self.policy:
            raise NotAllowedError(
                "the session has another profile than its parent announced",
                expected=self.policy,
                found=child.digest,
                code="admission.child",
            )
        policy = self.parent.admitted.policy
        require_no_wider(policy, child, agent=self.agent)
        return policy

    def require_current(self, policy: CompiledPolicy, *, now: float) -> None:
        """Return if the parent is open, and ``policy`` still its profile.

        Raises:
            ``session.closed``: it has ended. ``admission.child``: its profile was restricted meanwhile.
        """
        self.parent.require_open(now=now)
        if self.parent.admitted.policy is not policy:
            raise NotAllowedError("the parent's profile was restricted meanwhile", code="admission.child")


@dataclass(frozen=True, slots=True)
class ChildStarts:
    """All that were announced."""

    sessions: SessionTable
    _waiting: dict[str, ChildStart] = field(default_factory=dict)
    _of_parent: Counter[str] = field(default_factory=Counter)
    """How many wait, by the parent's id."""

    def announce(self, parent: Session, body: bytes, *, now: float) -> Mapping[str, object]:
        """Have the session that ``body`` names admitted as a child of ``parent``; the response's members.

        Raises:
            RequestMalformed: no announcement. ``session.start_denied``: the profile does not allow it.
            StartsSpent: it allows no more. ``admission.replayed``: the id was used. Busy: too many wait.
        """
        session, agent, policy = _read(body)
        parent.require_open(now=now)
        parent.require_not_held()
        room = _room(parent, agent)
        while self._waiting and next(iter(self._waiting.values())).until < now:  # all wait for as long
            self._forget(next(iter(self._waiting)))
        if session in self._waiting or self.sessions.was_admitted(session):
            raise NotFreshError("this session was announced or admitted before", code="admission.replayed")
        if self._of_parent[parent.id] >= _MOST_WAITING:
            raise Busy(
                "too many announced sessions were not admitted yet", expected=f"at most {_MOST_WAITING}"
            )
        _count(room, agent)
        self._waiting[session] = ChildStart(parent, agent, policy, now + _WAITS_S)
        self._of_parent[parent.id] += 1
        return {"session": session}

    def is_admitted(self, parent: Session, session: str) -> bool:
        """Whether ``session`` was admitted as a child of ``parent``."""
        found = self.sessions.by_id(session)
        return found is not None and found.parent is parent

    def of(self, session: str, *, now: float) -> ChildStart | None:
        """What was announced of a session that asks to be admitted; None: nothing, or too long ago."""
        start = self._waiting.get(session)
        return None if start is None or start.until < now else start

    def used(self, admitted: Admitted) -> None:
        """The session is admitted: its announcement holds no more."""
        if admitted.activation.session in self._waiting:
            self._forget(admitted.activation.session)

    def _forget(self, session: str) -> None:
        parent = self._waiting.pop(session).parent.id
        self._of_parent[parent] -= 1
        if not self._of_parent[parent]:
            del self._of_parent[parent]


def _room(parent: Session, agent: str) -> Sequence[tuple[Session, Decision]]:
    """The session that starts one, and all above it, with the decisions by which they may.

    Raises:
        ``session.start_denied``: one of them may not.
    """
    found = []
    starter: Session | None = parent
    while starter is not None:
        decision = starter.admitted.policy.decide_start(agent)
        if not decision.allowed:
            raise NotAllowedError(decision.text, found=decision.reason, code="session.start_denied")
        found.append((starter, decision))
        starter = starter.parent
    return found


def _count(room: Sequence[tuple[Session, Decision]], agent: str) -> None:
    """Count a start for all of them, if each one's profile allows one more; it counts whatever becomes of it.

    Raises:
        StartsSpent: one does not.
    """
    for starter, decision in room:
        limits = starter.admitted.policy.start_limits()
        for bound in (bound for rule in decision.rules for bound in limits.get(rule, ())):
            if starter.starts[agent] >= bound.most:
                raise StartsSpent(
                    "the session has started as many sessions of this agent as its profile lets it",
                    rules=decision.rules,
                    expected=f"at most {bound.most}",
                    hint=None
                    if starter is room[0][0]
                    else "It is a limit of the session that started this one",
                )
    for starter, _ in room:
        starter.starts[agent] += 1


def _read(body: bytes) -> tuple[str, str, str]:
    match parse_object(body, limit=MAX_ANNOUNCED):
        case {"session": str(session), "agent": str(agent), "policy": str(policy), **rest} if not rest:
            if _SESSION.match(session) and _DIGEST.match(policy):
                return session, agent, policy
    raise RequestMalformed("not an announcement of a session", expected="session, agent and policy")
