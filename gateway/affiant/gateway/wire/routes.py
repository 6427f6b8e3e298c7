"""The routes of the control plane: a method and path each, with the handler that answers; Starlette dispatches them.

A handler gets the request and the parameters of its path by name. A parameter of another form than its pattern is 422
before the handler runs. Every error is answered in the form of :mod:`.errors_http`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.routing import Route as _StarletteRoute

from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.schema.agent_routes import not_served_body, route_of
from affiant.errors import AffiantError
from affiant.gateway.wire.errors import RequestMalformed
from affiant.gateway.wire.errors_http import error_body, error_headers, status_of
from affiant.gateway.wire.http_request import Receive, Scope, Send

__all__ = [
    "FORM_STATUS",
    "PATH_PATTERNS",
    "Application",
    "GatewayApp",
    "Handler",
    "Request",
    "Response",
    "Route",
    "Routes",
    "application",
    "error_response",
    "form_error",
    "json_response",
]

Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Handler = Callable[..., Awaitable[Response]]

FORM_STATUS: Final = 422
"""The status of a request whose path or small body is not of the documented form."""

_ID: Final = r"^[A-Za-z0-9_-]{22}$"
PATH_PATTERNS: Final[Mapping[str, str]] = {
    "action": r"^[0-9a-f]{64}$",
    "child": _ID,
    "receipt": _ID,
    "session": _ID,
}
"""Parameter of a path -> what its value looks like; one that is not named here may be any text."""


@dataclass(frozen=True, slots=True)
class Route:
    """One method at one path.

    Args:
        body: media type -> schema of the request's body, for the OpenAPI document; empty: no body.
        status: of the response where all is well. media: its media type. also: other statuses of such a response.
    """

    method: str
    path: str
    handler: Handler
    body: Mapping[str, Any]
    status: int
    media: str = "application/json"
    also: tuple[int, ...] = ()

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names in the path."""
        return tuple(re.findall(r"\{(\w+)", self.path))

    async def respond(self, request: Request) -> Response:
        """The handler's response, or an error where a parameter is not of its form."""
        values = {name: str(request.path_params[name]) for name in self.parameters}
        wrong = [
            f"path.{name}"
            for name, value in values.items()
            if name in PATH_PATTERNS and re.fullmatch(PATH_PATTERNS[name], value) is None
        ]
        if wrong:
            return error_response(form_error(wrong), status=FORM_STATUS)
        return await self.handler(request, **values)


@dataclass(frozen=True, slots=True)
class Routes:
    """Routes in the order in which they are tried."""

    listed: list[Route] = field(default_factory=list)

    def get(
        self, path: str, *, media: str = "application/json", also: tuple[int, ...] = ()
    ) -> Callable[[Handler], Handler]:
        """Serve GET at ``path`` by the decorated handler; ``media`` and ``also`` as :class:`Route`'s."""
        return self._added("GET", path, body={}, status=200, media=media, also=also)

    def post(
        self, path: str, *, body: Mapping[str, Any] | None = None, status: int = 200
    ) -> Callable[[Handler], Handler]:
        """Serve POST at ``path`` by the decorated handler; ``body`` and ``status`` as :class:`Route`'s."""
        return self._added("POST", path, body=body or {}, status=status)

    def _added(self, method: str, path: str, **more: Any) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            self.listed.append(Route(method, path, handler, **more))
            return handler

        return add


def application(routes: Routes, document: Callable[[], Mapping[str, object]]) -> Starlette:
    """An ASGI application of ``routes``; ``document`` makes what ``/openapi.json`` serves, once it is asked for."""

    made = functools.cache(lambda: canonical(document()))

    async def openapi(_: Request) -> Response:
        return json_response(made())

    served = [_StarletteRoute("/openapi.json", openapi)]
    for route in routes.listed:
        one = _StarletteRoute(route.path, route.respond)
        one.methods = {route.method}  # Starlette would serve HEAD with GET
        served.append(one)
    return Starlette(routes=served, exception_handlers={AffiantError: _http_error, HTTPException: _other})


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, AffiantError)
    return error_response(error)


async def _other(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    body = not_served_body(request.method, request.url.path, code="not_found")
    headers = {"x-should-retry": "false"}
    if methods := _methods(request):  # RFC 9110, section 15.5.6
        headers["allow"] = ", ".join(methods)
    return Response(body, error.status_code, headers, "application/json")


def _methods(request: Request) -> Sequence[str]:
    """The methods that are served at the path of ``request``."""
    served = (route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE)
    return sorted({method for route in served for method in route.methods})


def form_error(places: list[str]) -> RequestMalformed:
    """That a request is not of the documented form; what was sent is not repeated."""
    return RequestMalformed("not a request of this form", where=", ".join(places[:4]))


def error_response(
    error: AffiantError, *, status: int | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """The response that reports ``error``; ``status`` where it is not the one of the table."""
    ours = {name.decode("ascii"): value.decode("ascii") for name, value in error_headers(error)}
    return Response(
        error_body(error), status or status_of(error), ours | dict(headers or {}), "application/json"
    )


def json_response(
    data: bytes | Mapping[str, object], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """``data``, or its canonical form, as JSON."""
    body = data if isinstance(data, bytes) else canonical(data)
    return Response(body, status, headers, media_type="application/json")


@dataclass(frozen=True, slots=True)
class GatewayApp:
    """The gateway as one ASGI 3 application: counted routes by one dictionary lookup, else the control plane.

    Args:
        inference: method and template of an agent's route -> application.
        other: what serves everything else.
    """

    inference: Mapping[tuple[str, str], Application]
    other: Application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection or request."""
        application = None
        if scope["type"] == "http":
            asked = scope["method"], scope["path"]
            application = self.inference.get(asked)
            if application is None and (route := route_of(*asked)) is not None:
                application = self.inference.get((route.method, route.template))
        await (application or self.other)(scope, receive, send)
