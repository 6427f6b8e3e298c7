"""Routes: sessions themselves."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Header, Query, Request
from fastapi import Path as InPath
from fastapi.responses import JSONResponse, Response

from affiant.errors import AffiantError
from affiant.sandbox.processes.session_note import SessionState
from affiant.sandbox.session_server.documents import (
    CommandFacts,
    MetricsNow,
    Removed,
    SessionAsked,
    SessionFacts,
    SessionList,
    Stopped,
)
from affiant.sandbox.session_server.guard import owner_of
from affiant.sandbox.session_server.held_ports import HeldPorts
from affiant.sandbox.session_server.owned_sessions import OwnedSessions
from affiant.sandbox.session_server.responding import MOVE_S, OpenFile, in_time, with_client
from affiant.sandbox.session_state.session_listing import SessionEntry

__all__ = ["Name", "add_sessions"]

Name = Annotated[str, InPath(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", description="Its id, or its name")]
_Digest = Annotated[str, Query(pattern=r"^sha256:[0-9a-f]{64}$", description="Of the bundle that you have")]
_BUNDLE = {
    200: {
        "content": {
            "application/json": {"schema": {"type": "object"}},
            "application/zip": {"schema": {"type": "string", "format": "binary"}},
        }
    }
}
"""A single bundle, or the period archive of a session with more records than that holds."""


def add_sessions(app: FastAPI, sessions: OwnedSessions, ports: HeldPorts) -> None:
    """Create, list, look at, stop and remove sessions."""

    @app.post("/v1/sessions", status_code=201, responses={200: {"model": SessionFacts}})
    async def create_session(
        request: Request,
        asked: SessionAsked,
        idempotency_key: Annotated[str | None, Header(max_length=255)] = None,
    ) -> SessionFacts:
        """Create a session. With the `Idempotency-Key` of one that runs, that one is answered (200)."""
        owner = owner_of(request.scope)
        session, created = await with_client(
            request, sessions.create(owner, asked, idempotency_key), within_s=MOVE_S
        )
        facts = await _facts(sessions, owner, session, created=created)
        return JSONResponse(facts.model_dump(mode="json"), 201 if created else 200)  # type: ignore[return-value]  # documented as SessionFacts

    @app.get("/v1/sessions")
    async def list_sessions(
        request: Request, limit: Annotated[int, Query(ge=1, le=1000)] = 100
    ) -> SessionList:
        """The caller's sessions, those that have ended too."""
        entries = await sessions.listed(owner_of(request.scope))
        return SessionList(sessions=[_noted(each) for each in entries[:limit]], more=len(entries) > limit)

    @app.get("/v1/sessions/{session}")
    async def get_session(request: Request, session: Name) -> SessionFacts:
        """One session; of one that runs, its commands too."""
        return await _facts(sessions, owner_of(request.scope), session)

    @app.get("/v1/sessions/{session}/metrics")
    async def get_metrics(request: Request, session: Name) -> MetricsNow:
        """What the session uses now."""
        sandbox = await sessions.opened(owner_of(request.scope), session)
        return MetricsNow.of(await with_client(request, sandbox.metrics()))

    @app.post("/v1/sessions/{session}/stop")
    async def stop_session(request: Request, session: Name) -> Stopped:
        """Close the session, which ends its commands; of one that has ended, what closing it has answered."""
        stopping = sessions.stop(owner_of(request.scope), session)
        found, digest = await with_client(request, stopping, within_s=MOVE_S)
        await ports.close_session(found)
        return Stopped(session=found, bundle=digest)

    @app.get("/v1/sessions/{session}/bundle", response_class=Response, responses=_BUNDLE)  # type: ignore[arg-type]  # FastAPI's own type is narrower
    async def get_bundle(request: Request, session: Name) -> Response:
        """The receipts of a session that has ended, hidden values opened: `affiant verify` judges them."""
        bundle, is_archive = await sessions.bundle(owner_of(request.scope), session)
        return OpenFile(bundle, "application/zip" if is_archive else "application/json")

    @app.delete("/v1/sessions/{session}")
    async def remove_session(request: Request, session: Name, bundle: _Digest) -> Removed:
        """Remove what an ended session has left here. The digest of its bundle shows that you have its receipts."""
        return Removed(session=await sessions.remove(owner_of(request.scope), session, bundle))


async def _facts(
    sessions: OwnedSessions, owner: str, name: str, *, created: bool | None = None
) -> SessionFacts:
    entry = await sessions.found(owner, name)
    noted = _noted(entry)
    if entry.note.state is not SessionState.RUNNING:
        return noted
    try:
        status = await in_time((await sessions.opened(owner, entry.note.session)).status())
    except AffiantError:  # it is being started, or has just ended: what is noted holds
        return noted.model_copy(update={"created": created})
    commands = status.get("commands")
    expires, isolation = status.get("expires"), status.get("isolation")
    return noted.model_copy(
        update={
            "created": created,
            "expires": expires if isinstance(expires, int) else None,
            "isolation": None if isolation is None else str(isolation),
            "commands": [CommandFacts.model_validate(each) for each in commands]
            if isinstance(commands, list)
            else None,
        }
    )


def _noted(entry: SessionEntry) -> SessionFacts:
    asked = entry.note.asked
    return SessionFacts(
        session=entry.note.session,
        name=None if asked is None else asked.name,
        agent=None if asked is None else asked.agent,
        state=entry.note.state.value,
        started=None if asked is None else asked.started,
        ended=entry.note.ended,
        code=entry.note.code,
    )
