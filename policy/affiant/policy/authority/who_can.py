"""Finds which agents of a file may do one thing, each with the rule that allows it or the reason of the denial."""

from __future__ import annotations

from dataclasses import dataclass

from affiant.policy.authority.authority import use_of_secret
from affiant.policy.authority.tools import ToolAuthority, tools_of
from affiant.policy.canonical.tool_origin import ANY
from affiant.policy.decision.compiled import CompiledPolicy, compile_policy
from affiant.policy.decision.decide import Decision, Effect
from affiant.policy.decision.effective import effective_egress
from affiant.policy.decision.questions import (
    EgressQuestion,
    ModelQuestion,
    Question,
    SecretQuestion,
    ToolQuestion,
    answer,
)
from affiant.policy.loading.profile_set import Profile, ProfileSet

__all__ = ["AgentDecision", "may", "who_can"]


@dataclass(frozen=True, slots=True)
class AgentDecision:
    """What one agent's profile says; ``only`` is the condition of a yes, as words: empty where there is none."""

    profile: Profile
    decision: Decision
    only: str

    @property
    def may(self) -> bool:
        """Whether the agent may, perhaps once a person has approved it."""
        return self.decision.effect is not Effect.DENY


def who_can(profiles: ProfileSet, question: Question) -> tuple[AgentDecision, ...]:
    """The answer of every agent, in the order of the file."""
    found = []
    for profile in profiles.profiles.values():
        compiled = compile_policy(profile.policy, asks=True)
        decision = may(compiled, question)
        only = _condition(compiled, question) if decision.effect is not Effect.DENY else ""
        found.append(AgentDecision(profile, decision, only))
    return tuple(found)


def may(compiled: CompiledPolicy, question: Question) -> Decision:
    """What is decided where it is enforced: a request with its connection, a secret with the requests that carry it.

    A model is asked for at an attested upstream, where the most is allowed; a tool without arguments, with any that a
    rule allows.

    Args:
        compiled: with ``asks``.
        question: about anything.
    """
    match question:
        case ToolQuestion(arguments=None):
            decision = answer(compiled, question)
            if decision.effect is Effect.DENY or _calls(compiled, question):
                return decision
            return Decision(Effect.DENY, "tool_argument_refused", nearest=decision.rules[0])
        case EgressQuestion():
            return effective_egress(compiled, question)
        case ModelQuestion(name):
            return compiled.decide_model(name, attested=True)
        case SecretQuestion():
            return use_of_secret(compiled, question)
        case _:
            return answer(compiled, question)


def _condition(compiled: CompiledPolicy, question: Question) -> str:
    match question:
        case ModelQuestion() if answer(compiled, question).effect is Effect.DENY:
            return "at an attested upstream"
        case ToolQuestion(arguments=None) if all(
            tool.arguments is not None for tool in _calls(compiled, question)
        ):
            return "with arguments that its rule allows"
        case _:
            return ""


def _calls(compiled: CompiledPolicy, question: ToolQuestion) -> list[ToolAuthority]:
    """The rules for a tool that some call fits."""
    return [
        tool
        for tool in tools_of(compiled)
        if tool.name == question.name
        and tool.effect is not Effect.DENY
        and all(ANY in pair or len(set(pair)) == 1 for pair in zip(tool.origin, question.origin, strict=True))
    ]
