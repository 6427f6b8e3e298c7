"""Serves an ASGI application over HTTP/1.1 with ``uvicorn``, bounded in connections, header sizes and time.

A client could otherwise hold connections with TLS handshakes and heads that never end, and with answers that it does
not read; uvicorn times none of them. Connections count from the moment that they are accepted.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from affiant.errors import ConfigurationError

__all__ = ["Times", "listening", "serve_bounded", "tls_context"]

_STOP_S: Final = 5
_BACKLOG: Final = 128
_PAUSE_S: Final = 0.2
"""So long nothing is accepted after an error, such as too many open files."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds that a client has.

    Args:
        handshake: for TLS. head: for each request's head. keep_alive: between requests.
        write: to take what was last written, all of it.
    """

    handshake: float = 10.0
    head: float = 10.0
    keep_alive: int = 10
    write: float = 30.0


class _BoundedHTTP(H11Protocol):
    """One connection."""

    def __init__(self, config: uvicorn.Config, state: ServerState, times: Times) -> None:
        super().__init__(config, state, {})
        self.times = times
        self.ended = asyncio.Event()
        self._due: asyncio.TimerHandle | None = None
        self._undrained: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """As uvicorn's."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=1, low=0)  # paused while anything waits for the client
        self._time_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """As uvicorn's."""
        self._arrived()
        self._stop_timing_write()
        super().connection_lost(exc)
        self.ended.set()

    def data_received(self, data: bytes) -> None:
        """As uvicorn's."""
        super().data_received(data)
        if self.transport.is_closing() or self.conn.their_state is not h11.IDLE:
            self._arrived()
        else:
            self._time_head()

    def pause_writing(self) -> None:
        """As uvicorn's. A connection that is being closed waits for its client too."""
        super().pause_writing()
        if self._undrained is None:
            self._undrained = self.loop.call_later(self.times.write, self.transport.abort)

    def resume_writing(self) -> None:
        """As uvicorn's."""
        self._stop_timing_write()
        super().resume_writing()

    def _stop_timing_write(self) -> None:
        if self._undrained is not None:
            self._undrained.cancel()
            self._undrained = None

    def _time_head(self) -> None:
        if self._due is None:
            self._due = self.loop.call_later(self.times.head, self.transport.close)

    def _arrived(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None


class _Accepting:
    """Accepts connections, in place of asyncio's server: that one counts none whose TLS handshake is under way.

    Args:
        most: at one time; further ones are closed at once.
    """

    def __init__(
        self,
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        protocol: Callable[[], _BoundedHTTP],
        *,
        most: int,
    ) -> None:
        self._tls = tls
        self._protocol = protocol
        self._most = most
        self._open: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept(listener))

    async def _accept(self, listener: socket.socket) -> None:
        listener.setblocking(False)  # noqa: FBT003 - the socket module's own signature
        while True:
            try:
                connection, _ = await asyncio.get_running_loop().sock_accept(listener)
            except OSError:  # too many open files: those that are open end one day
                await asyncio.sleep(_PAUSE_S)
                continue
            if len(self._open) >= self._most:
                connection.close()
                continue
            task = asyncio.create_task(self._served(connection))
            self._open.add(task)
            task.add_done_callback(self._open.discard)

    async def _served(self, connection: socket.socket) -> None:
        """Serve one connection to its end."""
        protocol = self._protocol()
        handshake = None if self._tls is None else protocol.times.handshake
        with contextlib.suppress(OSError):  # no handshake: the connection is closed
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol, connection, ssl=self._tls, ssl_handshake_timeout=handshake
            )
            await protocol.ended.wait()

    async def close(self) -> None:
        """Accept no more; those that are open stay."""
        self._accepting.cancel()
        await asyncio.gather(self._accepting, return_exceptions=True)


class _Server(uvicorn.Server):
    """uvicorn without its own signal handlers and its own accepting, which says when it has started."""

    def __init__(
        self,
        config: uvicorn.Config,
        accept: Callable[[socket.socket, Callable[[], _BoundedHTTP]], _Accepting],
        times: Times,
        announce: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._accept = accept
        self._accepting: list[_Accepting] = []
        self._times = times
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's."""
        await self.lifespan.startup()
        self.servers = []
        self._accepting = [self._accept(each, self._protocol) for each in sockets or ()]
        self.started = True
        self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's."""
        for each in self._accepting:
            await each.close()
        await super().shutdown(sockets)

    def _protocol(self) -> _BoundedHTTP:
        return _BoundedHTTP(self.config, self.server_state, self._times)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


async def serve_bounded(
    app: Callable[..., Awaitable[None]],
    listener: socket.socket,
    tls: ssl.SSLContext | None,
    *,
    connections: int,
    announce: Callable[[str], None],
    times: Times = Times(),
) -> None:
    """Serve an ASGI application until SIGTERM or SIGINT; what is being answered then has five seconds to end.

    Args:
        connections: at one time; further ones are closed at once.
        announce: called once with the address, when it is being served.
    """
    config = uvicorn.Config(
        app,
        loop="none",
        http=H11Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=times.keep_alive,
        timeout_graceful_shutdown=_STOP_S,
    )
    if (
        listener.family != socket.AF_UNIX
    ):  # what no handler sees any more: the last bytes of a closed connection
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(times.write * 1000))
    server = _Server(
        config,
        lambda socket, protocol: _Accepting(socket, tls, protocol, most=connections),
        times,
        lambda: announce(_address(listener, tls)),
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _stop, server)
    await server.serve([listener])


def _stop(server: uvicorn.Server) -> None:
    server.should_exit = True


def _address(listener: socket.socket, tls: ssl.SSLContext | None) -> str:
    if listener.family == socket.AF_UNIX:
        return f"unix:{listener.getsockname()}"
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'http' if tls is None else 'https'}://{shown}:{port}"


@contextlib.contextmanager
def listening(host: str, port: int, *, code: str) -> Iterator[socket.socket]:
    """A socket that listens at ``host`` for the length of the block; port 0: any.

    Raises:
        ConfigurationError: it cannot, under ``code``.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(_BACKLOG)
        except OSError as error:
            raise ConfigurationError(
                "cannot listen", where=f"{host}:{port}", found=error.strerror, code=code
            ) from error
        yield listener


def tls_context(cert: Path | None, key: Path | None, *, code: str) -> ssl.SSLContext | None:
    """The context of a server with this certificate and key (PEM files); None: neither is given.

    Raises:
        ConfigurationError: they cannot be used, under ``code``.
    """
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        raise ConfigurationError("a certificate and its key belong together", code=code)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            "the certificate or its key cannot be used",
            expected="PEM",
            found=type(error).__name__,
            code=code,
        ) from error
    return context
