"""The routes by which an agent reaches the gateway: one table, for the gateway and the supervisor alike.

A record's ``req.p`` is the route's template, not the path that was asked for: a path may hold ids.

>>> route = route_of("GET", "/v1/models/gpt-4o")
>>> route.template, route.counted
('/v1/models/{model}', False)
>>> route_of("POST", "/v1/models") is None
True
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

__all__ = ["AGENT_ROUTES", "AgentRoute", "not_served", "not_served_body", "route_of", "served"]

_PARAMETERS: Final[Mapping[str, str]] = {
    "model": r"[A-Za-z0-9._:@-]{1,128}(?:/[A-Za-z0-9._:@-]{1,128}){0,3}",
    "receipt": r"[A-Za-z0-9_-]{22}",
    "response": r"[A-Za-z0-9][A-Za-z0-9_.=-]{0,255}",
}
"""Parameter of a template -> what its value looks like. No value has a percent-escape."""


@dataclass(frozen=True, slots=True)
class AgentRoute:
    """One method at one path.

    Args:
        dialect: whose request it takes to an upstream; None: the gateway answers by itself.
        counted: it takes the session's next ``cseq`` and ends in one record with it. Every route to an upstream does.
        streams: the answer may be a stream of events.
    """

    method: str
    template: str
    dialect: str | None = None
    counted: bool = False
    streams: bool = False

    @property
    def name(self) -> str:
        """Method and template."""
        return f"{self.method} {self.template}"


AGENT_ROUTES: Final = (
    AgentRoute("POST", "/v1/chat/completions", "chat", counted=True, streams=True),
    AgentRoute("POST", "/v1/responses", "responses", counted=True, streams=True),
    AgentRoute("POST", "/v1/responses/compact", "responses", counted=True),
    AgentRoute("GET", "/v1/responses/{response}", "responses", counted=True, streams=True),
    AgentRoute("DELETE", "/v1/responses/{response}", "responses", counted=True),
    AgentRoute("POST", "/v1/responses/{response}/cancel", "responses", counted=True),
    AgentRoute("GET", "/v1/responses/{response}/input_items", "responses", counted=True),
    AgentRoute("POST", "/v1/completions", "completions", counted=True, streams=True),
    AgentRoute("POST", "/v1/embeddings", "embeddings", counted=True),
    AgentRoute("POST", "/v1/rerank", "rerank", counted=True),
    AgentRoute("POST", "/v1/moderations", "moderations", counted=True),
    AgentRoute("POST", "/v1/messages", "messages", counted=True, streams=True),
    AgentRoute("POST", "/v1/messages/count_tokens", "count_tokens", counted=True),
    AgentRoute("GET", "/v1/models"),
    AgentRoute("GET", "/v1/models/{model}"),
    AgentRoute("POST", "/mcp", counted=True, streams=True),
    AgentRoute("GET", "/v1/receipts/{receipt}"),
    AgentRoute("GET", "/v1/receipts/{receipt}/bundle"),
    AgentRoute("GET", "/v1/receipts/{receipt}/proof"),
)

_ANTHROPIC: Final = ("/v1/messages", "/v1/complete")
"""Where Anthropic's API begins; its clients read errors of another form."""
_MAX_SHOWN: Final = 128
"""Characters of a path in a message."""


def route_of(method: str, path: str) -> AgentRoute | None:
    """The route of a request; None where none is served.

    Args:
        path: without a query.
    """
    exact = _exact().get((method, path))
    if exact is not None:
        return exact
    return next((route for route, form in _forms() if route.method == method and form.fullmatch(path)), None)


def served() -> str:
    """All routes, in words."""
    return ", ".join(route.name for route in AGENT_ROUTES)


def not_served(method: str, path: str) -> str:
    """What to say of a request for which there is no route."""
    shown = "".join(char if "!" <= char <= "~" else "?" for char in path[:_MAX_SHOWN])
    return f"{method[:16]} {shown} is not served; the gateway serves {served()}"


def not_served_body(method: str, path: str, *, code: str, record: str | None = None) -> bytes:
    """The body of the 404 for a request for which there is no route: an error of the API that the path belongs to.

    Args:
        code: the error's stable code. record: id of the record that says so.
    """
    message = not_served(method, path)
    document: dict[str, object]
    if path.startswith(_ANTHROPIC):
        document = {"type": "error", "error": {"type": "not_found_error", "message": message}}
    else:
        error = {"message": message, "type": "not_found_error", "code": code, "param": None}
        document = {"error": error}
    if record is not None:
        document["record"] = record
    return json.dumps(document, ensure_ascii=True).encode("ascii")


@cache
def _exact() -> Mapping[tuple[str, str], AgentRoute]:
    return {(route.method, route.template): route for route in AGENT_ROUTES if "{" not in route.template}


@cache
def _forms() -> tuple[tuple[AgentRoute, re.Pattern[str]], ...]:
    """The routes with parameters, and what their paths look like."""
    return tuple((route, _form(route.template)) for route in AGENT_ROUTES if "{" in route.template)


def _form(template: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", template)
    return re.compile(
        "".join(_PARAMETERS[part] if at % 2 else re.escape(part) for at, part in enumerate(parts))
    )
