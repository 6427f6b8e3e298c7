"""Answers that the proxy gives itself: what was refused, why, and how to ask for it.

JSON in the form of the gateway's errors, so that every client shows the message; the reason code is stable, the
rules are ids into this agent's own profile, and nothing of another agent's policy or of the machine is shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from affiant.errors import AffiantError, MalformedError, NotAllowedError, StateError, UnreachableError
from affiant.policy.decision.limit_errors import LimitReached
from affiant.sandbox.egress.http.errors import (
    ApprovalNeeded,
    EgressDenied,
    PeerSilent,
    RequestTooLarge,
    reason_of,
)

__all__ = ["Denial", "denial_of"]

_ASK: Final = (
    "What this agent may reach is in its permission profile. Ask the profile's reviewers to list the "
    "host, port, method and path there ('affiant policy explain' shows which part is missing)."
)
_WAIT: Final = (
    "An approver was asked. Send exactly the same request again before 'not_after' (seconds since 1970): once it is "
    "approved, it goes out, one time."
)
_RETRY_AFTER_S: Final = 10
_REASONS: Final = {
    400: b"Bad Request",
    403: b"Forbidden",
    408: b"Request Timeout",
    413: b"Content Too Large",
    429: b"Too Many Requests",
    502: b"Bad Gateway",
    503: b"Service Unavailable",
    504: b"Gateway Timeout",
}


@dataclass(frozen=True, slots=True)
class Denial:
    """One complete answer."""

    status: int
    body: bytes
    retry_after_s: int | None = None
    """Seconds after which the same request may find another answer."""

    def to_bytes(self, *, keep_alive: bool, with_body: bool = True) -> bytes:
        """The answer as HTTP/1.1; one to a HEAD request has no body (RFC 9110, section 9.3.2)."""
        return b"HTTP/1.1 %d %s\r\n%s\r\n%s" % (
            self.status,
            _REASONS[self.status],
            b"".join(b"%s: %s\r\n" % field for field in self._headers(keep_alive=keep_alive)),
            self.body if with_body else b"",
        )

    def _headers(self, *, keep_alive: bool) -> Iterator[tuple[bytes, bytes]]:
        yield b"Content-Type", b"application/json"
        yield b"Content-Length", str(len(self.body)).encode("ascii")
        yield b"Cache-Control", b"no-store"
        if self.retry_after_s is not None:
            yield b"Retry-After", str(self.retry_after_s).encode("ascii")
        yield b"Connection", b"keep-alive" if keep_alive else b"close"


def denial_of(refusal: AffiantError, *, record: str | None) -> Denial:
    """The answer to a request that was refused.

    Args:
        record: id of the refusal's record in the session's chain.
    """
    rules = list(refusal.rules) if isinstance(refusal, (EgressDenied, LimitReached)) else []
    error: dict[str, object] = {
        "message": str(refusal),
        "type": "egress_denied" if isinstance(refusal, NotAllowedError) else "egress_failed",
        "code": reason_of(refusal),
        "param": None,
    }
    members: dict[str, object] = {"error": error, "rules": rules, "record": record}
    if isinstance(refusal, ApprovalNeeded):
        members["approval"] = {"action": refusal.action, "not_after": refusal.not_after}
        members["how_to_ask"] = _WAIT
        return Denial(_status(refusal), _json(members), _RETRY_AFTER_S)
    if isinstance(refusal, NotAllowedError):
        members["how_to_ask"] = _ASK
    wait = refusal.retry_after_s if isinstance(refusal, LimitReached) else None
    return Denial(_status(refusal), _json(members), wait)


def _status(refusal: AffiantError) -> int:
    match refusal:
        case RequestTooLarge():
            return 413
        case PeerSilent():
            return 408
        case MalformedError() if refusal.code.startswith(("egress.", "policy.")):
            return 400
        case LimitReached() if refusal.retry_after_s is not None:
            return 429
        case NotAllowedError():
            return 403
        case StateError():
            return 503
        case UnreachableError() if refusal.code.endswith(".timeout"):
            return 504
        case _:
            return 502


def _json(members: Mapping[str, object]) -> bytes:
    return json.dumps(members, ensure_ascii=True).encode("ascii") + b"\n"
