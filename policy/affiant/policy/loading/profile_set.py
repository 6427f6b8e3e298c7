"""Holds the profiles of one file, each with its name, its normal form and the places of its rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from affiant.errors import ConfigurationError
from affiant.policy.canonical.errors import did_you_mean, excerpt
from affiant.policy.canonical.strict_yaml import Mark
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.decide import Decision
from affiant.policy.model.profile import Policy

__all__ = ["Profile", "ProfileSet"]


@dataclass(frozen=True, slots=True)
class Profile:
    """One agent's profile. ``places`` has the place of each rule id in the file; the digest covers no places."""

    name: str
    compiled: CompiledPolicy
    mark: Mark
    places: Mapping[str, Mark] = field(repr=False)

    def where(self, rule: str | None) -> str:
        """``file:line:column`` of a rule; that of the profile for what is no rule."""
        return str(self.places.get(rule or "", self.mark))

    def placed(self, rules: Iterable[str]) -> Sequence[Mapping[str, str]]:
        """The members of ``rules`` in a JSON document."""
        return [{"id": rule, "where": self.where(rule)} for rule in rules]

    def decided(self, decision: Decision) -> Mapping[str, object]:
        """The members of a decision by this profile in a JSON document: its reason, and the rules behind it."""
        nearest = decision.nearest
        return {
            "reason": decision.reason,
            "rules": self.placed(decision.rules),
            "nearest": None if nearest is None else self.placed([nearest])[0],
        }

    @property
    def normal_form(self) -> bytes:
        """RFC 8785 bytes; they do not hold the agent's name."""
        return self.compiled.normal_form

    @property
    def digest(self) -> str:
        """``sha384:<96 hex>`` of the normal form."""
        return self.compiled.digest

    @property
    def policy(self) -> Policy:
        """What the profile says, in the order of the normal form."""
        return self.compiled.policy


@dataclass(frozen=True, slots=True)
class ProfileSet:
    """All profiles of one file.

    ``digest`` is that of the profiles' names and digests (``sha384:``); ``source_digest`` that of the file's
    bytes (``sha256:``), which a person compares with ``sha256sum``.
    """

    profiles: Mapping[str, Profile]
    digest: str
    source_digest: str
    source: str

    def profile(self, name: str) -> Profile:
        """The profile of that agent.

        Raises:
            ``policy.unknown_agent``: the file has none of that name; the text lists those it has.
        """
        found = self.profiles.get(name)
        if found is None:
            raise ConfigurationError(
                f"no profile of the name {excerpt(name)}",
                code="policy.unknown_agent",
                where=self.source,
                hint=did_you_mean(name, self.profiles) + self._others(name),
            )
        return found

    def _others(self, name: str) -> str:
        hint = did_you_mean(name, self.profiles)
        return f" Known: {', '.join(sorted(self.profiles))}" if hint.startswith("Did") else ""
