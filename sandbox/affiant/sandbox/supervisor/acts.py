"""What the launcher asks an open session to do: acts, each under a number that the launcher chose, many at once.

An act is one message with an ``id``. Its handler is given the message and tells the launcher events about it; each
carries the ``id``. An error that a handler raises rejects this act alone (event ``rejected``), and the session goes
on. What ends the session is returned as an :class:`Ending`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from affiant.errors import AffiantError, MalformedError, StateError
from affiant.sandbox.base.errors import SessionBusy
from affiant.sandbox.supervisor.launch.control import Message, refusal_members

__all__ = ["MOST_ACTS", "Act", "Acts", "Ending", "Handler", "act_number"]

MOST_ACTS: Final = 64
"""Acts under way at once; one more is rejected."""

_MAX_NUMBER: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a session ends: what the close record says, and a refusal if it did not end as asked."""

    why: str
    refusal: AffiantError | None = None
    orphaned: bool = False
    """Whether there is no launcher any more to wait for the end."""


Tell = Callable[[Mapping[str, object]], Awaitable[None]]
"""Sends the launcher an event."""


@dataclass(frozen=True, slots=True)
class Act:
    """One act. The handler owns the descriptors of its message."""

    number: int
    message: Message
    _tell: Tell

    async def tell(self, event: str, members: Mapping[str, object] | None = None) -> None:
        """Tell the launcher an event about this act."""
        await self._tell({"event": event, "id": self.number, **(members or {})})


Handler = Callable[[Act], Awaitable[Ending | None]]
"""Carries out one act. It returns why the session ends because of it; None: it goes on.

Raises:
    AffiantError: the act is rejected; the session goes on.
"""


def act_number(members: Mapping[str, object]) -> int:
    """The number of the act that a message is, or is about.

    Raises:
        ``session.control``: it has none.
    """
    number = members.get("id")
    if type(number) is not int or not 0 <= number < _MAX_NUMBER:
        raise MalformedError(
            "the request's id has the wrong form",
            expected=f"a number from 0 to {_MAX_NUMBER - 1}",
            where="id",
            code="session.control",
        )
    return number


class Acts:
    """The acts under way.

    Args:
        tell: sends the launcher an event. fail: is given why the session ends.
        most: how many may be under way at once.
    """

    def __init__(self, tell: Tell, fail: Callable[[Ending], None], *, most: int = MOST_ACTS) -> None:
        self._tell = tell
        self._fail = fail
        self._most = most
        self._tasks: dict[int, asyncio.Task[None]] = {}

    @property
    def tasks(self) -> tuple[asyncio.Task[None], ...]:
        """Those under way."""
        return tuple(self._tasks.values())

    def begin(self, message: Message, handler: Handler) -> None:
        """Have ``handler`` carry out the act that ``message`` asks for, beside everything else.

        Raises:
            ``session.control``: it has no number, or that of an act under way.
        """
        try:
            number = act_number(message.members)
            if number in self._tasks:
                raise MalformedError(
                    "the id belongs to an act that has not ended", where="id", code="session.control"
                )
        except MalformedError:
            message.close()
            raise
        act = Act(number, message, self._tell)
        carry_out = self._carry_out(act, handler) if len(self._tasks) < self._most else self._too_many(act)
        task = asyncio.create_task(carry_out)
        self._tasks[number] = task
        task.add_done_callback(lambda _: self._tasks.pop(number, None))

    async def _carry_out(self, act: Act, handler: Handler) -> None:
        try:
            ending = await handler(act)
        except AffiantError as error:
            await act.tell("rejected", refusal_members(error))
        except Exception as error:  # noqa: BLE001 - a mistake of ours: what was done is not known for sure
            found = type(error).__name__
            self._fail(Ending("killed", StateError("an act failed", found=found, code="session.act")))
        else:
            if ending is not None:
                self._fail(ending)

    async def _too_many(self, act: Act) -> None:
        act.message.close()
        error = SessionBusy(
            "the session has too many concurrent acts",
            expected=f"at most {self._most}",
            hint="Wait until one has ended",
        )
        await act.tell("rejected", refusal_members(error))
