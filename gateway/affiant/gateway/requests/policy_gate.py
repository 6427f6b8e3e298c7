"""What a session's policy says of a request: its model, the tools it offers, the tools that are called.

One function judges every call of a tool, whether a model makes it in an answer or an agent at the tool gate
(:func:`decide_call`), and one whether a tool may be shown to a model or an agent at all (:func:`may_offer`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from affiant.errors import NotAllowedError
from affiant.gateway.openai.chat import ChatRequest, Offered
from affiant.gateway.openai.tool_filter import Judge
from affiant.gateway.requests.account import Account, RequestDecision
from affiant.gateway.sessions.decisions import SILENT, DecisionSink
from affiant.gateway.wire.errors import ModelAnswerError, ToolNotAllowedError
from affiant.policy.canonical.tool_origin import Origin
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.decide import Decision, Effect, granted
from affiant.policy.decision.questions import ModelQuestion, ToolQuestion
from affiant.policy.decision_log.record import NAMELESS

__all__ = [
    "OriginOf",
    "decide_call",
    "decide_model",
    "decide_tools",
    "judge_of",
    "may_offer",
    "own_origin",
    "require_answered",
    "require_listed",
]

_UNKNOWN: Final = Origin()

OriginOf = Callable[[Offered], Origin]
"""Where a tool that a chat completion offers comes from, as far as is known."""


def own_origin(offered: Offered) -> Origin:
    """The agent's own word for a tool: no server's."""
    return Origin(None, offered.schema)


def decide_call(policy: CompiledPolicy, name: str, arguments: str | None, origin: Origin) -> Decision:
    """Whether a tool of a name and origin may be called with a text of arguments.

    The one place in which the gateway decides that. What needs approval is not allowed: by the policy itself where
    no person may approve (``approval_no_approver``), else as *ask*: the call is held until a person has agreed.
    """
    return policy.decide_call(name, arguments, origin)


def judge_of(
    policy: CompiledPolicy,
    offered: Sequence[Offered] = (),
    origin_of: OriginOf = own_origin,
    *,
    sink: DecisionSink = SILENT,
) -> Judge:
    """Whether a tool of a name may be called with its arguments, and by which rules.

    Args:
        offered: what the request offered; a call means each of them that has its name and may be called.
        origin_of: where they come from.
        sink: takes each decision before it has any effect; without the arguments of a call.
    """
    origins: dict[str | None, list[Origin]] = {}
    for tool in offered:
        if may_offer(policy, origin_of)(tool):
            origins.setdefault(tool.name, []).append(origin_of(tool))

    def judge(name: str, arguments: str | None) -> Decision:
        found = []
        for origin in origins.get(name, [_UNKNOWN]):
            decision = decide_call(policy, name, arguments, origin)
            sink(ToolQuestion(name, arguments or "", origin), decision)
            found.append(decision)
        stopping = next((decision for decision in found if decision.effect is Effect.DENY), None)
        if stopping is not None:
            return stopping
        rules = tuple(dict.fromkeys(rule for decision in found for rule in decision.rules))
        return granted(rules, ask=any(decision.effect is Effect.ASK for decision in found))

    return judge


def may_offer(policy: CompiledPolicy, origin_of: OriginOf = own_origin) -> Callable[[Offered], bool]:
    """Whether a tool may be offered: it may then be called with some arguments, perhaps once a person agrees."""

    def offered(tool: Offered) -> bool:
        if tool.provider is not None:
            return False
        return policy.decide_tool(tool.name or "", origin_of(tool)).effect is not Effect.DENY

    return offered


def decide_model(
    policy: CompiledPolicy, request: ChatRequest, account: Account, *, sink: DecisionSink = SILENT
) -> tuple[str, ...]:
    """The rules that allow the model of ``request``; a denial is kept in ``account`` for the record.

    Raises:
        ``model.not_allowed``: the profile does not list it, or lists models and the request may mean others.
        ``upstream.not_attested``: it does, but for an attested upstream, and none is.
    """
    listed = policy.policy.models is not None
    unclear = request.other_models if listed else None
    model = request.model if unclear is None else NAMELESS
    decision = policy.decide_model(model, attested=False)
    sink(ModelQuestion(model), decision)
    if decision.allowed:
        return decision.rules
    account.decided = RequestDecision("deny", decision.rules)
    if decision.reason == "model_upstream_unattested":
        raise NotAllowedError(
            decision.text, hint="Configure an upstream that can be attested", code="upstream.not_attested"
        )
    if unclear is not None:
        raise NotAllowedError(
            "the request allows model fallbacks: models that it does not name may answer",
            found=f"the member {unclear[:64]!a}",
            hint="The profile lists models: name one in 'model', and none elsewhere",
            code="model.not_allowed",
        )
    raise NotAllowedError(decision.text, found=model[:64], code="model.not_allowed")


def require_answered(
    policy: CompiledPolicy,
    asked: str,
    answered: str,
    aliases: Mapping[str, Sequence[str]],
    *,
    sink: DecisionSink = SILENT,
) -> None:
    """Return if a model that an answer names may answer a request for the model ``asked``, which is allowed.

    Args:
        aliases: of the gateway's configuration: names under which an upstream answers as the model that was asked for.

    Raises:
        ModelAnswerError: the profile lists models, and not this one.
    """
    if answered == asked or answered in aliases.get(asked, ()):
        return
    decision = policy.decide_model(answered, attested=False)
    sink(ModelQuestion(answered), decision)
    if not decision.allowed:
        raise ModelAnswerError(
            "the answer is from a model that the profile does not allow",
            expected=asked[:64],
            found=ascii(answered[:64]),
            hint="If it is the same model under another name, let the operator add --model-alias to the gateway",
        )


def require_listed(policy: CompiledPolicy, request: ChatRequest) -> None:
    """Return if ``request`` holds nothing by which a tool that the profile does not list could be reached.

    Raises:
        ``request.unlisted``: it has something that the lists of chat completions do not have.
        ToolNotAllowedError: it lets the provider run a tool.
    """
    if not policy.restricts_tools:
        return
    unlisted, provider_tools = request.members
    if unlisted is not None:
        raise ToolNotAllowedError(
            "the request has something that the gateway does not know, and the profile restricts tools",
            where=unlisted,
            hint="If it reaches no tool, let the operator list it: affiant gateway serve --chat-member",
            code="request.unlisted",
        )
    for tool in provider_tools:
        raise ToolNotAllowedError(
            "the request lets the model's provider run a tool, and the profile does not allow that",
            where=tool.where,
            reason="provider_tool_not_listed",
        )


def decide_tools(
    policy: CompiledPolicy,
    tools: Sequence[Offered],
    rules: tuple[str, ...],
    origin_of: OriginOf = own_origin,
    *,
    sink: DecisionSink = SILENT,
) -> RequestDecision:
    """Whether the offered tools stay (``allow``) or some must go (``redact``).

    Args:
        rules: those that fired before.
    """
    if not tools or not policy.restricts_tools:
        return RequestDecision("allow", rules)
    decisions = []
    for tool in tools:
        if tool.provider is not None:  # judged before (:func:`require_listed`)
            continue
        name, origin = tool.name or "", origin_of(tool)
        decision = policy.decide_tool(name, origin)
        sink(ToolQuestion(name, None, origin), decision, offered=True)
        decisions.append(decision)
    kept = [decision for decision in decisions if decision.effect is not Effect.DENY]
    fired = sorted({rule for decision in kept for rule in decision.rules})
    redacted = len(kept) < len(decisions)
    return RequestDecision("redact" if redacted else "allow", (*rules, *fired))
