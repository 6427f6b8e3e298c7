"""The session's chain: every record signed in order, durable here, then held by the gateway too.

:class:`SessionRecords` is what the rest of the supervisor writes through. A record is signed at once, made
durable by one writer (which takes whatever has gathered meanwhile in one fdatasync), and submitted by one
submitter, in chain order, until the gateway acknowledges it. The acknowledgement's head is the next record's
``peer``.

Bounds (receipts specification, "two signers"): at most 256 records without acknowledgement; who would write one
more waits for room. If there is none in time, if the gateway does not answer at all for as long, if it refuses a
record, or if the disk fails, the chain stops for good: :attr:`SessionRecords.stopped` is set, nothing more is
signed, and the supervisor stops the agent. A signed record is never dropped.

When the gateway is known to be gone (:meth:`SessionRecords.interrupt`), nothing waits for it any more: effects that
need an acknowledgement are refused at once, and what happened until then is still signed and made durable, to its
``end``. There is no waiting for room then either: the agent is being ended, and its budget bounds what it can cause
meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from affiant.attestation.records.chain import ChainSigner
from affiant.attestation.records.head import Head
from affiant.attestation.records.receipt import Issued
from affiant.attestation.records.sealed_disclosures import SessionSealing
from affiant.attestation.schema.records import KINDS
from affiant.errors import AffiantError, StateError, UnreachableError
from affiant.sandbox.base.errors import GatewayUnreachable
from affiant.sandbox.egress.http.errors import RecordsUnavailable
from affiant.sandbox.supervisor.records.spool import Spool, SpoolEntry

__all__ = ["BOUND", "AgentFacts", "SessionRecords", "Submission", "keep_epochs"]

BOUND: Final = 256
"""Records without acknowledgement (wire specification)."""

_WAIT_S: Final = 30.0
"""How long a record may wait for room, an effect for its record's acknowledgement, the chain for the gateway."""

_RETRY_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


@dataclass(frozen=True, slots=True)
class Submission:
    """What the gateway gets of a record."""

    jws: str
    openings: str | None


Submit = Callable[[Submission], Awaitable[Head]]
"""Hands a record to the gateway and returns the gateway's own head for this session. Idempotent.

Raises UnreachableError if there was no answer (it is tried again), any other AffiantError if it was refused.
"""


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """``agt`` of every record of this session."""

    session: str
    evidence: str
    key: str
    isolation: str
    name: str
    user: str | None

    def members(self, cseq: int | None) -> Mapping[str, object]:
        """The clear members."""
        members: dict[str, object] = {
            "ses": self.session,
            "evd": self.evidence,
            "key": self.key,
            "bind": "pop",
            "iso": self.isolation,
        }
        return members if cseq is None else {**members, "cseq": cseq}

    @property
    def hidden(self) -> Mapping[str, object]:
        """The hidden members."""
        return {"id": self.name} if self.user is None else {"id": self.name, "user": self.user}


@dataclass(slots=True)
class _Entry:
    issued: Issued
    openings: str | None
    durable: asyncio.Future[None]
    acknowledged: asyncio.Future[None]

    @property
    def spooled(self) -> SpoolEntry:
        return SpoolEntry(self.issued.jws, self.openings)


class SessionRecords:
    """Writes one session's records. :meth:`start` once there is a gateway to submit to."""

    def __init__(
        self,
        *,
        chain: ChainSigner,
        spool: Spool,
        submit: Submit,
        agent: AgentFacts,
        sealing: SessionSealing | None,
        wait_s: float = _WAIT_S,
    ) -> None:
        self._chain = chain
        self._spool = spool
        self._submit = submit
        self._agent = agent
        self._sealing = sealing
        self._wait_s = wait_s
        self._unwritten: deque[_Entry] = deque()
        self._pending: deque[_Entry] = deque()
        self._changed = asyncio.Event()
        self._peer: Head | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._file = asyncio.Lock()
        self._issued = 0
        self.stopped: asyncio.Future[AffiantError] = asyncio.get_running_loop().create_future()
        """Done when the chain cannot go on, with the reason."""
        self.lost: asyncio.Future[AffiantError] = asyncio.get_running_loop().create_future()
        """Done when the gateway is gone for good, with the reason."""

    @property
    def head(self) -> Head | None:
        """The last record signed."""
        return self._chain.head

    @property
    def count(self) -> int:
        """Records signed so far."""
        return self._issued

    @property
    def unacknowledged(self) -> int:
        """Records that the gateway has not acknowledged."""
        return len(self._pending)

    def start(self) -> None:
        """Start writing and submitting."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._write_all()), loop.create_task(self._submit_all())]

    async def stop(self) -> None:
        """Stop writing and submitting; what is durable stays so."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def record(
        self,
        kind: str,
        members: Mapping[str, object],
        hidden: Mapping[str, Mapping[str, object]],
        *,
        acknowledged: bool = False,
        cseq: int | None = None,
        evidence: str | None = None,
    ) -> str:
        """Sign one record and make it durable; see ``RecordSink``. An ``epoch`` record's ``n`` is set here.

        Args:
            evidence: digest of newer evidence (43 characters), which this record and every later one names.
        """
        if acknowledged and self.lost.done():
            raise RecordsUnavailable(
                "the gateway acknowledges no records any more", found=self.lost.result().code
            )
        entry = await self._issue(kind, members, hidden, cseq, evidence)
        try:
            async with asyncio.timeout(self._wait_s):
                await asyncio.shield(entry.acknowledged if acknowledged else entry.durable)
        except TimeoutError as error:
            raise RecordsUnavailable("the gateway did not acknowledge the record in time") from error
        except AffiantError as error:
            raise RecordsUnavailable("the session's chain has stopped", found=error.code) from error
        return str(entry.issued.payload["jti"])

    async def settled(self, timeout_s: float) -> bool:
        """Wait until every record is acknowledged; whether that came to be in time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._until(lambda: not self._pending or self.stopped.done() or self.lost.done())
        except TimeoutError:
            return False
        return not self._pending

    def interrupt(self, reason: AffiantError) -> None:
        """The gateway is gone for good: refuse what waits for it; what is signed from here on stays in the spool."""
        if self.lost.done():
            return
        self.lost.set_result(reason)
        for entry in self._pending:
            _refuse(entry.acknowledged, reason)
        self._tell()

    def stop_chain(self, reason: AffiantError) -> None:
        """Nothing more is signed; everything that waits for a record is refused."""
        if self.stopped.done():
            return
        self.stopped.set_result(reason)
        for entry in self._pending:
            for future in (entry.durable, entry.acknowledged):
                _refuse(future, reason)
        self._tell()

    def _tell(self) -> None:
        """Wake everything that waits here."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._changed.wait()

    async def _issue(
        self,
        kind: str,
        members: Mapping[str, object],
        hidden: Mapping[str, Mapping[str, object]],
        cseq: int | None,
        evidence: str | None,
    ) -> _Entry:
        await self._room()
        if (
            evidence is not None
        ):  # nothing is awaited between this and the signature: no other record comes first
            self._agent, self._chain.evd = replace(self._agent, evidence=evidence), evidence
        own: dict[str, object] = {}
        own_hidden: dict[str, Mapping[str, object]] = {}
        if kind == "epoch":
            own["n"] = self._issued  # counted now: others may have been signed while this one waited for room
        if KINDS[kind].of_session:
            own["agt"], own_hidden["agt"] = self._agent.members(cseq), self._agent.hidden
            if self._peer is not None:
                own["peer"] = self._peer.to_json()
        issued = self._chain.issue(kind, {**members, **own}, {**hidden, **own_hidden})
        loop = asyncio.get_running_loop()
        entry = _Entry(issued, self._sealed(issued), loop.create_future(), loop.create_future())
        self._issued += 1
        self._unwritten.append(entry)
        self._pending.append(entry)
        self._tell()
        return entry

    async def _room(self) -> None:
        try:
            async with asyncio.timeout(self._wait_s):
                await self._until(
                    lambda: len(self._pending) < BOUND or self.stopped.done() or self.lost.done()
                )
        except TimeoutError:
            self.stop_chain(
                StateError(
                    "too many records without acknowledgement", expected=BOUND, code="session.records_stopped"
                )
            )
        if self.stopped.done():
            raise RecordsUnavailable("the session's chain has stopped", found=self.stopped.result().code)

    def _sealed(self, issued: Issued) -> str | None:
        if self._sealing is None or not issued.disclosures:
            return None
        return self._sealing.handed_on(issued.disclosures, rh=issued.rh)

    async def _write_all(self) -> None:
        while True:
            await self._until(lambda: bool(self._unwritten) or self.stopped.done())
            batch = list(self._unwritten)
            self._unwritten.clear()
            if not batch:
                return
            try:
                async with self._file:
                    await asyncio.to_thread(self._spool.append, [entry.spooled for entry in batch])
            except OSError as error:
                self.stop_chain(
                    StateError(
                        "records cannot be written", found=error.strerror, code="session.records_stopped"
                    )
                )
                return
            for entry in batch:
                if not entry.durable.done():
                    entry.durable.set_result(None)
            self._tell()

    async def _submit_all(self) -> None:
        while True:
            await self._until(
                lambda: (
                    (bool(self._pending) and self._pending[0].durable.done())
                    or self.stopped.done()
                    or self.lost.done()
                )
            )
            if self.stopped.done() or self.lost.done():
                return
            entry = self._pending[0]
            try:
                head = await self._submitted(entry)
            except AffiantError as error:
                if not self.lost.done():
                    self.stop_chain(error)
                return
            await self._acknowledged(entry, head)

    async def _submitted(self, entry: _Entry) -> Head:
        """Submit until there is an answer, or the gateway has been silent for too long.

        An answer is waited for half as long, so that a connection on which nothing comes leaves time for another.
        """
        attempt, deadline = 0, time.monotonic() + self._wait_s
        while True:
            try:
                async with asyncio.timeout(self._wait_s / 2):
                    return await self._submit(Submission(entry.issued.jws, entry.openings))
            except (UnreachableError, TimeoutError) as error:
                if self.lost.done() or time.monotonic() > deadline:
                    if isinstance(error, UnreachableError):
                        raise
                    raise GatewayUnreachable("the gateway does not acknowledge a record") from error
                await asyncio.sleep(_RETRY_S[min(attempt, len(_RETRY_S) - 1)])
                attempt += 1

    async def _acknowledged(self, entry: _Entry, head: Head) -> None:
        self._pending.popleft()
        self._peer = head
        if not entry.acknowledged.done():
            entry.acknowledged.set_result(None)
        self._tell()
        try:
            async with self._file:
                done = not self._pending and not self._unwritten
                await asyncio.to_thread(self._spool.acknowledge, entry.issued.rh, all_done=done)
        except OSError as error:
            self.stop_chain(
                StateError("records cannot be written", found=error.strerror, code="session.records_stopped")
            )


def _refuse(future: asyncio.Future[None], reason: AffiantError) -> None:
    """Fail ``future``, if it is not done yet."""
    if not future.done():
        future.set_exception(reason)
        future.exception()  # perhaps nothing waits for it


_EVERY_RECORDS: Final = 1000


async def keep_epochs(records: SessionRecords, *, every_s: float, in_flight: Callable[[], int]) -> None:
    """Write epoch records until cancelled, or until the chain stops: a quiet chain still has them.

    One every ``every_s`` seconds and after every 1,000 records, also when nothing happens (receipts spec, 4.2).
    """
    loop = asyncio.get_running_loop()
    next_time, next_count = loop.time() + every_s, records.count + _EVERY_RECORDS
    while True:
        await asyncio.sleep(max(0.0, min(1.0, next_time - loop.time())))
        if loop.time() < next_time and records.count < next_count:
            continue
        try:
            await records.record("epoch", {"inf": in_flight()}, {})
        except RecordsUnavailable:
            return
        next_time, next_count = loop.time() + every_s, records.count + _EVERY_RECORDS
