"""Errors as HTTP responses: one table from stable code to status, and one JSON form.

``{"error": {"code", "message", "hint", "who", "retryable"}}``. A code that the table does not list has its family's
status.
"""

from __future__ import annotations

import importlib
import logging
import traceback
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, Literal

from fastapi.responses import JSONResponse

from affiant.errors import (
    AffiantError,
    ConfigurationError,
    MalformedError,
    NotAllowedError,
    NotAuthenticError,
    NotFreshError,
    StateError,
    UnreachableError,
)
from affiant.printable import printable
from affiant.sandbox.session_server.documents import ErrorBody, ErrorDetail

__all__ = ["error_document", "error_response", "internal_error", "status_of"]

_LOG: Final = logging.getLogger(__name__)

STATUS: Final[Mapping[str, int]] = {
    "files.missing": 404,
    "isolation.limit": 409,
    "policy.unknown_agent": 422,
    "session.act": 500,
    "session.bundle": 500,
    "session.busy": 429,
    "session.caller": 401,
    "session.caller_unlisted": 403,
    "session.command_unknown": 404,
    "session.control": 500,
    "session.extra_ca": 500,
    "session.gateway_address": 500,
    "session.gateway_pin": 500,
    "session.host": 500,
    "session.host_failed": 500,
    "session.issuer": 503,
    "session.no_output": 404,
    "session.no_socket": 500,
    "session.not_here": 404,
    "session.platform": 500,
    "session.records_stopped": 500,
    "session.request_slow": 408,
    "session.server": 500,
    "session.server_failed": 500,
    "session.supervisor_lost": 500,
    "session.too_large": 413,
    "session.too_many": 429,
    "session.transition": 500,
    "session.upstream": 500,
    "workspace.image": 500,
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
_OF_CALLERS: Final = frozenset({"files", "ports", "session", "workspace"})
"""Areas of codes that are about a request or its session. Another code is about what the operator gave (profiles,
isolation, secrets, gateway), or the machine: the server's, whatever its family."""
_PLACED: Final = ("files.", "session.archive", "session.request")
"""Codes whose place is in a session or in a request. Other places are the operator's, and no caller's to know."""
_HINTED: Final = frozenset({"session.crowded", "session.request", "session.too_many"})
"""Codes whose hint is for callers. Other hints are for who uses the command line."""
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
    status = _FAMILIES[known or _family(error.code) or "StateError"]
    return status if status >= 500 or error.code.partition(".")[0] in _OF_CALLERS else 500


def error_document(error: AffiantError) -> ErrorBody:
    """The JSON document for ``error``: nothing in it names a path of the operator's, or a command line."""
    status, hint = status_of(error), error.hint
    message = str(error) if hint is None else str(error).removesuffix(f". {hint}")
    if error.where is not None and not error.code.startswith(_PLACED):
        message = message.removeprefix(f"{error.where}: ")
    shown = hint if error.code in _HINTED else None
    who: Literal["caller", "session", "server"] = (
        "server" if status >= 500 else "session" if status == 409 else "caller"
    )
    return ErrorBody(
        error=ErrorDetail(
            code=error.code,
            message=printable(message, limit=_SHOWN),
            hint=None if shown is None else printable(shown, limit=_SHOWN),
            who=who,
            retryable=True if status == 429 else error.retryable,
        )
    )


def internal_error(error: BaseException) -> AffiantError:
    """The error that a caller gets for a mistake of ours; the server's own log has one line about it.

    The line names the kind of the error and where it was raised, and nothing that a caller sent.
    """
    frame = traceback.extract_tb(error.__traceback__)[-1:]
    raised = "".join(f" at {Path(each.filename).name}:{each.lineno} in {each.name}" for each in frame)
    _LOG.error("internal error of the server: %s%s", type(error).__name__, raised)
    return StateError(
        "internal error of the server", found=type(error).__name__, code="session.server_failed"
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
