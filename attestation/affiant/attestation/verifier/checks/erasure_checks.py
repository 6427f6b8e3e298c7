"""Erasures and legal holds: only by an accepted authority, only when logged, never of what was held (trust rules, 21).

What is missing is excused by ``chain_checks`` and the checks of sessions, and only as far as this check has put it
into the case. That something was deleted is never said: an order proves that it was ordered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from affiant.attestation.erasure.orders import verify_order
from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.verdict.errors import ChainBroken
from affiant.attestation.verdict.verdict import Finding, Tier
from affiant.attestation.verifier.case.case import Case, Erased, Party
from affiant.errors import AffiantError

__all__ = ["check_authority", "check_holds"]

_Here = Mapping[tuple[str, int], VerifiedReceipt]
_T = TypeVar("_T")


class ErasureUnauthorized(ChainBroken):
    """An erasure or a hold without the signature of an accepted authority: what it names is a gap."""

    code = "chain.gap"


class HoldBroken(ChainBroken):
    """Something was ordered to be erased while it was held."""

    code = "hold.broken"


def check_authority(case: Case) -> Finding:
    """``erasure.authority``: each erasure and hold is logged, and signed by an authority of the trust file for exactly
    what the record says, in this log."""
    case.need("sig.receipts")
    here: _Here = {(record.chn, record.seq): record for record in case.records}
    orders: list[str] = []
    found: dict[tuple[str, int], Erased] = {}
    pruned: dict[str, Erased] = {}
    holds = 0
    for party in case.gateways:
        for record in sorted(party.records, key=lambda each: (each.chn, each.seq)):
            if record.kind in ("erasure", "hold"):
                _demand_authority(case, party, record)
            holds += record.kind == "hold"
            if record.kind == "erasure":
                orders.append(record.jti)
                for item in _items(record):
                    _demand_named(case, party, item, here)
                    if item.level == 3:
                        _take(pruned, item.chn, item)
                    else:
                        _take(found, (item.chn, item.seq), item)
    case.erased, case.pruned = found, pruned
    if orders:
        return Finding(_told(found, pruned, here), Tier.WARNING, tuple(orders))
    return Finding(f"no erasure; {holds} holds by accepted authorities" if holds else "no erasure, no hold")


def _demand_authority(case: Case, party: Party, record: VerifiedReceipt) -> None:
    accepted = case.trust.erasure_authorities or ()
    log = party.statement.log
    what = f"a record of kind {record.kind} without an accepted authority"
    if log is None:
        raise ErasureUnauthorized(f"{what}: the keyset names no log", where=record.jti)
    try:
        verify_order(
            record.payload,
            kind=record.kind,
            origin=log.origin,
            authorities=[key for entry, key in accepted if entry.counts_at(case.at)],
            latest=record.iat + case.trust.clock_tolerance_s,
        )
    except AffiantError as error:
        raise ErasureUnauthorized(f"{what}: {error}", where=record.jti) from error
    if record.rh in case.unlogged or (not case.along_log and record.rh not in case.bundle.proofs):
        raise ErasureUnauthorized(
            f"a record of kind {record.kind} that is not shown to be logged", where=record.jti
        )


def _items(record: VerifiedReceipt) -> Iterator[Erased]:
    items = record.member("del")
    assert isinstance(items, list)
    for item in items:
        agt = item.get("agt", {})
        yield Erased(
            chn=item["chn"],
            seq=item["seq"],
            rh=item["rh"],
            level=item["lvl"],
            session=agt.get("ses"),
            number=agt.get("seq"),
            order=record.jti,
        )


def _demand_named(case: Case, party: Party, item: Erased, here: _Here) -> None:
    """What is here under that number is what was named, and of the same log."""
    for other in case.parties:
        if item.chn in other.statement.chn and _origin(case, other) != _origin(case, party):
            raise ErasureUnauthorized("an erasure of a record of another log", where=item.order)
    record = here.get((item.chn, item.seq))
    if record is not None and record.rh != item.rh:
        raise ErasureUnauthorized(
            "an erasure names another record than stands there",
            expected=record.rh,
            found=item.rh,
            where=item.order,
        )


def _origin(case: Case, party: Party) -> str | None:
    """The log of a gateway, or of the gateway that a session names."""
    wanted = party.statement.gks or party.statement.keyset_digest
    logs = (each.statement.log for each in case.gateways if each.statement.keyset_digest == wanted)
    return next((log.origin for log in logs if log is not None), None)


def _take(kept: dict[_T, Erased], name: _T, item: Erased) -> None:
    """Keep ``item`` where nothing of its name is kept: of records the higher level, of chains the longer stretch."""
    before = kept.get(name)
    if before is not None and before.seq == item.seq and before.rh != item.rh:
        raise ErasureUnauthorized("two erasures name two records of one number", where=item.order)
    if before is None or (before.seq, before.level) < (item.seq, item.level):
        kept[name] = item


def _told(found: Mapping[tuple[str, int], Erased], pruned: Mapping[str, Erased], here: _Here) -> str:
    records = [place for place, each in found.items() if each.level == 2]
    contents = [place for place, each in found.items() if each.level == 1]
    text = f"ordered to be erased: {len(records)} records, and the content of {len(contents)}"
    text = f"{text}; {len(pruned)} chains to be pruned" if pruned else text
    left = sum(place in here for place in records)
    left += len({chn for chn, seq in here if chn in pruned and seq <= pruned[chn].seq})
    left += sum(place in here and bool(here[place].text.disclosures) for place in contents)
    return f"{text}; of {left} it is still here" if left else text


def check_holds(case: Case) -> Finding:
    """``hold.respected``: nothing was ordered to be erased between the record of its hold and that of the hold's end,
    in the order of the log."""
    case.need("erasure.authority")
    holds = [record for record in case.records if record.kind == "hold" and "rel" not in record.payload]
    if not holds:
        return Finding("no hold")
    if not case.along_log:
        case.need("log.inclusion")
    erasures = [record for record in case.records if record.kind == "erasure"]
    for hold in holds:
        begin, end = _span(case, hold)
        target = str(hold.member("tgt"))
        for erasure in erasures:
            inside = begin < case.places[erasure.rh] < end
            if inside and any(_is_held(case, item, target) for item in _items(erasure)):
                raise HoldBroken("a held record was ordered to be erased", where=erasure.jti)
    return Finding(f"{len(holds)} holds, and nothing held was ordered to be erased")


def _span(case: Case, hold: VerifiedReceipt) -> tuple[tuple[str, float], tuple[str, float]]:
    """Where in the log a hold begins and ends."""
    begin = case.places[hold.rh]
    ends = [
        case.places[record.rh]
        for record in case.records
        if record.kind == "hold"
        and record.member("rel") == hold.rh
        and record.member("tgt") == hold.member("tgt")
    ]
    later = [end for end in ends if end[0] == begin[0] and end > begin]
    return begin, min(later, default=(begin[0], float("inf")))


def _is_held(case: Case, item: Erased, target: str) -> bool:
    if target in (item.rh, item.session):
        return True
    if item.level == 3 and any(record.rh == target and _reaches(item, record) for record in case.records):
        return True
    return any(
        session.id == target
        and (
            item.chn in session.supervisor.statement.chn
            or (item.level == 3 and any(_reaches(item, record) for record in session.gateway))
        )
        for session in case.sessions
    )


def _reaches(item: Erased, record: VerifiedReceipt) -> bool:
    """Whether the chain that is pruned holds ``record``."""
    return record.chn == item.chn and record.seq <= item.seq
