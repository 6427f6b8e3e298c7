"""Every fault of a chain is found, named once, and nothing else is."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.log_builder import NOW, chain, entry
from tests.properties import thorough

from affiant.attestation.log.monitor.signer_chains import Chain, Rules, next_of
from affiant.attestation.tlog.entry import LogEntry

RULES = Rules()


def walk(entries: list[LogEntry]) -> list[str]:
    known: dict[bytes, Chain] = {}
    found = []
    for index, each in enumerate(entries):
        known[each.chn], wrong = next_of(known.get(each.chn), each, index, RULES)
        found += [finding.code for finding in wrong]
    return found


GOOD = chain("one", 30, end=True)


def test_chains_that_are_whole_have_no_finding() -> None:
    assert walk(GOOD) == []
    interleaved = [each for pair in zip(GOOD, chain("two", 30), strict=True) for each in pair]
    assert walk(interleaved) == []


@thorough()
@given(st.integers(0, 27), st.integers(1, 20))
def test_any_records_left_out_are_found(at: int, count: int) -> None:
    cut = GOOD[:at] + GOOD[at + count :]
    if at + count >= len(GOOD):
        assert walk(cut) == []  # an open tail: no leaf shows it
    else:
        assert ("chain.boot" if at == 0 else "chain.gap") in walk(cut)


@thorough()
@given(st.randoms(use_true_random=False))
def test_any_other_order_is_found(rng: random.Random) -> None:
    entries = list(GOOD)
    rng.shuffle(entries)
    assert (walk(entries) != []) == (entries != GOOD)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([*GOOD, entry("inference", "one", 30, NOW + 300)], ["chain.after_end"]),
        ([*GOOD, *GOOD[:3]], ["chain.reused"]),
        ([*GOOD[:5], GOOD[4], *GOOD[5:]], ["chain.fork"]),
        ([*GOOD[:5], entry("tool", "one", 2, NOW + 50), *GOOD[5:]], ["chain.fork"]),
        ([*GOOD[:5], entry("boot", "one", 5, NOW + 50), *GOOD[6:]], ["chain.boot"]),
        (GOOD[1:], ["chain.boot"]),
        ([*GOOD[:3], *GOOD[5:]], ["chain.gap"]),
        (
            [GOOD[0], entry("tool", "one", 1, NOW + 91), entry("tool", "one", 2, NOW + 99)],
            ["chain.missing_epoch"],
        ),
        ([GOOD[0], entry("epoch", "one", 1, NOW + 91)], ["chain.missing_epoch"]),
        ([GOOD[0], entry("end", "one", 1, NOW + 91)], ["chain.missing_epoch"]),
        ([GOOD[0], entry("epoch", "one", 1, NOW + 90)], []),
    ],
)
def test_each_fault_is_named_once(entries: list[LogEntry], expected: list[str]) -> None:
    assert walk(entries) == expected


def test_a_missing_epoch_is_named_again_after_the_next_one() -> None:
    entries = [
        GOOD[0],
        entry("tool", "one", 1, NOW + 200),
        entry("epoch", "one", 2, NOW + 210),
        entry("tool", "one", 3, NOW + 400),
    ]
    assert walk(entries) == ["chain.missing_epoch"] * 2
