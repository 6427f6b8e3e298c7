"""Makes the head of the page: what it is about, its digests, and the numbers that link to the sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from affiant.policy.review.edition import Edition
from affiant.policy.review.review import Review

__all__ = ["editions", "numbers"]


def numbers(review: Review) -> Mapping[str, int]:
    """How many of each there are."""
    agents, findings = review.new.agents, review.findings
    wider = sum(group.first.direction.is_wider for group in review.groups)
    return {
        "agents": len(agents),
        "rules": sum(len(each.profile.places) for each in agents),
        "wider": wider,
        "narrower": len(review.groups) - wider,
        "warnings": len(findings),
        "unlimited": sum(any(reach.unrestricted for reach in each.hosts) for each in agents),
        "steered": len({found.agent for found in findings if found.code == "outsiders_can_steer"}),
        "secrets": len({secret.grant.name for each in agents for secret in each.secrets}),
    }


def editions(review: Review) -> Sequence[Mapping[str, object]]:
    """By which a reader finds the same files: this version, and the one that it is compared with."""
    return [_edition(each) for each in (review.new, review.old) if each is not None]


def _edition(edition: Edition) -> Mapping[str, object]:
    profiles = edition.profiles
    floors = dict.fromkeys(each.compiled.policy.floor for each in edition.agents)
    return {
        "file": profiles.source,
        "digest": profiles.digest,
        "source_digest": profiles.source_digest,
        "floor": next((each.name for each in edition.documents[1:]), ""),
        "floor_digests": [each for each in floors if each is not None],
    }
