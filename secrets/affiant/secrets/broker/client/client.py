"""The supervisor's side: configure a broker, exchange through it, redact through it.

The supervisor starts the process itself (:func:`broker_command`), with one end of a socket pair. No value ever
comes to this side. When the broker is gone, every step raises ``broker.gone``: no broker, no egress.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from affiant.attestation.release.running import program_command
from affiant.errors import AffiantError, ConfigurationError, MalformedError, StateError
from affiant.secrets.broker.client.members import read_error
from affiant.secrets.broker.client.messages import (
    BrokerPart,
    Configuration,
    KeptGrant,
    Resolution,
    ResponseHead,
    UpstreamOutcome,
    UpstreamRequest,
)
from affiant.secrets.broker.client.protocol import (
    MAX_BODY_FRAME,
    ControlChannel,
    Frame,
    FrameKind,
    read_frame,
    write_frame,
)
from affiant.secrets.names.errors import BrokerGone

__all__ = ["BrokerClient", "BrokeredRequest", "RedactionSession", "broker_command"]


def broker_command(
    *, control_fd: int, uid: int | None = None, gid: int | None = None, parts: Iterable[BrokerPart] = ()
) -> tuple[str, ...]:
    """The argument list of a broker, for ``subprocess`` or ``asyncio.create_subprocess_exec``.

    Start it with ``env={}``, ``pass_fds=(control_fd, *memory_descriptors())`` and ``stdin=DEVNULL``. Started as
    root it becomes ``uid`` and ``gid`` (both, neither root) by itself, after its imports and before it reads anything.

    Args:
        parts: what this session's profile needs; everything else is not loaded.

    Raises:
        ``broker.configuration``: one of the two without the other.
    """
    if (uid is None) != (gid is None):
        raise ConfigurationError(
            "a user without a group, or a group without a user", code="broker.configuration"
        )
    user = () if uid is None else ("--uid", str(uid), "--gid", str(gid))
    return (
        *program_command("affiant.secrets.broker.process"),
        "--control-fd",
        str(control_fd),
        *user,
        *(f"--load={part}" for part in parts),
    )


class BrokerClient:
    """One broker, seen from the supervisor's event loop.

    Args:
        control: this side's end of the socket pair; closed with the client.
    """

    def __init__(self, control: socket.socket) -> None:
        self._channel = ControlChannel(control)
        self._configured = False
        self._watch: asyncio.Task[None] | None = None
        self._asked: asyncio.Future[Mapping[str, object]] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def configure(
        self,
        configuration: Configuration,
        *,
        local_store: tuple[int, int] | None = None,
        vault_credential: int | None = None,
    ) -> Resolution:
        """Configure the broker, once.

        Args:
            local_store: descriptors of the store and of its key file (or of a file that holds the passphrase).
            vault_credential: descriptor of a file that holds the token, or the JWT. The caller closes them all.

        Returns:
            Which secrets it holds, and why not the others.

        Raises:
            AffiantError: the broker refused the configuration.
            BrokerGone: it ended.
            ``broker.state``: it was configured before.
        """
        if self._configured:
            raise StateError("the broker is configured already", code="broker.state")
        if configuration.local != (local_store is not None) or (configuration.vault is None) != (
            vault_credential is None
        ):
            raise ConfigurationError(
                "the descriptors are not those that the configuration names", code="broker.configuration"
            )
        self._configured = True
        descriptors = (*(local_store or ()), *(() if vault_credential is None else (vault_credential,)))
        await self._channel.send(configuration.to_json(), descriptors)
        answer = await self._channel.receive()
        if answer is None:
            raise BrokerGone("the broker ended before it was configured")
        match answer.members:
            case {"configured": configured}:
                self._watch = asyncio.create_task(self._until_gone())
                return Resolution.from_json(configured)
            case {"refused": refused}:
                raise read_error(refused)
            case _:
                raise MalformedError("not an answer to a configuration", code="broker.protocol")

    async def restrict(self, kept: Sequence[KeptGrant]) -> None:
        """Have the broker hold less: of each of ``kept`` what it says, and nothing of the others.

        Whatever is on its way to a host is interrupted. After any error but ``secret.grants`` it is not known what the
        broker holds.

        Raises:
            ``secret.grants``: that would be more than before; everything is as it was.
            BrokerGone: it ended. ``broker.protocol``: it answered something else.
        """
        if self._watch is None or self._asked is not None:
            raise StateError(
                "the broker is not configured yet, or is being restricted already", code="broker.state"
            )
        self._asked = asyncio.get_running_loop().create_future()
        if self._watch.done():
            self._asked = None
            raise BrokerGone("the broker has ended")
        try:
            await self._channel.send({"grants": [grant.to_json() for grant in kept], "op": "narrow"})
            waiting: set[asyncio.Future[Any]] = {self._asked, self._watch}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not self._asked.done():
                raise BrokerGone("the broker ended while it was restricted")
            members = self._asked.result()
        finally:
            self._asked = None
        match members:
            case {"narrowed": list(held)} if held == sorted(grant.name for grant in kept):
                return
            case {"refused": refused}:
                raise read_error(refused)
            case _:
                raise MalformedError("not an answer to a restriction", code="broker.protocol")

    async def _until_gone(self) -> None:
        """Nothing is said on the channel unasked: whatever else comes is the end."""
        with contextlib.suppress(AffiantError):
            while (message := await self._channel.receive()) is not None:
                if self._asked is None or self._asked.done():
                    return
                self._asked.set_result(message.members)

    async def gone(self) -> None:
        """Wait until the broker has ended."""
        if self._watch is None:
            raise StateError("the broker is not configured yet", code="broker.state")
        await asyncio.wait((self._watch,))

    def exchange(self, request: UpstreamRequest, body: AsyncIterator[bytes] | None = None) -> BrokeredRequest:
        """An exchange, to be used in ``async with``; leaving the block early cuts the connection.

        Args:
            body: pieces of the body, taken as fast as the host takes them; exactly if ``request.has_body``.
        """
        if request.has_body != (body is not None):
            raise StateError("a body is there exactly if the request says so", code="broker.state")
        return BrokeredRequest(self, request, body)

    def redactor(self, *, live: bool = False) -> RedactionSession:
        """A redaction of one text (an agent's standard output), to be used in ``async with``.

        Args:
            live: give out as much as can be decided, at once: for text that goes to the user. Never for text that
                goes back to the agent, which could read the beginning of a secret from the timing.
        """
        return RedactionSession(self, live=live)

    async def open_stream(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A fresh stream to the broker.

        Raises:
            BrokerGone: it ended.
            ``broker.state``: it is not configured yet.
        """
        if self._watch is None:
            raise StateError("the broker is not configured yet", code="broker.state")
        if self._watch.done():
            raise BrokerGone("the broker has ended")
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                await self._channel.send({"op": "open"}, (theirs.fileno(),))
                return await asyncio.open_unix_connection(sock=ours)
            except BaseException:
                ours.close()
                raise

    async def close(self) -> None:
        """Close the control channel: the broker ends, and forgets."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait((self._watch,))
        self._channel.close()


class _Stream:
    """What both kinds of stream share: opened and closed by ``async with``."""

    def __init__(self, client: BrokerClient) -> None:
        self._client = client
        self._opened: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    @property
    def _reader(self) -> asyncio.StreamReader:
        return self._both()[0]

    @property
    def _writer(self) -> asyncio.StreamWriter:
        return self._both()[1]

    def _both(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._opened is None:
            raise StateError("the stream is not open: use it in 'async with'", code="broker.state")
        return self._opened

    async def _open(self, head: Mapping[str, object]) -> None:
        self._opened = await self._client.open_stream()
        try:
            await write_frame(self._writer, FrameKind.HEAD, head)
        except BrokerGone:
            await self._close()
            raise

    async def _close(self) -> None:
        if self._opened is not None:
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()
            self._opened = None

    async def _expected_frame(self) -> Frame:
        frame = await read_frame(self._reader)
        if frame is None:
            raise BrokerGone("the broker closed the stream")
        return frame


class BrokeredRequest(_Stream):
    """One request and its answer; made by :meth:`BrokerClient.exchange`.

    ``head()``, then ``chunks()``, then ``outcome()``; each may be the last. ``outcome()`` can be asked for at
    any time, also after a refusal, and reads the rest of the answer away.
    """

    def __init__(
        self, client: BrokerClient, request: UpstreamRequest, body: AsyncIterator[bytes] | None
    ) -> None:
        super().__init__(client)
        self._request = request
        self._body = body
        self._sending: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[Frame] | None = None
        self._head: ResponseHead | None = None
        self._outcome: UpstreamOutcome | None = None

    async def __aenter__(self) -> Self:
        await self._open(self._request.to_json())
        if self._body is not None:
            self._sending = asyncio.create_task(self._send(self._body))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        tasks: list[asyncio.Task[Any]] = [task for task in (self._sending, self._reading) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._close()

    async def head(self) -> ResponseHead:
        """The answer's head.

        Raises:
            AffiantError: the refusal, if there is no answer.
            BrokerGone: the broker ended.
        """
        while self._head is None and self._outcome is None:
            await self._next()
        if self._head is None:
            raise self._refusal()
        return self._head

    async def chunks(self) -> AsyncIterator[bytes]:
        """The answer's body as it comes, redacted.

        Raises:
            AffiantError: the refusal, if the answer breaks off.
            BrokerGone: the broker ended.
        """
        while self._outcome is None:
            if data := await self._next():
                yield data
        if self._outcome.refusal is not None:
            raise self._outcome.refusal

    async def outcome(self) -> UpstreamOutcome:
        """What came of it. A refusal is in it, not raised.

        Raises:
            BrokerGone: the broker ended, and the outcome is not known.
        """
        while self._outcome is None:
            await self._next()
        return self._outcome

    async def _next(self) -> bytes:
        """Take one frame; the bytes of a body, else nothing."""
        frame = await self._frame_beside_sending()
        match frame.kind:
            case FrameKind.HEAD if self._head is None:
                self._head = ResponseHead.from_json(frame.members())
            case FrameKind.BODY if self._head is not None:
                return frame.content
            case FrameKind.END:
                self._outcome = UpstreamOutcome.from_json(frame.members())
            case _:
                raise MalformedError("a frame out of its order", code="broker.protocol")
        return b""

    async def _frame_beside_sending(self) -> Frame:
        """The next frame; raises what ends the sending meanwhile, because the caller's own body may fail.

        The reading goes on when the caller is cancelled, so that a frame is never cut.
        """
        if self._reading is None:
            self._reading = asyncio.create_task(self._expected_frame())
        while not self._reading.done():
            waiting: set[asyncio.Future[Any]] = {self._reading}
            if self._sending is not None:
                waiting.add(self._sending)
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if self._sending is not None and self._sending.done():
                sending, self._sending = self._sending, None
                sending.result()
        reading, self._reading = self._reading, None
        return reading.result()

    async def _send(self, body: AsyncIterator[bytes]) -> None:
        with contextlib.suppress(BrokerGone):  # the broker's last frame says why
            async for piece in body:
                if piece:
                    await write_frame(self._writer, FrameKind.BODY, piece)
            await write_frame(self._writer, FrameKind.END, b"{}")

    def _refusal(self) -> Exception:
        if self._outcome is None or self._outcome.refusal is None:
            return MalformedError(
                "an outcome without an answer and without a refusal", code="broker.protocol"
            )
        return self._outcome.refusal


class RedactionSession(_Stream):
    """One text on its way through the broker; made by :meth:`BrokerClient.redactor`."""

    def __init__(self, client: BrokerClient, *, live: bool) -> None:
        super().__init__(client)
        self._live = live

    async def __aenter__(self) -> Self:
        await self._open({"live": self._live, "op": "redact"})
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._close()

    async def feed(self, chunk: bytes) -> bytes:
        """The bytes that are decided now that ``chunk`` has come."""
        decided = b""
        for at in range(0, len(chunk), MAX_BODY_FRAME):
            await write_frame(self._writer, FrameKind.BODY, chunk[at : at + MAX_BODY_FRAME])
            decided += (await self._answer())[0]
        return decided

    async def settle(self) -> bytes:
        """Gives out a short line that the broker holds back, because nothing has come for a while."""
        await write_frame(self._writer, FrameKind.BODY, b"")
        return (await self._answer())[0]

    async def flush(self) -> tuple[bytes, int]:
        """The rest, and how many occurrences were replaced in all."""
        await write_frame(self._writer, FrameKind.END, b"{}")
        return await self._answer()

    async def _answer(self) -> tuple[bytes, int]:
        """What is decided, in as many frames as it takes, and the number at their end."""
        decided = b""
        while (frame := await self._expected_frame()).kind is FrameKind.BODY:
            decided += frame.content
        count = frame.members().get("redactions")
        if frame.kind is not FrameKind.END or not isinstance(count, int):
            raise MalformedError("not an answer to a redaction", code="broker.protocol")
        return decided, count
