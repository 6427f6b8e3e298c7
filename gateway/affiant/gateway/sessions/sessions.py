"""Sessions in the memory of the gateway that admitted them: all that decides about them is here.

Nothing of this is ever read back from a store. When this process dies its sessions are lost.

A session's states and what leads from one to the next::

    OPEN ----close, expiry, drain----> CLOSING ----last request recorded----> CLOSED

What was admitted is replaced as a whole, in one turn of the event loop and while no request is under way, when the
session's profile is restricted (:meth:`Session.restrict`); until then nothing new is begun.

While CLOSING nothing new is admitted; requests under way end first, so that the close record is the last. What
is refused meanwhile still has its record, until the session is sealed for that last one.

What is kept of a session does not grow with its requests: of its records the root of their tree, the last one, those
that its supervisor may still name, and the newest receipts as text.
"""

from __future__ import annotations

import asyncio
import enum
import functools
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.merkle import leaf_hash, node_hash
from affiant.attestation.records.head import Head
from affiant.attestation.records.proof import MACKey, ReplayWindow
from affiant.attestation.records.receipt import Issued
from affiant.attestation.records.sealed_disclosures import SessionSealing
from affiant.attestation.records.session_summary import outcome_of
from affiant.attestation.statements.manifest import Activation, Manifest
from affiant.attestation.statements.restriction import Narrowing
from affiant.attestation.statements.statement import KeysetStatement
from affiant.errors import AffiantError, NotAuthenticError, NotFreshError, StateError, UnreachableError
from affiant.gateway.sessions.session_limits import SessionLimits
from affiant.gateway.sessions.stored_responses import StoredResponses
from affiant.gateway.wire.errors import Busy
from affiant.policy.decision.compiled import CompiledPolicy

__all__ = [
    "TRANSITIONS",
    "Admitted",
    "Population",
    "RecordTree",
    "Session",
    "SessionState",
    "SessionTable",
    "SupervisorChain",
    "session_held",
]

_KEPT_RECEIPTS: Final = 2048
"""Receipts with disclosures that are kept, over all open sessions: 3.5 KB each. All others are found sealed, in the
bundles."""
_MOST_RECEIPTS: Final = 1024
_LEAST_RECEIPTS: Final = 4
"""Receipts of one session, however few or many are open."""
_UNACKNOWLEDGED: Final = 256
"""Records that a supervisor may have signed and not seen acknowledged (receipts specification, "two signers")."""
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


@dataclass(frozen=True)
class Admitted:
    """What the appraisal of one session's evidence established: at its admission, or at its last restriction."""

    activation: Activation
    manifest: Manifest
    statement: KeysetStatement
    policy: CompiledPolicy
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

    @functools.cached_property
    def policy_members(self) -> Mapping[str, object]:
        """The clear members of ``pol`` that every record of the session has."""
        last = self.restrictions[-1] if self.restrictions else self.manifest
        return {
            "dig": self.policy.digest,
            "fil": last.file_digest,
            "bind": "rtmr3" if self.restrictions else "mrconfigid",
            "epoch": self.epoch,
        }


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
    peer_seq: int = 0
    """The highest number of a gateway record that one of its records named."""
    sealed_key: str | None = None
    """The key to its sealed disclosures, as the supervisor sealed it; None until the first."""
    peer: Mapping[str, object] | None = None
    """Its last acknowledged record, as this gateway's next records name it; None before the first."""
    named: Head | None = None
    """The gateway's record that the last acknowledgement named: durable, since the journal keeps its order."""
    _told: dict[str, Head] = field(default_factory=dict)
    """Records of the gateway, by hash, that were named to it and that its next ones may name."""
    _taken: dict[str, None] = field(default_factory=dict)
    """Hashes of its last records."""

    def has_taken(self, rh: str) -> bool:
        """Whether the record with this hash is one of the last 256 that were taken: a supervisor waits with no more."""
        return rh in self._taken

    def take(self, rh: str, seq: int, *, peer_seq: int | None) -> None:
        """Its record with this hash and number was taken, and named the gateway's record ``peer_seq``, if any."""
        self.prev, self.seq = rh, seq + 1
        self.peer = Head(self.chn, seq, rh).to_json()
        self._taken[rh] = None
        if len(self._taken) > _UNACKNOWLEDGED:
            del self._taken[next(iter(self._taken))]
        if peer_seq is not None:
            self.peer_seq = peer_seq

    def tell(self, head: Head) -> None:
        """Name the gateway's record ``head`` to it. What its next records cannot name any more is forgotten."""
        self.named = self._told[head.rh] = head
        oldest = next(iter(self._told.values()))
        while oldest.seq < self.peer_seq or len(self._told) > 2 * _UNACKNOWLEDGED:
            del self._told[oldest.rh]
            oldest = next(iter(self._told.values()))

    def told(self, rh: str) -> Head | None:
        """The gateway's record with this hash, if it was named to it and may still be named."""
        return self._told.get(rh)

    def to_json(self) -> Mapping[str, object]:
        """``sup`` of a close record; without any record, number 0 and the session's keyset digest."""
        return {"chn": self.chn, "seq": max(self.seq - 1, 0), "rh": self.prev, "end": int(self.ended)}


class RecordTree:
    """The tree over a session's records (``root`` of its close), which come in any order of their numbers.

    Kept are the roots of its whole subtrees: as many as the logarithm of the records, for each number that is missing.
    """

    __slots__ = ("_subtrees",)

    def __init__(self) -> None:
        self._subtrees: dict[tuple[int, int], bytes] = {}

    def __len__(self) -> int:
        return len(self._subtrees)

    def add(self, number: int, rh: str) -> None:
        """The record with this number has this hash (43 characters)."""
        level, index, digest = 0, number, leaf_hash(from_b64u(rh, size=32))
        while (sibling := self._subtrees.pop((level, index ^ 1), None)) is not None:
            digest = node_hash(sibling, digest) if index & 1 else node_hash(digest, sibling)
            level, index = level + 1, index >> 1
        self._subtrees[level, index] = digest

    def root(self, size: int) -> str:
        """The root over the records 0 to ``size`` - 1, which must all be there and no other: 43 characters."""
        edge = [(level, (size >> level) - 1) for level in range(size.bit_length()) if size >> level & 1]
        assert self._subtrees.keys() == set(edge), "every number has its record"
        subtrees = [self._subtrees[each] for each in edge]
        return b64u(functools.reduce(lambda right, left: node_hash(left, right), subtrees))


@dataclass(slots=True)
class Population:
    """What the sessions of one gateway have together, counted as it changes: one costs no more among many."""

    open: int = 0
    under_way: int = 0
    """Requests without their record yet."""
    most_receipts: int = _MOST_RECEIPTS
    """How many receipts each session keeps."""

    def count(self, opened: int) -> None:
        """So many more sessions are open now."""
        self.open += opened
        self.most_receipts = max(_LEAST_RECEIPTS, min(_MOST_RECEIPTS, _KEPT_RECEIPTS // max(self.open, 1)))


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
        self.mac_key: MACKey | None = None
        """Under which its supervisor's proofs by MAC are; none before it has asked for it, and after the close."""
        self.limits = SessionLimits(admitted.policy, above=None if parent is None else lambda: parent.limits)
        self.stored = StoredResponses()
        """What upstreams keep of its responses."""
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
        self.population = Population()
        """Of the table that it is in."""
        self._upcoming = 0
        self._unrecorded: set[int] = set()
        self._tree = RecordTree()
        self._last: tuple[int, Head] | None = None
        """The record with the highest number."""
        self._counts: Counter[str] = Counter()
        self._receipts: OrderedDict[str, str] = OrderedDict()
        self._under_way = 0
        self._tasks: set[asyncio.Task[object]] = set()
        self._waits: set[asyncio.Future[None]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    # -- order ---------------------------------------------------------------------------------------------

    def next_number(self) -> int:
        """Take the next ``agt.seq``."""
        number = self._upcoming
        self._unrecorded.add(number)
        self._upcoming += 1
        return number

    @property
    def upcoming(self) -> int:
        """What :meth:`next_number` would give."""
        return self._upcoming

    def recorded(self, number: int, issued: Issued, head: Head) -> None:
        """Keep what was signed for ``number``; the record becomes the session's head."""
        assert number in self._unrecorded, "one record for each number"
        self._unrecorded.remove(number)
        self._tree.add(number, issued.rh)
        if self._last is None or number > self._last[0]:
            self._last = number, head
        self._counts[outcome_of(str(issued.payload["kind"]), issued.payload)] += 1
        self.head = head
        self._receipts[str(issued.payload["jti"])] = issued.sdjwt
        while len(self._receipts) > self.population.most_receipts:
            self._receipts.popitem(last=False)

    def receipt(self, jti: str) -> str | None:
        """A receipt of this session with its disclosures, if it is still kept."""
        return self._receipts.get(jti)

    def summary_before(self, number: int) -> Mapping[str, object]:
        """``out``, ``n``, ``head`` and ``root`` of the close record with this number, over all before it.

        ``head`` is the record with the highest ``agt.seq``, which need not be the one that was signed last.
        """
        assert self._last is not None, "a session has a start before it has anything else"
        assert self._unrecorded <= {number}, "closed while a request was under way"
        return {
            "out": dict(self._counts),
            "n": number,
            "head": self._last[1].to_json(),
            "root": self._tree.root(number),
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

    def take_mac_key(self, key: MACKey) -> None:
        """Proofs by MAC are under ``key`` from now on.

        Raises:
            ``proof.key_given``: there was a key before.
        """
        if self.mac_key is not None or self.state is SessionState.CLOSED:
            raise StateError("the session was given its key for proofs by MAC", code="proof.key_given")
        self.mac_key = key

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
            self.mac_key = None
            for kept in (self._receipts, self._counts, self.stored):
                kept.clear()  # nothing follows the close, and a bundle is read from the journal
            self._tree = RecordTree()

    def begin(self) -> None:
        """A request of this session is under way, in the current task."""
        self._under_way += 1
        self.population.under_way += 1
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
        self.population.under_way -= 1
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
        self.population = Population()
        self._by_id: dict[str, Session] = {}
        self._closed: deque[Session] = deque()
        self._by_kid: dict[str, Session] = {}
        self._seen: set[str] = set()

    def __iter__(self) -> Iterator[Session]:
        return iter(tuple(self._by_id.values()))

    def require_new(self, admitted: Admitted) -> None:
        """Return if nothing of ``admitted`` was seen before in this boot.

        Raises:
            ``admission.replayed``: the session id, activation, statement or key was.
            Busy: too many sessions are open.
        """
        for name, value in _once(admitted).items():
            if value in self._seen:
                raise NotFreshError(f"this {name} was admitted before", where=name, code="admission.replayed")
        if self.population.open >= self._limit:
            raise Busy("too many open sessions", expected=f"at most {self._limit}")

    def was_admitted(self, session: str) -> bool:
        """Whether a session of this id was admitted in this boot."""
        return session in self._seen

    def add(self, session: Session) -> None:
        """Keep ``session``; :meth:`require_new` was asked in the same turn of the event loop."""
        self._seen.update(_once(session.admitted).values())
        session.population = self.population
        self.population.count(1)
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

    def of_id(self, session: str) -> Session:
        """The session with this id, which a proof by MAC names.

        Raises:
            ``session.unknown``: there is none.
        """
        found = self._by_id.get(session)
        if found is None:
            raise NotAuthenticError("the proof names no session of this gateway", code="session.unknown")
        return found

    def by_id(self, session: str) -> Session | None:
        """The session with this id, if it is known."""
        return self._by_id.get(session)

    def closed(self, session: Session) -> None:
        """``session`` is closed now; bound what is kept of those that are."""
        self.population.count(-1)
        self._closed.append(session)
        if len(self._closed) > _KEPT_CLOSED:
            oldest = self._closed.popleft()
            del self._by_id[oldest.id]
            del self._by_kid[oldest.admitted.statement.receipt_kid]


def _once(admitted: Admitted) -> Mapping[str, str]:
    return {
        "session id": admitted.activation.session,
        "activation": admitted.activation.digest,
        "statement": admitted.statement.digest,
        "session key": admitted.statement.receipt_kid,
        "session chain": next(iter(admitted.statement.chn)),
    }
