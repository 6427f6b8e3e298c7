"""The decision about one connection or request: canonical form first, then the profile, then the placeholders.

No clock, no network, no record; the profile's decisions go to a ``DecisionSink``, if a decision log
was asked for. What comes out is exactly what will be sent, and nothing is sent that did not come out of
here. Substitution happens later and elsewhere, in the broker's process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from affiant.errors import AffiantError
from affiant.policy.canonical.request_names import asks_for_a_part
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.decide import Decision, Effect
from affiant.policy.decision.questions import EgressQuestion, Question, SecretQuestion
from affiant.policy.model.profile import EgressRule, Scheme, SecretGrant, TLSMode
from affiant.policy.model.token_exchange import TokenExchange
from affiant.sandbox.egress.http.errors import EgressDenied
from affiant.sandbox.egress.http.origin import Origin
from affiant.sandbox.egress.http.request_head import HeaderField, RequestHead
from affiant.secrets.injection.body_surface import MAX_HELD_BODY
from affiant.secrets.injection.detection import (
    SecretUse,
    holds_secrets,
    judge_body,
    judge_head,
    without_placeholders,
)
from affiant.secrets.injection.placeholder import PlaceholderTable
from affiant.secrets.injection.signing_surface import is_signing
from affiant.secrets.names.errors import SecretBodyTooLarge, SecretNotBound

__all__ = [
    "SILENT",
    "AllowedRequest",
    "DecisionSink",
    "GrantedUse",
    "as_approved",
    "chosen_by_agent",
    "judge_connection",
    "judge_held_body",
    "judge_request",
    "may_hold_secrets",
    "may_pass_unheld",
    "reference_of",
]

_NOT_AS_SHOWN: Final = frozenset(
    {
        b"accept-encoding", b"amz-sdk-invocation-id", b"amz-sdk-request", b"proxy-authenticate", b"traceparent",
        b"tracestate",
    }
)  # fmt: skip
"""What differs each time that it is sent, or what the broker leaves out, or sets to a value of its own."""

_NOT_FORWARDED: Final = frozenset(
    {
        b"connection", b"content-length", b"expect", b"forwarded", b"host", b"keep-alive", b"proxy-authorization",
        b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"via", b"x-forwarded-for",
        b"x-forwarded-proto", b"x-forwarded-port", b"x-real-ip",
    }
)  # fmt: skip
"""Headers of this hop, and those by which a server would learn who is asking from where."""


class DecisionSink(Protocol):
    """Takes the profile's decisions for a decision log, so that the proxy writes no file.

    Each is noted before anything of it happens. What is rejected for its form, its address, a misplaced placeholder or
    a spent budget has its record in the session's chain, and no line here.
    """

    def instant(self) -> int:
        """Nanoseconds of a clock that never goes back."""
        ...

    def note(
        self,
        question: Question,
        decision: Decision,
        *,
        took_ns: int = 0,
        surface: str | None = None,
        target_hidden: bool = False,
        size: int | None = None,
    ) -> None:
        """Take one decision.

        Args:
            question: host, port and target canonical.
            surface: where a secret's placeholder is.
            target_hidden: the target holds a placeholder.
            size: bytes of the request's body, where its head says so.

        Raises:
            AffiantError: it cannot be taken, so what was decided does not happen.
        """
        ...


class _Silent:
    """No decision log was asked for."""

    def instant(self) -> int:
        return 0

    def note(self, *_facts: object, **_more: object) -> None:
        return


SILENT: Final[DecisionSink] = _Silent()


@dataclass(frozen=True, slots=True)
class GrantedUse:
    """A secret use that the profile allows: the placeholder's place, and the rule that allows it.

    ``exchange``: how a token takes the secret's place; None: the secret itself is sent.
    """

    use: SecretUse
    rule: str
    ref: str
    exchange: TokenExchange | None = None


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
    asks: bool = False
    """Whether an approver must agree first: nothing is sent without a grant."""


def judge_connection(
    policy: CompiledPolicy, origin: Origin, notes: DecisionSink = SILENT
) -> tuple[Decision, TLSMode]:
    """Whether a tunnel to ``origin`` may be opened, and whether it will be read.

    Where approval is needed, each request inside an inspected tunnel is asked for by itself; what is inside a tunnel
    that is not read cannot be shown to an approver, so that one is denied.

    Raises:
        EgressDenied: the profile says no. AffiantError: the decision could not be noted.
    """
    decision, took = _decided(
        lambda: policy.decide_egress(host=origin.host, port=origin.port, scheme=origin.scheme),
        origin.authority,
        notes,
    )
    notes.note(_question(origin), decision, took_ns=took)
    mode = policy.tls_mode(origin.host, origin.port)
    if decision.effect is Effect.ASK and mode is not TLSMode.INSPECT:
        raise EgressDenied(
            f"a connection that is not read cannot be approved ({origin.authority})",
            reason="approval_unshowable",
            rules=decision.rules,
        )
    return _demand(decision, origin.authority, asking=True), mode


def judge_request(
    policy: CompiledPolicy,
    table: PlaceholderTable,
    *,
    origin: Origin,
    head: RequestHead,
    target: str,
    notes: DecisionSink = SILENT,
) -> AllowedRequest:
    """The request as it may be sent.

    Args:
        target: canonical, and ``Host`` agreed with ``origin``, before this is asked.

    Raises:
        EgressDenied: the profile denies the request, or a secret in it.
        SecretNotBound, PlaceholderMisplaced: a placeholder where it is not bound to.
        AffiantError: a decision could not be noted.
    """
    what = f"{head.method} {origin.authority}"
    decision, took = _decided(
        lambda: policy.decide_egress(
            host=origin.host, port=origin.port, scheme=origin.scheme, method=head.method, target=target
        ),
        what,
        notes,
    )
    question = _question(origin, head.method, target)
    asks = decision.effect is Effect.ASK
    if not (decision.allowed or asks):
        hidden = _holds_placeholder(table, origin, target)
        notes.note(question, decision, took_ns=took, target_hidden=hidden, size=head.length)
        _demand(decision, what, asking=False)
    headers = _forwarded(head, origin)
    try:
        uses = judge_head(
            table,
            scheme=origin.scheme,
            host=origin.host,
            port=origin.port,
            target=target.encode("ascii"),
            headers=headers,
        )
    except SecretNotBound as error:
        _note_unbound(policy, table, origin, error, notes)
        raise
    shown = without_placeholders(target.encode("ascii"), uses).decode("ascii")
    notes.note(_question(origin, head.method, shown), decision, took_ns=took, size=head.length)
    return AllowedRequest(
        origin=origin,
        method=head.method,
        target=target,
        headers=headers,
        rules=decision.rules,
        uses=tuple(_granted(policy, origin, use, notes, asked=asks) for use in uses),
        length=head.length,
        asks=asks,
    )


def may_hold_secrets(table: PlaceholderTable, allowed: AllowedRequest) -> bool:
    """Whether a secret of this session may be in the request's body, or signs it: it is then judged as a whole."""
    return allowed.length != 0 and holds_secrets(
        table,
        scheme=allowed.origin.scheme,
        host=allowed.origin.host,
        port=allowed.origin.port,
        headers=allowed.headers,
    )


def may_pass_unheld(allowed: AllowedRequest) -> AllowedRequest:
    """The request, if it may go on with a body that is too long to be held.

    Raises:
        SecretBodyTooLarge: a key signs it, and so all of its body before any of it is sent.
    """
    for granted in allowed.uses:
        if is_signing(granted.use.surface):
            raise SecretBodyTooLarge(
                "a body that is signed is read whole, and this one is too long",
                where=granted.use.name,
                expected=f"at most {MAX_HELD_BODY} bytes",
            )
    return allowed


def judge_held_body(
    policy: CompiledPolicy,
    table: PlaceholderTable,
    allowed: AllowedRequest,
    body: bytes,
    notes: DecisionSink = SILENT,
) -> AllowedRequest:
    """The request with the secrets that are in its whole body.

    Raises:
        EgressDenied: the profile denies one of them. PlaceholderMisplaced: a placeholder anywhere else.
        AffiantError: a decision could not be noted.
    """
    origin = allowed.origin
    uses = judge_body(
        table, scheme=origin.scheme, host=origin.host, port=origin.port, headers=allowed.headers, body=body
    )
    granted = tuple(_granted(policy, origin, use, notes, asked=allowed.asks) for use in uses)
    return replace(allowed, uses=(*allowed.uses, *granted))


def _granted(
    policy: CompiledPolicy, origin: Origin, use: SecretUse, notes: DecisionSink, *, asked: bool
) -> GrantedUse:
    """A secret's use; where it needs approval, that of the request that carries it is meant (``asked``)."""
    what = f"secret {use.name}"
    decision, took = _decided(
        lambda: policy.decide_secret(
            use.name, host=origin.host, port=origin.port, scheme=origin.scheme, surface=use.surface
        ),
        what,
        notes,
    )
    question = SecretQuestion(use.name, origin.host, origin.port)
    notes.note(question, decision, took_ns=took, surface=use.surface)
    _demand(decision, what, asking=asked)
    grant = next(grant for grant in policy.secret_grants() if grant.name == use.name)
    return GrantedUse(use, decision.rules[0], reference_of(grant), grant.inject.exchange)


def _note_unbound(
    policy: CompiledPolicy,
    table: PlaceholderTable,
    origin: Origin,
    error: SecretNotBound,
    notes: DecisionSink,
) -> None:
    """A secret that is wanted where the profile does not bind it: the table refused it, and the profile says why."""
    binding = table.binding(error.where or "")
    if binding is not None and origin.scheme == "https":
        surface = binding.surface.label
        decision = policy.decide_secret(
            binding.name, host=origin.host, port=origin.port, scheme=origin.scheme, surface=surface
        )
        notes.note(SecretQuestion(binding.name, origin.host, origin.port), decision, surface=surface)


def chosen_by_agent(policy: CompiledPolicy, origin: Origin) -> bool:
    """Whether an allowed host is named by no rule in full: looking its name up then says what the agent likes."""
    return not any(isinstance(rule, EgressRule) and rule.host == origin.host for rule in policy.policy.egress)


def as_approved(allowed: AllowedRequest, table: PlaceholderTable) -> AllowedRequest:
    """The request without those headers that would be shown and not be sent as shown, or differ each time.

    The broker leaves out what asks for a part of an answer only where it holds a secret.
    """
    guarded = len(table) > 0
    kept = tuple(
        (name, value)
        for name, value in allowed.headers
        if name.lower() not in _NOT_AS_SHOWN and not (guarded and asks_for_a_part(name.decode("latin-1")))
    )
    return replace(allowed, headers=kept)


def reference_of(grant: SecretGrant) -> str:
    """Where a granted secret is kept: as the profile says, else in the local store under its own name."""
    return grant.ref or f"local:{grant.name}"


def _decided(decide: Callable[[], Decision], what: str, notes: DecisionSink) -> tuple[Decision, int]:
    """The decision and how many nanoseconds it took; one that cannot be made denies (negative test L4)."""
    began = notes.instant()
    try:
        decision = decide()
    except Exception as error:
        raise EgressDenied(f"the decision failed ({what})", reason="policy_failed", rules=()) from error
    return decision, notes.instant() - began


def _demand(decision: Decision, what: str, *, asking: bool) -> Decision:
    """The decision, if it allows, or asks where the caller has that answered (``asking``)."""
    if not (decision.allowed or (asking and decision.effect is Effect.ASK)):
        raise EgressDenied(f"{decision.text} ({what})", reason=decision.reason, rules=decision.rules)
    return decision


def _question(origin: Origin, method: str | None = None, target: str | None = None) -> EgressQuestion:
    return EgressQuestion(origin.host, origin.port, Scheme(origin.scheme), method, target)


def _holds_placeholder(table: PlaceholderTable, origin: Origin, target: str) -> bool:
    """Whether a target that is refused anyway holds a placeholder in any encoding: it is repeated nowhere."""
    try:
        uses = judge_head(
            table,
            scheme=origin.scheme,
            host=origin.host,
            port=origin.port,
            target=target.encode("ascii"),
            headers=(),
        )
    except AffiantError:
        return True
    return bool(uses)


def _forwarded(head: RequestHead, origin: Origin) -> tuple[HeaderField, ...]:
    """The headers that are sent, ``Host`` first and in canonical form, the framing's after it."""
    framing: tuple[HeaderField, ...] = ()
    if head.length is None:
        framing = ((b"Transfer-Encoding", b"chunked"),)
    elif head.length or head.value(b"content-length") is not None:
        framing = ((b"Content-Length", str(head.length).encode("ascii")),)
    kept = tuple((name, value) for name, value in head.headers if name.lower() not in _NOT_FORWARDED)
    return ((b"Host", origin.authority.encode("ascii")), *framing, *kept)
