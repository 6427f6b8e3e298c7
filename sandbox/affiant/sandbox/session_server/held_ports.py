"""The ports that callers have opened: each is held by a task of this server, until it is closed or the server ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from affiant.errors import AffiantError, StateError
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
        opened: asyncio.Future[OpenPort] = asyncio.get_running_loop().create_future()
        release = asyncio.Event()
        task = asyncio.create_task(self._hold(session, number, opened, release))
        try:
            port = await asyncio.shield(opened)
        except asyncio.CancelledError:
            task.cancel()
            raise
        self._held[session.id, number] = _Held(port, task, release)
        return port

    async def close(self, session: str, number: int) -> OpenPort:
        """Close it; its ``use`` says what it was used for.

        Raises:
            ``ports.open``: it is not open here.
        """
        held = self._held.pop((session, number), None)
        if held is None:
            raise StateError("this port is not open here", found=number, code="ports.open")
        held.release.set()
        await asyncio.wait({held.task}, timeout=_CLOSED_WITHIN_S)
        held.task.cancel()
        await asyncio.gather(held.task, return_exceptions=True)
        return held.port

    async def close_session(self, session: str) -> None:
        """Forget the ports of a session that has ended."""
        for key in [each for each in self._held if each[0] == session]:
            with suppress(StateError):
                await self.close(*key)

    async def close_all(self) -> None:
        """Close every port."""
        await asyncio.gather(*(self.close_session(session) for session in {each[0] for each in self._held}))

    async def _hold(
        self,
        session: Sandbox,
        number: int,
        opened: asyncio.Future[OpenPort],
        release: asyncio.Event,
    ) -> None:
        try:
            async with session.port(number) as port:
                opened.set_result(port)
                await release.wait()
        except AffiantError as error:
            if not opened.done():
                opened.set_exception(error)
