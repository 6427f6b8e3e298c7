"""What a session's policy says of a request: its model, the tools it offers, the tools that are called.

One function judges every call of a tool, whether a model makes it in an answer or an agent at the tool gate
(:func:`decide_call`), and one whether a tool may be shown to a model or an agent at all (:func:`may_offer`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from affiant.errors import NotAllowedError
from affiant.gateway.dialects.dialect import ModelRequest, Offered
from affiant.gateway.dialects.judged_calls import Judge
from affiant.gateway.dialects.named_urls import MOST_URLS, NamedURL
from affiant.gateway.requests.account import Account, RequestDecision
from affiant.gateway.sessions.decisions import SILENT, DecisionSink
from affiant.gateway.wire.errors import ModelAnswerError, RequestMalformed, ToolNotAllowedError
from affiant.policy.canonical.errors import HostRefused, TargetRefused
from affiant.policy.canonical.tool_origin import Origin
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.decide import Decision, Effect, granted
from affiant.policy.decision.fetches import NOT_COUNTED, decide_fetch
from affiant.policy.decision.questions import (
    EgressQuestion,
    ModelQuestion,
    ProviderToolQuestion,
    ToolQuestion,
)
from affiant.policy.decision_log.record import NAMELESS
from affiant.policy.model.profile import Scheme

__all__ = [
    "OriginOf",
    "decide_call",
    "decide_fetches",
    "decide_model",
    "decide_tools",
    "judge_of",
    "may_offer",
    "own_origin",
    "require_answered",
    "require_listed",
    "undigested_origin",
]

_UNKNOWN: Final = Origin()
_MOST_URL_CHARACTERS: Final = 8 << 10
"""Of all URLs of one request: a record holds them."""

OriginOf = Callable[[Offered], Origin]
"""Where a tool that a request offers comes from, as far as is known."""


def own_origin(offered: Offered) -> Origin:
    """The agent's own word for a tool: no server's."""
    return Origin(None, offered.schema)


def undigested_origin(offered: Offered) -> Origin:
    """As :func:`own_origin`, where nothing reads the digest of the definition; it takes long to compute."""
    del offered
    return _UNKNOWN


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

    def judge(name: str, arguments: str | None, *, provider: bool = False) -> Decision:
        if provider:
            decision = policy.decide_provider_tool(name)
            sink(ProviderToolQuestion(name), decision)
            return decision
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
            return policy.decide_provider_tool(tool.provider).allowed
        return policy.decide_tool(tool.name or "", origin_of(tool)).effect is not Effect.DENY

    return offered


def decide_model(
    policy: CompiledPolicy, request: ModelRequest, account: Account, *, sink: DecisionSink = SILENT
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
            model=answered,
            rules=decision.rules,
        )


def require_listed(
    policy: CompiledPolicy, request: ModelRequest, *, sink: DecisionSink = SILENT
) -> tuple[str, ...]:
    """The rules by which the provider may run the tools that ``request`` lets it run; nothing else in it may reach one.

    Raises:
        ``request.unlisted``: it has something that the lists of its dialect do not have.
        ToolNotAllowedError: the profile does not allow one of these tools.
    """
    if not policy.restricts_tools:
        return ()
    unlisted, provider_tools = request.members
    if unlisted is not None:
        raise ToolNotAllowedError(
            "the request has something that the gateway does not know, and the profile restricts tools",
            where=unlisted,
            hint="If it reaches no tool, let the operator list it: affiant gateway serve --allow-member",
            code="request.unlisted",
        )
    rules: dict[str, None] = {}
    for tool in provider_tools:
        decision = policy.decide_provider_tool(tool.name)
        sink(ProviderToolQuestion(tool.name), decision)
        if not decision.allowed:
            raise ToolNotAllowedError(
                f"the request lets the model's provider run a tool: {decision.text}",
                where=tool.where,
                reason=decision.reason,
                rules=decision.rules,
                tool=tool.name,
            )
        rules |= dict.fromkeys(decision.rules)
    return tuple(rules)


def decide_fetches(
    policy: CompiledPolicy, named: Sequence[NamedURL], account: Account, *, sink: DecisionSink = SILENT
) -> tuple[str, ...]:
    """The rules that allow what the upstream may fetch for a request, decided as if the agent fetched it itself.

    ``account`` keeps what is fetched, and a denial for the record. *Ask* denies: no person is asked here.

    Raises:
        ``url.not_canonical``: a path, an address, or a URL that programs read differently. ``url.not_allowed``: the
            profile does not allow one, or not without a person's approval. RequestMalformed: too many.
    """
    if len(named) > MOST_URLS or sum(len(each.text) for each in named) > _MOST_URL_CHARACTERS:
        raise RequestMalformed(
            "the request names too many URLs",
            expected=f"at most {MOST_URLS}, of {_MOST_URL_CHARACTERS} characters together",
            where=named[-1].where[:200],
        )
    rules: dict[str, None] = {}
    fetched = []
    for each in named:
        account.decided = RequestDecision("deny")
        where = each.where[:200]
        try:
            url, decision = decide_fetch(policy, each.text, each.method)
        except (HostRefused, TargetRefused) as error:
            raise NotAllowedError(
                f"the upstream would fetch this, and it is no URL of one meaning: {error.message}",
                expected="a data: URL, or https://host/path with a host name",
                where=where,
                code="url.not_canonical",
            ) from error
        if decision.reason != NOT_COUNTED:  # a limit: as others, it has no line in a decision log
            sink(EgressQuestion(url.host, url.port, Scheme(url.scheme), each.method, url.target), decision)
        if not decision.allowed:
            account.decided = RequestDecision("deny", decision.rules)
            raise NotAllowedError(
                f"the upstream would fetch this URL for the agent: {decision.text}",
                found=f"{each.method} {url.scheme}://{url.host}:{url.port}",
                where=where,
                hint="Let the agent fetch it and send the content as a data: URL",
                code="url.not_allowed",
            )
        rules |= dict.fromkeys(decision.rules)
        fetched.append(f"{each.method} {url}")
    account.decided, account.fetched = None, tuple(fetched)
    return tuple(rules)


def decide_tools(
    policy: CompiledPolicy,
    request: ModelRequest,
    rules: tuple[str, ...],
    origin_of: OriginOf = own_origin,
    *,
    sink: DecisionSink = SILENT,
) -> RequestDecision:
    """Whether the tools that ``request`` offers stay (``allow``) or some must go (``redact``).

    Args:
        rules: those that fired before, of :func:`require_listed` too.
    """
    if not request.tools or not policy.restricts_tools:
        return RequestDecision("allow", rules)
    judged = {tool.name for tool in request.members.provider_tools}
    decisions = []
    for tool in request.tools:
        if tool.provider is not None and tool.provider in judged:
            continue
        name, origin = tool.name or "", origin_of(tool)
        decision = policy.decide_tool(name, origin)
        sink(ToolQuestion(name, None, origin), decision, offered=True)
        decisions.append(decision)
    kept = [decision for decision in decisions if decision.effect is not Effect.DENY]
    fired = sorted({rule for decision in kept for rule in decision.rules})
    redacted = len(kept) < len(decisions)
    return RequestDecision("redact" if redacted else "allow", (*rules, *fired))
