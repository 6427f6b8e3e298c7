"""A Unix socket between processes of one user: only they connect, and each end compares the other's user (unix(7)).

Under root a session's folder is the supervisor's user's, who could put a socket of its own in a launcher's place.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from affiant.errors import StateError
from affiant.sandbox.base.errors import SessionBusy
from affiant.sandbox.base.template_order import peer_process
from affiant.socket_address import reachable_address

__all__ = ["Connections", "bind_for_user", "connect_user_socket", "listening_user_socket"]

_CONNECTS_WITHIN_S: Final = 5.0
"""Where more wait than the other end lets wait."""
_LOOKS_EVERY_S: Final = 0.05
_BACKLOG: Final = 128
_SPARE: Final = 8
"""Connections beyond those that are served in full: each is answered soon, so others wait in the backlog."""
_PAUSE_S: Final = 0.2
"""So long nothing is accepted after an error, such as too many open files."""


class Connections:
    """The connections of one listening socket.

    Args:
        serve: serves one connection to its end; the connection is its own. The second argument says whether the
            connection is one too many: then it is answered and closed soon.
        most: that are served in full at once.
    """

    def __init__(
        self, serve: Callable[[socket.socket, bool], Coroutine[Any, Any, None]], *, most: int
    ) -> None:
        self._serve = serve
        self._most = most
        self._open: set[asyncio.Task[None]] = set()

    async def accept(self, listener: socket.socket) -> None:
        """Take connections of this user until cancelled; those that are open then stay until :meth:`close`."""
        loop = asyncio.get_running_loop()
        while True:
            while len(self._open) >= self._most + _SPARE:
                await asyncio.wait(self._open, return_when=asyncio.FIRST_COMPLETED)
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError:  # too many open files: those that are open end one day
                await asyncio.sleep(_PAUSE_S)
                continue
            if peer_process(connection)[1] != os.geteuid():
                connection.close()
                continue
            task = asyncio.create_task(self._serve(connection, len(self._open) >= self._most))
            self._open.add(task)
            task.add_done_callback(self._open.discard)

    async def close(self, *, within_s: float) -> None:
        """Give those that are open ``within_s`` to end, then end them."""
        tasks = tuple(self._open)
        if tasks:
            await asyncio.wait(tasks, timeout=within_s)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def listening_user_socket(path: Path) -> Iterator[socket.socket | None]:
    """A socket that only its owner can open, gone with the block; None: it cannot be made, as on a full disk."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        try:
            with reachable_address(path) as address:
                bind_for_user(listener, address)
            listener.listen(_BACKLOG)
            listener.setblocking(False)  # noqa: FBT003 - the socket module's own signature
        except OSError:  # the session is not worth less for that
            yield None
            return
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def bind_for_user(listener: socket.socket, address: str) -> None:
    """Bind a Unix socket that only its owner can open: with the mode of its inode, not the process's umask.

    Raises:
        OSError: it cannot be made there.
    """
    os.fchmod(listener.fileno(), 0o600)
    listener.bind(address)


async def connect_user_socket(path: Path) -> socket.socket:
    """A connection to the session that listens at ``path``; the caller's to close.

    Raises:
        ``session.not_open``: no process listens there, or another user's does.
        SessionBusy: more wait there than can, for five seconds.
    """
    loop = asyncio.get_running_loop()
    connection, deadline = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), loop.time() + _CONNECTS_WITHIN_S
    try:
        connection.setblocking(False)  # noqa: FBT003 - the socket module's own signature
        while not _connected(connection, path):
            if loop.time() > deadline:
                raise SessionBusy("too many clients wait for the session", hint="Try again")
            await asyncio.sleep(_LOOKS_EVERY_S)
        if peer_process(connection)[1] != os.geteuid():
            raise StateError(
                "another user listens in the session's place", where=str(path), code="session.not_open"
            )
    except OSError as error:
        connection.close()
        raise StateError(
            "the session takes no requests",
            expected="one that is open",
            found=error.strerror,
            code="session.not_open",
        ) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _connected(connection: socket.socket, path: Path) -> bool:
    """Whether the backlog had room; a Unix socket never says that a connection is under way (connect(2), EAGAIN)."""
    try:
        with reachable_address(path) as address:
            connection.connect(address)
    except BlockingIOError:
        return False
    return True
