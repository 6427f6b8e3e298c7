"""Routes: commands, waited for, streamed, or left running."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

from fastapi import FastAPI, Query, Request
from fastapi import Path as InPath
from fastapi.responses import Response

from affiant.errors import AffiantError
from affiant.sandbox.api.sandbox import Output, Sandbox
from affiant.sandbox.session_server.documents import (
    CommandAsked,
    CommandDone,
    CommandPiece,
    Detached,
    ExitedEvent,
    OutputEvent,
    SignalAsked,
)
from affiant.sandbox.session_server.error_responses import error_document
from affiant.sandbox.session_server.guard import owner_of
from affiant.sandbox.session_server.owned_sessions import OwnedSessions
from affiant.sandbox.session_server.responding import Events, event, with_client
from affiant.sandbox.session_server.session_routes import Name

__all__ = ["add_commands"]

_Number = Annotated[int, InPath(ge=1, le=2**31, description="Which command of the session")]
_At = Annotated[int, Query(ge=0, le=2**53)]
_EVENTS = {
    200: {
        "description": "Events `stdout` and `stderr` (OutputEvent), at last `exited` (ExitedEvent) or `error`",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


def add_commands(app: FastAPI, sessions: OwnedSessions) -> None:
    """Run commands."""

    @app.post("/v1/sessions/{session}/exec")
    async def exec_command(request: Request, session: Name, asked: CommandAsked) -> CommandDone:
        """Run a command to its end. A caller that leaves ends it; 1 MiB of each of its outputs is kept."""
        sandbox = await sessions.opened(owner_of(request.scope), session)
        running = sandbox.run(
            asked.argv, env=asked.env, cwd=asked.cwd, timeout=asked.timeout, stdin=asked.stdin
        )
        return CommandDone.of(await with_client(request, running, within_s=None))

    @app.post("/v1/sessions/{session}/stream", response_class=Response, responses=_EVENTS)  # type: ignore[arg-type]  # FastAPI's own type is narrower
    async def stream_command(request: Request, session: Name, asked: CommandAsked) -> Response:
        """Run a command and send what it writes as it comes. A caller that leaves ends it."""
        sandbox = await sessions.opened(owner_of(request.scope), session)
        return Events(_events(sandbox, asked))

    @app.post("/v1/sessions/{session}/commands", status_code=201)
    async def detach_command(request: Request, session: Name, asked: CommandAsked) -> Detached:
        """Start a command that runs on without its caller, with nothing to read; what it writes is kept."""
        sandbox = await sessions.opened(owner_of(request.scope), session)
        detaching = sandbox.detach(asked.argv, env=asked.env, cwd=asked.cwd, timeout=asked.timeout)
        number = await with_client(request, detaching)
        return Detached(number=number)

    @app.get("/v1/sessions/{session}/commands/{number}/output")
    async def get_output(
        request: Request,
        *,
        session: Name,
        number: _Number,
        stdout_at: _At = 0,
        stderr_at: _At = 0,
        wait: bool = False,
    ) -> CommandPiece:
        """Kept output of a command that runs on, also when its session has ended, from a position on; `wait`: up to 20
        seconds for more."""
        at = (stdout_at, stderr_at)
        kept = sessions.kept(owner_of(request.scope), session, number, at, wait=wait)
        piece, incomplete = await with_client(request, kept)
        return CommandPiece(
            stdout_base64=_base64(piece.stdout),
            stderr_base64=_base64(piece.stderr),
            stdout_at=piece.at[0],
            stderr_at=piece.at[1],
            ended=piece.ended,
            exit_code=piece.exit_code,
            incomplete=incomplete,
        )

    @app.post("/v1/sessions/{session}/commands/{number}/signal", status_code=204, response_class=Response)
    async def signal_command(request: Request, session: Name, number: _Number, asked: SignalAsked) -> None:
        """Send a command a signal."""
        sandbox = await sessions.opened(owner_of(request.scope), session)
        await with_client(request, sandbox.signal(number, asked.signal))


async def _events(sandbox: Sandbox, asked: CommandAsked) -> AsyncGenerator[bytes, None]:
    try:
        stream = sandbox.stream(
            asked.argv, env=asked.env, cwd=asked.cwd, timeout=asked.timeout, stdin=asked.stdin
        )
        async with aclosing(stream) as found:  # type: ignore[type-var]  # it is a generator
            async for each in found:
                if isinstance(each, Output):
                    yield event(each.stream, OutputEvent(data=_base64(each.data)))
                else:
                    yield event("exited", ExitedEvent.of(each.result))
    except AffiantError as error:
        yield event("error", error_document(error))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
