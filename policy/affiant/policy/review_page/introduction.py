"""Makes the head of the page: what it is about, its digests, and numbers that link to the sections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from affiant.policy.review.edition import Edition
from affiant.policy.review.review import Review

__all__ = ["facts", "tiles"]


class _Fact(NamedTuple):
    """A row of the section "What this is"."""

    term: str
    value: str
    note: str = ""
    look: str = ""
    """``name`` or ``digest``: a word that is shown as code."""


def tiles(review: Review) -> Iterator[Mapping[str, object]]:
    """Numbers, what they count, and the sections that show it. ``look`` is a class of the style."""
    agents, findings = review.new.agents, review.findings
    yield _tile(len(agents), "agent", "agents", "short")
    yield _tile(sum(len(each.profile.places) for each in agents), "rule", "rules", "rules")
    if review.old is not None:
        wider = sum(group.first.direction.is_wider for group in review.groups)
        more, less = "in which more is allowed", "in which less is allowed"
        yield _tile(wider, f"way {more}", f"ways {more}", "changes", look="bad", sign="+")
        yield _tile(len(review.groups) - wider, f"way {less}", f"ways {less}", "changes", sign="\u2212")
    yield _tile(len(findings), "warning", "warnings", "warnings", look="warn")
    unlimited = sum(any(reach.unrestricted for reach in each.hosts) for each in agents)
    yield _tile(unlimited, "agent with an unlimited host", "agents with an unlimited host", "matrix")
    steered = len({found.agent for found in findings if found.code == "outsiders_can_steer"})
    many = "agents that outsiders can steer"
    yield _tile(steered, "agent that outsiders can steer", many, "warnings", look="bad")
    secrets = {secret.grant.name for each in agents for secret in each.secrets}
    yield _tile(len(secrets), "secret named", "secrets named", "secrets")


def _tile(
    number: int, one: str, many: str, section: str, *, look: str = "plain", sign: str = ""
) -> Mapping[str, object]:
    return {
        "number": f"{sign}{number}" if number else "0",
        "counts": one if number == 1 else many,
        "section": section,
        "look": look if number else "plain",
    }


def facts(review: Review) -> Iterator[_Fact]:
    """By which a reader finds the same file."""
    new = review.new.profiles
    yield _Fact("File", new.source, look="name")
    meaning = "of the meaning: all profiles of the file"
    yield _Fact("Policy digest (SHA-384)", new.digest, meaning, look="digest")
    yield _Fact("File's bytes (SHA-256)", new.source_digest, "as sha256sum prints it", look="digest")
    yield from _baseline(review.new, "Baseline policy", "Baseline policy's digest (SHA-384)")
    if review.old is not None:
        old = review.old.profiles
        yield _Fact("Compared with", old.source, look="name")
        yield _Fact("Its policy digest", old.digest, look="digest")
        yield _Fact("Its bytes", old.source_digest, look="digest")
        yield from _baseline(review.old, "Its baseline policy", "Its baseline policy's digest")
    if review.at is not None:
        yield _Fact("Reviewed at", review.at, "as given by the person who made this page")
    yield _Fact("Made by", review.builder)


def _baseline(edition: Edition, title: str, digest: str) -> Iterator[_Fact]:
    named = edition.documents[1:]
    if not named:
        yield _Fact(title, "none: the file names no denials of an organisation")
        return
    yield _Fact(title, named[0].name, "denials that are merged into every profile", "name")
    found = dict.fromkeys(each.compiled.policy.floor for each in edition.agents)
    yield from (_Fact(digest, each, look="digest") for each in found if each is not None)
