"""Which earlier boots of a store are old enough to be pruned, and what an order names of them.

A boot counts as old when its newest record is: by the record's own time, as the store has it. What the store says is
not verified here: the person who signs reads a store that an export of it has shown to be whole. The newest boot is
never named; neither is one of which a session or record is held, or what was ordered to be pruned before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from affiant.attestation.encoding.binary_text import b64u
from affiant.errors import MalformedError
from affiant.gateway.bundles.period_store import Store
from affiant.gateway.store.entries import PeerEntry, RecordEntry
from affiant.gateway.store.order_book import is_order, payload_of

__all__ = ["OldBoot", "Retention", "old_boots"]


@dataclass(frozen=True, slots=True)
class Chain:
    """One chain; ``ses`` is empty for the gateway's. ``seq`` and ``rh`` are of its last record."""

    chn: str
    seq: int
    rh: str
    ses: str

    def item(self, basis: str) -> Mapping[str, object]:
        """The element of ``del`` that names it."""
        agt = {"agt": {"ses": self.ses}} if self.ses else {}
        return {"chn": self.chn, "seq": self.seq, "rh": self.rh, "lvl": 3, "basis": basis, **agt}


@dataclass(frozen=True, slots=True)
class OldBoot:
    """One boot to be pruned: its sessions' chains, and last its gateway's."""

    chains: Sequence[Chain]
    records: int
    newest: int
    """Time of its newest record: seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What was found: boots to prune, oldest first, and how many are old enough and held."""

    boots: Sequence[OldBoot]
    held: int


@dataclass(slots=True)
class _Boot:
    chains: dict[str, Chain] = field(default_factory=dict)
    targets: set[str] = field(default_factory=set)
    """Ids of its sessions, hashes of its records."""
    records: int = 0
    newest: int = 0


@dataclass(slots=True)
class _Orders:
    pruned: set[str] = field(default_factory=set)
    erased: dict[str, Chain] = field(default_factory=dict)
    """Chain -> the last of its records that is erased by order."""
    holds: dict[str, str] = field(default_factory=dict)
    """Receipt hash of a hold -> its target."""
    ended: set[str] = field(default_factory=set)


def old_boots(store: Store, *, before: float) -> Retention:
    """The boots of ``store`` whose newest record is older than ``before``, seconds since 1970.

    Raises:
        StoreUnreadable: a segment cannot be read.
    """
    boots, orders = _read(store)
    newest = list(boots)[-1:]
    in_force = {target for rh, target in orders.holds.items() if rh not in orders.ended}
    found, held = [], 0
    for name, boot in boots.items():
        chains = [_whole(chain, orders) for chain in boot.chains.values() if chain.chn not in orders.pruned]
        # The gateway's chain goes last, so that a boot whose gateway's is named has nothing left to be named.
        of_gateway = [chain for chain in chains if not chain.ses]
        if [name] == newest or not of_gateway or boot.newest >= before:
            continue
        if boot.targets & in_force:
            held += 1
            continue
        of_sessions = [chain for chain in chains if chain.ses]
        found.append(OldBoot((*of_sessions, *of_gateway), boot.records, boot.newest))
    return Retention(found, held)


def _whole(chain: Chain, orders: _Orders) -> Chain:
    """With the last record that is erased, where that stood after all that are here."""
    erased = orders.erased.get(chain.chn)
    return (
        chain
        if erased is None or erased.seq < chain.seq
        else Chain(chain.chn, erased.seq, erased.rh, chain.ses)
    )


def _read(store: Store) -> tuple[dict[bytes, _Boot], _Orders]:
    boots: dict[bytes, _Boot] = {}
    orders = _Orders()
    for number in store.segments():
        for placed in store.segment(number):
            boot = boots.setdefault(placed.boot, _Boot())
            if isinstance(placed.entry, (RecordEntry, PeerEntry)):
                _take(boot, orders, placed.entry)
    return boots, orders


def _take(boot: _Boot, orders: _Orders, entry: RecordEntry | PeerEntry) -> None:
    try:
        claims = payload_of(entry.jws)
    except MalformedError:  # whatever the store holds instead names no chain
        return
    chn, seq, iat = claims.get("chn"), claims.get("seq"), claims.get("iat")
    if not (isinstance(chn, str) and isinstance(seq, int) and isinstance(iat, int)):
        return
    rh = b64u(hashlib.sha256(entry.jws.encode("ascii")).digest())
    boot.records, boot.newest = boot.records + 1, max(boot.newest, iat)
    boot.targets |= {rh, entry.ses} - {""}
    known = boot.chains.get(chn)
    if known is None or known.seq < seq:
        boot.chains[chn] = Chain(chn, seq, rh, entry.ses if isinstance(entry, PeerEntry) else "")
    if isinstance(entry, RecordEntry) and entry.kind in ("erasure", "hold") and is_order(entry.kind, claims):
        _take_order(orders, entry.kind, rh, claims)


def _take_order(orders: _Orders, kind: str, rh: str, claims: Mapping[str, Any]) -> None:
    if kind == "hold":
        if "rel" in claims:
            orders.ended.add(claims["rel"])
        else:
            orders.holds[rh] = claims["tgt"]
        return
    for item in claims["del"]:
        if item["lvl"] == 3:
            orders.pruned.add(item["chn"])
        known = orders.erased.get(item["chn"])
        if item["lvl"] == 2 and (known is None or known.seq < item["seq"]):
            orders.erased[item["chn"]] = Chain(item["chn"], item["seq"], item["rh"], "")
