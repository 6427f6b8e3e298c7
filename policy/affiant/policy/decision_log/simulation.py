"""Decides recorded requests again by another version of a profile file, and collects what changes.

What was decided before is what the log says, or, with an older file, what that file says today. Whatever the log's
length, what is kept is bounded: so many agents, so many groups of changes, so many samples of each; what goes beyond is
counted, never dropped in silence.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from affiant.policy.canonical.tool_origin import Origin
from affiant.policy.decision.compiled import CompiledPolicy, compile_policy
from affiant.policy.decision.decide import Decision, Effect
from affiant.policy.decision.questions import (
    EgressQuestion,
    ModelQuestion,
    PathQuestion,
    PortQuestion,
    ProviderToolQuestion,
    SecretQuestion,
    StartQuestion,
    ToolQuestion,
    answer,
    plane_of,
)
from affiant.policy.decision_log.reader import RecordedDecision
from affiant.policy.loading.profile_set import ProfileSet
from affiant.policy.model.profile import ToolRule

__all__ = [
    "NO_PROFILE",
    "AgentCount",
    "ChangeGroup",
    "ReplayedProfiles",
    "Sample",
    "Simulation",
    "simulate",
]

NO_PROFILE: Final = "agent_without_profile"
"""The reason where a file has no profile for the agent: everything is denied."""

_MAX_AGENTS: Final = 1000
_MAX_GROUPS: Final = 2000
_MAX_SAMPLES: Final = 3
_MAX_NAME: Final = 255
_MAX_REQUEST: Final = 1000
"""Characters of a name and of a request, which a log may make much longer."""
_ORDER: Final = (Effect.DENY, Effect.ASK, Effect.ALLOW)


@dataclass(frozen=True, slots=True)
class Sample:
    """One changed decision: its log and line, both reasons, and the places of the rules that decide now."""

    log: str
    line: int
    request: str
    reason_before: str
    reason: str
    rules: tuple[tuple[str, str], ...]

    def place(self, *, several: bool) -> str:
        """Its place: among ``several`` logs with the log's name."""
        return f"{self.log}:{self.line}" if several else f"line {self.line}"


@dataclass(slots=True)
class ChangeGroup:
    """Changes of one agent that are alike: to one tool, host, model, secret or tree of paths, in one way.

    ``kind`` is ``tool``, ``provider_tool``, ``host``, ``model``, ``secret``, ``port``, ``start`` or ``path``;
    ``name`` whose.
    """

    agent: str
    kind: str
    name: str
    before: Effect
    after: Effect
    count: int = 0
    samples: list[Sample] = field(default_factory=list)

    @property
    def is_wider(self) -> bool:
        """Whether the agent may do more than before."""
        return _ORDER.index(self.after) > _ORDER.index(self.before)


@dataclass(slots=True)
class AgentCount:
    """How many decisions an agent has in the log, and how many of them become wider and narrower."""

    decisions: int = 0
    wider: int = 0
    narrower: int = 0


@dataclass(slots=True)
class Simulation:
    """What a replay found.

    Args:
        agents: by name; ``""`` counts those beyond the bound.
        groups: in the order in which they were met.
        ungrouped: changes beyond the bound of groups.
        not_reproduced: decisions that the older file decides differently from what was recorded; they were made by
            another policy, or in circumstances that the line does not tell.
        other_policy: lines that name another policy than the older file's profile.
        untold: calls whose arguments decide, and are not in the log; taken to be decided as they were.
    """

    agents: dict[str, AgentCount] = field(default_factory=dict)
    groups: dict[tuple[str, str, str, Effect, Effect], ChangeGroup] = field(default_factory=dict)
    ungrouped: int = 0
    not_reproduced: int = 0
    other_policy: int = 0
    untold: int = 0

    @property
    def decisions(self) -> int:
        """Lines that were read."""
        return sum(agent.decisions for agent in self.agents.values())

    @property
    def wider(self) -> int:
        """Decisions by which an agent may do more than before."""
        return sum(agent.wider for agent in self.agents.values())

    @property
    def narrower(self) -> int:
        """Decisions by which an agent may do less than before."""
        return sum(agent.narrower for agent in self.agents.values())

    def agent(self, name: str) -> AgentCount:
        """The counts of an agent; beyond the bound those of all others."""
        if name not in self.agents and len(self.agents) >= _MAX_AGENTS:
            name = ""
        return self.agents.setdefault(name, AgentCount())


def simulate(
    recorded: Iterable[RecordedDecision], new: ProfileSet, *, old: ProfileSet | None = None
) -> Simulation:
    """Replay ``recorded`` against ``new``.

    Args:
        recorded: read to its end, one at a time.
        old: compare with what this file decides, instead of with what was recorded.
    """
    found = Simulation()
    after, before = ReplayedProfiles(new), None if old is None else ReplayedProfiles(old)
    for each in recorded:
        was, reason = each.effect, each.reason
        if before is not None:
            decided = before.decide(each) or Decision(each.effect, each.reason)
            found.not_reproduced += decided.effect is not each.effect
            found.other_policy += each.policy_digest not in (None, before.digest(each.agent))
            was, reason = decided.effect, decided.reason
        _count(found, each, was, reason, after)
    return found


def _count(
    found: Simulation, each: RecordedDecision, was: Effect, reason: str, after: ReplayedProfiles
) -> None:
    decision = after.decide(each)
    if decision is None:
        found.untold += 1
        decision = Decision(was, reason)
    agent = found.agent(each.agent)
    agent.decisions += 1
    if decision.effect is was:
        return
    kind, name = _subject(each)
    name = _short(name, _MAX_NAME)
    key = (each.agent, kind, name, was, decision.effect)
    group = found.groups.get(key) or ChangeGroup(*key)
    agent.wider += group.is_wider
    agent.narrower += not group.is_wider
    if key not in found.groups and len(found.groups) >= _MAX_GROUPS:
        found.ungrouped += 1
        return
    found.groups[key] = group
    group.count += 1
    if len(group.samples) < _MAX_SAMPLES:
        places = after.places(each.agent, decision)
        request = _short(each.request, _MAX_REQUEST)
        group.samples.append(Sample(each.log, each.line, request, reason, decision.reason, places))


def _subject(each: RecordedDecision) -> tuple[str, str]:
    match each.question:
        case EgressQuestion(host=host):
            return "host", host
        case PortQuestion(number=number):
            return "port", str(number)
        case PathQuestion(path=path):
            return "path", "/" + path.removeprefix("/").partition("/")[0]
        case (
            ToolQuestion(name=name)
            | ProviderToolQuestion(name=name)
            | ModelQuestion(name=name)
            | SecretQuestion(name=name)
            | StartQuestion(name=name)
        ):
            return plane_of(each.question), name


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + "..."


class ReplayedProfiles:
    """The profiles of a file, which say *ask* where a person must approve."""

    def __init__(self, profiles: ProfileSet) -> None:
        self._profiles = profiles.profiles
        self._compiled: dict[str, CompiledPolicy] = {
            name: compile_policy(profile.policy, asks=True) for name, profile in profiles.profiles.items()
        }

    def digest(self, agent: str) -> str | None:
        """The digest of the agent's profile."""
        return self._compiled[agent].digest if agent in self._compiled else None

    def decide(self, each: RecordedDecision) -> Decision | None:
        """The decision; None where arguments decide that the log does not tell."""
        policy = self._compiled.get(each.agent)
        if policy is None:
            return Decision(Effect.DENY, NO_PROFILE)
        match each.question:
            case ToolQuestion(name, origin=origin) if each.withheld:
                return _decide_withheld(policy, name, origin, each)
            case ModelQuestion(name):
                return policy.decide_model(name, attested=each.attested)
            case SecretQuestion(name, host, port) if each.surface is not None:
                return policy.decide_secret(name, host=host, port=port, scheme="https", surface=each.surface)
            case question:
                return answer(policy, question)

    def decide_by_name(self, each: RecordedDecision) -> Decision:
        """As :meth:`decide`; where arguments decide that the log does not tell, whether some could be allowed."""
        decision = self.decide(each)
        if decision is None:
            assert isinstance(each.question, ToolQuestion)
            decision = self._compiled[each.agent].decide_tool(each.question.name, each.question.origin)
        return decision

    def places(self, agent: str, decision: Decision) -> tuple[tuple[str, str], ...]:
        """The rules that decided and their places; those of the nearest allow if none did."""
        rules = decision.rules or ((decision.nearest,) if decision.nearest else ())
        return tuple((rule, str(self._profiles[agent].places[rule])) for rule in rules)


def _decide_withheld(
    policy: CompiledPolicy, name: str, origin: Origin, each: RecordedDecision
) -> Decision | None:
    """What is known of a call without its arguments."""
    by_name = policy.decide_tool(name, origin)
    if by_name.effect is Effect.DENY:
        return by_name
    if each.reason == "tool_arguments_malformed" or each.policy_digest == policy.digest:
        return Decision(
            each.effect, each.reason, each.rules
        )  # what no policy, or this one, has decided before
    judged = any(
        isinstance(rule, ToolRule) and rule.name == name and rule.arguments is not None
        for rule in policy.policy.tools
    )
    return None if judged else by_name
