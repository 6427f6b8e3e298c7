"""The longest unwitnessed stretch: for how long nobody but the operator's clock says when something happened.

For one record the stretch begins at its not-before (the quorum-backed time of the last checkpoint that its signer names
before it) and ends at the not-after of the *first* quorum-cosigned checkpoint in the bundle that covers its leaf: the
one of its proof, or an earlier one that an epoch record names. That a smaller tree is part of the larger one is what
witnesses vouch for. The longest of all records' stretches is the bundle's; records without a not-before are counted
apart, since theirs has no end. Without ``time.bracket`` there is nothing to measure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from affiant.attestation.verdict.time_bounds import Ceilings, Unwitnessed
from affiant.attestation.verifier.case.case import Case

__all__ = ["unwitnessed_of"]


def unwitnessed_of(case: Case | None) -> Unwitnessed | None:
    """The longest stretch of a case; None where no record is witnessed."""
    if case is None or "time.bracket" not in case.established:
        return None
    ceilings = _ceilings(case)
    longest = Unwitnessed(None, None, None, 0)
    without = 0
    for record in case.records:
        time_bounds = case.time_bounds.get(record.rh)
        if time_bounds is None or time_bounds.not_before is None:
            without += 1
            continue
        origin, index = case.places.get(record.rh, ("", 0))
        first = ceilings[origin].of(index) if origin in ceilings else None
        end = time_bounds.not_after if first is None else first
        if end is not None:
            longest = longest.or_longer(time_bounds.not_before, end, record.jti)
    return replace(longest, without_beginning=without)


def _ceilings(case: Case) -> Mapping[str, Ceilings]:
    """Origin -> the earliest not-after of its checkpoints that cover a leaf."""
    times: dict[str, dict[int, int]] = {}
    for seen in case.witnessed.values():
        if seen.not_after is not None:
            sizes, size = times.setdefault(seen.checkpoint.origin, {}), seen.checkpoint.size
            sizes[size] = min(seen.not_after, sizes.get(size, seen.not_after))
    return {origin: Ceilings(sizes) for origin, sizes in times.items()}
