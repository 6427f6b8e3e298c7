"""A session that a session host holds, from another process: the same calls as in the process that opened it.

::

    session = await DetachedSession.connect("build").opened()
    result = await session.run(["make", "test"], timeout_s=600)

Each act is a connection of its own to the host, which passes it on to the supervisor: any number can be under way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.attestation.encoding.binary_text import from_b64u
from affiant.errors import AffiantError, StateError
from affiant.sandbox.base.user_socket import connect_user_socket
from affiant.sandbox.detached.names import running_session
from affiant.sandbox.processes.home import Home
from affiant.sandbox.processes.launch_records import live_launches
from affiant.sandbox.processes.session_note import read_note
from affiant.sandbox.session.session import Running, SessionCalls, Why, user_home
from affiant.sandbox.session.supervisor_link import run_message
from affiant.sandbox.session_acts.private_places import PrivatePlaces
from affiant.sandbox.session_acts.sandbox_files import SandboxFiles
from affiant.sandbox.session_state.session_folder import ARCHIVE, BUNDLE, HOST_SOCKET
from affiant.sandbox.supervisor.launch.control import ControlChannel, sent_error

__all__ = ["DetachedSession", "HostAct", "KeptPiece"]

_CLOSED_WITHIN_S: Final = 120.0
"""Longer than closing a session takes."""
_LOOKS_EVERY_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class KeptPiece:
    """A piece of the kept output of a command, and where the next one begins.

    Args:
        missing: bytes between the position that was asked for and this piece that are not kept any more.
        failed: why what came later is not kept; None: it is.
        end: where each stream ended when this was read; None: the session has ended, and nothing follows.
    """

    stdout: bytes
    stderr: bytes
    at: tuple[int, int]
    ended: bool
    exit_code: int | None
    missing: int = 0
    failed: str | None = None
    end: tuple[int, int] | None = None


class HostAct:
    """An act of the supervisor's, by a connection of its own to the session host."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._channel: ControlChannel | None = None
        self._ended: AffiantError | None = None

    async def tell(self, message: Mapping[str, object], descriptors: Mapping[str, int] | None = None) -> None:
        """Send a message about this act; a host that is gone meanwhile is noticed where its answer is awaited.

        Raises:
            ``session.not_open``, SessionBusy: by the first message: the host cannot be reached.
        """
        if self._ended is not None:  # after an error the host takes what comes for another request
            return
        if self._channel is None:
            try:
                self._channel = ControlChannel(await connect_user_socket(self._place))
            except AffiantError as error:
                self._ended = error
                raise
        with suppress(OSError):
            await self._channel.send(message, descriptors)

    async def next(self) -> Mapping[str, object]:
        """The next event.

        Raises:
            AffiantError: the act was rejected, or the session has ended; under the error's own code.
        """
        if self._ended is not None:
            raise self._ended
        assert self._channel is not None  # a request was sent
        message = await self._channel.receive()
        if message is None:
            self._ended = StateError(
                "the session ended meanwhile", hint="See: affiant session ls", code="session.not_open"
            )
            raise self._ended
        message.close()
        if message.members.get("event") == "refused":
            self._ended = sent_error(message.members)
            raise self._ended
        return message.members

    def close(self) -> None:
        """Leave the host; what it does for this act ends."""
        if self._channel is not None:
            with suppress(OSError):
                self._channel.close()


class DetachedSession(SessionCalls):
    """A session that a host holds; made by :meth:`connect` only."""

    def __init__(self, home: Home, session: str) -> None:
        self._home = home
        self._folder = home.session(session)
        self._id = session
        self._facts: Mapping[str, object] = {}

    @classmethod
    def connect(cls, name: str, *, home: Path | None = None) -> DetachedSession:
        """The session that runs under exactly this name, or has this id.

        Args:
            home: the state folder; None: ``$AFFIANT_HOME``, else the XDG state folder.

        Raises:
            ``session.not_open``: there is none.
        """
        place = user_home(home)
        return cls(place, running_session(place, name))

    async def opened(self) -> DetachedSession:
        """This session, once its host has said what it is."""
        facts = dict(await self._asked({"op": "open"}, "open"))
        del facts["private"]
        self._facts = facts
        return self

    async def _private(self) -> PrivatePlaces:
        return PrivatePlaces.from_json((await self._asked({"op": "open"}, "open")).get("private"))

    @property
    def id(self) -> str:
        """The session's id."""
        return self._id

    @property
    def bundle_path(self) -> Path:
        """Where the session's bundle is, once it is closed."""
        archive = self._folder / ARCHIVE
        return archive if archive.exists() else self._folder / BUNDLE

    @property
    def files(self) -> SandboxFiles:
        """The session's files: read, write, list, upload, download."""
        return SandboxFiles(self.ask, self._private)

    @contextmanager
    def act(self) -> Iterator[HostAct]:
        """An act of the supervisor's, for the length of the block; its first message reaches for the host."""
        act = HostAct(self._folder / HOST_SOCKET)
        try:
            yield act
        finally:
            act.close()

    @asynccontextmanager
    async def begin(
        self,
        argv: Sequence[str],
        streams: Mapping[str, int],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        terminal: tuple[int, int] | None = None,
    ) -> AsyncIterator[Running]:
        """As :meth:`SessionCalls.begin`. The command ends with the block, or with this process."""
        with self.act() as act:
            await act.tell(run_message(argv, env or {}, cwd, terminal), streams)
            yield Running(act, _unshown)

    def info(self) -> Mapping[str, object]:
        """As :meth:`SessionCalls.info`, with name, times (Unix seconds) and process id. It is :meth:`opened`."""
        return self._facts

    async def status(self) -> Mapping[str, object]:
        """The session, its time to live, and its commands: those that run, and the last that have ended."""
        return await self._asked({"op": "status"}, "status")

    async def detach(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout_s: float | None = None,
    ) -> int:
        """Start a command that outlives this process; its number. What it writes is kept, see :meth:`kept`."""
        timeout = None if timeout_s is None else max(int(timeout_s * 1000), 1)
        command = {
            "op": "detach",
            "argv": list(argv),
            "env": dict(env or {}),
            "cwd": cwd,
            "timeout_ms": timeout,
        }
        number = (await self._asked(command, "started")).get("number")
        if not isinstance(number, int):
            raise _not_an_answer("started")
        return number

    async def kept(self, number: int, at: tuple[int, int] = (0, 0), *, wait: bool = False) -> KeptPiece:
        """The kept output of command ``number`` from position ``at`` on.

        Args:
            wait: for a while, where there is none yet and the command runs.

        Raises:
            ``session.no_output``, ``session.command_unknown``: none is kept.
        """
        asked = {"op": "logs", "number": number, "stdout": at[0], "stderr": at[1], "wait": wait}
        event = await self._asked(asked, "logs")
        code, missing, failed = (event.get(name) for name in ("code", "missing", "failed"))
        (stdout, out_at, out_end), (stderr, err_at, err_end) = (
            _piece(event.get(name)) for name in ("stdout", "stderr")
        )
        return KeptPiece(
            stdout=stdout,
            stderr=stderr,
            at=(out_at, err_at),
            ended=event.get("ended") is True,
            exit_code=code if isinstance(code, int) else None,
            missing=missing if isinstance(missing, int) else 0,
            failed=failed if isinstance(failed, str) else None,
            end=(out_end, err_end),
        )

    async def kill(self, number: int, sent: int) -> None:
        """Send the signal ``sent`` to command ``number``."""
        await self._asked({"op": "kill", "number": number, "signal": int(sent)}, "sent")

    async def close(self, why: Why = "done") -> Path:
        """Close the session, which ends its commands; where its bundle is. One that has ended, or is just being closed,
        is not closed again.

        Raises:
            AffiantError: it could not be closed in order, or has ended by an error.
        """
        try:
            return Path(str((await self._asked({"op": "stop", "why": why}, "stopped")).get("bundle")))
        except AffiantError as error:
            if error.code != "session.not_open" or not await self._has_ended():
                raise
            self._require_in_order(error)
            return self.bundle_path

    async def _has_ended(self) -> bool:
        """Whether the session has ended; one that its host is closing is waited for."""
        deadline = time.monotonic() + _CLOSED_WITHIN_S
        while any(launch.session == self._id for launch in live_launches(self._home)):
            if not self._facts or time.monotonic() > deadline:  # it may have no host that could close it
                return False
            await asyncio.sleep(_LOOKS_EVERY_S)
        return True

    def _require_in_order(self, missed: AffiantError) -> None:
        note = read_note(self._folder)
        if not self.bundle_path.exists() or (note is not None and not note.state.in_order):
            raise missed
        if note is not None and note.code is not None and note.code != "session.expired":
            raise StateError(
                "the session has ended by an error",
                found=note.code,
                hint=f"See: affiant session show {self._id}",
                code=note.code,
            ) from missed

    async def _asked(self, members: Mapping[str, object], event: str) -> Mapping[str, object]:
        """The host's answer, which is an ``event``."""
        answer = dict(await self.ask(members))
        if answer.pop("event", None) != event:
            raise _not_an_answer(event)
        return answer


def _unshown(step: str, detail: Mapping[str, object]) -> None:
    """No progress is shown."""


def _not_an_answer(expected: str) -> StateError:
    return StateError(
        "the session host sent an unexpected response", expected=expected, code="session.not_open"
    )


def _piece(value: object) -> tuple[bytes, int, int]:
    match value:
        case {"data": str(data), "at": int(at), "end": int(end)}:
            return from_b64u(data), at, end
    raise _not_an_answer("a piece of output")
