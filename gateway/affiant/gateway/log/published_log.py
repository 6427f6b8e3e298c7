"""The log as this gateway shows it: its newest checkpoint that the configured witnesses have cosigned.

Without witnesses that is the log's own last checkpoint. With them, proofs and the served checkpoint are under the
newest cosigned one, each epoch record names it, and sessions are admitted only while it is fresh (trust rules, 5). Its
age is the larger of two: by the wall clock since the time that a quorum backs, and by a clock that never goes back
since it was asked for; so a wall clock that is held still does not keep it young. A clock that the quorum contradicts
admits no session either: a verifier would refuse what is dated by it.

One task asks, round after round: at its own pace, or sooner for those who wait. However many wait,
witnesses are asked no more often than the bounds say, and no caller waits for witnesses longer than they say.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from affiant.attestation.tlog.proof import LogProof
from affiant.attestation.tlog.quorum import Witnessed
from affiant.errors import AffiantError, UnreachableError
from affiant.gateway.log.transparency_log import LogHead, TransparencyLog
from affiant.gateway.log.witnesses import Witnesses
from affiant.gateway.wire.errors import LogUnavailable

__all__ = ["PublishedLog"]

_log = logging.getLogger("affiant.gateway")


MAX_SKEW_S: Final = 60
"""Seconds by which clocks may differ; what a trust file tolerates that does not say otherwise."""


@dataclass(frozen=True, slots=True)
class _Newest:
    """The newest cosigned checkpoint.

    Args:
        asked: by the clock that never goes back.
        skew: seconds by which its quorum dates it before it was asked for (negative), or after it was given.
    """

    witnessed: Witnessed
    asked: float
    skew: float


class PublishedLog:
    """One log with its witnesses, if it has any. Used in the event loop's thread.

    Args:
        max_age_s: seconds after which a cosigned checkpoint is too old to admit by.
        clock: wall-clock time, UTC. seconds: a clock that never goes back.
    """

    def __init__(
        self,
        log: TransparencyLog,
        witnesses: Witnesses | None,
        *,
        max_age_s: int,
        clock: Callable[[], datetime],
        seconds: Callable[[], float],
    ) -> None:
        self._own, self._witnesses, self._max_age_s = log, witnesses, max_age_s
        self._clock, self._seconds = clock, seconds
        self._newest: _Newest | None = None
        self._last_round = (float("-inf"), 0)
        self._wanted = asyncio.Event()
        self._ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def origin(self) -> str:
        """The log's name."""
        return self._own.origin

    @property
    def witnessed(self) -> Witnessed | None:
        """The newest cosigned checkpoint; None without witnesses, and until they have cosigned in this boot."""
        return None if self._newest is None else self._newest.witnessed

    @property
    def head(self) -> LogHead:
        """The checkpoint that is shown."""
        if self._newest is None:
            return self._own.head
        return LogHead(self._newest.witnessed.checkpoint, self._newest.witnessed.note)

    @property
    def keeps_up(self) -> bool:
        """Whether :meth:`require` would return, and a session could be admitted."""
        return self._own.keeps_up and self._unwitnessed() is None

    async def before_boot(self) -> bytes | None:
        """The log as it was left, cosigned now: what this boot's keys are not older than. Asked once, before them.

        None without witnesses, and where they do not answer in time: then the boot has no witnessed beginning.
        """
        if self._witnesses is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._witnesses.bounds.wait_s):
                    await self._round(self._witnesses)
        return None if self._newest is None else self._newest.witnessed.note.to_bytes()

    def begin(self) -> None:
        """Ask the witnesses from now on: what the boot has recorded is in the first checkpoint that they see."""
        if self._witnesses is not None:
            self._task = asyncio.create_task(self._ask_for_ever(self._witnesses))

    def require(self) -> None:
        """Return if what is recorded now will have its leaf in time; else raise :class:`~.errors.LogUnavailable`."""
        self._own.require()

    async def require_witnessed(self) -> None:
        """Return if a session may be admitted; until witnesses have cosigned once, wait for the next round.

        Raises:
            ``log.unwitnessed``: the newest cosigned checkpoint is too old, or there is none.
            ``clock.contradicted``: witnesses date it otherwise than this machine's clock would.
        """
        if self._witnesses is not None and self._newest is None:
            began = self._last_round[0]
            await self._wait(self._witnesses, lambda: self._newest is not None or self._last_round[0] > began)
        if (refusal := self._unwitnessed()) is not None:
            raise refusal

    def _unwitnessed(self) -> UnreachableError | None:
        """Why no session may be admitted."""
        if self._witnesses is None:
            return None
        if self._newest is None:
            return UnreachableError(
                "no quorum of witnesses has cosigned the log since the gateway began",
                hint="See the witnesses in: affiant gateway status",
                code="log.unwitnessed",
            )
        if abs(self._newest.skew) > MAX_SKEW_S:
            return UnreachableError(
                "this machine's clock and the witnesses' differ",
                expected=f"at most {MAX_SKEW_S} s",
                found=f"theirs are at {self._newest.skew:+.0f} s",
                hint="Set the clock that is wrong; if it is this one, start the gateway again.",
                code="clock.contradicted",
            )
        backed = self._newest.witnessed.not_before
        assert backed is not None, "the configuration has a quorum"
        age = max(self._clock().timestamp() - backed, self._seconds() - self._newest.asked)
        if age <= self._max_age_s:
            return None
        return UnreachableError(
            "the newest checkpoint that witnesses have cosigned is too old",
            expected=f"at most {self._max_age_s} s",
            found=f"{age:.0f} s",
            hint="See the witnesses in: affiant gateway status",
            code="log.unwitnessed",
        )

    async def include(self) -> LogHead:
        """A checkpoint over everything handed in so far: cosigned, if witnesses answer in time.

        Raises:
            LogUnavailable: the log does not grow any more.
        """
        head = await self._own.include()
        if self._witnesses is None:
            return head
        asked = self._seconds()
        await self._wait(self._witnesses, lambda: self._covers(head) or self._tried(head, since=asked))
        return self.head if self._covers(head) else head

    async def last(self) -> bytes | None:
        """The log as witnesses see it once nothing is recorded any more; None if they do not answer."""
        if self._witnesses is None:
            return None
        try:
            head = await self.include()
        except LogUnavailable:
            return None
        return self.head.note.to_bytes() if self._covers(head) else None

    async def prove(self, hashes: Sequence[bytes], head: LogHead) -> list[LogProof | None]:
        """Proofs under ``head``, one that :meth:`include` gave; None for a record without a leaf.

        Raises:
            LogUnavailable: the log's files cannot be read.
        """
        return await self._own.prove(hashes, head)

    def read(self, path: str) -> bytes | None:
        """As :meth:`.TransparencyLog.read`. Blocks."""
        return self._own.read(path)

    def report(self) -> Mapping[str, object]:
        """For the operator: the log's key, sizes, the time that the quorum backs, what each witness last did."""
        seen = self.witnessed
        return {
            "vkey": self._own.key.vkey(),
            "size": self._own.head.checkpoint.size,
            "cosigned": None if seen is None else seen.checkpoint.size,
            "backed": None if seen is None else seen.not_before,
            "witnesses": {} if self._witnesses is None else self._witnesses.report(),
        }

    async def close(self) -> None:
        """End the rounds and release the connections; the log itself is its maker's to close."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._witnesses is not None:
            await self._witnesses.close()

    def _covers(self, head: LogHead) -> bool:
        return self._newest is not None and self.head.checkpoint.size >= head.checkpoint.size

    def _tried(self, head: LogHead, *, since: float) -> bool:
        """Whether a round over ``head`` began after ``since``: many who wait share it, also one that failed."""
        began, size = self._last_round
        return began >= since and size >= head.checkpoint.size

    async def _wait(self, witnesses: Witnesses, enough: Callable[[], bool]) -> None:
        """Wait for rounds until it is ``enough``, and no longer than the bounds say."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(witnesses.bounds.wait_s):
                while not enough():
                    self._wanted.set()
                    await self._ended.wait()

    async def _ask_for_ever(self, witnesses: Witnesses) -> None:
        """Rounds, the next when it is wanted, never two within ``spacing_s``."""
        bounds = witnesses.bounds
        while True:
            self._wanted.clear()
            try:
                await self._own.include()
                await self._round(witnesses)
            except LogUnavailable:
                pass  # it says so itself
            except Exception:  # noqa: BLE001 - a mistake of ours must not end the asking; sessions stop without it
                _log.exception("a round of witnesses failed")
            ended, self._ended = self._ended, asyncio.Event()
            ended.set()
            await asyncio.sleep(bounds.spacing_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, bounds.interval_s - bounds.spacing_s)):
                    await self._wanted.wait()

    async def _round(self, witnesses: Witnesses) -> None:
        head, asked, begin = self._own.head, self._seconds(), self._clock().timestamp()
        size = head.checkpoint.size
        self._last_round = (asked, size)
        try:
            found = await witnesses.cosign(head.note, size, lambda old: self._own.consistency(old, size))
        except AffiantError as error:
            _log.info("no quorum of witnesses: %s", error)
            return
        self._newest = _Newest(found, asked, _skew(found, begin, self._clock().timestamp()))


def _skew(found: Witnessed, begin: float, end: float) -> float:
    """Seconds from ``begin`` back to when a quorum had cosigned by, or from ``end`` on to when none had before; else 0.

    Whole seconds are what cosignatures have.
    """
    assert found.not_before is not None, "the configuration has a quorum"
    assert found.not_after is not None, "as above"
    if found.not_after < int(begin):
        return found.not_after - begin
    return max(0.0, found.not_before - end)
