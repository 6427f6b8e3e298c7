"""Checks that another profile only restricts a running session, and that its sandbox can enforce the restriction.

Two decide it, each for itself and both from normal forms alone: the session's supervisor, before it changes anything,
and its gateway, which believes no supervisor. In order:

1. all requests on which the two profiles can differ are asked of both (``differences``, exact); where one is
   allowed that was not, where two settings cannot be ordered, or where there are too many to ask, the answer is no;
2. what a sandbox was made with stays: files that are mounted and the size of the machine cannot be changed under
   processes that run.

The bound of the first step counts requests, not seconds: both sides come to the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import canonical
from affiant.errors import NotAllowedError
from affiant.policy.canonical.errors import ComparisonTooLarge
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.diff.difference_groups import grouped
from affiant.policy.diff.differences import Difference, Side, compare_compiled

__all__ = [
    "MOST_REQUESTS",
    "NotARestriction",
    "compare_restriction",
    "difference_members",
    "first_wider",
    "require_enforced",
    "require_no_wider",
    "require_restriction",
    "restriction_digest",
    "restriction_document",
]

_NARROWING: Final = "affiant-narrowing/1"

MOST_REQUESTS: Final = 100_000
"""Some seconds of one processor; a profile of a hundred hosts with a dozen paths each stays far below."""

_MADE_WITH: Final = {"path": "filesystem_access", "resource": "resources"}
"""Planes that a sandbox was made with -> the key that writes them."""


class NotARestriction(NotAllowedError):
    """The profile allows something that the one in force does not, or it cannot be said that it does not."""

    code = "policy.not_narrower"


def compare_restriction(
    old: CompiledPolicy, new: CompiledPolicy, *, agent: str = ""
) -> tuple[Difference, ...]:
    """Every difference of the profile in force and the one that is to follow it; none: they allow the same.

    Raises:
        NotARestriction: they cannot be compared.
    """
    try:
        return compare_compiled(agent, old, new, most=MOST_REQUESTS)
    except ComparisonTooLarge as error:
        raise NotARestriction(
            "the two profiles can differ on too many requests to show that the new one only restricts the old one",
            expected=error.expected,
            hint="Start a new session with it",
        ) from error


def require_restriction(differences: tuple[Difference, ...]) -> None:
    """Step 1 of what was compared.

    Raises:
        NotARestriction: one of ``differences`` is wider, or cannot be ordered; the text shows it.
    """
    wider = first_wider(differences)
    if wider is not None:
        raise NotARestriction(
            "the new profile allows more than the one in force",
            found=wider,
            hint="A running session's profile can only be restricted: start a new session with this profile",
        )


def require_no_wider(parent: CompiledPolicy, child: CompiledPolicy, *, agent: str) -> None:
    """Return if a session of ``agent`` may do nothing that the session that starts it may not: exactly, as step 1.

    What the child may start counts too, so an agent passes on only what it may itself start.

    Args:
        parent: the profile in force, which may have been restricted since that session began.
        child: the profile of ``agent``.

    Raises:
        NotARestriction: it may do more, or it cannot be said that it does not.
    """
    try:
        wider = first_wider(compare_compiled(agent, parent, child, most=MOST_REQUESTS))
    except ComparisonTooLarge as error:
        raise NotARestriction(
            "the two profiles can differ on too many requests to show that the session to start may do no more",
            expected=error.expected,
        ) from error
    if wider is not None:
        raise NotARestriction(
            "the session to start may do more than the one that starts it",
            found=wider,
            hint=f"Restrict the profile of {agent}, or allow the same in its parent's profile",
        )


def first_wider(differences: tuple[Difference, ...]) -> str | None:
    """The first of ``differences`` that is wider or cannot be ordered, in words; None: all are narrower."""
    wider = [found for found in differences if found.direction.is_wider]
    return None if not wider else next(grouped(wider)).text


def require_enforced(old: CompiledPolicy, new: CompiledPolicy, differences: tuple[Difference, ...]) -> None:
    """Step 2.

    Raises:
        ``policy.narrow_unenforced``: files or the machine would have to change.
    """
    planes = {_MADE_WITH[found.plane] for found in differences if found.plane in _MADE_WITH}
    if old.mounts() != new.mounts():
        planes.add(_MADE_WITH["path"])
    if planes:
        raise NotAllowedError(
            f"a sandbox that runs keeps what it was made with, so {' and '.join(sorted(planes))} cannot be restricted",
            code="policy.narrow_unenforced",
            found=", ".join(sorted(planes)),
            hint="Leave that as it is, or start a new session with it",
        )


def restriction_document(differences: Sequence[Difference], *, old: str, new: str) -> Mapping[str, object]:
    """Every difference of two profiles, as far as their normal forms say it: anyone who has both writes the same.

    So it names neither files nor places in them, nor the agent, whom a receipt hides.

    Args:
        old, new: the profiles' digests.
    """
    return {
        "typ": _NARROWING,
        "old": old,
        "new": new,
        "differences": [difference_members(found, placed=False) for found in differences],
    }


def restriction_digest(document: Mapping[str, object]) -> str:
    """``sha256:`` name of its RFC 8785 bytes: ``dif`` of the record of a permission restriction."""
    return sha256_name(canonical(document))


def difference_members(found: Difference, *, placed: bool = True) -> Mapping[str, object]:
    """A difference as JSON members, with the places of its rules in their files if ``placed``."""
    return {
        "plane": found.plane,
        "direction": found.direction.value,
        "request": found.request,
        "stands_for_others": found.others,
        "old": _side_members(found.old, placed=placed),
        "new": _side_members(found.new, placed=placed),
    }


def _side_members(side: Side, *, placed: bool) -> Mapping[str, object]:
    rules = zip(side.rules, side.places, strict=False)
    placed_rules = [{"id": rule, "where": place} for rule, place in rules]
    return {
        "says": side.says,
        "reason": side.reason,
        "rules": placed_rules if placed else list(side.rules),
    }
