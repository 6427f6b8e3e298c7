"""What a peer has taken is seen byte by byte where the kernel counts, and else in what the transport still holds."""

from __future__ import annotations

import asyncio
import socket

import pytest

from affiant.gateway.wire.bounded_http import taken_bytes

pytestmark = pytest.mark.anyio
PIECE = 1 << 20


async def pair(family: socket.AddressFamily) -> tuple[asyncio.Transport, socket.socket]:
    """A transport, and the peer's socket, with small buffers."""
    if family is socket.AF_UNIX:
        ours, theirs = socket.socketpair(socket.AF_UNIX)
    else:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            ours = socket.create_connection(listener.getsockname())
            theirs, _ = listener.accept()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 256 << 10)
    ours.setblocking(False)
    theirs.setblocking(True)
    transport, _ = await asyncio.get_running_loop().connect_accepted_socket(asyncio.Protocol, ours)
    return transport, theirs


async def settled(transport: asyncio.Transport) -> int:
    """What is taken once nothing moves any more."""
    before = taken_bytes(transport)
    while True:
        await asyncio.sleep(0.05)
        after = taken_bytes(transport)
        if after == before:
            return after
        before = after


async def test_tcp_counts_what_the_peer_took_before_the_transport_hands_on_any_more() -> None:
    transport, peer = await pair(socket.AF_INET)
    with peer:
        transport.write(bytes(PIECE))
        before, held = await settled(transport), transport.get_write_buffer_size()
        assert held > 0 and before > 0
        taken = len(peer.recv(65536))
        after = await settled(transport)
        assert 0 < after - before <= taken + 65536
        assert transport.get_write_buffer_size() == held
        transport.abort()


async def test_what_the_gateway_writes_is_no_sign_of_the_peer() -> None:
    transport, peer = await pair(socket.AF_INET)
    with peer:
        transport.write(bytes(PIECE))
        before = await settled(transport)
        transport.write(bytes(PIECE))
        assert await settled(transport) == before
        transport.abort()


async def test_of_a_unix_socket_what_the_transport_holds_counts() -> None:
    transport, peer = await pair(socket.AF_UNIX)
    with peer:
        transport.write(bytes(PIECE))
        before, read = await settled(transport), 0
        assert before < 0
        while read < PIECE // 2:
            read += len(await asyncio.to_thread(peer.recv, 65536))
            await asyncio.sleep(0)
        assert await settled(transport) > before
        transport.abort()
