"""Serves sessions over HTTP/1.1: the address, the certificate, who may call, and the end in order.

It holds no session: session hosts do. A server that ends, or is killed, ends the commands and ports that its callers
wait for; sessions, and commands that were left running, go on, and the next server finds them.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import secrets
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from affiant.attestation.log.witness.bounded_serving import listening, serve_bounded, tls_context
from affiant.errors import ConfigurationError
from affiant.sandbox.processes.home import Home, write_file
from affiant.sandbox.session.session_plan import SessionRequest
from affiant.sandbox.session_server.app import session_app
from affiant.sandbox.session_server.callers import Callers, IssuerKeys, OpenIDCallers, TokenCallers
from affiant.sandbox.session_server.guard import Guard, Places
from affiant.sandbox.session_server.held_ports import HeldPorts
from affiant.sandbox.session_server.owned_sessions import Bounds, OwnedSessions
from affiant.secrets.store.private_files import open_private_file, read_private_descriptor

__all__ = ["Listen", "openid_callers", "serve_sessions", "token_callers"]

_TOKEN: Final = 4096
_SHORTEST: Final = 32
_CONNECTIONS: Final = 256
_REQUESTS: Final = (128, 64)
"""Under way at once: of all callers, and of one."""
_TREES: Final = (8, 4)
"""As above; each takes up to 3 GiB of temporary disk."""
_DOCUMENT: Final = 1 << 20
_FETCH_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Listen:
    """Where the server listens. Without a certificate, only on a loopback address."""

    host: str
    port: int
    tls_cert: Path | None = None
    tls_key: Path | None = None


def token_callers(path: Path) -> Callers:
    """Accepts the token of a private file (0600); makes the file where there is none.

    Raises:
        ``store.permissions``: others can read it. ``session.server``: it holds no token, or too short a one.
    """
    if not path.exists():
        write_file(path, f"{secrets.token_urlsafe(32)}\n".encode(), replace=False)
    descriptor = open_private_file(path)
    try:
        token = read_private_descriptor(descriptor, limit=_TOKEN).strip()
    finally:
        os.close(descriptor)
    if len(token) < _SHORTEST or not all(0x21 <= byte <= 0x7E for byte in token):
        raise ConfigurationError(
            "the file holds no bearer token",
            where=str(path),
            expected=f"one line of at least {_SHORTEST} characters without spaces",
            hint="Remove the file: the next start makes a new one",
            code="session.server",
        )
    return TokenCallers(token)


def openid_callers(issuer: str, audience: str, subjects: frozenset[str], *, ca: Path | None) -> Callers:
    """Subjects of an OpenID issuer.

    Args:
        ca: certificate authorities (PEM) of the issuer in place of the system's.

    Raises:
        ``session.server``: the issuer is no https URL, or no subject is named.
    """
    _require_https(issuer)
    if not subjects or not audience:
        raise ConfigurationError(
            "an OpenID issuer without an audience, or without a subject that may call", code="session.server"
        )
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            "the issuer's certificate authorities cannot be read", where=str(ca), code="session.server"
        ) from error
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context), _NoRedirect()
    )

    def fetch(url: str) -> bytes:
        _require_https(url)
        with opener.open(url, timeout=_FETCH_S) as response:
            data: bytes = response.read(_DOCUMENT + 1)
        if len(data) > _DOCUMENT:
            raise ValueError("a document that is too large")
        return data

    return OpenIDCallers(issuer, audience, subjects, IssuerKeys(issuer, fetch, time.monotonic))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A document is where its URL says, or not had."""

    def redirect_request(self, *_args: Any, **_named: Any) -> None:
        return None


def _require_https(url: str) -> None:
    parts = urlsplit(url)
    local = parts.scheme == "http" and parts.hostname is not None and _is_loopback(parts.hostname)
    if not (local or (parts.scheme == "https" and parts.hostname)):
        raise ConfigurationError(
            "not the URL of an OpenID issuer",
            expected="https://, or http:// with a loopback address",
            found=ascii(url[:200]),
            code="session.server",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve_sessions(
    listen: Listen,
    home: Home,
    template: SessionRequest,
    *,
    bounds: Bounds,
    callers: Callers,
    announce: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or SIGINT; what is being answered then has five seconds to end.

    Args:
        template: what is the same of every session.
        announce: called once with the address, when it is being served.

    Raises:
        ``session.server``: the address or the certificate cannot be used.
    """
    tls = tls_context(listen.tls_cert, listen.tls_key, code="session.server")
    if tls is None and not _is_loopback(listen.host):
        raise ConfigurationError(
            "tokens would cross the network in clear",
            found=listen.host,
            expected="a loopback address, or a certificate",
            hint="Give --tls-cert and --tls-key, or listen on 127.0.0.1 behind a proxy",
            code="session.server",
        )
    logging.basicConfig(format="affiant: %(message)s", level=logging.ERROR)
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    with listening(listen.host, listen.port, code="session.server") as listener:
        asyncio.run(_serve(listener, tls, OwnedSessions(home, template, bounds), callers, announce))


async def _serve(
    listener: socket.socket,
    tls: ssl.SSLContext | None,
    sessions: OwnedSessions,
    callers: Callers,
    announce: Callable[[str], None],
) -> None:
    ports = HeldPorts()
    try:
        app = Guard(session_app(sessions, ports), callers, requests=Places(*_REQUESTS), trees=Places(*_TREES))
        await serve_bounded(app, listener, tls, connections=_CONNECTIONS, announce=announce)
    finally:
        await sessions.close()
        await ports.close_all()
