"""Prunes earlier boots whose chains an authority ordered to be pruned: level 3.

Segments are a boot's, so a boot goes whole: the chain of its gateway and those of its sessions. Orders may name them
one after another; the one that names the gateway's chain is refused until the others are named, and it is what deletes.

A boot that gave no orders of its own leaves nothing: its segments are deleted, the newest first, so that its first
records show until the end whose they were. One that did keeps them, its boot record and what proves its key, since what
it ordered stays true of other boots; everything else is erased where it lies. The log keeps all leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from affiant.attestation.encoding.binary_text import b64u
from affiant.errors import NotAllowedError, StateError
from affiant.files import sync_folder
from affiant.gateway.store.index import Index, WholeChain
from affiant.gateway.store.journal import segment_path
from affiant.gateway.store.journal_erasing import erase_entries
from affiant.gateway.store.journal_format import HEAD_SIZE, scan
from affiant.gateway.store.order_book import OrderBook
from affiant.gateway.wire.errors import JournalMalformed, JournalUnavailable

__all__ = ["Pruning", "segments_of_boot"]


@dataclass(frozen=True, slots=True)
class Pruning:
    """Level 3 of one store.

    Args:
        store: the journal's folder.
    """

    index: Index
    book: OrderBook
    store: Path

    async def demand(self, items: Sequence[Mapping[str, Any]]) -> None:
        """Return if every chain that ``items`` of one order name may be pruned.

        Raises:
            ``erasure.mismatch``, ``erasure.repeated``, ``erasure.chain_growing``, ``erasure.held``: as named.
        """
        together = {item["chn"]: item["seq"] for item in items}
        for item in items:
            await self._demand(item, together)

    async def carry_out(self, chains: Sequence[str]) -> int:
        """Prune the boots of those ``chains`` that are a gateway's; how many segments or entries went.

        Raises:
            ``erasure.mismatch``: a boot has a chain that no order prunes; nothing of it is deleted.
            JournalUnavailable: a segment cannot be deleted.
        """
        done = 0
        for chn in chains:
            found = await self.index.whole_chain(chn)
            if found is not None and not found.ses and found.boot != self.index.boot:
                await self._demand_all_named(found.boot, {})
                done += await self._prune(found.boot)
        return done

    async def _demand(self, item: Mapping[str, Any], together: Mapping[str, int]) -> None:
        name = f"{item['chn']}:{item['seq']}"
        if self.book.is_pruned(item["chn"], 0):
            raise StateError("the chain was ordered to be pruned before", where=name, code="erasure.repeated")
        chain = await self.index.whole_chain(item["chn"])
        if chain is None or self._last(item["chn"], chain) != (item["seq"], item["rh"]):
            raise StateError(
                "not the last record of a chain here",
                where=name,
                expected="chn, seq and rh of the last record",
                code="erasure.mismatch",
            )
        if chain.boot == self.index.boot:
            raise StateError(
                "the chain is of the boot that serves",
                where=name,
                hint="Start the gateway again: its next boot can prune this one.",
                code="erasure.chain_growing",
            )
        expected = {"ses": chain.ses} if chain.ses else {}
        if item.get("agt", {}) != expected:
            raise StateError(
                "the chain's session is another",
                where=f"{name}.agt",
                expected=expected,
                code="erasure.mismatch",
            )
        for hold in self.book.holds():
            if await self.index.reaches(chain.boot, chain.ses, hold.payload["tgt"]):
                raise NotAllowedError(
                    "a record or session of the chain is held",
                    where=name,
                    found=f"hold {hold.rh}: {hold.payload['basis']}",
                    code="erasure.held",
                )
        if not chain.ses:
            await self._demand_all_named(chain.boot, together)

    def _last(self, chn: str, chain: WholeChain) -> tuple[int, str]:
        """Number and hash of the last record of a chain, be it erased."""
        here = (chain.seq, chain.rh)
        return max(here, self.book.last_erased(chn) or here)

    async def _demand_all_named(self, boot: str, together: Mapping[str, int]) -> None:
        for chn, seq in (await self.index.chains_of(boot)).items():
            if not (self.book.is_pruned(chn, seq) or together.get(chn, -1) >= seq):
                raise StateError(
                    "a boot is pruned with the chains of all its sessions",
                    where=f"{chn}:{seq}",
                    hint="Name this chain as well, in this order or one before it.",
                    code="erasure.mismatch",
                )

    async def _prune(self, boot: str) -> int:
        segments = await asyncio.to_thread(segments_of_boot, self.store, boot)
        if not await self.index.has_orders(boot):
            await asyncio.to_thread(_delete, self.store, segments)
            await self.index.forget(boot, segments)
            return len(segments)
        places = await self.index.beside_orders(boot, segments)
        await asyncio.to_thread(erase_entries, self.store, places)
        await self.index.remove(places)
        return len(places)


def segments_of_boot(folder: Path, boot: str) -> Sequence[int]:
    """The numbers of a boot's segments, ascending; by their heads. Blocks.

    Raises:
        JournalUnavailable: a segment cannot be read.
    """
    numbers = []
    for path in sorted(folder.glob("[0-9]" * 8 + ".seg")):
        try:
            with path.open("rb") as file:
                head = scan(file.read(HEAD_SIZE))
        except JournalMalformed:
            continue
        except OSError as error:
            raise JournalUnavailable("a segment cannot be read", found=error.strerror) from error
        if b64u(head.boot) == boot:
            numbers.append(int(path.stem))
    return numbers


def _delete(folder: Path, segments: Sequence[int]) -> None:
    """Unlink, the newest first; durable on return."""
    try:
        for number in sorted(segments, reverse=True):
            segment_path(folder, number).unlink(missing_ok=True)
            sync_folder(folder)
    except OSError as error:
        raise JournalUnavailable("a segment cannot be deleted", found=error.strerror) from error
