"""Combines the decisions about a request and its connection, as an egress proxy asks for both."""

from __future__ import annotations

from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.decide import Decision, Effect
from affiant.policy.decision.questions import EgressQuestion
from affiant.policy.model.profile import Scheme, TLSMode

__all__ = ["effective_egress"]


def effective_egress(policy: CompiledPolicy, question: EgressQuestion) -> Decision:
    """Whether a request goes out, as a proxy asks: first for the connection, then for the request inside.

    Where the connection is passed through, requests inside are not seen, and the decision about the connection is the
    only one.
    """
    host, port, scheme = question.host, question.port, question.scheme.value
    connection = policy.decide_egress(host=host, port=port, scheme=scheme)
    if question.method is None or (
        question.scheme is Scheme.HTTPS and policy.tls_mode(host, port) is TLSMode.PASSTHROUGH
    ):
        return connection
    request = policy.decide_egress(
        host=host, port=port, scheme=scheme, method=question.method, target=question.target
    )
    for effect in (Effect.DENY, Effect.ASK):
        for decision in (request, connection):
            if decision.effect is effect:
                return decision
    return request
