"""Routes: servers of the agent's, reached from this machine."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Request
from fastapi import Path as InPath

from affiant.sandbox.session_server.documents import PortAsked, PortOpen, PortUsed
from affiant.sandbox.session_server.guard import owner_of
from affiant.sandbox.session_server.held_ports import HeldPorts
from affiant.sandbox.session_server.owned_sessions import OwnedSessions
from affiant.sandbox.session_server.responding import with_client
from affiant.sandbox.session_server.session_routes import Name

__all__ = ["add_ports"]

_Port = Annotated[int, InPath(ge=1, le=65_535)]


def add_ports(app: FastAPI, sessions: OwnedSessions, ports: HeldPorts) -> None:
    """Open and close ports."""

    @app.post("/v1/sessions/{session}/ports", status_code=201)
    async def open_port(request: Request, session: Name, asked: PortAsked) -> PortOpen:
        """Reach the agent's server at a port that its profile lists, on 127.0.0.1 of the server's machine, until the
        port is closed or the server ends. Every user of that machine can reach it."""
        sandbox = await sessions.opened(owner_of(request.scope), session)
        address = (await with_client(request, ports.open(sandbox, asked.port))).address
        assert isinstance(address, tuple)
        return PortOpen(port=asked.port, host=address[0], address=address[1])

    @app.delete("/v1/sessions/{session}/ports/{port}")
    async def close_port(request: Request, session: Name, port: _Port) -> PortUsed:
        """Close it; what it was used for."""
        entry = await sessions.found(owner_of(request.scope), session)
        use = (await ports.close(entry.note.session, port)).use
        return PortUsed(
            port=port,
            why="session" if use is None else use.why,
            bytes_in=0 if use is None else use.bytes_in,
            bytes_out=0 if use is None else use.bytes_out,
            connections=0 if use is None else use.connections,
            refused=0 if use is None else use.refused,
        )
