"""Writes errors as HTTP responses: one table from stable code to HTTP status, and the body that OpenAI clients read.

``{"error": {"message", "type", "code", "param": null}}``. A code that the table does not list has its family's
status; a limit that waiting helps with is 429, with ``retry-after``. ``x-should-retry`` keeps the OpenAI clients from
repeating what will be refused again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

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
from affiant.gateway.wire.errors import GatewayDraining, QueueError
from affiant.policy.decision.limit_errors import LimitReached
from affiant.printable import printable

__all__ = ["STATUS", "error_body", "error_headers", "status_of"]

STATUS: Final[Mapping[str, int]] = {
    "approval.reader": 401,
    "approval.too_many": 429,
    "approval.unknown": 404,
    "decisions.unavailable": 503,
    "gateway.busy": 429,
    "gateway.crowded": 429,
    "gateway.draining": 503,
    "gateway.error": 500,
    "gateway.memory": 503,
    "index.unavailable": 503,
    "journal.unavailable": 503,
    "log.unavailable": 503,
    "log.unwitnessed": 503,
    "model.not_found": 404,
    "not_found": 404,
    "proof.mismatch": 401,
    "proof.missing": 401,
    "proof.no_key": 401,
    "proof.replayed": 401,
    "proof.stale": 401,
    "queue.deadline": 429,
    "queue.full": 429,
    "published.trusted_root": 400,
    "request.content_encoding": 415,
    "request.content_type": 415,
    "request.timeout": 408,
    "request.too_large": 413,
    "response.not_found": 404,
    "session.closed": 409,
    "session.unknown": 401,
    "tool.not_allowed": 403,
    "tool.server_unavailable": 502,
    "tool.timeout": 504,
    "upstream.answer": 502,
    "upstream.cut": 502,
    "upstream.event_too_large": 502,
    "upstream.head_timeout": 504,
    "upstream.idle_timeout": 504,
    "upstream.malformed": 502,
    "upstream.overloaded": 503,
    "upstream.rate_limited": 429,
    "upstream.timeout": 504,
    "upstream.total_timeout": 504,
    "upstream.unauthorized": 502,
    "upstream.unreachable": 502,
}
"""Code -> status, where it is not the family's."""

_FAMILIES: Final[tuple[tuple[type[AffiantError], int], ...]] = (
    (MalformedError, 400),
    (NotAuthenticError, 403),
    (NotFreshError, 403),
    (NotAllowedError, 403),
    (UnreachableError, 503),
    (StateError, 409),
    (ConfigurationError, 500),
)

_WAITED_FOR_S: Final = 60
"""The OpenAI clients wait for no longer; asked to retry, they would only ask again sooner."""

_TYPES: Final[Mapping[int, str]] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


def status_of(error: AffiantError) -> int:
    """The HTTP status of ``error``; 500 for what no table or family lists."""
    if isinstance(error, LimitReached) and error.retry_after_s is not None:
        return 429
    listed = STATUS.get(error.code)
    if listed is not None:
        return listed
    return next((status for family, status in _FAMILIES if isinstance(error, family)), 500)


def error_body(error: AffiantError) -> bytes:
    """The JSON document for ``error``, ASCII."""
    status = status_of(error)
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    message = printable(str(error), limit=1000)
    document = {"error": {"message": message, "type": kind, "code": error.code, "param": None}}
    return json.dumps(document, ensure_ascii=True).encode("ascii")


def error_headers(error: AffiantError) -> tuple[tuple[bytes, bytes], ...]:
    """Headers that say what a client may do next."""
    if (
        isinstance(error, (LimitReached, QueueError, GatewayDraining))
        and (wait := error.retry_after_s) is not None
    ):
        soon = b"true" if wait <= _WAITED_FOR_S else b"false"
        return (b"x-should-retry", soon), (b"retry-after", str(wait).encode("ascii"))
    retry = b"true" if error.retryable else b"false"
    headers = [(b"x-should-retry", retry)]
    if status_of(error) in {429, 503} and error.retryable:
        headers.append((b"retry-after", b"1"))
    return tuple(headers)
