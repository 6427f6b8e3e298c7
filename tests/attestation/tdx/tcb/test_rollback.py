"""A mark only moves forward."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affiant.attestation.tdx.quote.errors import CollateralRollback
from affiant.attestation.tdx.tcb.rollback import CollateralMark

START = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = st.integers(0, 5).map(lambda days: START + timedelta(days=days))
MARKS = st.builds(
    CollateralMark,
    fmspc=st.just(b"FMSPC1"),
    evaluation_number=st.integers(0, 3),
    tcb_info_issued=DAYS,
    qe_identity_issued=DAYS,
)


@given(MARKS, MARKS)
def test_what_was_kept_refuses_exactly_what_is_older_in_any_part(
    new: CollateralMark, seen: CollateralMark
) -> None:
    older = (
        new.evaluation_number < seen.evaluation_number
        or new.tcb_info_issued < seen.tcb_info_issued
        or new.qe_identity_issued < seen.qe_identity_issued
    )
    if older:
        with pytest.raises(CollateralRollback):
            new.refuse_step_back(seen)
    else:
        new.refuse_step_back(seen)


@given(MARKS, MARKS)
def test_advancing_never_goes_back(one: CollateralMark, two: CollateralMark) -> None:
    kept = one.advanced_by(two)
    kept.refuse_step_back(one)
    kept.refuse_step_back(two)


def test_platforms_are_not_compared() -> None:
    mark = CollateralMark(b"FMSPC1", 3, START, START)
    replace(mark, fmspc=b"FMSPC2", evaluation_number=1).refuse_step_back(mark)
