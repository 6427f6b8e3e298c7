"""Makes a proposal from a log and checks its claims: it loads, allows what was used, and is no wider.

A draft that does not hold is not shown. That would be a mistake of ours, and a reviewer would have to find it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from affiant.errors import AffiantError
from affiant.policy.canonical.errors import excerpt
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.questions import (
    ModelQuestion,
    Question,
    SecretQuestion,
    ToolQuestion,
    answer,
    parse_question,
)
from affiant.policy.diff.differences import Difference, compare_profiles
from affiant.policy.learn.draft import Draft, draft_profile
from affiant.policy.learn.draft_text import Source, draft_text, use_text
from affiant.policy.learn.learned import Learned, LearningRefused, Use
from affiant.policy.loading.load import load_profiles
from affiant.policy.loading.profile_set import Profile, ProfileSet
from affiant.policy.model.profile import ToolRule

__all__ = ["Proposal", "propose"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """Drafts of all agents, the file that they are, and that file loaded."""

    drafts: tuple[Draft, ...]
    text: str
    profiles: ProfileSet


def propose(learned: Learned, source: Source, *, keep: frozenset[str], include_denied: bool) -> Proposal:
    """The proposal, held against ``learned`` and against the profiles to start from.

    Raises:
        LearningRefused: it would not load, or not allow what was used, or be wider; nothing is proposed.
    """
    start = {} if source.start is None else source.start.profiles
    drafted = frozenset(learned.agents) if source.start is None else learned.agents.keys() & start.keys()
    drafts = tuple(
        draft_profile(
            name,
            agent,
            _start_of(start.get(name), source),
            others=frozenset(drafted - {name}),
            keep=keep,
            include_denied=include_denied,
        )
        for name, agent in sorted(learned.agents.items())
    )
    text = draft_text(drafts, learned, source)
    try:
        profiles = load_profiles(text.encode(), source="the draft")
    except AffiantError as error:
        raise LearningRefused(
            "the draft would not load as a profile: it is too large, or the requests contradict each other",
            found=str(error),
            hint="Let paths be subtrees (--generalize-paths 2), draft one --agent at a time, or learn from logs of one "
            "policy version",
        ) from error
    for draft in drafts:
        _check_used(draft, learned, profiles)
        if not include_denied and source.start is not None:
            _check_width(draft.agent, source.start.profiles.get(draft.agent), profiles)
    return Proposal(drafts, text, profiles)


def _start_of(profile: Profile | None, source: Source) -> Profile | None:
    """The profile to start from: of an agent that has none in a file that was named, one that allows nothing."""
    if profile is not None or source.start is None:
        return profile
    nothing = load_profiles(b"agent_configs: {none: {models: []}}", source=source.start.source)
    return nothing.profile("none")


def _check_used(draft: Draft, learned: Learned, profiles: ProfileSet) -> None:
    """Everything that was used, and that a rule can name, is allowed: for each, the first request as it was."""
    unspeakable = {each.use for each in draft.withheld}
    for use, seen in learned.agents[draft.agent].used.items():
        if use in unspeakable:
            continue
        profile = profiles.profiles.get(draft.agent)
        if profile is None or not _allows(profile.compiled, use, seen.sample or use.question):
            raise LearningRefused("the draft does not allow what was used", found=excerpt(use_text(use)))


def _allows(policy: CompiledPolicy, use: Use, question: Question) -> bool:
    match question:
        case ModelQuestion(name):
            decision = policy.decide_model(name, attested=use.attested)
        case SecretQuestion(name, host, port):
            surface = use.surface or _surface_of(policy, name)
            decision = policy.decide_secret(name, host=host, port=port, scheme="https", surface=surface)
        case _:
            decision = answer(policy, question)
    return decision.effect is Effect.ALLOW


def _surface_of(policy: CompiledPolicy, name: str) -> str:
    return next((grant.surface for grant in policy.secret_grants() if grant.name == name), "")


def _check_width(agent: str, start: Profile | None, profiles: ProfileSet) -> None:
    """By the exact comparison, nothing is allowed that was not before."""
    made = profiles.profiles.get(agent)
    for each in _wider(compare_profiles(agent, start, made), start, made):
        raise LearningRefused(
            "the draft would be wider than the profile to start from", found=excerpt(each.request)
        )


def _wider(found: Iterable[Difference], start: Profile | None, made: Profile | None) -> Iterable[Difference]:
    """Those that are wider; a tool whose rules are the same is no difference, however many its calls are."""
    for each in found:
        if each.direction.is_wider and not (each.plane == "call" and _same_rules(each.request, start, made)):
            yield each


def _same_rules(request: str, start: Profile | None, made: Profile | None) -> bool:
    question = parse_question(request.removeprefix("arguments of "))
    return isinstance(question, ToolQuestion) and _tool_rules(start, question.name) == _tool_rules(
        made, question.name
    )


def _tool_rules(profile: Profile | None, name: str) -> set[ToolRule]:
    rules = () if profile is None else profile.policy.tools
    return {rule for rule in rules if isinstance(rule, ToolRule) and rule.name == name}
