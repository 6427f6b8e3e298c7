"""L3: the log's checkpoints are cosigned by witnesses that the reader names, and so every record has a time.

Not before: the checkpoint that the nearest earlier epoch record of the chain names (``cp``), or else the keyset
statement, existed already, so the record is not older than the time that a quorum of witnesses backs for it. Not
after: the checkpoint of the record's proof covers it, so it existed by then. ``iat`` is the signer's word, and is held
against both.

A quorum that needs the witness which the trust file names ``self``, the operator's own, holds as a warning, and so do
the times that it backs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.statements.statement import LogIdentity
from affiant.attestation.tlog.errors import QuorumMissed
from affiant.attestation.tlog.note import Note, parse_note
from affiant.attestation.tlog.quorum import Witnessed, verify_quorum
from affiant.attestation.verdict.errors import ChainBroken, NoPin, NotMade
from affiant.attestation.verdict.time_bounds import TimeBounds, shown
from affiant.attestation.verdict.verdict import Finding, Tier
from affiant.attestation.verifier.case.case import Case, Party, by_chain
from affiant.attestation.verifier.checks.chain_rules import Link

__all__ = [
    "SELF_WITNESSED",
    "WIDE_S",
    "TimeBoundsBroken",
    "check_quorum",
    "check_time_bounds",
    "hold",
    "needs_self",
    "time_bounds_finding",
    "witnessed",
]

WIDE_S: Final = 3600
"""Seconds; wider time bounds are a warning: a day would do for nobody who asks when something happened."""

SELF_WITNESSED: Final = (
    "witness: self. A witness in the operator's own domain detects faults, not a determined operator"
)


class TimeBoundsBroken(ChainBroken):
    """A record is dated outside of what witnesses saw, or witnesses contradict each other about it."""

    code = "time.outside"


def check_quorum(case: Case) -> Finding:
    """``wit.quorum``: every checkpoint that proves inclusion is cosigned by a quorum that the trust file names."""
    if case.trust.witnesses is None:
        raise NoPin("the trust file names no witnesses")
    case.need("log.inclusion")
    names: set[str] = set()
    for note, log in case.proven.values():
        names |= set(witnessed(case, note, log).times)
    if needs_self(case):
        return Finding(SELF_WITNESSED, Tier.WARNING)
    return Finding(f"cosigned by {', '.join(sorted(names))}")


def check_time_bounds(case: Case) -> Finding:
    """``time.bracket``: no record is dated outside of its time bounds, and none are empty."""
    if case.trust.witnesses is None:
        raise NoPin("without witnesses there is no time but what signers assert")
    case.need("wit.quorum", "chain.contiguous")
    tolerance = case.trust.clock_tolerance_s
    ends: list[tuple[int | None, int]] = []
    for gateway in case.gateways:
        for record, floor in _with_floors(case, gateway):
            ceiling = witnessed(case, *case.proven[record.rh]).not_after
            assert ceiling is not None, "a policy of the trust file has a quorum"
            case.time_bounds[record.rh] = TimeBounds(floor, ceiling)
            hold(record, floor, ceiling, tolerance)
            ends.append((floor, ceiling))
    widths = [ceiling - floor for floor, ceiling in ends if floor is not None]
    return time_bounds_finding(
        case,
        unbounded=len(ends) - len(widths),
        widest=max(widths, default=0),
        last=max((ceiling for _, ceiling in ends), default=0),
    )


def time_bounds_finding(case: Case, *, unbounded: int, widest: int, last: int) -> Finding:
    """What time bounds amount to: how many have no beginning, the widest in seconds, the last end."""
    if unbounded:
        these = "1 record has" if unbounded == 1 else f"{unbounded} records have"
        text = f"{these} no earlier cosigned checkpoint; none is after {shown(last)}"
        return Finding(text, Tier.WARNING)
    if widest > WIDE_S:
        return Finding(f"the widest time bounds are {widest} s apart", Tier.WARNING)
    if needs_self(case):
        return Finding(f"within {widest} s, by the clock of the operator's own witness", Tier.WARNING)
    return Finding(f"every record within {widest} s, none after {shown(last)}")


def needs_self(case: Case) -> bool:
    """Whether a quorum that was counted so far would not stand without the operator's own witness."""
    return not all(seen.independent for seen in case.witnessed.values())


def hold(record: VerifiedReceipt | Link, floor: int | None, ceiling: int, tolerance: int) -> None:
    """Raises :class:`TimeBoundsBroken` where ``record`` is dated outside of its time bounds, or they are empty."""
    if floor is not None and floor > ceiling + tolerance:
        raise TimeBoundsBroken(
            "empty time bounds: witnesses saw what follows the record before what it follows",
            expected=f"not after {shown(ceiling)}",
            found=f"not before {shown(floor)}",
            where=record.jti,
        )
    if record.iat > ceiling + tolerance or (floor is not None and record.iat < floor - tolerance):
        begin = "" if floor is None else f"from {shown(floor)} "
        raise TimeBoundsBroken(
            "a record is dated outside of what witnesses saw",
            expected=f"{begin}to {shown(ceiling)}",
            found=shown(record.iat),
            where=record.jti,
        )


def _with_floors(case: Case, gateway: Party) -> Iterator[tuple[VerifiedReceipt, int | None]]:
    """A gateway's records, and those of the sessions that it admitted, each with its not-before.

    A session's record cannot be older than the gateway's record that admitted it.
    """
    admitted: dict[str, int | None] = {}
    stated = gateway.statement.cp
    begin = None if stated is None else _named(case, stated, gateway).not_before
    for chain in by_chain(gateway.records).values():
        floor = begin
        for record in chain:
            named = record.member("cp")
            if isinstance(named, str):
                floor = _floor_of(case, record, named, gateway)
            yield record, floor
            if record.kind == "session-start":
                admitted[str(record.member("agt", "key"))] = floor
    for party in case.parties:
        if party.statement.gks == gateway.statement.keyset_digest:
            floor = admitted.get(party.statement.receipt_kid)
            yield from ((record, floor) for record in party.records)


def _floor_of(case: Case, record: VerifiedReceipt, named: str, gateway: Party) -> int:
    seen = _named(case, named, gateway)
    if record.member("cps") not in (None, seen.checkpoint.size):
        raise TimeBoundsBroken(
            "an epoch names a checkpoint of another size",
            expected=str(seen.checkpoint.size),
            found=str(record.member("cps")),
            where=record.jti,
        )
    assert seen.not_before is not None, "as above"
    return seen.not_before


def _named(case: Case, named: str, gateway: Party) -> Witnessed:
    """The checkpoint with this digest, which a statement or an epoch record names."""
    name = f"sha256:{from_b64u(named, size=32).hex()}"
    if (raw := case.bundle.checkpoints.get(name)) is None:
        raise NotMade("a checkpoint that an epoch record or a statement names is not in the bundle")
    log = gateway.statement.log
    assert log is not None, "log.inclusion held"
    return witnessed(case, parse_note(raw), log)


def witnessed(case: Case, note: Note, log: LogIdentity) -> Witnessed:
    """The note under one of the policies that count at the instant judged at; each is asked once.

    Raises:
        NotMade: no quorum, or one that had cosigned only later than that: whoever looks ahead has seen nothing. Who
            looks back from a later instant (``Question.seen``) has.
    """
    name = (note.to_bytes(), log.key.vkey())
    if (known := case.witnessed.get(name)) is not None:
        return known
    missed: QuorumMissed | None = None
    for entry, policy in case.trust.witnesses or ():
        if not entry.counts_at(case.at):
            continue
        try:
            seen = verify_quorum(note, policy, logs=[log.key])
        except QuorumMissed as error:
            missed = error
            continue
        last = (case.asked.seen or case.at).timestamp() + case.trust.clock_tolerance_s
        if seen.not_after is not None and seen.not_after > last:
            late = f"a checkpoint is cosigned by a quorum from {shown(seen.not_after)} on, after the time judged at"
            raise NotMade(late)
        case.witnessed[name] = seen
        return seen
    found = "" if missed is None else f": found {missed.found}"
    raise NotMade(f"a checkpoint is not cosigned by the quorum that the trust file names{found}")
