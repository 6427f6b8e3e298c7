"""Calls on the session's files, at the launcher's request: each that moves files has its record before the bytes cross.

What the sandbox gives is first written to a file of this process's own that has no name, and its digest computed there.
The record is made and acknowledged; then the launcher gets these bytes, and no others, whatever the agent changes
meanwhile. What the launcher gives takes the same way in the other direction. A call that fails after its record has a
second one, which says how much was moved.

Listing and reading facts moves no file and has no record. Contents are not redacted: they are the agent's bytes, and an
agent holds placeholders in place of secrets.
"""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
from collections.abc import Mapping
from typing import IO, Final

from affiant.errors import MalformedError, NotAllowedError, UnreachableError
from affiant.sandbox.base.threads import Proceed, stoppable
from affiant.sandbox.isolation.plan.file_access import FileAct, FileCall, call_from_json, place_of
from affiant.sandbox.isolation.plan.plan import covers
from affiant.sandbox.supervisor.activating import OpenSession
from affiant.sandbox.supervisor.acts import Act
from affiant.sandbox.supervisor.launch.control import sent_error
from affiant.sandbox.workspace.tree import Kind, TreeTooLarge
from affiant.sandbox.workspace.tree_stream import Summary, TreeReader, require_size, summarise
from affiant.sandbox.workspace.walk import Limits, escaped

__all__ = ["SessionFiles"]

_AT_ONCE: Final = 4
_PIECE: Final = 1 << 20
_HEADERS: Final = 256 << 20
"""Bytes of a stream beside the content of its files, at most."""
_MOST_BYTES: Final = 16 << 30
"""Of one call, whatever the launcher asks for; the profile's disk limit is lower or higher."""


class SessionFiles:
    """Carries out calls, four at once."""

    def __init__(self, session: OpenSession) -> None:
        self._session = session
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def handle(self, act: Act) -> None:
        """One call: event ``files`` when it is done.

        Raises:
            AffiantError: it was not carried out, or in part only.
        """
        try:
            call = _call(act.message.members)
            content = act.message.descriptors.get("content")
            if content is None and call.act is not FileAct.REMOVE:
                raise MalformedError("a call on files comes with a file", where="fds", code="session.control")
            place_of(self._session.plan, call)
            async with self._turn:
                with tempfile.TemporaryFile(dir=self._session.provision.session_dir) as stage:
                    result = await self._carry_out(call, stage, content)
        except OSError as error:
            raise UnreachableError(
                "the files cannot be moved", found=error.strerror, code="workspace.unwritable"
            ) from error
        finally:
            act.message.close()
        await act.tell("files", result)

    async def _carry_out(self, call: FileCall, stage: IO[bytes], content: int | None) -> Mapping[str, object]:
        match call.act:
            case FileAct.PUT:
                assert content is not None
                return await self._put(call, stage, content)
            case FileAct.REMOVE:
                return await self._remove(call, stage)
            case FileAct.GET:
                assert content is not None
                return await self._get(call, stage, content)
            case FileAct.LIST | FileAct.STAT:
                assert content is not None
                await self._session.runner.files(call, output=stage.fileno())
                await stoppable(lambda proceed: _check_listing(stage, proceed))
                await stoppable(lambda proceed: _hand_over(stage, content, proceed))
                return {}
            case FileAct.DIGEST:
                raise MalformedError("not a call of the launcher's", where="act", code="session.control")

    async def _get(self, call: FileCall, stage: IO[bytes], content: int) -> Mapping[str, object]:
        await self._session.runner.files(call, output=stage.fileno())
        summary = await stoppable(lambda proceed: _summary(stage, call, proceed))
        _require_file(content)
        moved = await self._recorded("out", call, summary)
        try:
            await stoppable(lambda proceed: _hand_over(stage, content, proceed))
        except BaseException as error:  # raised again, recorded
            await self._ended(error, "out", call, moved, {})
            raise
        return {**_told(summary), "kind": summary.result.get("kind"), **_left_out(summary.result)}

    async def _put(self, call: FileCall, stage: IO[bytes], content: int) -> Mapping[str, object]:
        summary = await stoppable(lambda proceed: _taken(content, stage, call, proceed))
        if call.single and [entry.kind for entry in summary.entries] != [Kind.FILE]:
            raise MalformedError("a call for one file without one", where="content", code="session.control")
        self._check_carved_out(call, summary)
        call = FileCall(call.act, call.path, single=call.single, length=summary.length)
        return await self._changed("in", call, summary, stage)

    def _check_carved_out(self, call: FileCall, summary: Summary) -> None:
        """Nothing may land in a carve-out: there, a sandbox would show something else than the record says."""
        for hole in self._session.plan.carved_out(call.path):
            for entry in summary.entries:
                if covers(hole, entry.path) and not call.single:
                    raise NotAllowedError(
                        "the profile gives the agent no files there",
                        where=escaped(entry.path),
                        code="files.path",
                    )

    async def _remove(self, call: FileCall, stage: IO[bytes]) -> Mapping[str, object]:
        asked = FileCall(FileAct.DIGEST, call.path, length=call.length)
        await self._session.runner.files(asked, output=stage.fileno())
        summary = await stoppable(lambda proceed: _summary(stage, asked, proceed))
        return await self._changed("removed", call, summary, stage)

    async def _changed(
        self, way: str, call: FileCall, summary: Summary, stage: IO[bytes]
    ) -> Mapping[str, object]:
        """Record, then have the sandbox's files changed by what ``stage`` holds."""
        record = await self._recorded(way, call, summary)
        result: Mapping[str, object] = {}
        try:
            with tempfile.TemporaryFile(dir=self._session.provision.session_dir) as said:
                await self._session.runner.files(call, output=said.fileno(), content=stage.fileno())
                result = await stoppable(lambda proceed: _result(said, proceed))
                _raise_error(result)
        except BaseException as error:  # raised again, recorded
            await self._ended(error, way, call, record, result)
            raise
        return {**_told(summary), **_left_out(result)}

    async def _recorded(self, way: str, call: FileCall, summary: Summary) -> str:
        """The call's record, acknowledged: nothing is moved before it."""
        hidden = {"path": call.path, "dig": summary.digest, "n": summary.files, "len": summary.length}
        return await self._session.records.record(
            "file", {"mov": {"dir": way}}, {"mov": hidden}, acknowledged=True
        )

    async def _ended(
        self, error: BaseException, way: str, call: FileCall, record: str, result: Mapping[str, object]
    ) -> None:
        """The second record of a call that did not move everything; how much it moved, where that is known."""
        phase = "aborted" if isinstance(error, asyncio.CancelledError) else "failed"
        counts = {"n": result.get("files"), "len": result.get("length")}
        known = {name: count for name, count in counts.items() if isinstance(count, int)}
        hidden = {"path": call.path, **known}
        members = {"mov": {"dir": way}, "ph": phase, "par": [record]}
        await self._session.records.record("file", members, {"mov": hidden})


def _call(members: Mapping[str, object]) -> FileCall:
    try:
        call = call_from_json(members.get("call"))
    except MalformedError as error:
        raise MalformedError("not a call on files", where="call", code="session.control") from error
    if call.length > _MOST_BYTES:
        raise TreeTooLarge("too many bytes for one call", expected=f"at most {_MOST_BYTES}")
    return call


def _limits(call: FileCall, proceed: Proceed) -> Limits:
    return Limits(total_bytes=call.length, proceed=proceed)


def _summary(stage: IO[bytes], call: FileCall, proceed: Proceed) -> Summary:
    """What the sandbox gave; its error, if it gave one."""
    stage.seek(0)
    summary = summarise(stage, limits=_limits(call, proceed), contents=call.act is FileAct.GET)
    _raise_error(summary.result)
    return summary


def _check_listing(stage: IO[bytes], proceed: Proceed) -> None:
    reader = TreeReader(stage, limits=Limits(proceed=proceed), contents=False)
    stage.seek(0)
    for _ in reader:
        pass
    _raise_error(reader.result)


def _result(said: IO[bytes], proceed: Proceed) -> Mapping[str, object]:
    """What the sandbox's side said of a call that changes files."""
    said.seek(0)
    reader = TreeReader(said, limits=Limits(proceed=proceed), contents=False)
    for _ in reader:
        pass
    return reader.result


def _raise_error(result: Mapping[str, object]) -> None:
    error = result.get("error")
    if isinstance(error, dict):
        found = error.get("found")
        raise sent_error(
            {**error, "message": str(error.get("message")) + ("" if found is None else f": {found}")}
        )


def _taken(content: int, stage: IO[bytes], call: FileCall, proceed: Proceed) -> Summary:
    """Copy what the launcher gives, which it could change later, and read it."""
    facts = _require_file(content)
    require_size(facts, call.length + _HEADERS)
    with open(content, "rb", closefd=False) as source:
        source.seek(0)
        _copy(source, stage, facts.st_size, proceed)
    stage.flush()
    return summarise(stage, limits=_limits(call, proceed))


def _hand_over(stage: IO[bytes], content: int, proceed: Proceed) -> None:
    """Copy what was recorded into the launcher's file."""
    _require_file(content)
    stage.seek(0)
    with open(content, "wb", closefd=False) as target:
        _copy(stage, target, os.fstat(stage.fileno()).st_size, proceed)


def _copy(source: IO[bytes], target: IO[bytes], size: int, proceed: Proceed) -> None:
    """Copy ``size`` bytes, and none that were added meanwhile."""
    while piece := source.read(min(_PIECE, size)):
        proceed()
        target.write(piece)
        size -= len(piece)


def _require_file(content: int) -> os.stat_result:
    """A pipe could make this process wait for ever."""
    facts = os.fstat(content)
    if not stat.S_ISREG(facts.st_mode):
        raise MalformedError("not a regular file", where="content", code="session.control")
    return facts


def _told(summary: Summary) -> Mapping[str, object]:
    return {"digest": summary.digest, "files": summary.files, "length": summary.length}


def _left_out(result: Mapping[str, object]) -> Mapping[str, object]:
    return {"skipped": result.get("skipped"), "left_out": result.get("left_out")}
