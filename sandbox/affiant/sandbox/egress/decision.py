"""The decision about one connection or request: canonical form first, then the profile, then the placeholders.

Pure: no clock, no network, no record. What comes out is exactly what will be sent, and nothing is sent that did
not come out of here. Substitution happens later and elsewhere, in the broker's process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from affiant.policy.compiled import CompiledPolicy
from affiant.policy.decide import Decision
from affiant.policy.profile import EgressRule, SecretGrant, TLSMode
from affiant.sandbox.egress.errors import EgressDenied
from affiant.sandbox.egress.origin import Origin
from affiant.sandbox.egress.request_head import HeaderField, RequestHead
from affiant.secrets.detection import SecretUse, judge_head
from affiant.secrets.placeholder import PlaceholderTable

__all__ = [
    "AllowedRequest",
    "GrantedUse",
    "chosen_by_agent",
    "judge_connection",
    "judge_request",
    "reference_of",
]

_NOT_FORWARDED: Final = frozenset(
    {
        b"connection", b"content-length", b"expect", b"forwarded", b"host", b"keep-alive", b"proxy-authorization",
        b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"via", b"x-forwarded-for",
        b"x-forwarded-proto", b"x-forwarded-port", b"x-real-ip",
    }
)  # fmt: skip
"""Headers of this hop, and those by which a server would be told who is asking from where."""


@dataclass(frozen=True, slots=True)
class GrantedUse:
    """A secret use that the profile allows: the placeholder's place, and the rule that allows it."""

    use: SecretUse
    rule: str
    ref: str


@dataclass(frozen=True, slots=True)
class AllowedRequest:
    """A request that may be sent, exactly as it will be sent but for the substitution."""

    origin: Origin
    method: str
    target: str
    headers: tuple[HeaderField, ...]
    rules: tuple[str, ...]
    uses: tuple[GrantedUse, ...]
    length: int | None
    """Bytes of the body; None: chunked."""


def judge_connection(policy: CompiledPolicy, origin: Origin) -> tuple[Decision, TLSMode]:
    """Whether a tunnel to ``origin`` may be opened, and whether it will be read.

    Raises:
        EgressDenied: the profile says no.
    """
    decision = _demand(
        lambda: policy.decide_egress(host=origin.host, port=origin.port, scheme=origin.scheme),
        origin.authority,
    )
    return decision, policy.tls_mode(origin.host, origin.port)


def judge_request(
    policy: CompiledPolicy, table: PlaceholderTable, *, origin: Origin, head: RequestHead, target: str
) -> AllowedRequest:
    """The request as it may be sent.

    Args:
        target: canonical, and ``Host`` agreed with ``origin``, before this is asked.

    Raises:
        EgressDenied: the profile denies the request, or a secret in it.
        SecretNotBound, PlaceholderMisplaced: a placeholder where it is not bound to.
    """
    decision = _demand(
        lambda: policy.decide_egress(
            host=origin.host, port=origin.port, scheme=origin.scheme, method=head.method, target=target
        ),
        f"{head.method} {origin.authority}",
    )
    headers = _forwarded(head, origin)
    uses = judge_head(
        table,
        scheme=origin.scheme,
        host=origin.host,
        port=origin.port,
        target=target.encode("ascii"),
        headers=headers,
    )
    return AllowedRequest(
        origin=origin,
        method=head.method,
        target=target,
        headers=headers,
        rules=decision.rules,
        uses=tuple(_granted(policy, origin, use) for use in uses),
        length=head.length,
    )


def _granted(policy: CompiledPolicy, origin: Origin, use: SecretUse) -> GrantedUse:
    decision = _demand(
        lambda: policy.decide_secret(
            use.name, host=origin.host, port=origin.port, scheme=origin.scheme, surface=use.surface
        ),
        f"secret {use.name}",
    )
    grant = next(grant for grant in policy.secret_grants() if grant.name == use.name)
    return GrantedUse(use, decision.rules[0], reference_of(grant))


def chosen_by_agent(policy: CompiledPolicy, origin: Origin) -> bool:
    """Whether an allowed host is named by no rule in full: looking its name up then says what the agent likes."""
    return not any(isinstance(rule, EgressRule) and rule.host == origin.host for rule in policy.policy.egress)


def reference_of(grant: SecretGrant) -> str:
    """Where a granted secret is kept: as the profile says, else in the local store under its own name."""
    return grant.ref or f"local:{grant.name}"


def _demand(decide: Callable[[], Decision], what: str) -> Decision:
    """The decision, if it allows; one that cannot be made denies (negative test L4)."""
    try:
        decision = decide()
    except Exception as error:
        raise EgressDenied(f"the decision failed ({what})", reason="policy_failed", rules=()) from error
    if not decision.allowed:
        raise EgressDenied(f"{decision.text} ({what})", reason=decision.reason, rules=decision.rules)
    return decision


def _forwarded(head: RequestHead, origin: Origin) -> tuple[HeaderField, ...]:
    """The headers that are sent, ``Host`` first and in its one spelling, the framing's after it."""
    framing: tuple[HeaderField, ...] = ()
    if head.length is None:
        framing = ((b"Transfer-Encoding", b"chunked"),)
    elif head.length or head.value(b"content-length") is not None:
        framing = ((b"Content-Length", str(head.length).encode("ascii")),)
    kept = tuple((name, value) for name, value in head.headers if name.lower() not in _NOT_FORWARDED)
    return ((b"Host", origin.authority.encode("ascii")), *framing, *kept)
