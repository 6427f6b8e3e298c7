"""Every case, class by class."""

from __future__ import annotations

from vectors.cases import (
    acts,
    anchors,
    approvals,
    bundles,
    chain,
    content,
    disclosures,
    erasure,
    form,
    log,
    narrowings,
    peers,
    platforms,
    profile_signers,
    sessions,
    signature,
    valid,
    witnesses,
    witnesses_mldsa,
)
from vectors.making.case import Case

__all__ = ["collection"]


def collection() -> tuple[Case, ...]:
    """All cases; each id once, and each base before what departs from it.

    Raises:
        ValueError: an id twice.
    """
    tampered = (
        signature,
        form,
        disclosures,
        chain,
        sessions,
        acts,
        approvals,
        narrowings,
        erasure,
        log,
        witnesses,
        witnesses_mldsa,
        anchors,
        platforms,
        profile_signers,
        peers,
        content,
        bundles,
    )
    cases = (
        *valid.CASES,
        *erasure.VALID,
        *profile_signers.VALID,
        *approvals.VALID,
        *narrowings.VALID,
        *acts.VALID,
        *(case for each in tampered for case in each.CASES),
    )
    ids = [case.id for case in cases]
    if doubled := {each for each in ids if ids.count(each) > 1}:
        raise ValueError(f"cases of one id: {sorted(doubled)}")
    return cases
