"""Empties a gateway that is to be stopped: it admits no session any more, and those that it has end in order.

::

    SERVING ----begin----> DRAINING ----no session is left, or time is up----> CLOSING
    CLOSING ----no session is left, or time is up----> DRAINED

While DRAINING the open sessions go on, and may end by themselves. At the beginning of CLOSING the gateway answers the
question that each supervisor keeps asking (:meth:`Draining.is_to_close`): the supervisor ends the agent, closes the
session, and fetches its bundle. The gateway closes as ``lost`` only what is open after that: sessions whose supervisor
never asked, asks no longer, or is not done in time. A supervisor whose connection has ended while its question was held
asks again within two seconds, or is gone: it was killed, and its session is waited for no longer.
"""

from __future__ import annotations

import asyncio
import enum
import math
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Final

from affiant.errors import StateError
from affiant.gateway.admission.closing import Closing
from affiant.gateway.sessions.sessions import Session, SessionState, SessionTable
from affiant.gateway.wire.errors import GatewayDraining

__all__ = ["CLOSED_WITHIN_S", "MAX_DRAIN_S", "STOPPED_WITHIN_S", "TRANSITIONS", "DrainState", "Draining"]

CLOSED_WITHIN_S: Final = 20.0
"""Seconds that supervisors have to close their sessions when the gateway is drained."""
STOPPED_WITHIN_S: Final = 8.0
"""The same when the gateway is stopped by a signal: a container's runtime kills it after 10 s."""
MAX_DRAIN_S: Final = 86_400
"""Seconds that an operator may give open sessions."""
HELD_S: Final = 30.0
"""Seconds after which a supervisor's question is answered although nothing has changed."""
_ASKED_AGAIN_S: Final = 2.0
"""A supervisor that is there asks again within so many seconds: its ``gateway_watch`` waits half as long in between."""
_STEP_S: Final = 0.05
_RETRY_AFTER_S: Final = 60


class DrainState(enum.Enum):
    """How far a gateway is."""

    SERVING = "serving"
    DRAINING = "draining"
    CLOSING = "closing"
    DRAINED = "drained"


TRANSITIONS: Final[Mapping[DrainState, frozenset[DrainState]]] = {
    DrainState.SERVING: frozenset({DrainState.DRAINING}),
    DrainState.DRAINING: frozenset({DrainState.CLOSING}),
    DrainState.CLOSING: frozenset({DrainState.DRAINED}),
    DrainState.DRAINED: frozenset(),
}
"""State -> states that may follow."""


class Draining:
    """Drains one gateway, once.

    Args:
        seconds: a clock that never goes back.
    """

    def __init__(self, sessions: SessionTable, closing: Closing, seconds: Callable[[], float]) -> None:
        self._sessions = sessions
        self._closing = closing
        self._seconds = seconds
        self.state = DrainState.SERVING
        self._until = 0.0
        self._closing_until = 0.0
        self._closing_s = CLOSED_WITHIN_S
        self._work: asyncio.Task[None] | None = None
        self._held: dict[str, asyncio.Future[bool]] = {}
        self._leaving: tuple[Session, ...] = ()

    def require_serving(self) -> None:
        """Return if sessions are admitted.

        Raises:
            GatewayDraining: the gateway is being drained, or was.
        """
        if self.state is not DrainState.SERVING:
            draining = GatewayDraining(
                "the gateway takes no new sessions: it is being drained",
                hint="Retry after the gateway has restarted, or use another gateway",
            )
            draining.retry_after_s = min(max(math.ceil(self._left()), 1), _RETRY_AFTER_S)
            raise draining

    def begin(self, *, within_s: float, closed_within_s: float = CLOSED_WITHIN_S) -> None:
        """Begin, if it was not begun; the newest bounds are in force.

        Args:
            within_s: seconds that the open sessions have to end by themselves.
            closed_within_s: seconds after that in which their supervisors are to close them.
        """
        if self.state is DrainState.SERVING:
            self._move(DrainState.DRAINING)  # and no session is added to the table any more
            self._leaving = tuple(s for s in self._sessions if s.state is not SessionState.CLOSED)
            self._work = asyncio.create_task(self._drain())
        self._until, self._closing_s = self._seconds() + within_s, closed_within_s
        if self.state is DrainState.CLOSING:
            self._closing_until = min(self._closing_until, self._until + closed_within_s)

    async def ended(self) -> None:
        """Return when the gateway is drained."""
        assert self._work is not None, "begin first"
        await asyncio.shield(self._work)

    async def is_to_close(self, session: Session, gone: Coroutine[None, None, None]) -> bool:
        """Hold a supervisor's question until its session is to be closed (True), or for half a minute.

        A session has one question; a later one has the earlier answered.

        Args:
            gone: returns when the connection has ended on which the supervisor asks.
        """
        watch = asyncio.ensure_future(gone)
        try:
            return await self._held_until(session, watch)
        finally:
            watch.cancel()

    async def _held_until(self, session: Session, gone: asyncio.Future[None]) -> bool:
        session.drain_asked = True
        if (earlier := self._held.pop(session.id, None)) is not None and not earlier.done():
            earlier.set_result(False)
        if self.state in {DrainState.CLOSING, DrainState.DRAINED}:
            self._tell(session)
            return True
        held: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._held[session.id] = held
        gone.add_done_callback(lambda _: _release(held))
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(HELD_S):
                    return await held
            return False
        finally:
            if self._held.get(session.id) is held:
                del self._held[session.id]

    def report(self) -> Mapping[str, object]:
        """For the operator: the state, seconds left, and how many sessions are open or ended in which way.

        ``unclosed`` are those that the drained gateway could not close: their close has no durable record.
        """
        ended = [s for s in self._leaving if s.state is SessionState.CLOSED]
        left = self._leaving if self.state is DrainState.DRAINED else ()
        closed = [s for s in ended if s.closed_why != "lost"]
        return {
            "state": self.state.value,
            "seconds": math.ceil(max(self._left(), 0)),
            "open": self._sessions.population.open,
            "finished": sum(not s.drain_told for s in closed),
            "closed": sum(s.drain_told for s in closed),
            "lost": [s.id for s in ended if s.closed_why == "lost"],
            "unclosed": [s.id for s in left if s.state is not SessionState.CLOSED],
        }

    def _left(self) -> float:
        if self.state in {DrainState.SERVING, DrainState.DRAINED}:
            return 0
        closing = self.state is DrainState.CLOSING
        return (self._closing_until if closing else self._until + self._closing_s) - self._seconds()

    def _move(self, state: DrainState) -> None:
        if state not in TRANSITIONS[self.state]:
            raise StateError(
                f"a gateway that is {self.state.value} is not {state.value} next", code="gateway.error"
            )
        self.state = state

    async def _drain(self) -> None:
        await self._until_gone(lambda: self._until, lambda _: True)
        self._move(DrainState.CLOSING)
        began = self._seconds()
        self._closing_until = began + self._closing_s
        for session in self._leaving:
            if (held := self._held.get(session.id)) is not None and not held.done():
                self._tell(session)
                held.set_result(True)
        asked_again = began + _ASKED_AGAIN_S
        await self._until_gone(
            lambda: self._closing_until,
            lambda session: session.drain_told or (session.drain_asked and self._seconds() < asked_again),
        )
        await self._closing.end_sessions()
        self._move(DrainState.DRAINED)
        # supervisors that have left wait for no answer, but a server that stops waits for its answers
        for held in self._held.values():
            if not held.done():
                held.set_result(True)

    def _tell(self, session: Session) -> None:
        if session.state is not SessionState.CLOSED:
            session.drain_told = True

    async def _until_gone(self, until: Callable[[], float], awaited: Callable[[Session], bool]) -> None:
        """Wait, until that time, for the sessions that are ``awaited``: to be closed, and their bundles to be fetched
        where a supervisor asks for one."""
        while any(awaited(s) and self._is_here(s) for s in self._leaving):
            if self._seconds() >= until():
                return
            await asyncio.sleep(_STEP_S)

    def _is_here(self, session: Session) -> bool:
        if session.state is not SessionState.CLOSED:
            return True
        return session.drain_asked and not session.bundle_given


def _release(held: asyncio.Future[bool]) -> None:
    """Answer a question whose asker is gone."""
    if not held.done():
        held.set_result(False)
