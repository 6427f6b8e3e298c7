"""By when a leaf existed, of the checkpoints that cover it; and the longest stretch that nobody witnessed."""

from __future__ import annotations

from affiant.attestation.verdict.time_bounds import Ceilings, Unwitnessed


def test_the_earliest_checkpoint_that_covers_a_leaf_counts() -> None:
    ceilings = Ceilings({10: 200, 5: 100, 20: 150})
    assert [ceilings.of(index) for index in (0, 4, 5, 9, 10, 19)] == [100, 100, 150, 150, 150, 150]


def test_a_leaf_that_no_checkpoint_covers_has_no_ceiling() -> None:
    assert Ceilings({5: 100}).of(5) is None
    assert Ceilings({}).of(0) is None


def test_the_longer_stretch_is_kept_and_the_first_of_two_alike() -> None:
    longest = Unwitnessed(None, None, None, 3)
    for begin, end, receipt in ((10, 20, "a"), (30, 40, "b"), (50, 70, "c"), (90, 80, "d")):
        longest = longest.or_longer(begin, end, receipt)
    assert longest == Unwitnessed(50, 70, "c", 3)


def test_clocks_that_contradict_each_other_make_no_stretch() -> None:
    assert Unwitnessed(None, None, None, 0).or_longer(20, 10, "a").seconds == 0
