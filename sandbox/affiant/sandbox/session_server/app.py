"""The routes of the HTTP server, and its OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any, Final

from fastapi import FastAPI, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from affiant.errors import AffiantError, MalformedError
from affiant.sandbox.session_server.command_routes import add_commands
from affiant.sandbox.session_server.documents import ErrorBody, ExitedEvent, OutputEvent
from affiant.sandbox.session_server.error_responses import error_response, internal_error
from affiant.sandbox.session_server.file_routes import add_files
from affiant.sandbox.session_server.held_ports import HeldPorts
from affiant.sandbox.session_server.owned_sessions import OwnedSessions
from affiant.sandbox.session_server.port_routes import add_ports
from affiant.sandbox.session_server.session_routes import add_sessions

__all__ = ["session_app"]

_ABOUT: Final = """Attested sessions for AI agents, with receipts. A session belongs to the caller who created it;
those of others are answered like sessions that do not exist."""


def session_app(sessions: OwnedSessions, ports: HeldPorts) -> FastAPI:
    """The application, which the guard stands before."""
    app = FastAPI(
        title="affiant sessions",
        version=version("affiant").partition(".dev")[0],
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        dependencies=[
            Security(HTTPBearer(auto_error=False))
        ],  # for the document; the guard has asked already
        generate_unique_id_function=_name,
        responses={"default": {"model": ErrorBody, "description": "Why it was not done"}},
        redirect_slashes=False,
    )
    add_sessions(app, sessions, ports)
    add_commands(app, sessions)
    add_files(app, sessions)
    add_ports(app, sessions, ports)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]  # FastAPI's own way to extend it
    handlers: list[tuple[Any, Callable[..., Any]]] = [
        (AffiantError, _refused),
        (RequestValidationError, _malformed),
        (HTTPException, _rejected),
        (Exception, _failed),
    ]
    for kind, handler in handlers:
        app.add_exception_handler(kind, handler)
    return app


def _document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with the schemas of what events carry."""
    document = FastAPI.openapi(app)
    for model in (OutputEvent, ExitedEvent):
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schema.pop("$defs", None)
        document["components"]["schemas"][model.__name__] = schema
    return document


def _name(route: APIRoute) -> str:
    return route.name


async def _refused(_: Request, error: AffiantError) -> Response:
    return error_response(error)


async def _malformed(_: Request, error: RequestValidationError) -> Response:
    """Where the request does not match its schema; what was there instead is not repeated."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])[:200]
    found = MalformedError(
        "the request does not match its schema",
        where=ascii(place)[1:-1],
        found=first["type"],
        code="session.request",
    )
    return error_response(found, status=422)


async def _rejected(_: Request, error: HTTPException) -> Response:
    """What the framework rejects; an error of ours that it met while it read the body is that error."""
    if isinstance(error.__cause__, AffiantError):
        return error_response(error.__cause__)
    text = {404: "there is no such path", 405: "the path has no such method"}
    message = text.get(error.status_code, "the request cannot be read")
    return error_response(MalformedError(message, code="session.request"), status=error.status_code)


async def _failed(_: Request, error: Exception) -> Response:
    return error_response(internal_error(error))
