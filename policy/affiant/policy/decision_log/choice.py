"""Filters recorded decisions, and adds what profile files know of them: agents and the lines of rules. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from affiant.policy.decision.questions import plane_of
from affiant.policy.decision_log.reader import RecordedDecision, agents_of
from affiant.policy.loading.profile_set import ProfileSet

__all__ = ["Choice", "KnownProfiles"]

_NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Choice:
    """Which decisions were asked for; an empty set: any. One that does not say what is asked is none of them.

    Args:
        decided: ``allow``, ``ask``, ``deny``, as it was enforced.
        since: seconds since 1970; until: before these.
    """

    agents: frozenset[str] = frozenset()
    sessions: frozenset[str] = frozenset()
    planes: frozenset[str] = frozenset()
    decided: frozenset[str] = frozenset()
    reasons: frozenset[str] = frozenset()
    since: float | None = None
    until: float | None = None

    @property
    def timed(self) -> bool:
        """Whether only decisions of some time were asked for."""
        return self.since is not None or self.until is not None

    def has(self, recorded: RecordedDecision) -> bool:
        """Whether ``recorded`` is one of them."""
        return (
            (not self.agents or recorded.agent in self.agents)
            and (not self.sessions or recorded.session in self.sessions)
            and (not self.planes or plane_of(recorded.question) in self.planes)
            and (not self.decided or recorded.enforced.value in self.decided)
            and (not self.reasons or recorded.reason in self.reasons)
            and (not self.timed or self._in_time(recorded.ts))
        )

    def _in_time(self, ts: int | None) -> bool:
        return ts is not None and (self.since or 0) <= ts and (self.until is None or ts < self.until)


class KnownProfiles:
    """What profile files add to decisions: the agent, and the places of the rules.

    Profiles of one digest have the same rules; their places are those of the first that was given.
    """

    def __init__(self, *files: ProfileSet) -> None:
        self.agents = agents_of(*files)
        self._places: dict[str, Mapping[str, str]] = {}
        for file in files:
            for profile in file.profiles.values():
                places = {rule: str(mark) for rule, mark in profile.places.items()}
                self._places.setdefault(profile.digest, places)

    def places(self, recorded: RecordedDecision) -> Mapping[str, str]:
        """Rule id -> its place; nothing if the profile that decided is in no file."""
        return self._places.get(recorded.policy_digest or "", _NOTHING)
