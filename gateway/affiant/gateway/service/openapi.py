"""The OpenAPI document: FastAPI's own, and the inference routes, which are served ahead of FastAPI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

__all__ = ["INFERENCE_PATHS", "OpenAPI"]

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


INFERENCE_PATHS: Final[Mapping[str, Any]] = {
    "/v1/chat/completions": {
        "post": {
            "summary": "OpenAI chat completions, whole or streaming, receipted",
            "parameters": [
                _parameter("Affiant-Proof", "proof of possession over exactly this request", required=True),
                _parameter("Affiant-Nonce", "32 random bytes, base64url; echoed in the receipt"),
                _parameter("traceparent", "W3C trace context; if valid, hidden in the receipt and passed on"),
                _parameter("Affiant-Receipt", "`inline`: the receipt comes with the answer"),
            ],
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {
                        "schema": {
                            "type": "object",
                            "required": ["model", "messages"],
                            "properties": {
                                "model": {"type": "string"},
                                "messages": {"type": "array", "items": {"type": "object"}},
                                "stream": {"type": "boolean"},
                                "tools": {"type": "array", "items": {"type": "object"}},
                            },
                        }
                    }
                },
            },
            "responses": {
                "200": {
                    "description": "the upstream's answer, byte for byte",
                    "headers": _HEADERS,
                    "content": {
                        "application/json": {"schema": {"type": "object"}},
                        "text/event-stream": {"schema": {"type": "string"}},
                    },
                },
                "default": {
                    "description": "a refusal, receipted like an answer",
                    "headers": _HEADERS,
                    "content": {"application/json": {"schema": _ERROR}},
                },
            },
        }
    }
}
"""Path -> operations, as they stand in the document."""


class OpenAPI:
    """The document of ``app``, made when first asked for."""

    def __init__(self, app: FastAPI, more: Mapping[str, Any]) -> None:
        self._app = app
        self._more = more
        self._document: dict[str, Any] | None = None

    def __call__(self) -> dict[str, Any]:
        """The document."""
        if self._document is None:
            document = get_openapi(title=self._app.title, version="1", routes=self._app.routes)
            document["paths"] = {**document["paths"], **self._more}
            self._document = document
        return self._document
