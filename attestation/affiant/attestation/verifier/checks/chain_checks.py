"""L1, the chains: whole, linked, booted, in rhythm, with nothing after an end. The rules are ``chain_rules``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.verdict.errors import ChainBroken
from affiant.attestation.verdict.verdict import Finding, Tier
from affiant.attestation.verifier.case.case import Case, by_chain
from affiant.attestation.verifier.checks.chain_rules import (
    InOrder,
    InRhythm,
    Link,
    NothingAfterEnd,
    StartsWithBoot,
    Unbroken,
    link_of,
)

__all__ = [
    "RecordRepeated",
    "check_boot",
    "check_contiguous",
    "check_end",
    "check_epochs",
    "check_gaps",
    "check_ids",
    "check_time",
    "gaps_text",
]

_SHOWN: Final = 5
"""Gaps whose records are named."""


class RecordRepeated(ChainBroken):
    """Two records have one id."""

    code = "chain.repeated_id"


def check_boot(case: Case) -> Finding:
    """``chain.boot``: each chain begins with a boot record that names its own keyset."""
    case.need("sig.receipts")
    for party in case.parties:
        for chain in by_chain(party.records).values():
            rule = StartsWithBoot(party.statement.keyset_digest)
            for record in chain:
                rule.take(link_of(record))
    return Finding("each chain begins with the boot record of its keyset")


def check_contiguous(case: Case) -> Finding:
    """``chain.contiguous``: no number missing or twice, each link names the record before it.

    The gateway's chain may have one stretch left out, right after its boot record: a bundle of one session need
    not carry what the gateway did before it. The verdict says so. After the last record of the session, erasures and
    holds may stand alone: they come later, among records of others. What an accepted authority ordered to be erased may
    be missing anywhere; the order names its hash, and so does the link of the record after it.
    """
    case.need("chain.boot")
    notes, gone = [], []
    for party in case.parties:
        for chn, chain in by_chain(party.records).items():
            rule = Unbroken()
            main, later = _parts(chain) if party.role == "gateway" else (chain, [])
            for index, record in enumerate(main):
                may_skip = party.role == "gateway" and index == 1
                erased = [] if may_skip or index == 0 else _erased_between(case, main[index - 1], record)
                for each in erased:
                    rule.take(each, may_skip=False)
                gone += erased
                skipped = rule.take(link_of(record), may_skip=may_skip)
                if skipped:
                    notes.append(f"records 1 to {skipped} of {chn} not here")
            for record in later:
                rule.take(link_of(record), may_skip=True)
    text = f"{len(case.records)} records, links unbroken"
    text = f"{text} ({'; '.join(notes)})" if notes else text
    if gone:
        orders = tuple(sorted({each.jti for each in gone}))
        return Finding(f"{text}; {len(gone)} records erased by order of an authority", Tier.WARNING, orders)
    return Finding(text)


def _parts(
    chain: Sequence[VerifiedReceipt],
) -> tuple[Sequence[VerifiedReceipt], Sequence[VerifiedReceipt]]:
    """A gateway's chain, which begins with its boot, and the erasures and holds at its end."""
    count = len(chain)
    while chain[count - 1].kind in ("erasure", "hold"):
        count -= 1
    return chain[:count], chain[count:]


def _erased_between(case: Case, before: VerifiedReceipt, record: VerifiedReceipt) -> list[Link]:
    """The links of what is erased right before ``record``, up to what is not; each named by its order."""
    links: list[Link] = []
    for seq in range(before.seq + 1, min(record.seq, before.seq + 1 + len(case.erased))):
        named = case.erased.get((record.chn, seq))
        if named is None or named.level != 2:
            break
        links.append(Link(named.chn, seq, named.rh, "", record.iat, None, named.order))
    return links


def check_end(case: Case) -> Finding:
    """``chain.end``: nothing after an end record; chains without one are counted as open."""
    case.need("chain.boot")
    rules = []
    for chain in by_chain(case.records).values():
        rules.append(NothingAfterEnd())
        for record in chain:
            rules[-1].take(link_of(record))
    return Finding(f"{sum(rule.ended for rule in rules)} of {len(rules)} chains ended, the others are open")


def check_epochs(case: Case) -> Finding:
    """``chain.epochs``: between boot, epochs and end no more time than the keyset's cadence (and tolerance);
    each epoch record counts the records before it."""
    case.need("chain.contiguous")
    for party in case.parties:
        for whole in by_chain(party.records).values():
            chain = _parts(whole)[0] if party.role == "gateway" else whole
            rule = InRhythm(party.statement.epoch_s, tolerance=case.trust.clock_tolerance_s)
            for index, record in enumerate(chain):
                rule.take(link_of(record), skipped=index == 1 and record.seq > 1)
    return Finding("epoch records at their cadence")


def check_time(case: Case) -> Finding:
    """``chain.time``: self-asserted times do not go back within a chain, and none lies after the instant judged at."""
    case.need("sig.receipts")
    for chain in by_chain(case.records).values():
        rule = InOrder(case.at.timestamp(), tolerance=case.trust.clock_tolerance_s)
        for record in chain:
            rule.take(link_of(record))
    return Finding("self-asserted times in order")


def check_ids(case: Case) -> Finding:
    """``chain.ids``: no two records have one id."""
    case.need("sig.receipts")
    seen: set[str] = set()
    for record in case.records:
        if record.jti in seen:
            raise RecordRepeated("one id in two records", where=record.jti)
        seen.add(record.jti)
    return Finding(f"{len(seen)} ids, each once")


def check_gaps(case: Case) -> Finding:
    """``chain.gaps``: what a crash left unaccounted is disclosed, and each disclosure is a warning.

    Which records are in no log a single bundle cannot tell: of its gateway's chain it holds what its session needs.
    """
    case.need("sig.receipts")
    gaps = tuple(record.jti for record in case.records if record.kind == "gap")
    if not gaps:
        return Finding("no gap disclosed")
    return Finding(gaps_text(len(gaps), ()), Tier.WARNING, gaps)


def gaps_text(count: int, unlogged: Sequence[tuple[str, int, int]]) -> str:
    """How many gaps are disclosed, and which records were signed before a crash and have no leaf.

    Args:
        unlogged: chain, and the first and the last number, of each gap that knows of more than the log holds.
    """
    text = "1 gap disclosed after a crash" if count == 1 else f"{count} gaps disclosed after a crash"
    if not unlogged:
        return text
    named = [
        f"{first if first == last else f'{first} to {last}'} of chain {chn}" for chn, first, last in unlogged
    ]
    shown = ", ".join(named[:_SHOWN]) + ("" if len(named) <= _SHOWN else f" and {len(named) - _SHOWN} more")
    return (
        f"{text}; records {shown} were signed before it and never logged: sessions may have been lost in them"
    )
