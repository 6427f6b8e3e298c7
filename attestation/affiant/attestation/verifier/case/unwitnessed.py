"""The longest unwitnessed stretch: for how long nobody but the operator's clock says when something happened.

For one record the stretch begins at its not-before (the quorum-backed time of the last checkpoint that its signer names
before it) and ends at the not-after of the *first* quorum-cosigned checkpoint in the bundle that covers its leaf: the
one of its proof, or an earlier one that an epoch record names. That a smaller tree is part of the larger one is what
witnesses vouch for. The longest of all records' stretches is the bundle's; records without a not-before are counted
apart, since theirs has no end. Without ``time.bracket`` there is nothing to measure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace

from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.verdict.time_bounds import TimeBounds, Unwitnessed
from affiant.attestation.verifier.case.case import Case

__all__ = ["unwitnessed_of"]


def unwitnessed_of(case: Case | None) -> Unwitnessed | None:
    """The longest stretch of a case; None where no record is witnessed."""
    if case is None or "time.bracket" not in case.established:
        return None
    marks = _marks(case)
    longest = Unwitnessed(None, None, None, 0)
    without = 0
    for record in case.records:
        time_bounds = case.time_bounds.get(record.rh)
        if time_bounds is None or time_bounds.not_before is None:
            without += 1
            continue
        begin, end = time_bounds.not_before, _first_after(case, record, time_bounds, marks)
        if end is None:
            continue
        # One witness's clock may be ahead of another's, within the tolerance of the time bounds: no stretch at all.
        end = max(begin, end)
        if longest.seconds is None or end - begin > longest.seconds:
            longest = Unwitnessed(begin, end, record.jti, 0)
    return replace(longest, without_beginning=without)


def _marks(case: Case) -> Mapping[str, tuple[Sequence[int], Sequence[int]]]:
    """Origin -> sizes, ascending, and for each the earliest not-after of any checkpoint that is at least so large."""
    times: dict[str, dict[int, int]] = {}
    for seen in case.witnessed.values():
        if seen.not_after is not None:
            sizes = times.setdefault(seen.checkpoint.origin, {})
            size = seen.checkpoint.size
            sizes[size] = min(seen.not_after, sizes.get(size, seen.not_after))
    marks: dict[str, tuple[Sequence[int], Sequence[int]]] = {}
    for origin, sizes in times.items():
        ascending = sorted(sizes)
        earliest = [sizes[size] for size in ascending]
        for index in range(len(earliest) - 2, -1, -1):
            earliest[index] = min(earliest[index], earliest[index + 1])
        marks[origin] = (ascending, earliest)
    return marks


def _first_after(
    case: Case,
    record: VerifiedReceipt,
    time_bounds: TimeBounds,
    marks: Mapping[str, tuple[Sequence[int], Sequence[int]]],
) -> int | None:
    """The not-after of the first checkpoint that covers the record: its own proof's, or an earlier one."""
    place = case.places.get(record.rh)
    if place is None or place[0] not in marks:
        return time_bounds.not_after
    sizes, earliest = marks[place[0]]
    first = bisect_right(sizes, place[1])  # a tree of size n covers the indexes below n
    return earliest[first] if first < len(sizes) else time_bounds.not_after
