"""Collects the facts of a review page: a version of a file, what lint finds in it, and how an older one differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from affiant.policy.diff.difference_groups import DifferenceGroup, grouped
from affiant.policy.diff.differences import Difference, compare_profiles
from affiant.policy.lint.lint import Finding, lint_profiles
from affiant.policy.loading.policy_file import PolicyFile
from affiant.policy.review.edition import Edition, edition_of

__all__ = ["Review", "review_of"]


@dataclass(frozen=True, slots=True)
class Review:
    """What is reviewed. ``left_out``: agents of the file that were not asked for.

    ``old`` is None, and ``differences`` and their ``groups`` are empty, where nothing is compared.
    ``at`` is the time that the caller names, as text; the page has no other.
    """

    new: Edition
    findings: tuple[Finding, ...]
    builder: str
    at: str | None = None
    old: Edition | None = None
    differences: tuple[Difference, ...] = ()
    groups: tuple[DifferenceGroup, ...] = ()
    left_out: int = 0


def review_of(
    file: PolicyFile,
    *,
    builder: str,
    against: PolicyFile | None = None,
    agents: Sequence[str] = (),
    at: str | None = None,
) -> Review:
    """The facts about ``file``.

    Args:
        builder: which affiant makes the page.
        against: the version to compare with.
        agents: those that the page is about; empty: all.
        at: the time to print.

    Raises:
        ``policy.unknown_agent``: neither version has one of ``agents``.
    """
    new = edition_of(file, agents=agents, prefixes="nm")
    old = None if against is None else edition_of(against, agents=agents, prefixes="op")
    for name in agents:
        if old is None or name not in old.profiles.profiles:
            new.profiles.profile(name)
    about = {each.agent for each in new.agents}
    differences = () if old is None else _compared(new, old)
    return Review(
        new,
        tuple(found for found in lint_profiles(file.profiles) if found.agent in about),
        builder,
        at=at,
        old=old,
        differences=differences,
        groups=tuple(
            group
            for _, alike in groupby(differences, key=lambda found: found.agent)
            for group in grouped(list(alike))
        ),
        left_out=len(new.profiles.profiles) - len(new.agents),
    )


def _compared(new: Edition, old: Edition) -> tuple[Difference, ...]:
    """Agent by agent, in the order of the new file; those that it has no more at the end."""
    listed = list(dict.fromkeys(each.agent for edition in (new, old) for each in edition.agents))
    profiles = ((name, old.profiles.profiles.get(name), new.profiles.profiles.get(name)) for name in listed)
    return tuple(found for each in profiles for found in compare_profiles(*each))
