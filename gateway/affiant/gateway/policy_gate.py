"""What a session's policy says of a request: its model, the tools it offers, the tools that an answer calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from affiant.gateway.account import Account, Verdict
from affiant.gateway.errors import ModelNotAllowed, UpstreamNotAttested
from affiant.gateway.tool_filter import Judge
from affiant.policy.compiled import CompiledPolicy

__all__ = ["decide_model", "judge_of", "may_offer", "tools_verdict"]


def judge_of(policy: CompiledPolicy) -> Judge:
    """By which rules a tool of a name may be called with its arguments."""

    def judge(name: str, arguments: str | None) -> tuple[str, ...] | None:
        decision = policy.decide_call(name, arguments)
        return decision.rules if decision.allowed else None

    return judge


def may_offer(policy: CompiledPolicy) -> Callable[[str], bool]:
    """Whether a tool of a name may be offered: it may then be called with some arguments."""
    return lambda name: policy.decide_tool(name).allowed


def decide_model(policy: CompiledPolicy, model: str, account: Account) -> tuple[str, ...]:
    """The rules that allow ``model``; a denial is kept in ``account`` for the record.

    Raises:
        ModelNotAllowed: the profile does not list it.
        UpstreamNotAttested: it does, but for an attested upstream, and none is.
    """
    decision = policy.decide_model(model, attested=False)
    if decision.allowed:
        return decision.rules
    account.verdict = Verdict("deny", decision.rules)
    if decision.reason == "model_upstream_unattested":
        raise UpstreamNotAttested(decision.text, hint="Configure an upstream that can be attested")
    raise ModelNotAllowed(decision.text, found=model[:64])


def tools_verdict(policy: CompiledPolicy, tools: Sequence[str | None], rules: tuple[str, ...]) -> Verdict:
    """Whether the offered tools stand (``allow``) or some must go (``redact``).

    Args:
        tools: their names; None: one without a name of its own.
        rules: those that fired before.
    """
    if not policy.restricts_tools:
        return Verdict("allow", rules)
    decisions = [policy.decide_tool(name or "") for name in tools]
    fired = sorted({rule for decision in decisions if decision.allowed for rule in decision.rules})
    redacted = not all(decision.allowed for decision in decisions)
    return Verdict("redact" if redacted else "allow", (*rules, *fired))
