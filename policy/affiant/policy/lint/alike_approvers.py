"""Finds approvers by identity that an issuer may take for one person, who would then count as two.

Identities are compared letter by letter: that is what a certificate says. What an issuer does is its own affair, and
many let whoever has ``ann@example.com`` have a token for ``Ann@example.com``, ``ann@EXAMPLE.com`` or
``ann+deploy@example.com`` too. A quorum of two such names may be one person. This is a warning and no more: another
issuer may know two people by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from affiant.attestation.signatures.approvers.identities import ApproverIdentity

__all__ = ["alike_approvers"]


def alike_approvers(approvers: Iterable[object]) -> Sequence[Sequence[ApproverIdentity]]:
    """The identities among ``approvers`` that may be one, in groups of two or more, each in order of its spelling."""
    groups: dict[tuple[str, str], set[ApproverIdentity]] = {}
    for each in approvers:
        if isinstance(each, ApproverIdentity):
            groups.setdefault(_folded(each), set()).add(each)
    return [sorted(group) for _, group in sorted(groups.items()) if len(group) > 1]


def _folded(identity: ApproverIdentity) -> tuple[str, str]:
    """What is left of issuer and subject where case, a dot at a domain's end and a mailbox's tag say nothing."""
    issuer, subject = (text.lower().rstrip("/") for text in (identity.issuer, identity.subject))
    name, at, domain = subject.rpartition("@")
    if not at or ":" in name:  # the URI of a workflow, which may name a branch behind an @
        return issuer, subject
    return issuer, f"{name.partition('+')[0]}@{domain.rstrip('.')}"
