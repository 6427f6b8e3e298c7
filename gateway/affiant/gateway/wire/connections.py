"""The public connections: whose each one is, and which one is ended when there are too many.

A connection belongs to the address that it comes from until a request on it carries a session's proof of possession;
from then on it belongs to that session. Strangers have one part of the connections, sessions the other. Where a part
is full, the address or the session that has most gives one of its own up, the oldest first: so a client that opens
many ends its own, and one that has just connected stays.

What costs the gateway work before a caller is known (evidence, appraisals) is done in :class:`Turns`.

:class:`Connections` is without I/O; :class:`Listener` accepts, and enters each connection before its TLS handshake.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, MutableMapping
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from typing import Any, Final

from affiant.gateway.wire.errors import Crowded

__all__ = [
    "Connection",
    "Connections",
    "Listener",
    "Turns",
    "address_of",
    "connection_of",
    "peer_of",
    "prove",
]

_STATE: Final = "connection"
"""Where a request's ASGI state has its connection."""
_IPV6_SITE: Final = 64
"""Bits of an IPv6 address that count: one machine may have all addresses behind them."""
_AT_ONCE: Final = 32
"""Connections that are accepted before those that are open are served again."""
_PAUSE_S: Final = 0.05
_HANDSHAKE_S: Final = 10.0


class Connection:
    """One connection. ``end`` ends it, at any time; ``kept`` counts what must not be interrupted."""

    __slots__ = ("_table", "address", "end", "kept", "session")

    def __init__(self, table: Connections, address: str, end: Callable[[], None]) -> None:
        self._table = table
        self.address = address
        self.session: str | None = None
        self.kept = 0
        self.end = end

    def prove(self, session: str) -> None:
        """A request on it carried a proof of ``session``."""
        self._table.prove(self, session)

    def leave(self) -> None:
        """It has ended. Again: nothing."""
        self._table.leave(self)

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """It is not ended for another's sake until the block ends; the caller bounds how many such blocks there are."""
        self.kept += 1
        try:
            yield
        finally:
            self.kept -= 1


class Connections:
    """All connections, as a table.

    Args:
        most: connections; half of them are for strangers, and half of those for one address.
    """

    def __init__(self, most: int) -> None:
        self._strangers = max(most // 2, 1)
        self._proven = most - self._strangers
        self._per_address = max(self._strangers // 2, 1)
        self._of_address: dict[str, dict[Connection, None]] = {}
        self._of_session: dict[str, dict[Connection, None]] = {}
        self.strangers = 0
        """Connections that belong to addresses."""
        self.proven = 0
        """Connections that belong to sessions."""

    def enter(self, address: str, end: Callable[[], None]) -> Connection:
        """One more connection, a stranger's; another one may be ended for it.

        Args:
            address: the peer's, as :func:`address_of` groups it. end: ends the connection, whatever is under way.
        """
        connection = Connection(self, address, end)
        self._enter(connection)
        return connection

    def prove(self, connection: Connection, session: str) -> None:
        """``connection`` is ``session``'s, if there is room for it or a session that has more gives one up."""
        if connection.session == session or connection not in self._of_address.get(connection.address, ()):
            return
        other = None
        if self.proven >= self._proven:
            heaviest = max(self._of_session.values(), key=len, default={})
            if len(heaviest) <= len(self._of_session.get(session, ())) + 1:
                return
            other = next(iter(heaviest))
        self.leave(
            connection
        )  # before the other is a stranger again: else it may be ended for the other's sake
        if other is not None:
            self.leave(other)
            other.session = None
            self._enter(other)
        connection.session = session
        self._of_session.setdefault(session, {})[connection] = None
        self.proven += 1

    def leave(self, connection: Connection) -> None:
        """``connection`` has ended. Again: nothing."""
        groups, name = (
            (self._of_address, connection.address)
            if connection.session is None
            else (self._of_session, connection.session)
        )
        group = groups.get(name, {})
        if connection not in group:
            return
        del group[connection]
        if connection.session is None:
            self.strangers -= 1
        else:
            self.proven -= 1
        if not group:
            del groups[name]

    def end_one(self) -> bool:
        """End the oldest connection of the address that has most; whether there was one."""
        return self._end_oldest(max(self._of_address.values(), key=len, default={}))

    def _enter(self, connection: Connection) -> None:
        group = self._of_address.get(connection.address, {})
        if len(group) >= self._per_address:
            self._end_oldest(group)
        elif self.strangers >= self._strangers:
            self.end_one()
        self._of_address.setdefault(connection.address, {})[connection] = None
        self.strangers += 1

    def _end_oldest(self, group: dict[Connection, None]) -> bool:
        oldest = next((each for each in group if not each.kept), None)
        if oldest is None:
            return False
        self.leave(oldest)
        oldest.end()
        return True


def address_of(host: str) -> str:
    """The peer that an address stands for: of IPv6, the network that one machine may have to itself."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, _IPV6_SITE), strict=False))
    return str(address)


def connection_of(scope: MutableMapping[str, Any]) -> Connection | None:
    """The public connection that a request came on; None on the operator's socket."""
    found = scope.get("state", {}).get(_STATE)
    return found if isinstance(found, Connection) else None


def peer_of(scope: MutableMapping[str, Any]) -> str:
    """The address that a request's connection belongs to; empty on the operator's socket."""
    connection = connection_of(scope)
    return "" if connection is None else connection.address


def prove(scope: MutableMapping[str, Any], session: str) -> None:
    """A proof of ``session`` was verified for the request of ``scope``: its connection is the session's."""
    connection = connection_of(scope)
    if connection is not None:
        connection.prove(session)


class Turns:
    """Work for unknown callers: so many at once; others wait, in order, and no address has more than half the places.

    Args:
        at_once: that are done at a time. waiting: that may wait.
    """

    def __init__(self, at_once: int, waiting: int) -> None:
        self._places = at_once + waiting
        self._turns = asyncio.Semaphore(at_once)
        self._taken: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, scope: MutableMapping[str, Any]) -> AsyncIterator[None]:
        """Until the block ends, the turn of the request of ``scope``; its connection is kept, also while it waits.

        Raises:
            Crowded: too many have a place, or too many of this address.
        """
        connection, peer = connection_of(scope), peer_of(scope)
        if self._taken.total() >= self._places or self._taken[peer] >= self._places // 2:
            raise Crowded("too many such requests at once", hint="Send it again in a moment")
        self._taken[peer] += 1
        try:
            with nullcontext() if connection is None else connection.keeping():
                async with self._turns:
                    yield
        finally:
            self._taken[peer] -= 1
            if not self._taken[peer]:
                del self._taken[peer]


class Listener:
    """Accepts the connections of one listening socket.

    Args:
        protocol: makes what serves one connection, of the ASGI state of its requests. It calls
            :meth:`Connection.leave` when its transport is lost.
    """

    def __init__(
        self,
        listener: socket.socket,
        connections: Connections,
        protocol: Callable[[dict[str, Any]], asyncio.Protocol],
        context: ssl.SSLContext,
    ) -> None:
        self._listener = listener
        self._connections = connections
        self._protocol = protocol
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        listener.setblocking(False)  # noqa: FBT003 - the socket module's own signature
        self._resume()

    def close(self) -> None:
        """Accept nothing more; what is open goes on."""
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener)
            self._listener.close()
        for task in self._opening:
            task.cancel()

    def _resume(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no descriptor is left, or no memory
                self._connections.end_one()
                self._loop.remove_reader(self._listener)
                self._loop.call_later(_PAUSE_S, self._resume)
                return
            task = self._loop.create_task(self._open(accepted, str(address[0])))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, accepted: socket.socket, host: str) -> None:
        def end() -> None:
            with suppress(OSError):
                accepted.shutdown(socket.SHUT_RDWR)

        connection = self._connections.enter(address_of(host), end)
        try:
            accepted.setblocking(False)  # noqa: FBT003 - as above
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(
                lambda: self._protocol({_STATE: connection}),
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=_HANDSHAKE_S,
            )
        except (OSError, ssl.SSLError):  # TLS that did not come about
            connection.leave()
            accepted.close()
        except BaseException:  # raised again
            connection.leave()
            accepted.close()
            raise
