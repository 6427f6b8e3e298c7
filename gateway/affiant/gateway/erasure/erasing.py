"""Carries out the orders of erasure authorities: record first, leaf in the log next, and only then is anything erased.

1. The order is signed by an authority that this gateway's configuration names, for this log.
2. Every record that it names is here, is what it says, belongs to no session that is open, and no hold is on it.
3. The ``erasure`` record is signed, durable, and under a checkpoint of the log (trust rules, 3).
4. The entries are erased in place, their index rows go, and the journal says that it was done. Of level 3, which names
   whole chains, see ``pruning``.

A crash before 3 is complete leaves nothing erased: the order is given again. After it the next start does the rest:
what is in the journal and in the log is the intent, and nothing is signed again. The same order again has the same
answer.

A hold, and the end of one, are recorded alike. What is held is not erased.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.erasure.orders import CONTENT_KINDS
from affiant.attestation.erasure.request_file import Request
from affiant.errors import AffiantError, MalformedError, NotAllowedError, StateError
from affiant.gateway.erasure.pruning import Pruning
from affiant.gateway.log.published_log import PublishedLog
from affiant.gateway.sessions.recorder import Recorder
from affiant.gateway.sessions.sessions import SessionState, SessionTable
from affiant.gateway.store.entries import (
    ErasedEntry,
    ErasingEntry,
    PeerEntry,
    RecordEntry,
    decode_entry,
    encode_entry,
)
from affiant.gateway.store.index import Index, PeerPlace, RecordPlace
from affiant.gateway.store.journal import Journal, Place
from affiant.gateway.store.journal_erasing import erase_entries, finish_erasing
from affiant.gateway.store.order_book import OrderBook, Ordered, is_order, payload_of
from affiant.gateway.wire.errors import EntryErased, IndexUnavailable, JournalMalformed

__all__ = ["Erasing"]

_AHEAD_S: Final = 60
"""Seconds by which an authority's clock may be ahead of ours."""
_log = logging.getLogger("affiant.gateway")


@dataclass(frozen=True, slots=True)
class _Target:
    """A record that an order names, as it lies in the store."""

    place: RecordPlace | PeerPlace
    level: int
    jti: str
    """Of this gateway's records; else empty."""


@dataclass(slots=True)
class Erasing:
    """The orders of one log.

    Args:
        store: the journal's folder. clock: wall-clock time, UTC.
    """

    recorder: Recorder
    journal: Journal
    index: Index
    log: PublishedLog
    sessions: SessionTable
    book: OrderBook
    origin: str
    store: Path
    pruning: Pruning
    clock: Callable[[], datetime]
    _known: bool = False
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def take(self, request: Request) -> Sequence[Mapping[str, object]]:
        """Carry out every order of ``request``, one after another; what became of each.

        Raises:
            OrderUnauthorized, ``erasure.*``, ``hold.unknown``: the first rejected order; those before it are done.
            JournalUnavailable, LogUnavailable, IndexUnavailable: what is recorded is carried out at the next start.
        """
        if request.origin != self.origin:
            raise StateError(
                "orders for another log",
                expected=self.origin,
                found=request.origin[:80],
                code="erasure.mismatch",
            )
        async with self._one:
            await self._load()
            return [await self._take(request.kind, order) for order in request.orders]

    async def resume(self) -> None:
        """Do what was ordered and logged, and not done before the gateway ended. Never raises."""
        try:
            async with self._one:
                await self._load()
                pending = set(await self.index.pending_orders())
                waiting = [each for each in self.book.erasures() if each.jti in pending]
                if waiting:
                    await asyncio.to_thread(finish_erasing, self.store)
                for ordered in waiting:
                    if self.book.is_by_authority(ordered):
                        await self._carry_out(ordered)
        except AffiantError as error:
            _log.error("what was ordered to be erased is not erased yet: %s", error)

    # -- one order ---------------------------------------------------------------------------------------------

    async def _take(self, kind: str, order: Mapping[str, Any]) -> Mapping[str, object]:
        self.book.demand(kind, order, latest=self.clock().timestamp() + _AHEAD_S)
        known = self.book.by_order(order["aut"])
        if known is not None and await self._is_logged(known):
            if kind == "hold" and "rel" not in order and self.book.hold(known.rh) is None:
                raise StateError(
                    "this very hold was ended since, so that it holds nothing",
                    found=known.rh,
                    hint="Make the request anew: it is another hold at another time.",
                    code="hold.unknown",
                )
            done = await self._carry_out(known) if kind == "erasure" else 0
            return _answer(known, new=False, erased=done)
        gone: tuple[str, ...] = ()
        if kind == "erasure":
            gone = await self._demand_erasable(order["del"])
        elif "rel" in order:
            self._demand_hold(order)
        self.log.require()
        recorded = self.recorder.record(kind, order)
        ordered = Ordered(
            recorded.jti,
            recorded.head.chn,
            recorded.head.seq,
            recorded.issued.rh,
            kind,
            recorded.issued.payload,
        )
        durable = recorded.durable
        if kind == "erasure":
            entry = ErasingEntry(jti=recorded.jti, gone=gone)
            durable = self.journal.append(encode_entry(entry), note=entry)
        await durable
        self.book.add(ordered)
        await self.log.include()
        done = await self._carry_out(ordered) if kind == "erasure" else 0
        return _answer(ordered, new=True, erased=done)

    def _demand_hold(self, order: Mapping[str, Any]) -> None:
        hold = self.book.hold(order["rel"])
        if hold is None or hold.payload["tgt"] != order["tgt"]:
            raise StateError(
                "no hold in force has this record and target", found=order["rel"], code="hold.unknown"
            )

    async def _demand_erasable(self, items: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
        """Return if everything named may be erased; the ids of this boot's records that will be gone."""
        places = [(item["chn"], item["seq"]) for item in items]
        if len(set(places)) != len(places):
            raise StateError("one record twice in one order", code="erasure.repeated")
        gone = []
        await self.pruning.demand([item for item in items if item["lvl"] == 3])
        for item in items:
            if item["lvl"] == 3:
                continue
            target = await self._target(item)
            if target.jti and target.level == 2:
                gone.append(target.jti)
        return tuple(gone)

    async def _target(self, item: Mapping[str, Any]) -> _Target:
        name = f"{item['chn']}:{item['seq']}"
        level = self.book.level_of(item["chn"], item["seq"])
        if level >= item["lvl"]:
            raise StateError(
                "the record was ordered to be erased before",
                where=name,
                found=f"level {level}",
                code="erasure.repeated",
            )
        place = await self.index.record_at(item["chn"], item["seq"])
        if place is None or place.rh != item["rh"]:
            raise StateError(
                "no such record here",
                where=name,
                expected="chn, seq and rh of a record",
                code="erasure.mismatch",
            )
        claims = await asyncio.to_thread(self._claims, place)
        expected = {"ses": place.ses} if place.ses else {}
        if isinstance(place, RecordPlace) and place.ses:
            expected["seq"] = claims["agt"]["seq"]
        if item.get("agt", {}) != expected:
            raise StateError(
                "the record's session is another",
                where=f"{name}.agt",
                expected=expected,
                code="erasure.mismatch",
            )
        if item["lvl"] == 2 and claims["kind"] not in CONTENT_KINDS:
            raise NotAllowedError(
                "records of this kind hold the chain or the session together",
                where=name,
                found=claims["kind"],
                hint="Of these the content alone can be erased: level 1",
                code="erasure.kind",
            )
        session = self.sessions.by_id(place.ses) if place.ses else None
        if session is not None and session.state is not SessionState.CLOSED:
            raise StateError(
                "the session has not ended",
                where=name,
                found=session.state.value,
                code="erasure.session_open",
            )
        hold = self.book.hold_on(place.rh, place.ses)
        if hold is not None:
            raise NotAllowedError(
                "the record is held",
                where=name,
                found=f"hold {hold.rh}: {hold.payload['basis']}",
                code="erasure.held",
            )
        return _Target(place, item["lvl"], place.jti if isinstance(place, RecordPlace) else "")

    # -- the store ---------------------------------------------------------------------------------------------

    async def _load(self) -> None:
        await self.index.caught_up()
        if self._known:
            return
        for place in await self.index.orders():
            payload = await asyncio.to_thread(self._claims, place)
            if not is_order(place.kind, payload):
                continue  # whatever a store holds instead
            ordered = Ordered(place.jti, place.chn, place.seq, place.rh, place.kind, payload)
            if ordered.kind == "hold" or await self._is_logged(ordered):
                self.book.add(ordered)  # an erasure without a leaf was never carried out, and never will be
        self._known = True

    def _claims(self, place: RecordPlace | PeerPlace) -> Mapping[str, Any]:
        try:
            entry = decode_entry(self.journal.read(place.place))
            if isinstance(entry, (RecordEntry, PeerEntry)):
                return payload_of(entry.jws)
        except EntryErased as error:
            raise StateError(
                "the record is erased already", where=f"{place.chn}:{place.seq}", code="erasure.repeated"
            ) from error
        except (OSError, JournalMalformed, MalformedError) as error:
            raise IndexUnavailable("the journal does not hold what the index says") from error
        raise IndexUnavailable("the journal does not hold what the index says")

    async def _is_logged(self, ordered: Ordered) -> bool:
        head = await self.log.include()
        (proof,) = await self.log.prove([from_b64u(ordered.rh)], head)
        return proof is not None

    async def _carry_out(self, ordered: Ordered) -> int:
        """Erase what a logged order names and is still here; how many entries that were."""
        await self.index.caught_up()
        places: list[Place] = []
        chains = [item["chn"] for item in ordered.payload["del"] if item["lvl"] == 3]
        for item in ordered.payload["del"]:
            if item["lvl"] == 3:
                continue
            places += await self.index.opening_of(item["rh"])
            place = await self.index.record_at(item["chn"], item["seq"])
            if item["lvl"] == 2 and place is not None and place.rh == item["rh"]:
                places.append(place.place)
        await asyncio.to_thread(erase_entries, self.store, places)
        await self.index.remove(places)
        pruned = await self.pruning.carry_out(chains)
        if ordered.jti in await self.index.pending_orders():
            entry = ErasedEntry(jti=ordered.jti)
            await self.journal.append(encode_entry(entry), note=entry)
        return len(places) + pruned


def _answer(ordered: Ordered, *, new: bool, erased: int) -> Mapping[str, object]:
    head = {"chn": ordered.chn, "seq": ordered.seq, "rh": ordered.rh}
    return {"kind": ordered.kind, "record": ordered.jti, **head, "new": new, "erased": erased}
