"""The OpenAPI document: the routes of the control plane, and inference, which is served ahead of them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from affiant.attestation.schema.agent_routes import AGENT_ROUTES, AgentRoute
from affiant.gateway.wire.routes import FORM_STATUS, PATH_PATTERNS, Route

__all__ = ["INFERENCE_PATHS", "openapi_document"]

_ERROR: Final = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "code", "param"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "code": {"type": "string", "description": "stable code of the refusal"},
                "param": {"type": "null"},
            },
        }
    },
}
_ANTHROPIC_ERROR: Final = {
    "type": "object",
    "required": ["type", "error"],
    "properties": {
        "type": {"const": "error"},
        "error": {
            "type": "object",
            "required": ["type", "message", "code"],
            "properties": {name: {"type": "string"} for name in ("type", "message", "code")},
        },
    },
}
_HEADERS: Final = {
    "Affiant-Receipt-Id": {"schema": {"type": "string"}, "description": "id of the receipt of this request"},
    "Affiant-Keyset": {"schema": {"type": "string"}, "description": "digest of the gateway's keyset"},
}


def _parameter(name: str, text: str, *, required: bool = False) -> Mapping[str, object]:
    return {
        "name": name,
        "in": "header",
        "required": required,
        "description": text,
        "schema": {"type": "string"},
    }


_SUMMARIES: Final[Mapping[str, str]] = {
    "chat": "OpenAI chat completions",
    "completions": "OpenAI text completions",
    "count_tokens": "Anthropic's count of a request's tokens",
    "embeddings": "OpenAI embeddings",
    "messages": "Anthropic messages",
    "moderations": "OpenAI moderations",
    "rerank": "Documents in the order in which they fit a query",
    "responses": "OpenAI responses",
    "POST /v1/responses/compact": "OpenAI responses: shorten a conversation",
    "GET /v1/responses/{response}": "OpenAI responses: one that an upstream keeps",
    "DELETE /v1/responses/{response}": "OpenAI responses: delete one that an upstream keeps",
    "POST /v1/responses/{response}/cancel": "OpenAI responses: cancel one that an upstream makes",
    "GET /v1/responses/{response}/input_items": "OpenAI responses: what one was asked with",
}
"""Dialect, or one route of it -> the operation that it is."""
_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "chat": ("model", "messages"),
    "completions": ("model", "prompt"),
    "count_tokens": ("model", "messages"),
    "embeddings": ("model", "input"),
    "messages": ("model", "max_tokens", "messages"),
    "moderations": ("input",),
    "rerank": ("model", "documents", "query"),
    "responses": ("model",),
}
"""Dialect -> members that each of its requests has."""
_ERRORS: Final[Mapping[str | None, Mapping[str, object]]] = {
    "count_tokens": _ANTHROPIC_ERROR,
    "messages": _ANTHROPIC_ERROR,
}
"""Dialect -> the form of its errors, where it is another than OpenAI's."""


def _in_path(name: str) -> Mapping[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _asked_with(route: AgentRoute) -> Mapping[str, Any]:
    """The body of a request; one about what an upstream keeps has none."""
    assert route.dialect is not None
    if "{" in route.template:
        return {}
    schema = {"type": "object", "required": list(_REQUIRED[route.dialect])}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _model_operation(route: AgentRoute) -> Mapping[str, Any]:
    """What takes a request of a dialect to an upstream."""
    assert route.dialect is not None
    whole = {"application/json": {"schema": {"type": "object"}}}
    streamed = {"text/event-stream": {"schema": {"type": "string"}}} if route.streams else {}
    return {
        "summary": _SUMMARIES.get(route.name, _SUMMARIES[route.dialect])
        + (", whole or streaming, receipted" if route.streams else ", receipted"),
        "parameters": [
            _parameter("Affiant-Proof", "proof of possession over exactly this request", required=True),
            _parameter("Affiant-Nonce", "32 random bytes, base64url; echoed in the receipt"),
            _parameter("traceparent", "W3C trace context; if valid, hidden in the receipt and passed on"),
            _parameter("Affiant-Receipt", "`inline`: the receipt comes with the answer"),
            *map(_in_path, re.findall(r"\{(\w+)\}", route.template)),
        ],
        **_asked_with(route),
        "responses": {
            "200": {
                "description": "the upstream's answer, byte for byte",
                "headers": _HEADERS,
                "content": {**whole, **streamed},
            },
            "default": {
                "description": "a refusal, receipted like an answer",
                "headers": _HEADERS,
                "content": {"application/json": {"schema": _ERRORS.get(route.dialect, _ERROR)}},
            },
        },
    }


_TO_UPSTREAMS: Final = tuple(route for route in AGENT_ROUTES if route.dialect is not None)
INFERENCE_PATHS: Final[Mapping[str, Any]] = {
    path: {route.method.lower(): _model_operation(route) for route in _TO_UPSTREAMS if route.template == path}
    for path in dict.fromkeys(route.template for route in _TO_UPSTREAMS)
}
"""Path -> operations, as they are in the document."""


def openapi_document(title: str, routes: Sequence[Route], more: Mapping[str, Any]) -> Mapping[str, Any]:
    """The document of ``routes``, and of ``more`` paths that are served ahead of them."""
    paths: dict[str, Any] = {}
    for route in routes:
        path = route.path.replace(":path}", "}")
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, path)
    return {"openapi": "3.1.0", "info": {"title": title, "version": "1"}, "paths": {**paths, **more}}


def _operation(route: Route, path: str) -> Mapping[str, Any]:
    name = route.handler.__name__
    text = inspect.getdoc(route.handler)
    body = {"requestBody": {"content": route.body, "required": True}} if route.body else {}
    media = route.media.partition(";")[0]
    responses: dict[str, Any] = {
        str(status): {"description": "Successful Response", "content": {media: {"schema": {}}}}
        for status in (route.status, *route.also)
    }
    responses["default"] = {
        "description": "An error",
        "content": {"application/json": {"schema": _ERROR}},
    }
    if route.parameters:
        responses[str(FORM_STATUS)] = {
            "description": "A parameter of the path is not of its form",
            "content": {"application/json": {"schema": _ERROR}},
        }
    return {
        "summary": name.replace("_", " ").title(),
        **({"description": text} if text else {}),
        "operationId": re.sub(r"\W", "_", f"{name}{path}_{route.method.lower()}"),
        **({"parameters": [_path_parameter(each) for each in route.parameters]} if route.parameters else {}),
        **body,
        "responses": responses,
    }


def _path_parameter(name: str) -> Mapping[str, Any]:
    pattern = {"pattern": PATH_PATTERNS[name]} if name in PATH_PATTERNS else {}
    return {
        "name": name,
        "in": "path",
        "required": True,
        "schema": {"type": "string", **pattern, "title": name.title()},
    }
