"""What the egress proxy refuses, each with its stable code.

::

    MalformedError
    +-- RequestMalformed       egress.request          not an HTTP/1.1 request that every server reads alike
    +-- RequestAmbiguous       egress.ambiguous        two servers could read it as two different requests
    +-- RequestTooLarge        egress.too_large        head or body beyond its bound
    +-- ClientHelloMalformed   egress.client_hello     not a TLS ClientHello, or one that cannot be judged
    NotAllowedError
    +-- MethodRefused          egress.method           TRACE, CONNECT inside, lower case, or an override header
    +-- UpgradeRefused         egress.upgrade          a protocol that is not judged
    +-- HostMismatch           egress.host_mismatch    Host, target, CONNECT and SNI do not name one host
    +-- ServerNameMissing      egress.sni_missing      no SNI, or one that is hidden (ECH)
    +-- EgressDenied           egress.denied           the profile says no; carries its reason and rules
    |   +-- ApprovalNeeded     egress.denied           an approver must agree first; names what to wait for
    +-- AddressForbidden       egress.address          a name leads to an address that is never dialled
    +-- NameBudgetSpent        egress.name_budget      too many different names were asked for
    UnreachableError
    +-- NameUnresolved         egress.name_unresolved  an allowed name has no address
    +-- PeerSilent             egress.timeout          the agent sent nothing for too long
    StateError
    +-- RecordsUnavailable     egress.no_record        an action whose record cannot be kept does not happen
    +-- RequestCut             egress.cut              broken off before it went out: a narrowing, or the end

A text here quotes at most a short excerpt of what the agent sent, and no header value or query at all.
"""

from __future__ import annotations

from affiant.errors import AffiantError, MalformedError, NotAllowedError, StateError, UnreachableError

__all__ = [
    "AddressForbidden",
    "ApprovalNeeded",
    "ClientHelloMalformed",
    "EgressDenied",
    "HostMismatch",
    "MethodRefused",
    "NameBudgetSpent",
    "NameUnresolved",
    "PeerSilent",
    "RecordsUnavailable",
    "RequestAmbiguous",
    "RequestCut",
    "RequestMalformed",
    "RequestTooLarge",
    "ServerNameMissing",
    "UpgradeRefused",
    "excerpt",
    "reason_of",
]


class RequestMalformed(MalformedError):
    """Not an HTTP/1.1 request in the one form that every server reads alike."""

    code = "egress.request"


class RequestAmbiguous(MalformedError):
    """Two servers could take the bytes for two different requests (smuggling)."""

    code = "egress.ambiguous"


class RequestTooLarge(MalformedError):
    """A head or a buffered body is larger than its bound."""

    code = "egress.too_large"


class ClientHelloMalformed(MalformedError):
    """Bytes are no TLS ClientHello, or one whose server name cannot be judged."""

    code = "egress.client_hello"


class MethodRefused(NotAllowedError):
    """A method that is never forwarded, or a header that would change the method behind the decision."""

    code = "egress.method"


class UpgradeRefused(NotAllowedError):
    """The request asks for a protocol that the proxy does not judge."""

    code = "egress.upgrade"


class HostMismatch(NotAllowedError):
    """What names the host (CONNECT, SNI, request target, ``Host``) does not agree."""

    code = "egress.host_mismatch"


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


class AddressForbidden(NotAllowedError):
    """An allowed name leads to an address that must not be dialled; one such answer refuses all."""

    code = "egress.address"


class NameBudgetSpent(NotAllowedError):
    """The session has asked for too many different names: under a wildcard they could carry data out."""

    code = "egress.name_budget"


class NameUnresolved(UnreachableError):
    """An allowed name has no address."""

    code = "egress.name_unresolved"


class PeerSilent(UnreachableError):
    """The agent sent nothing for too long."""

    code = "egress.timeout"


class RecordsUnavailable(StateError):
    """The action's record cannot be kept or acknowledged; so the action does not happen."""

    code = "egress.no_record"


class RequestCut(StateError):
    """The request was broken off before it went out: the profile is being narrowed, or the session ends."""

    code = "egress.cut"


def excerpt(text: str | bytes, limit: int = 60) -> str:
    """At most ``limit`` characters of hostile text, escaped to ASCII."""
    shown = text.decode("latin-1") if isinstance(text, bytes) else text
    return ascii(shown[:limit] + ("..." if len(shown) > limit else ""))


def reason_of(refusal: AffiantError) -> str:
    """The stable code that stands in the record and in the agent's answer."""
    return refusal.reason if isinstance(refusal, EgressDenied) else refusal.code
