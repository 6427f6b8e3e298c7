"""How supervisor and broker talk: one control channel, and one stream for each exchange.

**Control** is a connected stream socket between the two processes. A message is a length (4 bytes, big-endian)
and that many bytes of JSON (an object); its member ``fds`` says how many file descriptors come with it
(``SCM_RIGHTS``): sources in the configuration, or one end of a fresh socket pair for an exchange.

**A stream** carries frames: a kind (1 byte), a length (4 bytes, big-endian), the content. ``H`` head (JSON),
``B`` bytes of a body, ``E`` end (JSON). Either side may close at any time; the other then stops its work.
Back-pressure is the socket's own.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from collections import deque
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from affiant.attestation.encoding.canonical import JSONError, parse_object
from affiant.errors import MalformedError
from affiant.secrets.names.errors import BrokerGone
from affiant.whole_sending import WholeSender

__all__ = ["MAX_BODY_FRAME", "ControlChannel", "Frame", "FrameKind", "Message", "read_frame", "write_frame"]

MAX_BODY_FRAME: Final = 1 << 18
_MAX_JSON: Final = 1 << 20
_MAX_MESSAGE: Final = 4 << 20
"""A configuration may hold some hundred roots."""
_MAX_DESCRIPTORS: Final = 8
_RECEIVE_BYTES: Final = 1 << 16
_FRAME_HEADER: Final = struct.Struct(">cI")
_LENGTH: Final = struct.Struct(">I")


class FrameKind(Enum):
    """What a frame carries."""

    HEAD = b"H"
    BODY = b"B"
    END = b"E"


class Frame(NamedTuple):
    """One frame of a stream."""

    kind: FrameKind
    content: bytes

    def members(self) -> Mapping[str, object]:
        """The content of a head or an end.

        Raises:
            ``broker.protocol``: it is not a JSON object.
        """
        return _object(self.content, limit=_MAX_JSON)


async def read_frame(reader: asyncio.StreamReader) -> Frame | None:
    """The next frame; None if the other side closed between two frames.

    Raises:
        ``broker.protocol``: an unknown kind, or more bytes than its kind may have.
        BrokerGone: the other side closed in the middle of a frame.
    """
    try:
        mark, size = _FRAME_HEADER.unpack(await reader.readexactly(_FRAME_HEADER.size))
        kind = FrameKind(mark)
        if size > (MAX_BODY_FRAME if kind is FrameKind.BODY else _MAX_JSON):
            raise MalformedError("a frame is too large", found=f"{size} bytes", code="broker.protocol")
        return Frame(kind, await reader.readexactly(size))
    except ValueError as error:
        raise MalformedError("a frame of an unknown kind", code="broker.protocol") from error
    except asyncio.IncompleteReadError as error:
        if not error.partial and error.expected == _FRAME_HEADER.size:
            return None
        raise BrokerGone("the stream ended in the middle of a frame") from error
    except ConnectionError as error:
        raise BrokerGone("the stream was cut") from error


async def write_frame(
    writer: asyncio.StreamWriter, kind: FrameKind, content: bytes | Mapping[str, object]
) -> None:
    """Send one frame (a body longer than a frame as several), and wait until the other side keeps up.

    Raises:
        BrokerGone: the other side closed.
    """
    data = content if isinstance(content, bytes) else json.dumps(content).encode("ascii")
    step = MAX_BODY_FRAME if kind is FrameKind.BODY else max(len(data), 1)
    try:
        for at in range(0, max(len(data), 1), step):
            piece = data[at : at + step]
            writer.write(_FRAME_HEADER.pack(kind.value, len(piece)) + piece)
            await writer.drain()
    except ConnectionError as error:
        raise BrokerGone("the stream was cut") from error


class Message(NamedTuple):
    """One message of the control channel, with its descriptors, which the receiver closes."""

    members: Mapping[str, object]
    descriptors: tuple[int, ...]


class ControlChannel:
    """One end of the control channel; closes its socket when it is closed."""

    def __init__(self, control: socket.socket) -> None:
        control.settimeout(0)
        self._socket = control
        self._sender = WholeSender(control)
        self._received = b""
        self._descriptors: deque[int] = deque()

    async def send(self, members: Mapping[str, object], descriptors: tuple[int, ...] = ()) -> None:
        """Send one message; ``descriptors`` remain the caller's to close.

        A message that was begun is sent whole, also when its sender is cancelled.

        Raises:
            BrokerGone: the other side closed, or this one.
        """
        content = json.dumps({**members, "fds": len(descriptors)}).encode("ascii")
        try:
            await self._sender.send(_LENGTH.pack(len(content)) + content, descriptors)
        except OSError as error:
            raise BrokerGone("the control channel was cut, or closed") from error

    async def receive(self) -> Message | None:
        """The next message; None when the other side closed.

        Raises:
            ``broker.protocol``: not a message, or another number of descriptors than it announces.
        """
        header = await self._bytes(_LENGTH.size)
        if header is None:
            return None
        (size,) = _LENGTH.unpack(header)
        if size > _MAX_MESSAGE:
            raise MalformedError("a message is too large", found=f"{size} bytes", code="broker.protocol")
        content = await self._bytes(size)
        if content is None:
            return None
        members = dict(_object(content, limit=_MAX_MESSAGE))
        count = members.pop("fds", None)
        if not isinstance(count, int) or not 0 <= count <= len(self._descriptors):
            raise MalformedError(
                "a message without the descriptors that it announces", code="broker.protocol"
            )
        return Message(members, tuple(self._descriptors.popleft() for _ in range(count)))

    async def _bytes(self, size: int) -> bytes | None:
        while len(self._received) < size:
            try:
                data, descriptors, flags, _ = socket.recv_fds(self._socket, _RECEIVE_BYTES, _MAX_DESCRIPTORS)
            except BlockingIOError:
                await _readable(self._socket)
                continue
            except OSError:
                return None
            for descriptor in descriptors:
                # recv_fds drops the flags it is given, MSG_CMSG_CLOEXEC among them
                os.set_inheritable(descriptor, False)  # noqa: FBT003 - positional only
            self._descriptors.extend(descriptors)
            if flags & socket.MSG_CTRUNC:
                raise MalformedError("descriptors were lost", code="broker.protocol")
            if not data:
                return None
            self._received += data
        content, self._received = self._received[:size], self._received[size:]
        return content

    def close(self) -> None:
        """Close the channel and what came with it; what was not sent yet is not. The other side ends its work."""
        self._sender.close()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()
        self._socket.close()


async def _readable(watched: socket.socket) -> None:
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(watched, ready.set)
    try:
        await ready.wait()
    finally:
        if watched.fileno() >= 0:  # else it was closed, and its number may be another's
            loop.remove_reader(watched)


def _object(content: bytes, *, limit: int) -> Mapping[str, object]:
    try:
        return parse_object(content, limit=limit, strict_form=False)
    except JSONError as error:
        raise MalformedError("not a JSON object", code="broker.protocol") from error
