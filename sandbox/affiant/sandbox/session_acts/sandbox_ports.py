"""An agent's server, reached from this machine through the session's supervisor: ``async with session.port(8080)``.

The profile lists the port in ``ports``. The session's chain says when it was opened and closed, and how many bytes
crossed. See docs/ports.md.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from affiant.errors import AffiantError, ConfigurationError
from affiant.sandbox.base.user_socket import bind_for_user

__all__ = ["Asked", "OpenPort", "PortUse", "open_port"]

_BYTES: Final = 1 << 30
_BACKLOG: Final = 64


class Asked(Protocol):
    """An act of the supervisor's, under way."""

    async def tell(self, message: Mapping[str, object], descriptors: Mapping[str, int] | None = None) -> None:
        """Send a message about it."""

    async def next(self) -> Mapping[str, object]:
        """The next event about it; raises the supervisor's error."""
        ...


@dataclass(frozen=True, slots=True)
class PortUse:
    """What a port was used for."""

    why: str
    """What closed it: ``asked``, ``bytes``, ``denied`` (a restriction took it away), ``listener`` (the listening socket
    failed) or ``session`` (its end)."""
    bytes_in: int
    """To the agent."""
    bytes_out: int
    connections: int
    refused: int
    """Connections for which the agent had no server."""


class OpenPort:
    """An open port. Give what its server answers the trust that the agent has."""

    def __init__(self, number: int, address: tuple[str, int] | Path) -> None:
        self.number = number
        """In the sandbox."""
        self.address = address
        """Host and port on this machine, or the path of a Unix socket."""
        self.use: PortUse | None = None
        """Known once the port is closed."""
        self._ending: asyncio.Future[None] | None = None

    @property
    def url(self) -> str:
        """For HTTP, where the address is a host and a port.

        Raises:
            ``ports.address``: it is a Unix socket.
        """
        if isinstance(self.address, Path):
            raise ConfigurationError("a Unix socket has no URL", hint="Use `address`", code="ports.address")
        return f"http://{self.address[0]}:{self.address[1]}"

    async def until_closed(self) -> None:
        """Return when the port is closed: by the end of its block or of its session, or as :attr:`PortUse.why` says."""
        if self._ending is not None:
            await asyncio.wait({self._ending})

    def watch(self, act: Asked) -> asyncio.Future[None]:
        """Note the use of the port when it is closed; :func:`open_port` calls this."""
        self._ending = asyncio.ensure_future(self._end(act))
        return self._ending

    async def _end(self, act: Asked) -> None:
        with suppress(AffiantError):  # the session has ended, and the port with it
            self.use = _use(await act.next())


@asynccontextmanager
async def open_port(
    begin: Callable[[], AbstractContextManager[Asked]],
    number: int,
    *,
    path: Path | None = None,
    most_bytes: int = _BYTES,
) -> AsyncIterator[OpenPort]:
    """Have the agent's server at ``number`` reached from this machine, for the length of the block.

    Args:
        begin: begins an act of the supervisor's.
        path: where a Unix socket is made that this user alone can use; None: a free port of 127.0.0.1, which every
            user of this machine can reach.
        most_bytes: both ways together; then the port is closed.

    Raises:
        AffiantError: ``ports.denied`` where the profile does not list the port, ``ports.open``, and others.
    """
    listener, address = _listening(path)
    try:
        with begin() as act:
            ending = None
            try:
                with listener:
                    await act.tell(
                        {"op": "port", "port": number, "bytes": most_bytes}, {"listener": listener.fileno()}
                    )
                await act.next()
                port = OpenPort(number, address)
                ending = port.watch(act)
                yield port
            finally:  # the supervisor may have opened it, although this caller was cancelled
                await act.tell({"op": "port-close"})
                if ending is not None:
                    await ending
    finally:
        if path is not None:
            with suppress(FileNotFoundError):
                os.unlink(path)


def _listening(path: Path | None) -> tuple[socket.socket, tuple[str, int] | Path]:
    """A listening socket of this machine's."""
    if path is None:
        listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        return listener, ("127.0.0.1", int(listener.getsockname()[1]))
    listener = socket.socket(socket.AF_UNIX)
    try:
        bind_for_user(listener, os.fspath(path))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            "the Unix socket cannot be made", where=str(path), found=error.strerror, code="ports.address"
        ) from error
    return listener, path


def _use(event: Mapping[str, object]) -> PortUse:
    numbers = [event.get(name) for name in ("in", "out", "connections", "refused")]
    counted = [number if isinstance(number, int) else 0 for number in numbers]
    return PortUse(str(event.get("why")), *counted)
