"""The ports that callers have opened: each is held by a task of this server, until it is closed, by whomever."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from affiant.errors import StateError
from affiant.sandbox.api.sandbox import Sandbox
from affiant.sandbox.session_acts.sandbox_ports import OpenPort

__all__ = ["HeldPorts"]

_CLOSED_WITHIN_S: Final = 5.0


@dataclass(slots=True)
class _Held:
    """One open port."""

    port: OpenPort
    task: asyncio.Task[None]
    release: asyncio.Event = field(default_factory=asyncio.Event)


class HeldPorts:
    """The open ports of all sessions."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, int], _Held] = {}

    async def open(self, session: Sandbox, number: int) -> OpenPort:
        """Open a port on 127.0.0.1 of this machine.

        Raises:
            AffiantError: ``ports.denied``, ``ports.open`` and others, as the session has them.
        """
        opened: asyncio.Future[_Held] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._hold(session, number, opened))
        first: tuple[asyncio.Future[Any], ...] = (task, opened)
        try:
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not opened.done():
            await task  # raises why it was not opened
        return opened.result().port

    async def close(self, session: str, number: int) -> OpenPort:
        """Close it; its ``use`` says what it was used for.

        Raises:
            ``ports.open``: it is not open here.
        """
        held = self._held.get((session, number))
        if held is None:
            raise StateError("this port is not open here", found=number, code="ports.open")
        held.release.set()
        await asyncio.wait({held.task}, timeout=_CLOSED_WITHIN_S)
        held.task.cancel()
        await asyncio.gather(held.task, return_exceptions=True)
        return held.port

    async def close_session(self, session: str) -> None:
        """Forget the ports of a session that has ended."""
        await self._close_each([key for key in self._held if key[0] == session])

    async def close_all(self) -> None:
        """Close every port."""
        await self._close_each(list(self._held))

    async def _close_each(self, keys: list[tuple[str, int]]) -> None:
        async def closed(session: str, number: int) -> None:
            with suppress(StateError):
                await self.close(session, number)

        await asyncio.gather(*(closed(*key) for key in keys))

    async def _hold(self, session: Sandbox, number: int, opened: asyncio.Future[_Held]) -> None:
        """Hold one port until it is to be closed, or was."""
        async with session.port(number) as port:
            task, key = asyncio.current_task(), (session.id, number)
            assert task is not None
            held = self._held[key] = _Held(port, task)
            opened.set_result(held)
            ends = [asyncio.ensure_future(end) for end in (held.release.wait(), port.until_closed())]
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if self._held.get(key) is held:
                    del self._held[key]
                for end in ends:
                    end.cancel()
                await asyncio.gather(*ends, return_exceptions=True)
