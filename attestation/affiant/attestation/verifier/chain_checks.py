"""L1, the chains: whole, linked, booted, in rhythm, with nothing after an end."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from affiant.attestation.receipt import VerifiedReceipt
from affiant.attestation.verifier.case import Case, by_chain
from affiant.attestation.verifier.refusals import ChainBroken
from affiant.attestation.verifier.verdict import Finding, Tier

__all__ = [
    "check_boot",
    "check_contiguous",
    "check_end",
    "check_epochs",
    "check_gaps",
    "check_ids",
    "check_time",
]


class ChainGap(ChainBroken):
    """Numbers are missing, repeated, or a link names another record."""

    code = "chain.gap"


class NoBoot(ChainBroken):
    """A chain does not begin with a boot record of its keyset."""

    code = "chain.no_boot"


class AfterEnd(ChainBroken):
    """A record stands after the end of its chain."""

    code = "chain.after_end"


class TimeBroken(ChainBroken):
    """A record is dated before the one that it follows, or after the instant judged at."""

    code = "chain.time"


class RecordRepeated(ChainBroken):
    """Two records have one id."""

    code = "chain.repeated_id"


class EpochMissing(ChainBroken):
    """An epoch record is missing: the signer was silent for longer than its keyset says."""

    code = "chain.missing_epoch"


def check_boot(case: Case) -> Finding:
    """``chain.boot``: each chain begins with a boot record that names its own keyset."""
    case.need("sig.receipts")
    for party in case.parties:
        for chn, chain in by_chain(party.records).items():
            first = chain[0]
            if first.seq != 0 or first.kind != "boot":
                raise NoBoot("the chain does not begin with a boot record", where=chn)
            digest = party.statement.keyset_digest
            if first.member("ks") != digest or first.prev != digest:
                raise NoBoot("the boot record names another keyset", expected=digest, where=first.jti)
            if any(record.kind == "boot" for record in chain[1:]):
                raise NoBoot("a second boot record in one chain", where=chn)
    return Finding("each chain begins with the boot record of its keyset")


def check_contiguous(case: Case) -> Finding:
    """``chain.contiguous``: no number missing or twice, each link names the record before it.

    The gateway's chain may have one stretch left out, right after its boot record: a bundle of one session need
    not carry what the gateway did before it. The verdict says so.
    """
    case.need("chain.boot")
    notes = []
    for party in case.parties:
        for chn, chain in by_chain(party.records).items():
            skipped = _skipped_after_boot(chain) if party.role == "gateway" else 0
            _contiguous(chain[1:] if skipped else chain)
            if skipped:
                notes.append(f"records 1 to {skipped} of {chn} not here")
    text = f"{len(case.records)} records, links unbroken"
    return Finding(f"{text} ({'; '.join(notes)})" if notes else text)


def _skipped_after_boot(chain: Sequence[VerifiedReceipt]) -> int:
    """How many records after the boot record are left out; never negative, so that a double is compared."""
    return max(0, chain[1].seq - 1) if len(chain) > 1 else 0


def _contiguous(chain: Sequence[VerifiedReceipt]) -> None:
    for before, record in pairwise(chain):
        if record.seq != before.seq + 1:
            raise ChainGap(
                "records are missing or repeated",
                expected=f"seq {before.seq + 1}",
                found=f"seq {record.seq}",
                where=record.jti,
            )
        if record.prev != before.rh:
            raise ChainGap(
                "the link names another record", expected=before.rh, found=record.prev, where=record.jti
            )


def check_end(case: Case) -> Finding:
    """``chain.end``: nothing after an end record; chains without one are counted as open."""
    case.need("chain.boot")
    ended = 0
    chains = by_chain(case.records)
    for chain in chains.values():
        ends = [index for index, record in enumerate(chain) if record.kind == "end"]
        if ends and ends[0] != len(chain) - 1:
            raise AfterEnd("a record after the end of its chain", where=chain[ends[0] + 1].jti)
        ended += len(ends)
    return Finding(f"{ended} of {len(chains)} chains ended, the others are open")


def check_epochs(case: Case) -> Finding:
    """``chain.epochs``: between boot, epochs and end no more time than the keyset's cadence (and tolerance);
    each epoch record counts the records before it."""
    case.need("chain.contiguous")
    for party in case.parties:
        allowed = party.statement.epoch_s + case.trust.clock_tolerance_s
        for chain in by_chain(party.records).values():
            marks = chain[1:] if _skipped_after_boot(chain) else chain
            last = marks[0].iat
            for record in marks:
                if record.iat - last > allowed:
                    raise EpochMissing(
                        "no epoch record in time",
                        expected=f"every {party.statement.epoch_s} s",
                        where=record.jti,
                    )
                if record.kind == "epoch" and record.member("n") != record.seq:
                    raise EpochMissing(
                        "an epoch record counts other records than there are",
                        expected=record.seq,
                        found=record.member("n"),
                        where=record.jti,
                    )
                if record.kind in ("boot", "epoch"):
                    last = record.iat
    return Finding("epoch records at their cadence")


def check_time(case: Case) -> Finding:
    """``chain.time``: self-asserted times do not go back within a chain, and none lies after the instant judged at."""
    case.need("sig.receipts")
    latest = case.at.timestamp() + case.trust.clock_tolerance_s
    for chain in by_chain(case.records).values():
        highest = chain[0].iat
        for record in chain:
            if record.iat < highest - case.trust.clock_tolerance_s:
                raise TimeBroken("a record dated before the one it follows", where=record.jti)
            if record.iat > latest:
                raise TimeBroken(
                    "a record dated after the instant judged at",
                    found=record.iat,
                    where=record.jti,
                    hint="Judge at a later instant with --at, if that is what you mean.",
                )
            highest = max(highest, record.iat)
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
    """``chain.gaps``: what a crash left unaccounted is disclosed, and each disclosure is a warning."""
    case.need("sig.receipts")
    gaps = [record.jti for record in case.records if record.kind == "gap"]
    if gaps:
        return Finding(f"{len(gaps)} gaps disclosed after a crash", Tier.WARNING, tuple(gaps))
    return Finding("no gap disclosed")
