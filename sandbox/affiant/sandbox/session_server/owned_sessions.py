"""The sessions of each caller: created, found, listed, stopped and removed.

What belongs to whom is in the record of each session (``session_note.Asked``), so it outlives this server. A session
of another caller is answered like one that does not exist.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.errors import ConfigurationError, MalformedError, StateError
from affiant.policy.model.profile import Resources
from affiant.sandbox.api.sandbox import Sandbox
from affiant.sandbox.detached.client import DetachedSession, KeptPiece
from affiant.sandbox.detached.host_process import create_detached
from affiant.sandbox.detached.kept_output import Kept, incomplete, read_kept
from affiant.sandbox.detached.names import require_name, same_launch
from affiant.sandbox.detached.removal import remove_ended
from affiant.sandbox.processes.home import Home
from affiant.sandbox.processes.launch_records import Launch, live_launches
from affiant.sandbox.processes.session_note import Asked, SessionState
from affiant.sandbox.session.session_plan import SessionRequest
from affiant.sandbox.session_server.documents import SessionAsked
from affiant.sandbox.session_server.responding import in_time
from affiant.sandbox.session_state.bundle_out import open_bundle_file
from affiant.sandbox.session_state.session_folder import ARCHIVE, HOST_SOCKET
from affiant.sandbox.session_state.session_listing import (
    SessionEntry,
    find_session,
    is_session_id,
    list_sessions,
)

__all__ = ["Bounds", "OwnedSessions"]

_KEY: Final = 255
_PIECE: Final = 128 * 1024


@dataclass(frozen=True, slots=True)
class Bounds:
    """What callers may have: seconds that a session lives, and how many sessions run at once."""

    ttl_s: int = 900
    most_ttl_s: int = 86_400
    each: int = 16
    together: int = 64


class OwnedSessions:
    """The sessions of one state folder that were created over HTTP.

    Args:
        template: what is the same of every session.
    """

    def __init__(self, home: Home, template: SessionRequest, bounds: Bounds) -> None:
        self._home = home
        self._template = template
        self._bounds = bounds
        self._starting: Counter[tuple[str, str]] = Counter()
        """Requests that create a session, by their caller and what makes them one: a key, or nothing."""
        self._numbers = itertools.count()
        self._counting = asyncio.Lock()
        self._creating: set[asyncio.Task[tuple[DetachedSession, bool]]] = set()

    async def create(self, owner: str, asked: SessionAsked, key: str | None) -> tuple[str, bool]:
        """Create a session; its id, and whether this request created it.

        Args:
            key: what makes a repeated request give the same session, whatever else it asks for; None: each request
                creates one, and a caller that leaves undoes what it asked for.

        Raises:
            ``session.too_many``: the caller has as many as may run. AffiantError: why it cannot be created.
        """
        request, ttl = self._request(owner, asked, key)
        place = (owner, request.key or f"alone {next(self._numbers)}")
        async with self._counting:
            starting = frozenset(self._starting)  # before the look: one that is ready after it counts still
            running = await asyncio.to_thread(live_launches, self._home)
            if place not in starting and not self._runs(request, running):
                self._require_room(owner, running, starting)
            creating = asyncio.create_task(create_detached(self._home, request, ttl_s=ttl))
            self._creating.add(creating)
            self._starting[place] += 1
            creating.add_done_callback(lambda task: self._created(task, place))
        session, created = await (creating if key is None else asyncio.shield(creating))
        return session.id, created

    def _created(self, task: asyncio.Task[tuple[DetachedSession, bool]], place: tuple[str, str]) -> None:
        self._creating.discard(task)
        self._starting -= Counter([place])

    def _runs(self, request: SessionRequest, running: Sequence[Launch]) -> bool:
        """Whether the session of the request's key takes commands: the session host then answers that one."""
        found = same_launch(running, None, request.key, request.owner)
        return found is not None and self._is_ready(found)

    def _request(self, owner: str, asked: SessionAsked, key: str | None) -> tuple[SessionRequest, int]:
        most, ttl = self._bounds.most_ttl_s, self._bounds.ttl_s if asked.ttl is None else asked.ttl
        if ttl > most:
            raise ConfigurationError(
                "the time to live is above this server's limit",
                expected=f"at most {most} s",
                found=ttl,
                code="session.ttl",
            )
        if key is not None and not (0 < len(key) <= _KEY and key.isascii() and key.isprintable()):
            raise MalformedError(
                "not an idempotency key", expected=f"1 to {_KEY} characters of ASCII", code="session.request"
            )
        named = None if asked.task is None else asked.task.model_dump(exclude_none=True)
        request = replace(
            self._template,
            agent=asked.agent,
            name=None if asked.name is None else require_name(asked.name),
            key=None if key is None else sha256_name(f"{owner}\n{key}".encode()),
            owner=owner,
            resources=None if asked.resources is None else Resources(**asked.resources.model_dump()),
            task=named or None,
        )
        return request, ttl

    def _require_room(
        self, owner: str, running: Sequence[Launch], starting: AbstractSet[tuple[str, str]]
    ) -> None:
        """Return if one more session may run: beside those that take commands, and those that are being created."""
        ready = [each for each in running if self._is_ready(each)]
        owners = Counter(each.asked.owner for each in ready if each.asked is not None and each.asked.owner)
        owners.update(starter for starter, _ in starting)
        if owners[owner] >= self._bounds.each or owners.total() >= self._bounds.together:
            raise StateError(
                "the limit of running sessions is reached",
                expected=f"at most {self._bounds.each} of one caller, {self._bounds.together} of all",
                hint="Stop one, or try again later",
                code="session.too_many",
            )

    def _is_ready(self, launch: Launch) -> bool:
        return (self._home.session(launch.session) / HOST_SOCKET).exists()

    async def close(self) -> None:
        """Undo what is being created."""
        for task in tuple(self._creating):
            task.cancel()
        await asyncio.gather(*self._creating, return_exceptions=True)

    async def found(self, owner: str, name: str) -> SessionEntry:
        """The caller's session of this id or name: of several, the one that runs, else the last one.

        Raises:
            ``session.not_here``: the caller has none.
        """
        entry = await asyncio.to_thread(self._found, owner, name)
        if entry is None:
            raise ConfigurationError(
                "you have no such session here", found=ascii(name[:60]), code="session.not_here"
            )
        return entry

    def _found(self, owner: str, name: str) -> SessionEntry | None:
        """Those that run are few, and an id names its folder: a name of one that has ended is looked for last."""
        for launch in live_launches(self._home):
            if _is_called(launch.asked, launch.session, owner, name):
                return find_session(self._home, launch.session)
        if is_session_id(name):
            with suppress(ConfigurationError):
                entry = find_session(self._home, name)
                return entry if _is_called(entry.note.asked, entry.note.session, owner, name) else None
        entries = list_sessions(self._home)
        return next(
            (each for each in entries if _is_called(each.note.asked, each.note.session, owner, name)), None
        )

    async def listed(self, owner: str) -> list[SessionEntry]:
        """The caller's sessions, the last one first."""
        entries = await asyncio.to_thread(list_sessions, self._home)
        return [each for each in entries if each.note.asked is not None and each.note.asked.owner == owner]

    async def opened(self, owner: str, name: str) -> Sandbox:
        """The caller's session, which runs.

        Raises:
            ``session.not_here``: the caller has none of this name. ``session.not_open``: it has ended.
            ``session.silent``: its host does not answer.
        """
        entry = await self.found(owner, name)
        return await in_time(Sandbox.connect(entry.note.session, home=self._home.path))

    async def kept(
        self, owner: str, name: str, number: int, at: tuple[int, int], *, wait: bool
    ) -> tuple[KeptPiece, str | None]:
        """Kept output of a command that runs on, also when its session has ended; and why it is not all, if it is not.

        Raises:
            ``session.no_output``, ``session.command_unknown``: none is kept. ``session.not_here``: as :meth:`found`.
        """
        entry = await self.found(owner, name)
        if entry.note.state is SessionState.RUNNING:
            piece = await (await self.opened(owner, name)).kept(number, at, wait=wait)
            return piece, incomplete(piece.missing, piece.failed)
        found = await asyncio.to_thread(read_kept, self._home, entry.note.session, number)
        piece = _kept_piece(found, at)
        return piece, found.incomplete if found.facts is None else incomplete(piece.missing, piece.failed)

    async def stop(self, owner: str, name: str) -> tuple[str, str]:
        """Close the caller's session, or find it closed; its id, and the digest of its bundle."""
        entry = await self.found(owner, name)
        if entry.note.state is SessionState.RUNNING:
            sandbox = await in_time(Sandbox.connect(entry.note.session, home=self._home.path))
            await sandbox.close()
            return sandbox.id, await asyncio.to_thread(_digest, sandbox.bundle_path)
        return entry.note.session, await asyncio.to_thread(_digest, _bundle(entry))

    async def bundle(self, owner: str, name: str) -> tuple[BinaryIO, bool]:
        """The bundle of the caller's session, once that has ended, and whether it is a period archive.

        The caller closes it.

        Raises:
            ``session.running``: it has not ended. ``session.not_gathered``, ``session.bundle``: it has none.
        """
        path = _bundle(await self.found(owner, name))
        return await asyncio.to_thread(open_bundle_file, path), path.name == ARCHIVE

    async def remove(self, owner: str, name: str, bundle: str) -> str:
        """Remove what the caller's session has left, if the caller has its receipts; its id.

        Args:
            bundle: the digest of the bundle that the caller has.

        Raises:
            ``session.only_copy``, ``session.running``: as ``remove_ended``.
        """
        entry = await self.found(owner, name)

        def require_copy(found: SessionEntry) -> None:
            if _digest(_bundle(found)) != bundle:
                raise StateError(
                    "this is not the digest of the session's bundle: get the bundle first",
                    code="session.only_copy",
                )

        await asyncio.to_thread(remove_ended, self._home, entry.note.session, require_copy)
        return entry.note.session


def _kept_piece(found: Kept, at: tuple[int, int]) -> KeptPiece:
    """What follows the positions ``at`` in kept output, of which only the end may be kept."""
    facts = found.facts or {}
    dropped, code, failed = (facts.get(name) for name in ("dropped", "code", "failed"))
    before = dropped if isinstance(dropped, dict) else {}
    pieces: list[bytes] = []
    ends: list[int] = []
    missing = 0
    for data, where, stream in ((found.stdout, at[0], "stdout"), (found.stderr, at[1], "stderr")):
        first = before.get(stream)
        first = first if isinstance(first, int) else 0
        begin = max(where - first, 0)
        pieces.append(data[begin : begin + _PIECE])
        ends.append(first + begin + len(pieces[-1]))
        missing += max(first - where, 0)
    return KeptPiece(
        stdout=pieces[0],
        stderr=pieces[1],
        at=(ends[0], ends[1]),
        ended=True,
        exit_code=code if isinstance(code, int) else None,
        missing=missing,
        failed=failed if isinstance(failed, str) else None,
    )


def _is_called(asked: Asked | None, session: str, owner: str, name: str) -> bool:
    return asked is not None and asked.owner == owner and name in (session, asked.name)


def _bundle(entry: SessionEntry) -> Path:
    if entry.note.state is SessionState.RUNNING:
        raise StateError("the session runs: stop it first", code="session.running")
    if entry.bundle is None:
        raise StateError(
            "the session has no bundle: the server's operator can gather one",
            found=entry.note.state.value,
            code="session.not_gathered",
        )
    return entry.bundle


def _digest(bundle: Path) -> str:
    with open_bundle_file(bundle) as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
