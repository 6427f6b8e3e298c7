"""Sessions in the memory of the gateway that admitted them: all that decides about them is here.

Nothing of this is ever read back from a store. When this process dies its sessions are lost.

A session's states and what leads from one to the next::

    OPEN ----close, expiry, drain----> CLOSING ----last request recorded----> CLOSED

What was admitted is replaced as a whole, in one turn of the event loop and while no request is under way, when the
session's profile is restricted (:meth:`Session.restrict`); until then nothing new is begun.

While CLOSING nothing new is admitted; requests under way end first, so that the close record is the last. What
is refused meanwhile still has its record, until the session is sealed for that last one.
"""

from __future__ import annotations

import asyncio
import enum
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.records.head import Head
from affiant.attestation.records.proof import ReplayWindow
from affiant.attestation.records.receipt import Issued
from affiant.attestation.records.sealed_disclosures import SessionSealing
from affiant.attestation.records.session_summary import outcome_of, session_root
from affiant.attestation.statements.manifest import Activation, Manifest
from affiant.attestation.statements.restriction import Narrowing
from affiant.attestation.statements.statement import KeysetStatement
from affiant.errors import AffiantError, NotAuthenticError, NotFreshError, StateError, UnreachableError
from affiant.gateway.sessions.session_limits import SessionLimits
from affiant.gateway.wire.errors import Busy
from affiant.policy.decision.compiled import CompiledPolicy

__all__ = [
    "TRANSITIONS",
    "Admitted",
    "Session",
    "SessionState",
    "SessionTable",
    "SupervisorChain",
    "session_held",
]

_KEPT_RECEIPTS: Final = 1024
"""Receipts with disclosures kept per open session; all others are found sealed, in the bundle."""
_KEPT_CLOSED: Final = 256
"""Closed sessions whose supervisor may still ask for its bundle."""


class SessionState(enum.Enum):
    """The state of a session."""

    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


TRANSITIONS: Final[Mapping[SessionState, frozenset[SessionState]]] = {
    SessionState.OPEN: frozenset({SessionState.CLOSING}),
    SessionState.CLOSING: frozenset({SessionState.CLOSED}),
    SessionState.CLOSED: frozenset(),
}
"""State -> states that may follow."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """What the appraisal of one session's evidence established: at its admission, or at its last restriction."""

    activation: Activation
    manifest: Manifest
    statement: KeysetStatement
    policy: CompiledPolicy
    evidence: bytes
    evd: str
    ear: str
    """The attestation result, a JWS."""
    ear_digest: str
    tier: str
    until: int
    """Until when what the evidence was appraised with is valid: seconds since 1970."""
    signature: bytes | None = None
    """The signature over the profile's file that came with it; about this profile, and by a signer of the
    configuration where that names any."""
    restrictions: tuple[Narrowing, ...] = ()
    """How the profile came from the manifest's to this one."""
    difference: str | None = None
    """``dif`` of the record of the last restriction: what this gateway found to be different, ``sha256:``."""

    @property
    def epoch(self) -> int:
        """``pol.epoch``."""
        return len(self.restrictions)

    @property
    def file_digest(self) -> str:
        """``sha256:`` of the file that the profile is of."""
        return self.restrictions[-1].file_digest if self.restrictions else self.manifest.file_digest

    @property
    def bound(self) -> str:
        """``pol.bind``: where the profile's digest is bound."""
        return "rtmr3" if self.restrictions else "mrconfigid"

    @property
    def isolation(self) -> str:
        """The inner isolation that the activation names, and with it RTMR3."""
        return self.activation.isolation


@dataclass(slots=True)
class SupervisorChain:
    """What the gateway has acknowledged of a session's own chain."""

    chn: str
    prev: str
    """What the next record must link to."""
    evd: str
    """The evidence that its records name, until one of kind ``policy`` names the next."""
    seq: int = 0
    """What the next record must be numbered."""
    epoch: int = 0
    """How many records of kind ``policy`` it holds."""
    ended: bool = False
    hashes: set[str] = field(default_factory=set)
    peer_seq: int = 0
    """The highest number of a gateway record that one of its records named."""
    sealed_key: str | None = None
    """The key to its sealed disclosures, as the supervisor sealed it; None until the first."""
    named: Head | None = None
    """The gateway's record that the last acknowledgement named: durable, since the journal keeps its order."""

    @property
    def head(self) -> Head | None:
        """The last acknowledged record."""
        return None if self.seq == 0 else Head(self.chn, self.seq - 1, self.prev)

    def to_json(self) -> Mapping[str, object]:
        """``sup`` of a close record; without any record, number 0 and the session's keyset digest."""
        return {"chn": self.chn, "seq": max(self.seq - 1, 0), "rh": self.prev, "end": int(self.ended)}


class Session:
    """One admitted session."""

    def __init__(
        self, admitted: Admitted, *, started: int, expires: int, parent: Session | None = None
    ) -> None:
        self.admitted = admitted
        self.parent = parent
        """The session whose agent started this one: it takes from the parent's limits too."""
        self.starts: Counter[str] = Counter()
        """Sessions that its agent started, by the other agent's name."""
        self.id = admitted.activation.session
        self.started = started
        self.expires = expires
        self.last_proof = started
        self.state = SessionState.OPEN
        self.window = ReplayWindow()
        self.limits = SessionLimits(admitted.policy, above=None if parent is None else lambda: parent.limits)
        self.supervisor = SupervisorChain(
            chn=next(iter(admitted.statement.chn)),
            prev=admitted.statement.keyset_digest,
            evd=admitted.evd,
        )
        self.sealing: SessionSealing | None = None
        """What seals this gateway's disclosures about it; None until the first."""
        self.submitting = asyncio.Lock()
        self.restricting = asyncio.Lock()
        self.held = False
        """Whether nothing new is begun, because the profile is being restricted."""
        self.restriction_failed = False
        self.head: Head | None = None
        self.sealed = False
        """Whether the close record is next or was: no request takes a number any more."""
        self.close_jws: str | None = None
        self.closed_why: str | None = None
        """``why`` of its close, once that began."""
        self.bundle_given = False
        """Whether its supervisor was given the bundle after the close."""
        self.drain_asked = False
        """Whether its supervisor has asked if the session is to be closed because the gateway will stop."""
        self.drain_told = False
        """Whether its supervisor was answered that it is, before the close."""
        self._heads: list[Head | None] = []
        self._counts: Counter[str] = Counter()
        self._known: dict[str, Head] = {}
        self._receipts: OrderedDict[str, Issued] = OrderedDict()
        self._under_way = 0
        self._tasks: set[asyncio.Task[object]] = set()
        self._waits: set[asyncio.Future[None]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    # -- order ---------------------------------------------------------------------------------------------

    def next_number(self) -> int:
        """Take the next ``agt.seq``."""
        self._heads.append(None)
        return len(self._heads) - 1

    @property
    def upcoming(self) -> int:
        """What :meth:`next_number` would give."""
        return len(self._heads)

    def recorded(self, number: int, issued: Issued, head: Head) -> None:
        """Keep what was signed for ``number``; the record becomes the session's head."""
        assert self._heads[number] is None, "one record for each number"
        self._heads[number] = head
        self._counts[outcome_of(str(issued.payload["kind"]), issued.payload)] += 1
        self._known[issued.rh] = head
        self.head = head
        self._receipts[str(issued.payload["jti"])] = issued
        while len(self._receipts) > _KEPT_RECEIPTS:
            self._receipts.popitem(last=False)

    def receipt(self, jti: str) -> Issued | None:
        """A receipt of this session with its disclosures, if it is still kept."""
        return self._receipts.get(jti)

    def signed(self, rh: str) -> Head | None:
        """The record of this gateway about this session whose hash is ``rh``, if there is one."""
        return self._known.get(rh)

    def summary_before(self, number: int) -> Mapping[str, object]:
        """``out``, ``n``, ``head`` and ``root`` of the close record with this number, over all before it.

        ``head`` is the record with the highest ``agt.seq``, which need not be the one that was signed last.
        """
        heads = [head for head in self._heads[:number] if head is not None]
        assert len(heads) == number, "closed while a request was under way"
        return {
            "out": dict(self._counts),
            "n": number,
            "head": heads[-1].to_json(),
            "root": session_root({at: head.rh for at, head in enumerate(heads)}),
        }

    # -- life ----------------------------------------------------------------------------------------------

    def require_open(self, *, now: float) -> None:
        """Return if the session takes requests.

        Raises:
            ``session.closed``: it, or its parent, is being closed, was closed, or has expired.
        """
        if self.parent is not None:
            self.parent.require_open(now=now)
        if self.state is not SessionState.OPEN:
            raise StateError("the session has ended", found=self.state.value, code="session.closed")
        if now >= self.expires:
            raise StateError(
                "the session has expired", expected=f"a request before {self.expires}", code="session.closed"
            )

    def require_not_held(self) -> None:
        """Return if a request may be begun.

        Raises:
            ``session.narrowing``: the profile is being restricted.
        """
        if self.held:
            raise session_held()

    def restrict(self, admitted: Admitted) -> None:
        """From now on the session is what ``admitted`` says; what it has used of its limits stays used."""
        assert self.held, "nothing may begin between the last request and this"
        assert self._under_way == 0, "a request that began under one profile ends under it"
        assert admitted.restrictions[:-1] == self.admitted.restrictions, "one restriction at a time"
        self.limits = self.limits.restricted(admitted.policy)
        self.admitted = admitted
        self.expires = min(self.expires, admitted.until)  # as at the admission

    def move(self, state: SessionState) -> None:
        """Go on to ``state``, if the table allows it."""
        if state not in TRANSITIONS[self.state]:
            raise StateError(
                f"a session that is {self.state.value} does not become {state.value}", code="session.closed"
            )
        self.state = state
        if state is SessionState.CLOSING:
            self.end_waits(StateError("the session has ended", found=state.value, code="session.closed"))
        if state is SessionState.CLOSED:
            for kept in (self._receipts, self._heads, self._known, self._counts):
                kept.clear()  # nothing follows the close, and a bundle is read from the journal

    def begin(self) -> None:
        """A request of this session is under way, in the current task."""
        self._under_way += 1
        self._idle.clear()
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)

    def give_up(self) -> None:
        """Cancel the requests under way; each still gets its record."""
        for task in tuple(self._tasks):
            task.cancel()

    def waits(self) -> asyncio.Future[None]:
        """What a request of this session that waits for its turn awaits; :meth:`waits_no_more` when it has."""
        made: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waits.add(made)
        return made

    def waits_no_more(self, wait: asyncio.Future[None]) -> None:
        """That one has come to its end, whether or not its caller still got the outcome."""
        self._waits.discard(wait)
        if wait.done() and not wait.cancelled():
            wait.exception()  # asyncio complains of one whose exception is not read

    def end_waits(self, refusal: AffiantError) -> None:
        """Whatever waits for its turn waits no more, and is refused."""
        for wait in self._waits:
            if not wait.done():
                wait.set_exception(refusal)

    def end(self) -> None:
        """A request of this session has its record."""
        self._under_way -= 1
        task = asyncio.current_task()
        if task is not None:
            self._tasks.discard(task)
        if self._under_way == 0:
            self._idle.set()

    @property
    def under_way(self) -> int:
        """Requests without their record yet."""
        return self._under_way

    async def idle(self, *, within_s: float | None) -> bool:
        """Wait until no request is under way; whether that came to be in time. None: as long as it takes."""
        try:
            async with asyncio.timeout(within_s):
                while self._under_way:  # between the event and this turn another may have begun
                    await self._idle.wait()
        except TimeoutError:
            return False
        return True


def session_held() -> UnreachableError:
    """The refusal of what is not begun while the session's profile is being restricted."""
    return UnreachableError(
        "the session's profile is being restricted", hint="Ask again in a moment", code="session.narrowing"
    )


class SessionTable:
    """All sessions of this boot, and what may never be admitted again."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._by_id: OrderedDict[str, Session] = OrderedDict()
        self._by_kid: dict[str, Session] = {}
        self._seen: set[str] = set()

    def __iter__(self) -> Iterator[Session]:
        return iter(tuple(self._by_id.values()))

    @property
    def under_way(self) -> int:
        """Requests without their record yet, over all sessions."""
        return sum(session.under_way for session in self._by_id.values())

    def require_new(self, admitted: Admitted) -> None:
        """Return if nothing of ``admitted`` was seen before in this boot.

        Raises:
            ``admission.replayed``: the session id, activation, statement or key was.
            Busy: too many sessions are open.
        """
        for name, value in _once(admitted).items():
            if value in self._seen:
                raise NotFreshError(f"this {name} was admitted before", where=name, code="admission.replayed")
        if sum(session.state is not SessionState.CLOSED for session in self) >= self._limit:
            raise Busy("too many open sessions", expected=f"at most {self._limit}")

    def was_admitted(self, session: str) -> bool:
        """Whether a session of this id was admitted in this boot."""
        return session in self._seen

    def add(self, session: Session) -> None:
        """Keep ``session``; :meth:`require_new` was asked in the same turn of the event loop."""
        self._seen.update(_once(session.admitted).values())
        self._by_id[session.id] = session
        self._by_kid[session.admitted.statement.receipt_kid] = session

    def of_key(self, kid: str) -> Session:
        """The session whose key has this thumbprint.

        Raises:
            ``session.unknown``: there is none.
        """
        session = self._by_kid.get(kid)
        if session is None:
            raise NotAuthenticError(
                "the proof's key belongs to no session of this gateway", code="session.unknown"
            )
        return session

    def by_id(self, session: str) -> Session | None:
        """The session with this id, if it is known."""
        return self._by_id.get(session)

    def forget_oldest_closed(self) -> None:
        """Bound what is kept of closed sessions."""
        closed = [session for session in self if session.state is SessionState.CLOSED]
        for session in closed[: max(0, len(closed) - _KEPT_CLOSED)]:
            del self._by_id[session.id]
            del self._by_kid[session.admitted.statement.receipt_kid]


def _once(admitted: Admitted) -> Mapping[str, str]:
    return {
        "session id": admitted.activation.session,
        "activation": admitted.activation.digest,
        "statement": admitted.statement.digest,
        "session key": admitted.statement.receipt_kid,
        "session chain": next(iter(admitted.statement.chn)),
    }
