"""The control socket between launcher and supervisor: messages out and in, with descriptors.

A connected stream socket. A message is a length (4 bytes, big-endian) and that many bytes of canonical JSON (an
object, at most 1 MiB); the descriptors that its member ``fds`` names, in that order, come with it
(``SCM_RIGHTS``). When the other end closes, the supervisor ends its session.

:class:`Messages` takes bytes apart without any I/O; :class:`ControlChannel` serves an event loop with it.
"""

from __future__ import annotations

import array
import asyncio
import os
import socket
import struct
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.errors import AffiantError, MalformedError, StateError
from affiant.whole_sending import WholeSender

__all__ = ["ControlChannel", "Message", "Messages", "refusal_members", "sent_error", "text_member"]

_LENGTH: Final = struct.Struct(">I")
_MAX_MESSAGE: Final = 1 << 20
_MAX_DESCRIPTORS: Final = 8
_PIECE: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Message:
    """One message. The receiver owns its descriptors."""

    members: Mapping[str, object]
    descriptors: Mapping[str, int] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """A member that must be text.

        Raises:
            ``session.control``: it is not there, or something else.
        """
        return text_member(self.members.get(name), name)

    def close(self) -> None:
        """Close the descriptors."""
        for descriptor in self.descriptors.values():
            os.close(descriptor)


def text_member(value: object, where: str) -> str:
    """``value``, which must be text.

    Raises:
        ``session.control``: it is missing, or something else.
    """
    if not isinstance(value, str):
        raise MalformedError("a member is missing, or is not text", where=where, code="session.control")
    return value


def refusal_members(refusal: AffiantError) -> Mapping[str, object]:
    """``code``, ``message`` and ``hint`` of a refusal: its text without the hint, which has a member of its own.

    ``where`` if the text begins with it; ``retryable`` where the same call may succeed later, or where that is not
    known.
    """
    message, hint = str(refusal), refusal.hint
    if hint is not None:
        message = message.removesuffix(f". {hint}")
    members: dict[str, object] = {"code": refusal.code, "message": message, "hint": hint}
    if refusal.where is not None:
        members["where"] = refusal.where
    return members if refusal.retryable is False else {**members, "retryable": refusal.retryable}


def sent_error(members: Mapping[str, object]) -> StateError:
    """The error whose :func:`refusal_members` the other end sent, under the code that it has there."""
    hint, retryable, where = members.get("hint"), members.get("retryable", False), members.get("where")
    place = where if isinstance(where, str) else None
    error = StateError(
        str(members.get("message")).removeprefix(f"{place}: "),
        code=str(members.get("code")),
        hint=None if hint is None else str(hint),
        where=place,
    )
    error.retryable = retryable if isinstance(retryable, bool) else None
    return error


class Messages:
    """The messages in a stream of bytes and descriptors; sans-IO."""

    __slots__ = ("_buffer", "_descriptors")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._descriptors: deque[int] = deque()

    def feed(self, data: bytes, descriptors: Sequence[int]) -> None:
        """Take what was received together."""
        self._buffer += data
        self._descriptors.extend(descriptors)

    def next(self) -> Message | None:
        """The next complete message.

        Raises:
            ``session.control``: not a message of this protocol, or without the descriptors that it names.
            JSONError: not canonical JSON.
        """
        if len(self._buffer) < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack(self._buffer[: _LENGTH.size])
        _require_size(size)
        if len(self._buffer) < _LENGTH.size + size:
            return None
        members = dict(parse_object(bytes(self._buffer[_LENGTH.size : _LENGTH.size + size])))
        del self._buffer[: _LENGTH.size + size]
        return Message(members, self._named(members.pop("fds", [])))

    def _named(self, names: object) -> Mapping[str, int]:
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise MalformedError("fds is not a list of names", where="fds", code="session.control")
        if len(names) > len(self._descriptors) or len(set(names)) != len(names):
            raise MalformedError(
                "a control message without the descriptors that it names", where="fds", code="session.control"
            )
        return {name: self._descriptors.popleft() for name in names}

    def close(self) -> None:
        """Close descriptors that no message has named."""
        while self._descriptors:
            os.close(self._descriptors.popleft())


def _require_size(size: int) -> None:
    if size > _MAX_MESSAGE:
        raise MalformedError(
            "a control message is too large",
            expected=f"at most {_MAX_MESSAGE} bytes",
            found=f"{size} bytes",
            code="session.control",
        )


def _receive(control: socket.socket) -> tuple[bytes, tuple[int, ...]]:
    room = socket.CMSG_SPACE(_MAX_DESCRIPTORS * array.array("i").itemsize)
    data, ancillary, flags, _ = control.recvmsg(_PIECE, room, socket.MSG_CMSG_CLOEXEC)
    received = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            received.frombytes(payload[: len(payload) - len(payload) % received.itemsize])
    if flags & socket.MSG_CTRUNC:
        for descriptor in received:
            os.close(descriptor)
        raise MalformedError("descriptors were lost on the control socket", code="session.control")
    return data, tuple(received)


class ControlChannel:
    """One end of the control socket in an event loop; closes the socket when it is closed."""

    def __init__(self, control: socket.socket) -> None:
        control.setblocking(False)  # noqa: FBT003 - the socket module's own signature
        self._control = control
        self._messages = Messages()
        self._sender = WholeSender(control)

    async def receive(self) -> Message | None:
        """The next message; None: the other end closed.

        Raises:
            ``session.control``, JSONError: not a message of this protocol.
        """
        while (message := self._messages.next()) is None:
            try:
                data, descriptors = _receive(self._control)
            except BlockingIOError:
                await self._readable()
                continue
            except OSError:
                return None
            if not data:
                return None
            self._messages.feed(data, descriptors)
        return message

    async def send(self, members: Mapping[str, object], descriptors: Mapping[str, int] | None = None) -> None:
        """Send one message; descriptors stay the caller's to close.

        A message that was begun is sent whole, also when its sender is cancelled.

        Raises:
            ``session.control``: it is too large, and nothing of it is sent.
            OSError: the other end is gone, or this one was closed.
        """
        if self._control.fileno() < 0:
            raise ConnectionAbortedError("the channel was closed")
        named = dict(descriptors or {})
        content = canonical({**members, "fds": list(named)} if named else members)
        _require_size(len(content))
        await self._sender.send(_LENGTH.pack(len(content)) + content, tuple(named.values()))

    async def _readable(self) -> None:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._control, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._control)

    @property
    def descriptor(self) -> int:
        """Of the socket, to be handed to another process while nothing is under way."""
        return self._control.fileno()

    def stop_listening(self) -> None:
        """Take the other end for closed from now on; it can still be sent messages."""
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_RD)

    def close(self) -> None:
        """Close the socket, and descriptors that were not taken; what was not sent yet is not."""
        self._sender.close()
        self._messages.close()
        self._control.close()
