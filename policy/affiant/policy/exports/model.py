"""Defines an export: documents for another tool, and a ledger of what they do not express of each rule.

No export is silently wider than the profile. A rule that the target cannot say exactly is said more strictly; where it
could only be said more loosely, it is left out, unless the caller accepts that kind of loss. What the target has no
words for at all (a firewall and the tools of an agent) it neither grants nor denies: that is reported as *unjudged*,
which is wider, because something else must enforce it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from affiant.command_line import printable
from affiant.policy.decision.limit_words import most_words, profile_limits
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model.profile_limits import rule_limits
from affiant.policy.model.share import NO_SHARE, share_words

__all__ = ["PROFILE", "Document", "Export", "Ledger", "Loss", "Outcome", "Target", "header_lines"]

PROFILE: Final = "profile"
"""The place of a loss that belongs to no single rule."""


class Outcome(StrEnum):
    """What became of a rule, or of a part of one."""

    OMITTED = "omitted"
    """It is left out: the target could only say more than it."""
    NARROWED = "narrowed"
    """The target says less than it."""
    WIDENED = "widened"
    """The target says more than it, as was asked for."""
    UNJUDGED = "unjudged"
    """The target does not judge this at all: something else has to."""

    @property
    def is_wider(self) -> bool:
        """Whether the target alone lets an agent do more than the profile does."""
        return self in (Outcome.WIDENED, Outcome.UNJUDGED)


@dataclass(frozen=True, slots=True)
class Loss:
    """One thing that the target does not say.

    ``rule`` is a rule id (``egress/0``, ``limits/tokens``), ``approval``, ``models``, ``resources`` or :data:`PROFILE`.
    ``kind`` is a stable word; ``allow_wider``: ``--allow-wider`` with it would write the rule all the same.
    """

    rule: str
    kind: str
    outcome: Outcome
    text: str
    allow_wider: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """One file of an export. ``suffix`` follows the agent's name: ``.cedar``."""

    suffix: str
    text: str


@dataclass(frozen=True, slots=True)
class Export:
    """One profile, exported; the losses in the order of its rules."""

    profile: Profile
    target: str
    documents: tuple[Document, ...]
    losses: tuple[Loss, ...]

    def where(self, rule: str) -> str:
        """``file:line:column`` of a rule, or of the profile."""
        return self.profile.where(rule)

    @property
    def files(self) -> tuple[tuple[str, str], ...]:
        """The name and the text of each document."""
        return tuple((f"{self.profile.name}{each.suffix}", each.text) for each in self.documents)

    @property
    def exact(self) -> tuple[str, ...]:
        """The rules that the target says exactly."""
        lost = {loss.rule for loss in self.losses}
        return tuple(rule for rule in self.profile.places if rule not in lost)


@dataclass(frozen=True, slots=True)
class Target:
    """Where profiles can be exported to; ``wider``: the kinds of losses that may be accepted, and what they mean."""

    name: str
    wider: Mapping[str, str]
    export: Callable[[Profile, frozenset[str]], Export]


class Ledger:
    """The losses of one export while it is made.

    Args:
        wider: the kinds that the caller accepts.
    """

    def __init__(self, wider: frozenset[str]) -> None:
        self._wider = wider
        self._losses: list[Loss] = []

    def may_say(self, rule: str, more: Mapping[str, str]) -> bool:
        """Whether an allow is to be written that would say more than ``rule``.

        Args:
            more: for each kind of loss, what more it would say; empty: it is exact.
        """
        accepted = self._wider.issuperset(more)
        outcome = Outcome.WIDENED if accepted else Outcome.OMITTED
        self._losses += [Loss(rule, kind, outcome, text, allow_wider=True) for kind, text in more.items()]
        return accepted

    def omitted(self, rule: str, kind: str, text: str) -> None:
        """``rule`` is left out, whatever is accepted."""
        self._losses.append(Loss(rule, kind, Outcome.OMITTED, text))

    def narrowed(self, rule: str, kind: str, text: str) -> None:
        """``rule`` is said more strictly."""
        self._losses.append(Loss(rule, kind, Outcome.NARROWED, text))

    def unjudged(self, rule: str, kind: str, text: str) -> None:
        """The target has no words for it."""
        self._losses.append(Loss(rule, kind, Outcome.UNJUDGED, text))

    def export(self, profile: Profile, target: str, documents: Iterable[Document]) -> Export:
        """What was made, with its losses in the order of the rules."""
        order = {
            rule: number for number, rule in enumerate((*profile.places, "approval", "models", "resources"))
        }
        omitted = {loss.rule for loss in self._losses if loss.outcome is Outcome.OMITTED}
        uncounted = [loss for loss in _uncounted(profile) if loss.rule not in omitted]
        losses = sorted(
            dict.fromkeys((*self._losses, *uncounted)), key=lambda loss: order.get(loss.rule, len(order))
        )
        return Export(profile, target, tuple(documents), tuple(losses))


def _uncounted(profile: Profile) -> Iterator[Loss]:
    """Every limit of the profile and of its rules: no target counts in the life of a session."""
    for name, bounds in profile_limits(profile.compiled.limits):
        if bounds:
            text = f"nothing is counted: {most_words(name, bounds)}"
            yield Loss(f"limits/{name}", "limit", Outcome.UNJUDGED, text)
    if (share := profile.compiled.share) != NO_SHARE:
        yield Loss(PROFILE, "share", Outcome.UNJUDGED, f"nobody waits in a queue: {share_words(share)}")
    for rule, name, bounds in rule_limits(profile.policy):
        yield Loss(rule, "limit", Outcome.UNJUDGED, f"nothing is counted: {most_words(name, bounds)}")


def header_lines(profile: Profile, target: str) -> tuple[str, ...]:
    """What every document begins with, as comments or as one text."""
    source = printable(profile.mark.source).replace("\n", " ")
    return (
        f"Generated by 'affiant policy compile --target {target}': change the profile, not this file.",
        f"Profile: {profile.name} ({source})",
        f"Policy digest: {profile.digest}",
    )
