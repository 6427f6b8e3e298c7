"""Ports of the agent's own servers that the launcher reaches through this process: opened, relayed, closed, recorded.

The launcher gives a listening socket. Each connection to it is relayed to the agent's server: bytes as they are, both
ways, counted. A port is opened only if the profile in force lists it, and is closed when a restriction takes it away.
Its record is acknowledged before the first connection is accepted. What an agent's server sends is the agent's:
garbage, nothing, or more than anybody reads. So connections, bytes and silence are bounded.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from affiant.errors import AffiantError, MalformedError, NotAllowedError, StateError
from affiant.sandbox.isolation.runner.network import PROXY_PORT
from affiant.sandbox.supervisor.activating import OpenSession
from affiant.sandbox.supervisor.acts import Act

__all__ = ["SessionPorts"]

_PORTS: Final = 16
_CONNECTIONS: Final = 32
"""At once, of one port; more wait in the listening socket."""
_ALL_CONNECTIONS: Final = 256
"""At once, of all ports of a session: each holds two descriptors of this process."""
_MOST_BYTES: Final = 1 << 40
"""Of one opened port, both ways together, whatever the launcher asks for."""
_CONNECT_S: Final = 10.0
_SILENT_S: Final = 600.0
"""Without a byte either way, after which a connection is closed."""
_PIECE: Final = 64 * 1024


class _BytesSpent(Exception):
    """The bytes that the port may carry are used up."""


@dataclass(slots=True)
class _OpenPort:
    number: int
    listener: socket.socket
    left: int
    over: asyncio.Future[str]
    """Resolved with why the port is closed."""
    incoming: int = 0
    outgoing: int = 0
    connections: int = 0
    refused: int = 0
    """Connections for which no server of the agent's was found."""
    serving: set[asyncio.Task[None]] = field(default_factory=set)

    def end(self, why: str) -> None:
        """Close it, if it is not closed already."""
        if not self.over.done():
            self.over.set_result(why)


class SessionPorts:
    """Opens and closes ports. ``close`` is what the launcher sends about one; ``close_all`` ends every one."""

    def __init__(self, session: OpenSession) -> None:
        self._session = session
        self._open: dict[int, _OpenPort] = {}
        """By the number of the act."""
        self._room = asyncio.Semaphore(_ALL_CONNECTIONS)

    async def handle(self, act: Act) -> None:
        """One port, from its opening to its end: events ``opened`` and ``closed``.

        Raises:
            AffiantError: it was not opened.
        """
        try:
            port = self._opened(act)
        finally:
            act.message.close()
        self._open[act.number] = port
        try:
            record = await self._record("opened", {"num": port.number})
            try:
                await act.tell("opened")
                why = await self._serve(port)
            finally:
                await _end_all(port)
                counted = {"in": port.incoming, "out": port.outgoing}
                await self._record("closed", {"num": port.number, **counted}, par=record)
        finally:
            port.listener.close()
            del self._open[act.number]
        facts = {"connections": port.connections, "refused": port.refused}
        await act.tell("closed", {"why": why, **counted, **facts})

    def close(self, members: Mapping[str, object]) -> None:
        """Close the port of the act that ``members`` name; one that is closed is none."""
        number = members.get("id")
        if isinstance(number, int) and number in self._open:
            self._open[number].end("asked")

    def close_all(self) -> None:
        """Close every port: the session ends."""
        for port in self._open.values():
            port.end("session")

    def _opened(self, act: Act) -> _OpenPort:
        number, most = act.message.members.get("port"), act.message.members.get("bytes")
        descriptor = act.message.descriptors.get("listener")
        if type(number) is not int:
            raise _malformed("port", "a number", number)
        if type(most) is not int or not 0 < most <= _MOST_BYTES:
            raise _malformed("bytes", f"a number from 1 to {_MOST_BYTES}", most)
        if descriptor is None:
            raise _malformed("listener", "a descriptor of a listening socket", descriptor)
        self._require_allowed(number)
        if number in {port.number for port in self._open.values()}:
            raise StateError(
                "the port is open already",
                found=number,
                hint="Use the address where it is open, or close it first",
                code="ports.open",
            )
        if len(self._open) >= _PORTS:
            raise StateError(
                "the session has too many open ports",
                expected=f"at most {_PORTS}",
                hint="Close one",
                code="ports.open",
            )
        return _OpenPort(number, _listener(descriptor), most, asyncio.get_running_loop().create_future())

    def _require_allowed(self, number: int) -> None:
        if not self._session.restrictor.policy.decide_port(number).allowed:
            raise NotAllowedError(
                "the profile does not list the port",
                found=number,
                hint="List it in `ports`",
                code="ports.denied",
            )
        if number == PROXY_PORT:
            raise StateError(
                "the proxy listens on that port in the sandbox, and no server of the agent's can",
                found=number,
                hint="Have the server listen on another port, and list that in `ports`",
                code="ports.refused",
            )

    async def _serve(self, port: _OpenPort) -> str:
        """Accept and relay until the port is closed; why it was."""
        tasks = [asyncio.create_task(work) for work in (self._accept(port), self._denied(port))]
        try:
            return await port.over
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _denied(self, port: _OpenPort) -> None:
        """Close the port once the profile in force does not list it any more."""
        restrictor = self._session.restrictor
        while True:
            changed = restrictor.changed
            if not restrictor.policy.decide_port(port.number).allowed:
                port.end("denied")
                return
            await changed.wait()

    async def _accept(self, port: _OpenPort) -> None:
        room = asyncio.Semaphore(_CONNECTIONS)
        try:
            while True:
                await room.acquire()
                client = await _accepted(port.listener)
                try:
                    await self._room.acquire()
                except asyncio.CancelledError:
                    client.close()
                    raise
                port.connections += 1
                task = asyncio.create_task(self._relay(port, client))
                port.serving.add(task)
                task.add_done_callback(port.serving.discard)
                task.add_done_callback(partial(_close, client))  # also if it never began
                for each in (self._room, room):
                    task.add_done_callback(partial(_release, each))
        except OSError:
            port.end("listener")

    async def _relay(self, port: _OpenPort, client: socket.socket) -> None:
        """One connection. A client for whom there is no server gets a reset connection."""
        with client:
            try:
                async with asyncio.timeout(_CONNECT_S):
                    agent = await self._connected(port.number)
            except (AffiantError, OSError, TimeoutError):
                port.refused += 1
                with suppress(OSError):
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            with agent:
                try:
                    await _both_ways(port, client, agent)
                except* _BytesSpent:
                    port.end("bytes")
                except* (OSError, TimeoutError):
                    pass  # one side left, or both were silent

    async def _connected(self, number: int) -> socket.socket:
        """A connection to the agent's server."""
        connection = await self._session.runner.connect(number)
        try:
            await _writable(connection)
            if (failed := connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)) != 0:
                raise OSError(failed, "no connection")
            if connection.getsockname() == connection.getpeername():  # TCP can connect a free port to itself
                raise OSError(0, "no connection but to itself")
        except BaseException:  # closed whatever happened, and raised again
            connection.close()
            raise
        return connection

    async def _record(self, phase: str, hidden: Mapping[str, object], *, par: str | None = None) -> str:
        members: dict[str, object] = {"prt": {}, "ph": phase}
        if par is not None:
            members["par"] = [par]
        return await self._session.records.record(
            "port", members, {"prt": hidden}, acknowledged=phase == "opened"
        )


def _malformed(member: str, expected: str, found: object) -> MalformedError:
    kind = repr(found) if isinstance(found, int) else type(found).__name__
    return MalformedError(
        f"the request to open a port has a wrong {member}",
        expected=expected,
        found=kind,
        where=member,
        code="session.control",
    )


def _listener(descriptor: int) -> socket.socket:
    """The launcher's listening socket, as one of our own."""
    own = os.dup(descriptor)
    try:
        listener = socket.socket(fileno=own)
        listening = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        os.close(own)
        raise MalformedError("not a socket", where="listener", code="session.control") from error
    if not listening:
        listener.close()
        raise MalformedError("not a listening socket", where="listener", code="session.control")
    listener.setblocking(False)  # noqa: FBT003 - takes no keyword
    return listener


async def _accepted(listener: socket.socket) -> socket.socket:
    """The next connection. Once accepted it is returned: ``loop.sock_accept`` loses one if it is cancelled then."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(listener, ready.set)
    try:
        while True:
            await ready.wait()
            ready.clear()
            with suppress(BlockingIOError):
                client, _ = listener.accept()
                client.setblocking(False)  # noqa: FBT003 - takes no keyword
                return client
    finally:
        loop.remove_reader(listener)


def _close(client: socket.socket, _: object) -> None:
    client.close()


def _release(room: asyncio.Semaphore, _: object) -> None:
    room.release()


async def _writable(connection: socket.socket) -> None:
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_writer(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(connection)


async def _both_ways(port: _OpenPort, client: socket.socket, agent: socket.socket) -> None:
    """Relay until both sides have ended, one has left, or nothing has come for long."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(_SILENT_S) as silence, asyncio.TaskGroup() as ways:

        def came(size: int, *, inward: bool) -> None:
            port.left -= size
            if port.left < 0:
                raise _BytesSpent
            if inward:
                port.incoming += size
            else:
                port.outgoing += size
            silence.reschedule(loop.time() + _SILENT_S)

        async def copy(source: socket.socket, target: socket.socket, *, inward: bool) -> None:
            while piece := await loop.sock_recv(source, _PIECE):
                came(len(piece), inward=inward)
                await loop.sock_sendall(target, piece)
            target.shutdown(socket.SHUT_WR)

        ways.create_task(copy(client, agent, inward=True))
        ways.create_task(copy(agent, client, inward=False))


async def _end_all(port: _OpenPort) -> None:
    """End every connection at once."""
    for task in tuple(port.serving):
        task.cancel()
    await asyncio.gather(*port.serving, return_exceptions=True)
