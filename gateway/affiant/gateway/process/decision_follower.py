"""The server's half of the handover of the decision log: it appends to each file that its launcher passes it.

The launcher's half, and why there are two, is ``decision_handover``.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Iterable
from typing import Final

from affiant.policy.decision_log.file import DecisionFile, DecisionsUnavailable

__all__ = ["AGAIN", "MESSAGE_SIZE", "REFUSED", "TAKEN", "take_over"]

TAKEN: Final = b"taken"
REFUSED: Final = b"refused"
AGAIN: Final = b"again"
MESSAGE_SIZE: Final = 16
"""Bytes of a message, at most: one of those above, or the launcher's ``next``."""
_DESCRIPTOR: Final = struct.Struct("i")


def take_over(file: DecisionFile, link: socket.socket) -> None:
    """The server's half: have ``file`` go on in each file that comes over ``link``. Call it in the event loop."""
    link.settimeout(0)
    loop = asyncio.get_running_loop()

    def take() -> None:
        room = socket.CMSG_LEN(_DESCRIPTOR.size)
        message, ancillary, _, _ = link.recvmsg(MESSAGE_SIZE, room, socket.MSG_CMSG_CLOEXEC)
        if message:
            link.send(_follow(file, ancillary))
        else:
            loop.remove_reader(link)  # the launcher has gone, and so do we

    loop.add_reader(link, take)


def _follow(file: DecisionFile, ancillary: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Have ``file`` go on in the file whose descriptor came; the answer."""
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            (descriptor,) = _DESCRIPTOR.unpack(data)
            try:
                file.follow(descriptor)
            except DecisionsUnavailable:
                os.close(descriptor)
                return REFUSED
            return TAKEN
    return AGAIN  # the kernel drops what a process at its limit of descriptors cannot take
