"""How much of what was written to a connection its peer has taken, as the kernel counts.

The transport's buffers do not tell: they shrink when the kernel takes bytes, which it does in steps of up to some MiB
while the peer's acknowledgements move byte by byte; and a TLS peer can make them grow.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Final

__all__ = ["taken_bytes"]

_INFO_SIZE: Final = 128
_BYTES_ACKED: Final = 120
"""Where ``tcpi_bytes_acked`` stands in Linux's ``struct tcp_info`` (include/uapi/linux/tcp.h): 8 bytes, native."""


def taken_bytes(transport: asyncio.Transport) -> int:
    """A count that changes when the peer takes bytes: of TCP, what it has acknowledged.

    Where the kernel does not say (a Unix socket; another system than Linux), what the transport still holds, negated.
    """
    peer: socket.socket | None = transport.get_extra_info("socket")
    if peer is not None and peer.family != getattr(socket, "AF_UNIX", None):
        try:
            info = peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_SIZE)
        except (AttributeError, OSError):
            info = b""
        if len(info) == _INFO_SIZE:
            (acknowledged,) = struct.unpack_from("=Q", info, _BYTES_ACKED)
            return int(acknowledged)
    return -transport.get_write_buffer_size()
