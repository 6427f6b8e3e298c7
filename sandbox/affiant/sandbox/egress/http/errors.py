"""The egress proxy's errors that programs catch by name.

Their texts quote at most a short excerpt of what the agent sent, and no header value or query at all.
"""

from __future__ import annotations

from affiant.attestation.schema.agent_routes import not_served
from affiant.errors import AffiantError, MalformedError, NotAllowedError, StateError, UnreachableError

__all__ = [
    "ApprovalNeeded",
    "ClientHelloMalformed",
    "EgressDenied",
    "PathNotServed",
    "PeerSilent",
    "RecordBudgetSpent",
    "RecordsUnavailable",
    "RequestTooLarge",
    "ServerNameMissing",
    "excerpt",
    "reason_of",
]


class RequestTooLarge(MalformedError):
    """A head or a buffered body is larger than its bound."""

    code = "egress.too_large"


class ClientHelloMalformed(MalformedError):
    """Bytes are no TLS ClientHello, or one whose server name cannot be judged."""

    code = "egress.client_hello"


class ServerNameMissing(NotAllowedError):
    """A ClientHello names no server, or hides the name (ECH)."""

    code = "egress.sni_missing"


class EgressDenied(NotAllowedError):
    """The profile denies the request.

    Args:
        reason: the policy's stable reason code.
        rules: ids of the rules that decided; empty if none matched.
    """

    code = "egress.denied"

    def __init__(self, message: str, *, reason: str, rules: tuple[str, ...], hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.rules = rules


class PathNotServed(EgressDenied):
    """The gateway serves no such method and path to agents."""

    def __init__(self, method: str, path: str) -> None:
        super().__init__(not_served(method, path), reason="gateway_path", rules=())
        self.method = method
        self.path = path


class ApprovalNeeded(EgressDenied):
    """An approver has not agreed yet: the same request, sent again, finds what became of it.

    Args:
        action: SHA-256 name of what waits. not_after: until when, seconds since 1970.
    """

    def __init__(
        self, message: str, *, reason: str, rules: tuple[str, ...], action: str, not_after: int
    ) -> None:
        super().__init__(message, reason=reason, rules=rules)
        self.action = action
        self.not_after = not_after


class PeerSilent(UnreachableError):
    """The agent sent nothing for too long."""

    code = "egress.timeout"


class RecordBudgetSpent(StateError):
    """The agent caused more records than an hour's budget has, so its session is closed."""

    code = "session.budget"


class RecordsUnavailable(StateError):
    """The action's record cannot be kept or acknowledged; so the action does not happen."""

    code = "egress.no_record"


def excerpt(text: str | bytes, limit: int = 60) -> str:
    """At most ``limit`` characters of hostile text, escaped to ASCII."""
    shown = text.decode("latin-1") if isinstance(text, bytes) else text
    return ascii(shown[:limit] + ("..." if len(shown) > limit else ""))


def reason_of(refusal: AffiantError) -> str:
    """The stable code in the record and in the agent's answer."""
    return refusal.reason if isinstance(refusal, EgressDenied) else refusal.code
