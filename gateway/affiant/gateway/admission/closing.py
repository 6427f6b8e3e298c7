"""How sessions and the gateway's own chain end, and the epochs in between.

A close waits until no request of the session is under way (a little while; then they are abandoned), so that its
record is the session's last: count, head and root cover everything. ``lost`` is said only by the gateway that
admitted the session, and only when its supervisor is gone: at the lease's end without a sign of life, or when
this gateway itself is stopped.

A caller that asks for a close waits for it within bounds, and so does a gateway that is being stopped. Where the
journal does not answer, the session takes nothing any more all the same, and the close goes on by itself: it is signed
once, and asked for again, it is the same one. A chain with a close on its way is not ended: that record would come
after the end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from affiant.attestation.encoding.binary_text import b64u_sha256
from affiant.errors import UnreachableError
from affiant.gateway.log.published_log import PublishedLog
from affiant.gateway.sessions.recorder import Recorded, Recorder
from affiant.gateway.sessions.sessions import Session, SessionState, SessionTable
from affiant.gateway.store.journal import DURABLE_WITHIN_S, durable
from affiant.gateway.wire.errors import JournalUnavailable

__all__ = ["Closing"]

_log = logging.getLogger("affiant.gateway")
GRACE_S: Final = 5.0
"""Seconds that requests under way get to end by themselves once their session is being closed."""
EPOCH_RECORDS: Final = 1000
"""Receipts specification, 4.2: an epoch at least every 1,000 records."""


@dataclass(slots=True)
class Closing:
    """Ends sessions, writes epochs, ends the chain.

    Args:
        epoch_s: seconds between epoch records, as the keyset statement promises.
        silent_s: seconds without a proof after which an expired session counts as lost.
        grace_s: seconds that requests under way get to end by themselves.
        recorded_s: seconds after that until a close, or the end, is durable, for callers that wait for it.
    """

    recorder: Recorder
    sessions: SessionTable
    log: PublishedLog
    clock: Callable[[], datetime]
    epoch_s: int
    silent_s: int
    grace_s: float = GRACE_S
    recorded_s: float = DURABLE_WITHIN_S
    _last_epoch: float = 0.0
    _records_then: int = 0
    _closers: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def close(self, session: Session, why: str) -> Mapping[str, object]:
        """Close ``session``; again for a session that is closed, the same answer.

        Args:
            why: done, lease, lost, killed or policy.

        Raises:
            JournalUnavailable: the close cannot be made durable.
            ``session.not_closed``: it is not durable yet; the session is as good as closed.
        """
        if session.state is SessionState.OPEN:
            session.move(SessionState.CLOSING)
            session.closed_why = why
            self._closers[session.id] = asyncio.create_task(self._close(session, why))
        closer = self._closers.get(session.id)
        if closer is not None:
            within_s = self.grace_s + self.recorded_s
            await asyncio.wait({closer}, timeout=within_s)
            if not closer.done():
                raise UnreachableError(
                    "the session takes nothing any more, but its close is not durable yet",
                    expected=f"within {within_s:g} s",
                    hint="Ask again",
                    code="session.not_closed",
                )
            closer.result()
        assert session.head is not None
        return {"close": session.close_jws, "head": session.head.to_json()}

    async def _close(self, session: Session, why: str) -> None:
        async with session.submitting:
            await self._settle(session)
            number = session.next_number()
            members = {**session.summary_before(number), "sup": session.supervisor.to_json(), "why": why}
            recorded = self.recorder.session_record(session, "session-close", members, number=number)
            await recorded.durable
            session.close_jws = recorded.issued.jws
            session.move(SessionState.CLOSED)
        self._closers.pop(session.id, None)
        self.sessions.closed(session)

    async def _settle(self, session: Session) -> None:
        """Let the requests under way end, then give up what is left of them."""
        if not await session.idle(within_s=self.grace_s):
            session.sealed = True
            session.give_up()
            await session.idle(within_s=None)  # without their records there is no close to sign
        session.sealed = True

    async def sweep(self) -> None:
        """Close the sessions whose lease has ended."""
        now = self.clock().timestamp()
        expired = [s for s in self.sessions if s.state is SessionState.OPEN and now >= s.expires]
        await self._close_all({session: self._why_expired(session, now) for session in expired})

    async def _close_all(self, reasons: Mapping[Session, str]) -> None:
        """Close each by itself: one that cannot be closed keeps no other from it."""
        closing = (self.close(session, why) for session, why in reasons.items())
        for result in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(result, Exception):
                code = getattr(result, "code", "")
                _log.error("a session could not be closed: %s %s", type(result).__name__, code)

    def _why_expired(self, session: Session, now: float) -> str:
        silent = now - session.last_proof >= self.silent_s
        return "lost" if silent and not session.supervisor.ended else "lease"

    def epoch_if_due(self, *, seconds: float) -> Recorded | None:
        """Write an epoch record if the last one is ``epoch_s`` or 1,000 records ago.

        Args:
            seconds: of a clock that never goes back.
        """
        due = seconds - self._last_epoch >= self.epoch_s
        if not due and self.recorder.count - self._records_then < EPOCH_RECORDS:
            return None
        recorded = self._epoch()
        self.began(seconds=seconds)
        return recorded

    def mark(self) -> None:
        """Write an epoch record for what comes next, if it can name a cosigned checkpoint; its time is not moved."""
        if self.log.witnessed is not None:
            self._epoch()

    def _epoch(self) -> Recorded:
        """An epoch that names the newest cosigned checkpoint, which is kept with it for bundles."""
        members: dict[str, object] = {"n": self.recorder.count, "inf": self.sessions.population.under_way}
        if (seen := self.log.witnessed) is None:
            return self.recorder.record("epoch", members)
        note = seen.note.to_bytes()
        members |= {"cp": b64u_sha256(note), "cps": seen.checkpoint.size}
        jti = self.recorder.new_id()
        self.recorder.keep_object("checkpoints", note, session=jti)
        return self.recorder.record("epoch", members, jti=jti)

    def began(self, *, seconds: float) -> None:
        """The chain has a record now that bounds what came before: its boot, or an epoch."""
        self._last_epoch, self._records_then = seconds, self.recorder.count

    async def end_sessions(self) -> None:
        """Close every open session as lost: with this gateway goes the only one that could go on with it."""
        await self._close_all({s: "lost" for s in self.sessions if s.state is not SessionState.CLOSED})

    async def end(self) -> None:
        """Close every open session, then end the chain.

        Raises:
            JournalUnavailable: what is left will be disclosed by a gap at the next start.
        """
        await self.end_sessions()
        if not all(closer.done() for closer in self._closers.values()):
            raise JournalUnavailable("a session's close is not durable, so the chain is not ended")
        await durable(self.recorder.record("end", {"why": "shutdown"}).durable, within_s=self.recorded_s)
