"""Routes: the session's files, one by one, or a folder as a tar archive."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Annotated, Any, Final

from fastapi import FastAPI, Query, Request
from fastapi.responses import Response

from affiant.errors import MalformedError, UnreachableError
from affiant.sandbox.base.threads import Proceed, stoppable
from affiant.sandbox.session_acts.sandbox_files import read_listing
from affiant.sandbox.session_server.documents import Entries, EntryFacts, MovedFiles
from affiant.sandbox.session_server.guard import owner_of
from affiant.sandbox.session_server.owned_sessions import OwnedSessions
from affiant.sandbox.session_server.responding import MOVE_S, OpenFile, with_client
from affiant.sandbox.session_server.session_routes import Name
from affiant.sandbox.session_server.tar_archives import pack_archive, unpack_archive
from affiant.sandbox.workspace.walk import Limits

__all__ = ["add_files"]

_FILE: Final = 64 << 20
_TREE: Final = 1 << 30
_LIMITS: Final = Limits(files=100_000, total_bytes=_TREE)
_HEADERS: Final = 128 << 20
"""Beside their content, entries of an archive have headers and padding."""
_IN_MEMORY: Final = 4
"""Listings that are in memory at once, while they are written as JSON; others wait."""

_In = Annotated[str, Query(min_length=1, max_length=4096, description="An absolute path inside")]
_Yes = Annotated[bool, Query()]


def _bytes_of(media_type: str) -> dict[str, Any]:
    return {"content": {media_type: {"schema": {"type": "string", "format": "binary"}}}}


def _body(media_type: str) -> dict[str, Any]:
    return {"requestBody": {"required": True, **_bytes_of(media_type)}}


_OCTETS: Final = "application/octet-stream"
_TAR: Final = "application/x-tar"


def add_files(app: FastAPI, sessions: OwnedSessions) -> None:
    """Read, write, list and remove files; each call acts as the agent and has its record."""

    in_memory = asyncio.Semaphore(_IN_MEMORY)

    @app.get("/v1/sessions/{session}/file", response_class=Response, responses={200: _bytes_of(_OCTETS)})
    async def read_file(request: Request, session: Name, path: _In) -> Response:
        """A file's content, at most 64 MiB."""
        sandbox = await sessions.opened(owner_of(request.scope), session)
        content = tempfile.TemporaryFile()  # noqa: SIM115 - closed once it is sent, however slowly
        try:
            await with_client(request, sandbox.files.read_into(path, content, at_most=_FILE), within_s=MOVE_S)
        except BaseException:
            content.close()
            raise
        return OpenFile(content, _OCTETS)

    @app.put("/v1/sessions/{session}/file", openapi_extra=_body(_OCTETS))
    async def write_file(
        request: Request,
        session: Name,
        path: _In,
        executable: _Yes = False,  # noqa: FBT002 - a query parameter
    ) -> MovedFiles:
        """Write a file, at most 64 MiB, whole or not at all; folders on the way are made."""
        sandbox = await sessions.opened(owner_of(request.scope), session)
        with tempfile.NamedTemporaryFile(prefix="affiant-") as received:
            await _receive(request, received, _FILE)
            os.fchmod(received.fileno(), 0o700 if executable else 0o600)
            writing = sandbox.files.upload(Path(received.name), path, at_most=_FILE)
            return MovedFiles.of(await with_client(request, writing, within_s=MOVE_S))

    @app.delete("/v1/sessions/{session}/file")
    async def remove_file(request: Request, session: Name, path: _In) -> MovedFiles:
        """Remove a file, a link, or a folder with all that is in it."""
        sandbox = await sessions.opened(owner_of(request.scope), session)
        return MovedFiles.of(await with_client(request, sandbox.files.remove(path), within_s=MOVE_S))

    @app.get("/v1/sessions/{session}/stat")
    async def stat_file(request: Request, session: Name, path: _In) -> EntryFacts:
        """Facts about one entry; a link is not followed."""
        sandbox = await sessions.opened(owner_of(request.scope), session)
        return EntryFacts.of(await with_client(request, sandbox.files.stat(path), within_s=MOVE_S))

    @app.get("/v1/sessions/{session}/files")
    async def list_files(
        request: Request,
        session: Name,
        path: _In,
        recursive: _Yes = False,  # noqa: FBT002 - a query parameter
    ) -> Entries:
        """What is in a folder; `recursive`: and below it. More than 100,000 entries are an error."""
        sandbox = await sessions.opened(owner_of(request.scope), session)
        listed = tempfile.TemporaryFile()  # noqa: SIM115 - closed once it is sent, however slowly
        try:
            with tempfile.TemporaryFile() as content:
                await with_client(
                    request, sandbox.files.list_into(path, content, recursive=recursive), within_s=MOVE_S
                )
                async with in_memory:
                    await asyncio.to_thread(_write_json, content, listed)
        except BaseException:
            listed.close()
            raise
        return OpenFile(listed, "application/json")  # type: ignore[return-value]  # documented as Entries

    _add_trees(app, sessions)


def _add_trees(app: FastAPI, sessions: OwnedSessions) -> None:
    @app.put("/v1/sessions/{session}/tree", openapi_extra=_body(_TAR))
    async def upload_tree(request: Request, session: Name, path: _In) -> MovedFiles:
        """Copy what is in a tar archive (without compression, 1 GiB) below a folder, in one call. Files there are
        replaced, nothing else is removed."""
        sandbox = await sessions.opened(owner_of(request.scope), session)
        async with _folder() as folder:
            with tempfile.TemporaryFile() as received:
                await _receive(request, received, _TREE + _HEADERS)
                received.seek(0)
                await with_client(
                    request, stoppable(lambda proceed: _unpack(received, folder, proceed)), within_s=MOVE_S
                )
            return MovedFiles.of(
                await with_client(request, sandbox.files.upload(folder, path, at_most=_TREE), within_s=MOVE_S)
            )

    @app.get("/v1/sessions/{session}/tree", response_class=Response, responses={200: _bytes_of(_TAR)})
    async def download_tree(request: Request, session: Name, path: _In) -> Response:
        """A file, or what is in a folder (1 GiB), as a tar archive. Links that lead out of the folder are left out."""
        sandbox = await sessions.opened(owner_of(request.scope), session)
        archive = tempfile.TemporaryFile()  # noqa: SIM115 - closed once it is sent
        try:
            async with _folder() as folder:
                local = folder / (path.rstrip("/").rpartition("/")[2] or "files")
                await with_client(
                    request, sandbox.files.download(path, local, at_most=_TREE), within_s=MOVE_S
                )
                await with_client(
                    request, stoppable(lambda proceed: pack_archive(local, archive, proceed)), within_s=MOVE_S
                )
        except BaseException:
            archive.close()
            raise
        return OpenFile(archive, _TAR)


@asynccontextmanager
async def _folder() -> AsyncIterator[Path]:
    """A private folder for the length of the block; a thread removes it, as it may hold 100,000 entries."""
    folder = Path(tempfile.mkdtemp(prefix="affiant-"))
    try:
        yield folder
    finally:
        await asyncio.shield(asyncio.ensure_future(asyncio.to_thread(shutil.rmtree, folder)))


def _unpack(archive: IO[bytes], folder: Path, proceed: Proceed) -> None:
    unpack_archive(archive, folder, limits=replace(_LIMITS, proceed=proceed))


def _write_json(content: IO[bytes], listed: IO[bytes]) -> None:
    listed.write(Entries.of(read_listing(content)).model_dump_json().encode())


async def _receive(request: Request, file: IO[bytes], most: int) -> None:
    """Write the body to ``file``.

    Raises:
        ``session.too_large``: more than ``most`` bytes.
    """
    size = 0
    try:
        async for piece in request.stream():
            size += len(piece)
            if size > most:
                raise MalformedError(
                    "the body is too large", expected=f"at most {most} bytes", code="session.too_large"
                )
            await asyncio.to_thread(file.write, piece)
        await asyncio.to_thread(file.flush)
    except OSError as error:
        raise UnreachableError(
            "the body cannot be kept", found=error.strerror, code="workspace.unwritable"
        ) from error
