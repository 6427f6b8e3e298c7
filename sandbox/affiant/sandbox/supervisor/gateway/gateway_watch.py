"""Whether the gateway that admitted this session is still there, and stays: its keys live and die with its process.

One pinned connection is held open for nothing but its end. When it ends another is made; that is what a short failure
of the network, or of something in between, comes to. Two things are final, because no gateway can go on with another
one's sessions (trust rules, 1): nothing listens at the address any more, again and again, or a peer with another key
does. Silence is not final here: how long an effect waits for an answer is ``records``' business.

A gateway that is about to be stopped says so while it can still close the session. It is asked all the time, and holds
the question until there is something to say.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from affiant.errors import AffiantError
from affiant.sandbox.base.errors import GatewayNotTheOne, GatewayUnreachable
from affiant.sandbox.supervisor.gateway.gateway_client import GatewayClient
from affiant.sandbox.supervisor.launch.errors import GatewayDrained, GatewayLost

__all__ = ["GONE_AFTER_S", "until_drained", "until_gone"]

GONE_AFTER_S: Final = 2.0
"""Seconds of refused connections after which a gateway counts as gone."""
GONE_HERE_AFTER_S: Final = 0.5
"""The same on this machine, where nothing is between."""

_STOPPED: Final = "the gateway stopped, so this session ended"
_REPLACED: Final = "another gateway took the place of this session's, so this session ended"

_STEP_S: Final = 0.1
_SHORT_S: Final = 1.0
"""Seconds; a connection that ended sooner, or could not be made, is not made again at once."""
_ASKED_AGAIN_S: Final = 1.0
"""Seconds after which a gateway that gave no answer is asked again. A gateway that is drained waits 2 s for supervisors
that do not ask just then (``_ASKED_AGAIN_S`` in its ``draining``)."""
_PROBE_S: Final = 5.0
"""Seconds that the name server and the addresses of a gateway have to answer."""


async def until_drained(is_to_close: Callable[[], Awaitable[bool]]) -> GatewayDrained:
    """Return when the gateway wants the session closed, because it is about to be stopped; why the session ends.

    Args:
        is_to_close: asks the gateway, which holds the question for a while.
    """
    while True:
        try:
            if await is_to_close():
                return GatewayDrained(
                    "the gateway is being stopped, so this session was closed",
                    hint="Run the command again after the gateway has restarted, or name another one with --gateway",
                )
        except (
            AffiantError
        ):  # no gateway for a moment, one that does not know the question, or another one than ours
            await asyncio.sleep(_ASKED_AGAIN_S)


async def until_gone(url: str, *, spki: str) -> GatewayLost:
    """Return when the gateway at ``url`` is gone for good; why.

    Args:
        url: ``https://host:port``. spki: the pin of the gateway that was appraised.
    """
    parts = urlsplit(url)
    host, port = str(parts.hostname), int(parts.port or 0)
    patience = GONE_HERE_AFTER_S if _is_here(host) else GONE_AFTER_S
    client, refused_since = GatewayClient(url, spki=spki), None
    while True:
        began = time.monotonic()
        try:
            connection = await client.connection()
        except GatewayNotTheOne as error:
            return _lost(_REPLACED, "another one answers at its address", error)
        except GatewayUnreachable as error:
            if not await _nobody_listens(host, port):
                refused_since = None
                await asyncio.sleep(_SHORT_S)
                continue
            refused_since = began if refused_since is None else refused_since
            if time.monotonic() - refused_since >= patience:
                return _lost(_STOPPED, "nothing listens at its address any more", error)
            await asyncio.sleep(_STEP_S)
            continue
        refused_since = None
        try:
            await connection.until_closed()
        finally:
            await connection.close()
        if time.monotonic() - began < _SHORT_S:
            await asyncio.sleep(_SHORT_S)


def _lost(message: str, found: str, error: AffiantError) -> GatewayLost:
    lost = GatewayLost(message, found=found)
    lost.__cause__ = error
    return lost


def _is_here(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


async def _nobody_listens(host: str, port: int) -> bool:
    """Whether every address of ``host`` refuses a connection; silence, or no answer of a name server, is not that."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_PROBE_S):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            return bool(found) and all(
                [await _refuses(family, address) for family, _, _, _, address in found]
            )
    except (OSError, TimeoutError):
        return False


async def _refuses(family: socket.AddressFamily, address: tuple[str | int, ...] | tuple[int, bytes]) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)  # noqa: FBT003 - the socket module's own signature
        try:
            await asyncio.get_running_loop().sock_connect(connection, address)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        return False
