"""Answers that the proxy gives itself: what was refused, why, and how to ask for it.

JSON in the form of the gateway's errors, so that every client shows the message; a path that the gateway does not serve
has the error of the API that it belongs to; the reason code is stable, the
rules are ids into this agent's own profile, and nothing of another agent's policy or of the machine is shown.

Most clients show nothing of a CONNECT's answer but its reason phrase ("Tunnel connection failed: 403 ..."), so there it
is the code and the host; ``Proxy-Status`` (RFC 9209) has them in every answer of the proxy's.
"""

from __future__ import annotations

import json
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from affiant.attestation.schema.agent_routes import not_served_body
from affiant.errors import AffiantError, MalformedError, NotAllowedError, StateError, UnreachableError
from affiant.policy.decision.limit_errors import LimitReached
from affiant.sandbox.egress.http.errors import (
    ApprovalNeeded,
    EgressDenied,
    PathNotServed,
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
_PLAIN: Final = frozenset(string.ascii_letters + string.digits + " .:_-[]*")
_MOST: Final = 320
"""Characters: a code, and the longest host with its port."""
_REASONS: Final = {
    400: b"Bad Request",
    403: b"Forbidden",
    404: b"Not Found",
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
    proxy_status: str = "affiant"
    """``Proxy-Status``: the type of the error, the code, and the host."""
    reason: str | None = None
    """The reason phrase of the answer to CONNECT; None: the status code's own."""
    retry_after_s: int | None = None
    """Seconds after which the same request may find another answer."""

    def to_bytes(self, *, keep_alive: bool, with_body: bool = True) -> bytes:
        """The answer as HTTP/1.1; one to a HEAD request has no body (RFC 9110, section 9.3.2)."""
        return b"HTTP/1.1 %d %s\r\n%s\r\n%s" % (
            self.status,
            _REASONS[self.status] if self.reason is None else self.reason.encode("ascii"),
            b"".join(b"%s: %s\r\n" % field for field in self._headers(keep_alive=keep_alive)),
            self.body if with_body else b"",
        )

    def _headers(self, *, keep_alive: bool) -> Iterator[tuple[bytes, bytes]]:
        yield b"Content-Type", b"application/json"
        yield b"Content-Length", str(len(self.body)).encode("ascii")
        yield b"Cache-Control", b"no-store"
        yield b"Proxy-Status", self.proxy_status.encode("ascii")
        if self.retry_after_s is not None:
            yield b"Retry-After", str(self.retry_after_s).encode("ascii")
        yield b"Connection", b"keep-alive" if keep_alive else b"close"


def denial_of(
    refusal: AffiantError, *, record: str | None, host: str | None = None, connect: bool = False
) -> Denial:
    """The answer to a request that was refused.

    Args:
        record: id of the refusal's record in the session's chain.
        host: what was asked for, ``host:port``; None: it is not known.
        connect: whether it was CONNECT.
    """
    rules = list(refusal.rules) if isinstance(refusal, (EgressDenied, LimitReached)) else []
    if isinstance(refusal, PathNotServed):
        code = reason_of(refusal)
        body = not_served_body(refusal.method, refusal.path, code=code, record=record)
        return Denial(404, body + b"\n", _proxy_status(refusal, _said(code, host)))
    error: dict[str, object] = {
        "message": str(refusal),
        "type": "egress_denied" if isinstance(refusal, NotAllowedError) else "egress_failed",
        "code": reason_of(refusal),
        "param": None,
    }
    members: dict[str, object] = {"error": error, "rules": rules, "record": record}
    said = _said(reason_of(refusal), host)
    status, reason = _proxy_status(refusal, said), said if connect else None
    if isinstance(refusal, ApprovalNeeded):
        members["approval"] = {"action": refusal.action, "not_after": refusal.not_after}
        members["how_to_ask"] = _WAIT
        return Denial(_status(refusal), _json(members), status, reason, _RETRY_AFTER_S)
    if isinstance(refusal, NotAllowedError):
        members["how_to_ask"] = _ASK
    wait = refusal.retry_after_s if isinstance(refusal, LimitReached) else None
    return Denial(_status(refusal), _json(members), status, reason, wait)


def _proxy_status(refusal: AffiantError, said: str) -> str:
    """The field's one member (RFC 9209, sections 2 and 2.3): who answers, the type of the error, what it is about."""
    match refusal:
        case NotAllowedError():
            kind = "http_request_denied"
        case MalformedError():
            kind = "http_request_error"
        case StateError():
            kind = "proxy_internal_error"
        case UnreachableError() if refusal.code == "egress.name_unresolved":
            kind = "dns_error"
        case UnreachableError() if refusal.code.endswith(".timeout"):
            kind = "connection_timeout"
        case _:
            kind = "destination_unavailable"
    return f'affiant; error={kind}; details="{said}"'


def _said(code: str, host: str | None) -> str:
    """Code and host, of characters that a reason phrase and a quoted string may have."""
    text = code if host is None else f"{code} {host}"
    return "".join(char if char in _PLAIN else "?" for char in text)[:_MOST]


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
