"""Errors as HTTP responses: one table from stable code to status, and one JSON form.

``{"error": {"code", "message", "hint", "who", "retryable"}}``. A code that the table does not list has its family's
status.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from typing import Final, Literal

from fastapi.responses import JSONResponse

from affiant.errors import (
    AffiantError,
    ConfigurationError,
    MalformedError,
    NotAllowedError,
    NotAuthenticError,
    NotFreshError,
    UnreachableError,
)
from affiant.printable import printable
from affiant.sandbox.session_server.documents import ErrorBody, ErrorDetail

__all__ = ["error_document", "error_response", "status_of"]

STATUS: Final[Mapping[str, int]] = {
    "files.missing": 404,
    "isolation.limit": 409,
    "session.busy": 429,
    "session.caller": 401,
    "session.caller_unlisted": 403,
    "session.command_unknown": 404,
    "session.creator": 503,
    "session.issuer": 503,
    "session.no_output": 404,
    "session.not_here": 404,
    "session.request_slow": 408,
    "session.too_large": 413,
    "session.too_many": 429,
    "workspace.too_large": 413,
}
"""Code -> status, where it is not the family's."""

_FAMILIES: Final[Mapping[str, int]] = {
    "MalformedError": 400,
    "NotAuthenticError": 403,
    "NotFreshError": 409,
    "NotAllowedError": 403,
    "ConfigurationError": 422,
    "StateError": 409,
    "UnreachableError": 503,
}
_NAMED: Final = (
    *(MalformedError, NotAuthenticError, NotFreshError),
    *(NotAllowedError, ConfigurationError, UnreachableError),
)
_PACKAGES: Final = ("attestation", "policy", "secrets", "sandbox")
_SHOWN: Final = 1000


@cache
def _family(code: str) -> str | None:
    """The family that the tables of codes list: what a session host sends has lost its class."""
    for package in _PACKAGES:
        table = importlib.import_module(f"affiant.{package}.error_codes").ERROR_CODES
        if code in table:
            return str(table[code][0])
    return None


def status_of(error: AffiantError) -> int:
    """The HTTP status of ``error``."""
    listed = STATUS.get(error.code)
    if listed is not None:
        return listed
    known = next((each.__name__ for each in _NAMED if isinstance(error, each)), None)
    return _FAMILIES[known or _family(error.code) or "StateError"]


def error_document(error: AffiantError) -> ErrorBody:
    """The JSON document for ``error``."""
    status, hint = status_of(error), error.hint
    message = str(error) if hint is None else str(error).removesuffix(f". {hint}")
    who: Literal["caller", "session", "server"] = (
        "server" if status >= 500 else "session" if status == 409 else "caller"
    )
    return ErrorBody(
        error=ErrorDetail(
            code=error.code,
            message=printable(message, limit=_SHOWN),
            hint=None if hint is None else printable(hint, limit=_SHOWN),
            who=who,
            retryable=True if status == 429 else error.retryable,
        )
    )


def error_response(error: AffiantError, *, status: int | None = None) -> JSONResponse:
    """The whole response."""
    code = status_of(error) if status is None else status
    headers = {"cache-control": "no-store"}
    if code == 401:
        headers["www-authenticate"] = "Bearer"
    if code in {429, 503}:
        headers["retry-after"] = "1"
    return JSONResponse(error_document(error).model_dump(mode="json"), code, headers)
