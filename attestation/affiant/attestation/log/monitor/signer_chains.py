"""Checks one signer's chain as its leaves show it: boot first, no gap, nothing after its end, epochs in time.

Pure: what is known of a chain, and its next leaf, give what is known then and what is wrong. After something is wrong
the chain goes on from where it is, so that one fault is one finding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.log.monitor.findings import Finding
from affiant.attestation.log_reading.severity import Severity
from affiant.attestation.tlog.entry import LogEntry

__all__ = ["Chain", "Rules", "next_of"]


@dataclass(frozen=True, slots=True)
class Rules:
    """What is expected of a log and its signers.

    Args:
        epoch_s: seconds between epochs, as the signers' keysets say.
        merge_delay_s: seconds within which a record is in the log.
        slack_s: seconds that clocks may differ.
        stale_s: age of the newest cosigned checkpoint that is still good.
    """

    epoch_s: int = 60
    merge_delay_s: int = 60
    slack_s: int = 30
    stale_s: int = 300


@dataclass(frozen=True, slots=True)
class Chain:
    """What is known of one chain.

    Args:
        seq, index, iat: of its last record: place in the chain, leaf of the log, the signer's time.
        epoch: the signer's time of its last boot or epoch.
        ended: whether it has its end.
        late: whether it was said already that an epoch is missing, or that it is silent.
    """

    seq: int
    index: int
    iat: int
    epoch: int
    ended: bool
    late: bool


def next_of(
    chain: Chain | None, entry: LogEntry, index: int, rules: Rules
) -> tuple[Chain, tuple[Finding, ...]]:
    """What is known of the chain after ``entry``, leaf ``index`` of the log, and what is wrong with it."""
    beat = entry.kind in ("boot", "epoch", "end")
    if chain is None:
        found = [] if _begins(entry) else [_wrong("chain.boot", "begins without its boot", entry, index)]
        return Chain(entry.seq, index, entry.iat, entry.iat, entry.kind == "end", late=False), tuple(found)
    found = list(_misplaced(chain, entry, index))
    if chain.seq >= entry.seq and not _begins(entry):
        return chain, tuple(found)  # a second record for a place: the first one's chain goes on
    late = chain.late
    if not late and not _begins(entry) and entry.iat - chain.epoch > rules.epoch_s + rules.slack_s:
        late = True
        found.append(_silent(chain, entry, index, rules))
    known = Chain(
        entry.seq,
        index,
        entry.iat,
        entry.iat if beat else chain.epoch,
        entry.kind == "end" or (chain.ended and not _begins(entry)),
        late and not beat,
    )
    return known, tuple(found)


def _misplaced(chain: Chain, entry: LogEntry, index: int) -> Iterator[Finding]:
    both = (chain.index, index)
    if _begins(entry):
        yield _wrong("chain.reused", "begins again under the same id", entry, *both)
        return
    if entry.kind == "boot":
        yield _wrong("chain.boot", "has a boot inside", entry, *both)
    if chain.ended:
        yield _wrong("chain.after_end", "goes on after its end", entry, *both)
    if entry.seq <= chain.seq:
        yield _wrong(
            "chain.fork", f"has a second record, or an earlier one after place {chain.seq}", entry, *both
        )
    elif entry.seq > chain.seq + 1:
        yield _wrong("chain.gap", f"lacks the records after place {chain.seq}", entry, *both)


def _silent(chain: Chain, entry: LogEntry, index: int, rules: Rules) -> Finding:
    made = _wrong(
        "chain.missing_epoch",
        f"has no epoch for {entry.iat - chain.epoch} s; expected one every {rules.epoch_s} s",
        entry,
        index,
    )
    return replace(made, severity=Severity.WARNING, leaves=())


def _begins(entry: LogEntry) -> bool:
    return entry.kind == "boot" and entry.seq == 0


def _wrong(code: str, what: str, entry: LogEntry, *leaves: int) -> Finding:
    message = f"chain {b64u(entry.chn)} {what}: {entry.kind} at place {entry.seq}, leaf {leaves[-1]}"
    return Finding(code, Severity.CONTRAINDICATED, message, (), leaves)
