"""Messages over a stream socket, each sent whole: half of one would be read as the beginning of what follows it.

A sender may be cancelled at any moment; the message that it began is still sent whole.
"""

from __future__ import annotations

import array
import asyncio
import os
import socket
from collections.abc import Sequence

__all__ = ["WholeSender"]


class WholeSender:
    """Sends over a connected stream socket that does not block; messages go one after the other, as they came."""

    def __init__(self, to: socket.socket) -> None:
        self._to = to
        self._turn = asyncio.Lock()
        self._sending: set[asyncio.Task[None]] = set()

    async def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send ``data``, the descriptors with its first byte (``SCM_RIGHTS``); they stay the caller's to close.

        Raises:
            OSError: the other end is gone, or this one was closed.
        """
        ours = [os.dup(each) for each in descriptors]
        sending = asyncio.create_task(self._send(data, ours))
        self._sending.add(sending)
        sending.add_done_callback(lambda sent: self._over(sent, ours))
        await asyncio.wait({sending})
        if sending.cancelled():
            raise ConnectionAbortedError("the channel was closed")
        sending.result()

    def close(self) -> None:
        """Send nothing more, also not what was begun. Before the socket is closed, whose number another may get."""
        for sending in self._sending:
            sending.cancel()
            sending.get_loop().remove_writer(self._to)

    async def _send(self, data: bytes, descriptors: Sequence[int]) -> None:
        left = memoryview(data)
        rights = (
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        )
        async with self._turn:
            while left:
                try:
                    left = left[self._to.sendmsg([left], rights, socket.MSG_NOSIGNAL) :]
                except BlockingIOError:
                    await self._writable()
                else:
                    rights = []

    async def _writable(self) -> None:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_writer(self._to, ready.set)
        try:
            await ready.wait()
        finally:
            if self._to.fileno() >= 0:  # else it was closed, and is watched no more
                loop.remove_writer(self._to)

    def _over(self, sent: asyncio.Task[None], descriptors: Sequence[int]) -> None:
        self._sending.discard(sent)
        for descriptor in descriptors:
            os.close(descriptor)
        if not sent.cancelled():
            sent.exception()  # its sender may have been cancelled, and does not read the result
