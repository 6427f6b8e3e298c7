"""Asks the launcher for something that only it can do, over the control socket, and waits for its answer.

Everything else on that socket is asked by the launcher. A request is the event ``ask`` with a number ``call`` of this
side's choice; its answer is the launcher's message ``answer`` with that number, and either ``result`` or ``refused``.
A request whose caller is cancelled is taken back by the event ``ask-cancel``. Nothing that the launcher answers is
believed for being answered: the caller judges it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from affiant.errors import MalformedError, UnreachableError
from affiant.sandbox.isolation.plan.errors import SessionBusy
from affiant.sandbox.supervisor.launch.control import sent_error

__all__ = ["LauncherRequests"]

_MOST: Final = 64
"""Requests under way at once."""


class LauncherRequests:
    """The requests of one supervisor.

    Args:
        tell: sends the launcher an event.
    """

    def __init__(self, tell: Callable[[Mapping[str, object]], Awaitable[None]]) -> None:
        self._tell = tell
        self._waiting: dict[int, asyncio.Future[Mapping[str, object]]] = {}
        self._number = 0

    async def ask(self, request: Mapping[str, object], *, within_s: float) -> Mapping[str, object]:
        """The launcher's result.

        Args:
            request: its members, ``act`` among them.

        Raises:
            StateError: the launcher refused, under the error's own code.
            ``session.launcher_silent``: it does not answer in time. SessionBusy: too many requests wait.
        """
        if len(self._waiting) >= _MOST:
            raise SessionBusy("too many requests to the launcher at once", expected=f"at most {_MOST}")
        number, self._number = self._number, self._number + 1
        answer: asyncio.Future[Mapping[str, object]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            await self._tell({"event": "ask", "call": number, **request})
            async with asyncio.timeout(within_s):
                return await answer
        except TimeoutError as error:
            await self._tell({"event": "ask-cancel", "call": number})
            raise UnreachableError(
                "the process that holds the session does not answer",
                expected=f"within {within_s:g} s",
                code="session.launcher_silent",
            ) from error
        except asyncio.CancelledError:
            await self._tell({"event": "ask-cancel", "call": number})
            raise
        finally:
            del self._waiting[number]

    def answer(self, members: Mapping[str, object]) -> None:
        """Take the launcher's answer; one that nothing waits for is dropped."""
        number = members.get("call")
        waiting = self._waiting.get(number) if type(number) is int else None
        if waiting is None or waiting.done():
            return
        match members:
            case {"result": dict() as result}:
                waiting.set_result(result)
            case {"refused": dict() as refused}:
                waiting.set_exception(sent_error(refused))
            case _:
                waiting.set_exception(
                    MalformedError("not an answer to a request", where="answer", code="session.control")
                )
