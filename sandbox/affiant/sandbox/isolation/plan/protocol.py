"""The control socket between the unprivileged supervisor and its privileged runner.

A ``SOCK_SEQPACKET`` pair: one frame is one packet, a canonical JSON object (RFC 8785) of at most 192 KiB, with
at most 4 descriptors travelling in the very packet that names them. A request is ``{"id": n, "do": command,
...}``; its answer is ``{"id": n, "ok": {...}}`` or ``{"id": n, "refused": {...}}`` (a refusal's members). No
frame carries a secret.

Commands: ``prepare``, ``start``, ``signal``, ``wait``, ``kill``, ``cleanup``.
"""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Final

from affiant.attestation.encoding.canonical import JSONError, canonical, parse_object
from affiant.sandbox.isolation.plan.errors import FrameError

__all__ = ["MAX_FRAME", "control_pair", "receive_frame", "send_frame"]

MAX_FRAME: Final = 192 * 1024
"""Bytes; below the kernel's default bound of one packet (net.core.wmem_default, 212992)."""

_MAX_DESCRIPTORS: Final = 4


def control_pair() -> tuple[socket.socket, socket.socket]:
    """The supervisor's end and the runner's end. Both close on exec; hand the runner's over by its number."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send_frame(
    control: socket.socket, members: Mapping[str, object], descriptors: Sequence[int] = ()
) -> None:
    """Send one frame; the descriptors stay open here.

    Raises:
        FrameError: the frame is larger than one packet may be.
        OSError: the other end is gone.
    """
    frame = canonical(members)
    if len(frame) > MAX_FRAME:
        raise FrameError(
            "a control message is too large",
            expected=f"at most {MAX_FRAME} bytes",
            found=f"{len(frame)} bytes",
        )
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    control.sendmsg([frame], ancillary, socket.MSG_NOSIGNAL)


def receive_frame(control: socket.socket) -> tuple[Mapping[str, object], tuple[int, ...]] | None:
    """The next frame and its descriptors (which the caller now owns); None: the other end is closed.

    Raises:
        FrameError: not a frame of this protocol; its descriptors are closed.
    """
    room = socket.CMSG_SPACE(_MAX_DESCRIPTORS * array.array("i").itemsize)
    data, ancillary, flags, _ = control.recvmsg(MAX_FRAME + 1, room, socket.MSG_CMSG_CLOEXEC)
    received = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            received.frombytes(payload[: len(payload) - len(payload) % received.itemsize])
    if not data and not received:
        return None
    try:
        if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise FrameError("a control message is incomplete")
        return parse_object(data, limit=MAX_FRAME), tuple(received)
    except (JSONError, FrameError) as error:
        for fd in received:
            os.close(fd)
        if isinstance(error, FrameError):
            raise
        raise FrameError("a control message is not canonical JSON") from error
