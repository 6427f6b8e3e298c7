"""Lists the limits that a request counts against, in words; a decision about one request does not name them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.decide import Decision
from affiant.policy.decision.limit_words import most_words, profile_limits
from affiant.policy.decision.questions import (
    EgressQuestion,
    ModelQuestion,
    PathQuestion,
    PortQuestion,
    ProviderToolQuestion,
    Question,
    SecretQuestion,
    StartQuestion,
    ToolQuestion,
)
from affiant.policy.model.limits import Bound, Bounds
from affiant.policy.model.profile_limits import rule_limits

__all__ = ["applied_limits"]


def applied_limits(
    compiled: CompiledPolicy, question: Question, decision: Decision
) -> tuple[tuple[str, str], ...]:
    """The id and the words of each limit that a request counts against which is not denied.

    Of several rules that let it through, one that has no limit of its own always has room.
    """
    return tuple(
        (rule, most_words(name, bounds)) for rule, name, bounds in _applied(compiled, question, decision)
    )


def _applied(
    compiled: CompiledPolicy, question: Question, decision: Decision
) -> Iterator[tuple[str, str, Bounds]]:
    match question:
        case ToolQuestion():
            rates = compiled.tool_rates()
            if all(rule in rates for rule in decision.rules):
                yield from ((rule, "rate", rates[rule]) for rule in decision.rules)
            yield from _of_profile(compiled, "tool_calls")
        case ModelQuestion(name):
            most = compiled.max_tokens(name)
            if most is not None:
                yield from ((rule, "max_tokens", (Bound(most),)) for rule in decision.rules[:1])
            yield from _of_profile(compiled, "requests", "tokens")
        case EgressQuestion():
            limits = compiled.egress_limits()
            if all(rule in limits for rule in decision.rules):
                yield from (each for each in rule_limits(compiled.policy) if each[0] in decision.rules)
            yield from _of_profile(compiled, "bytes_out")
        case SecretQuestion() | StartQuestion():
            yield from (each for each in rule_limits(compiled.policy) if each[0] in decision.rules)
        case PathQuestion() | ProviderToolQuestion() | PortQuestion():
            return
        case _:
            assert_never(question)


def _of_profile(compiled: CompiledPolicy, *names: str) -> Iterator[tuple[str, str, Bounds]]:
    for name, bounds in profile_limits(compiled.limits):
        if name in names and bounds:
            yield f"limits/{name}", name, bounds
