"""Serves the witness over HTTP/1.1 with ``uvicorn`` (the extra ``witness``), bounded in connections, header sizes and
time. :func:`serve_bounded` serves any other application in the same way.

A client could otherwise hold connections with heads that never end; uvicorn times none of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from affiant.attestation.log.witness.asgi import WitnessApp
from affiant.attestation.log.witness.witness import Witness
from affiant.errors import ConfigurationError

__all__ = ["ServerSettings", "serve_bounded", "serve_witness"]

_STOP_S: Final = 5


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where and how the witness serves.

    Args:
        tls_cert, tls_key: PEM files; both or neither.
        connections: at one time; further ones are closed at once.
        descriptor: of a Unix socket that listens already, instead of ``host`` and ``port``.
    """

    host: str
    port: int
    tls_cert: Path | None = None
    tls_key: Path | None = None
    connections: int = 64
    descriptor: int | None = None


class _BoundedHTTP(H11Protocol):
    """One connection, whose heads must each come within :attr:`head_s`; beyond the bound it is closed."""

    head_s: ClassVar[float] = 10.0
    most: ClassVar[int] = 64
    _due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """As uvicorn's."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
        else:
            self._time_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """As uvicorn's."""
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """As uvicorn's."""
        super().data_received(data)
        if self.transport.is_closing() or self.conn.their_state is not h11.IDLE:
            self._arrived()
        else:
            self._time_head()

    def _time_head(self) -> None:
        if self._due is None:
            self._due = self.loop.call_later(self.head_s, self.transport.close)

    def _arrived(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None


class _Server(uvicorn.Server):
    """uvicorn without its own signal handlers, which says when it has started."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's."""
        await super().startup(sockets)
        if self.started:
            self._announce()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


def serve_witness(
    witness: Witness,
    settings: ServerSettings,
    *,
    clock: Callable[[], int],
    announce: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or SIGINT; what is being answered then is answered.

    Args:
        clock: seconds since 1970.
        announce: called once with the address, when it is being served.

    Raises:
        ``witness.settings``: the address or the certificate cannot be used.
    """
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    tls = _tls_context(settings)
    with _listening(settings) as listener, ThreadPoolExecutor(1, "witness") as worker:
        app = WitnessApp(witness, clock=clock, worker=worker)
        with asyncio.Runner() as runner:
            runner.run(serve_bounded(app, listener, tls, connections=settings.connections, announce=announce))


async def serve_bounded(
    app: Callable[..., Awaitable[None]],
    listener: socket.socket,
    tls: ssl.SSLContext | None,
    *,
    connections: int,
    announce: Callable[[str], None],
) -> None:
    """Serve an ASGI application until SIGTERM or SIGINT; what is being answered then has five seconds to end.

    Args:
        connections: at one time; further ones are closed at once.
        announce: called once with the address, when it is being served.
    """
    protocol = type("_Bounded", (_BoundedHTTP,), {"most": connections})
    config = uvicorn.Config(
        app,
        loop="none",
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=_STOP_S,
        ssl_context_factory=None if tls is None else lambda _config, _default: tls,
    )
    server = _Server(config, lambda: announce(_address(listener, tls)))
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
def _listening(settings: ServerSettings) -> Iterator[socket.socket]:
    if settings.descriptor is not None:
        with _given(settings.descriptor) as listener:
            yield listener
        return
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((settings.host, settings.port))
            listener.listen(128)
        except OSError as error:
            raise ConfigurationError(
                "cannot listen",
                where=f"{settings.host}:{settings.port}",
                found=error.strerror,
                code="witness.settings",
            ) from error
        yield listener


def _given(descriptor: int) -> socket.socket:
    try:
        listener = socket.socket(fileno=descriptor)
    except OSError as error:
        raise ConfigurationError(
            "not a socket", where=f"descriptor {descriptor}", code="witness.settings"
        ) from error
    if listener.family != socket.AF_UNIX or not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        listener.close()
        raise ConfigurationError(
            "not a socket to serve on",
            where=f"descriptor {descriptor}",
            expected="a Unix socket that listens",
            code="witness.settings",
        )
    return listener


def _tls_context(settings: ServerSettings) -> ssl.SSLContext | None:
    if settings.tls_cert is None and settings.tls_key is None:
        return None
    if settings.tls_cert is None or settings.tls_key is None:
        raise ConfigurationError("a certificate and its key belong together", code="witness.settings")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            "the certificate or its key cannot be used",
            expected="PEM",
            found=type(error).__name__,
            code="witness.settings",
        ) from error
    return context
