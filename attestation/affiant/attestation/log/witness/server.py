"""Serves the witness over HTTP/1.1 (``bounded_serving``; the extra ``witness``)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from affiant.attestation.log.witness.asgi import WitnessApp
from affiant.attestation.log.witness.bounded_serving import listening, serve_bounded, tls_context
from affiant.attestation.log.witness.witness import Witness
from affiant.errors import ConfigurationError

__all__ = ["ServerSettings", "serve_witness"]


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
    tls = tls_context(settings.tls_cert, settings.tls_key, code="witness.settings")
    with _listening(settings) as listener, ThreadPoolExecutor(1, "witness") as worker:
        app = WitnessApp(witness, clock=clock, worker=worker)
        with asyncio.Runner() as runner:
            runner.run(serve_bounded(app, listener, tls, connections=settings.connections, announce=announce))


@contextlib.contextmanager
def _listening(settings: ServerSettings) -> Iterator[socket.socket]:
    given = settings.descriptor
    opened = (
        listening(settings.host, settings.port, code="witness.settings") if given is None else _given(given)
    )
    with opened as listener:
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
