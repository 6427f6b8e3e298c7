"""Counts what agents used and were denied in a decision log, in bounded memory.

Used is what was allowed when it was asked for, and what the profile to start from allows too, if there is one; all else
is denied, and only ever proposed to a person. A tool that was only offered to a model was not used. Where a log names
more different requests than a person could review, nothing is learned: a part of them would be a profile that somebody
believes.

>>> from affiant.policy.decision_log.reader import read_decision_log
>>> line = b'{"agent":"dev","decision":"allow","reason":"allowed","request":"GET https://api.b.com/v1/a/b"}'
>>> found = learn(read_decision_log([line, line]), paths_below=2)
>>> [(use.question.target, seen.count) for use, seen in found.agents["dev"].used.items()]
[('/v1/a/**', 2)]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from affiant.errors import ConfigurationError
from affiant.policy.canonical.hosts import covering_patterns
from affiant.policy.canonical.targets import path_pattern
from affiant.policy.decision.decide import Decision, Effect
from affiant.policy.decision.questions import EgressQuestion, Question, ToolQuestion, plane_of
from affiant.policy.decision_log.reader import RecordedDecision
from affiant.policy.decision_log.simulation import ReplayedProfiles
from affiant.policy.loading.profile_set import ProfileSet
from affiant.policy.model.profile import EgressRule, Policy

__all__ = ["Learned", "LearnedAgent", "LearningRefused", "Seen", "Use", "learn"]

MAX_USES: Final = 20_000
"""Different requests of all agents together; a list of a profile has at most 1,024 entries."""
MAX_DENIED: Final = 1_000
"""Different requests of one agent that are listed; those beyond are counted. An agent can ask for anything."""
_MAX_AGENTS: Final = 1_000
_MAX_RULES: Final = 64


class LearningRefused(ConfigurationError):
    """No profile can be drafted from this log."""

    code = "policy.learn"


@dataclass(frozen=True, slots=True)
class Use:
    """One request, as far as a rule can name it.

    Args:
        question: of a tool without its arguments; of a request, ``target`` is its path.
        subtree: ``target`` ends with ``/**`` and stands for all below. A path may end so itself, and is no subtree.
        attested: a model at an upstream that was verified.
        surface: where a secret's placeholder was.
    """

    question: Question
    subtree: bool = False
    attested: bool = False
    surface: str | None = None


@dataclass(slots=True)
class Seen:
    """How often, and when first and last (seconds since 1970; None where no line says).

    ``rules``: ids of the rules of the profile to start from that decided. ``reasons``: why it was denied. ``sample``:
    the first of these requests, as it was.
    """

    count: int = 0
    first: int | None = None
    last: int | None = None
    rules: set[str] = field(default_factory=set)
    reasons: set[str] = field(default_factory=set)
    sample: Question | None = None

    def add(self, ts: int | None, rules: Iterable[str]) -> None:
        """Count one more."""
        self.count += 1
        if ts is not None:
            self.first = ts if self.first is None else min(self.first, ts)
            self.last = ts if self.last is None else max(self.last, ts)
        if len(self.rules) < _MAX_RULES:
            self.rules.update(rules)

    def join(self, other: Seen) -> None:
        """Count all that ``other`` counts."""
        self.count += other.count
        for ts in (other.first, other.last):
            if ts is not None:
                self.first = ts if self.first is None else min(self.first, ts)
                self.last = ts if self.last is None else max(self.last, ts)
        self.rules |= other.rules
        self.reasons |= other.reasons


@dataclass(slots=True)
class LearnedAgent:
    """One agent's requests. ``denied`` has what is not allowed by rules without a person; ``unlisted`` counts those
    beyond the bound. ``planes``: of which some decision was read."""

    used: dict[Use, Seen] = field(default_factory=dict)
    asked: dict[Use, Seen] = field(default_factory=dict)
    denied: dict[Use, Seen] = field(default_factory=dict)
    offered: dict[Use, Seen] = field(default_factory=dict)
    decisions: int = 0
    unlisted: int = 0
    planes: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Learned:
    """What a log says, by agent. ``seen``: all of it."""

    agents: dict[str, LearnedAgent] = field(default_factory=dict)
    seen: Seen = field(default_factory=Seen)
    uses: int = 0


def learn(
    recorded: Iterable[RecordedDecision], *, start: ProfileSet | None = None, paths_below: int | None = None
) -> Learned:
    """Count what ``recorded`` says.

    Args:
        recorded: read to its end, one at a time.
        start: what these profiles do not allow counts as denied.
        paths_below: a path of more segments than this stands for the subtree below so many of them, or for the next
            smaller one that ``start`` allows as a whole. None: every path is exact.

    Raises:
        LearningRefused: more different requests, or agents, than a person could review.
    """
    found = Learned()
    profiles = None if start is None else ReplayedProfiles(start)
    for each in recorded:
        found.seen.add(each.ts, ())
        agent = _agent(found, each.agent)
        agent.decisions += 1
        agent.planes.add(plane_of(each.question))
        policy = None if start is None or each.agent not in start.profiles else start.profile(each.agent)
        use = _use(each, None if policy is None else policy.compiled.policy, paths_below)
        _count(found, agent, each, use, None if profiles is None else profiles.decide_by_name(each))
    return found


def _count(
    found: Learned, agent: LearnedAgent, each: RecordedDecision, use: Use, start: Decision | None
) -> None:
    effect, reason = each.effect, each.reason
    if start is not None and _ORDER[start.effect] < _ORDER[effect]:
        effect, reason = start.effect, start.reason
    rules = () if start is None else start.rules
    if each.offered:
        kept = agent.offered
    else:
        kept = {Effect.ALLOW: agent.used, Effect.ASK: agent.asked, Effect.DENY: agent.denied}[effect]
    if use not in kept and not _room(found, agent, kept):
        agent.unlisted += 1
        return
    seen = kept.setdefault(use, Seen(sample=each.question))
    seen.add(each.ts, rules)
    if effect is not Effect.ALLOW:
        seen.reasons.add(reason)


_ORDER: Final = {Effect.DENY: 0, Effect.ASK: 1, Effect.ALLOW: 2}


def _room(found: Learned, agent: LearnedAgent, kept: dict[Use, Seen]) -> bool:
    """Whether one more different request is kept; of what was used, none may be left out."""
    if kept is not agent.used:
        return len(kept) < MAX_DENIED
    found.uses += 1
    if found.uses > MAX_USES:
        raise LearningRefused(
            "the log names more different requests than anybody would review",
            expected=f"at most {MAX_USES}",
            hint="Let paths be subtrees (--generalize-paths 2), or one --agent at a time",
        )
    return True


def _agent(found: Learned, name: str) -> LearnedAgent:
    if name not in found.agents and len(found.agents) >= _MAX_AGENTS:
        raise LearningRefused("the log names too many agents", expected=f"at most {_MAX_AGENTS}")
    return found.agents.setdefault(name, LearnedAgent())


def _use(each: RecordedDecision, start: Policy | None, paths_below: int | None) -> Use:
    match each.question:
        case ToolQuestion(name, origin=origin):
            return Use(ToolQuestion(name, None, origin))
        case EgressQuestion(target=str(target)) as question:
            path = target.partition("?")[0]
            exact = replace(question, target=path)
            if each.effect is not Effect.ALLOW or paths_below is None:
                return Use(exact)
            return _generalized(exact, path, paths_below, start)
        case question:
            return Use(question, attested=each.attested, surface=each.surface)


def _generalized(question: EgressQuestion, path: str, below: int, start: Policy | None) -> Use:
    """The subtree that stands for a path; the path itself where there is none that ``start`` allows as a whole."""
    segments = path.split("/")[1:]
    for kept in range(max(below, 1), len(segments)):
        pattern = "/" + "/".join(segments[:kept]) + "/**"
        if "*" not in pattern[:-2] and (start is None or _covered(question, pattern, start)):
            return Use(replace(question, target=pattern), subtree=True)
    return Use(question)


def _covered(question: EgressQuestion, pattern: str, policy: Policy) -> bool:
    """Whether one rule allows all of a subtree; denials are kept beside it."""
    wanted = path_pattern(pattern).path
    return any(
        isinstance(rule, EgressRule)
        and (rule.port, rule.scheme) == (question.port, question.scheme)
        and rule.host in covering_patterns(question.host)
        and (rule.methods is None or question.method in rule.methods)
        and (rule.paths is None or any(_holds(own, wanted) for own in rule.paths))
        for rule in policy.egress
    )


def _holds(own: str, wanted: str) -> bool:
    pattern = path_pattern(own)
    return pattern.subtree and wanted.startswith(pattern.path)
