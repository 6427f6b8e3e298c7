"""Bundles from the journal: what a session's verifier needs, found by the index, read back as exact bytes.

Nothing read here decides anything, and nothing is signed: every record carries its own signature and every
object is named by its digest, so a verifier of the bundle notices what a store changed.

A session's bundle holds its gateway's ``boot``, all records of that chain from ``session-start`` to
``session-close`` (other sessions' too, so that the chain is contiguous, but without openings), and the session's
own chain. So what its gateway recorded for others while it was open counts towards its size. Where the gateway died
before it closed the session, a later boot's ``gap`` says so, and is in it. Receipts carry no disclosures; those are in
``openings``, sealed to the key that the session named.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final

from affiant.attestation.bundle.bundle import MAX_BUNDLE, Bundle
from affiant.attestation.bundle.bundle_anchors import Anchors
from affiant.attestation.encoding.binary_text import b64u, from_b64u, sha256_name
from affiant.attestation.encoding.canonical import parse_strict
from affiant.attestation.records.receipt import receipt_hash
from affiant.attestation.records.sealed_disclosures import KEY_MARK
from affiant.attestation.tlog.note import to_base64
from affiant.attestation.tlog.proof import LogProof
from affiant.errors import StateError
from affiant.gateway.log.log_anchors import LogAnchors
from affiant.gateway.log.published_log import PublishedLog
from affiant.gateway.log.transparency_log import LogHead
from affiant.gateway.store.entries import (
    Entry,
    ObjectEntry,
    OpeningEntry,
    PeerEntry,
    RecordEntry,
    decode_entry,
)
from affiant.gateway.store.index import Index, PeerPlace, RecordPlace
from affiant.gateway.store.journal import Journal, Place
from affiant.gateway.wire.errors import (
    BundleTooLarge,
    EntryErased,
    IndexUnavailable,
    JournalMalformed,
    LogUnavailable,
)

__all__ = ["Bundles"]


@dataclass(frozen=True, slots=True)
class Bundles:
    """Assembles bundles from one store, in memory.

    Args:
        most: bytes of one session's bundle and openings.
    """

    index: Index
    journal: Journal
    log: PublishedLog
    anchors: LogAnchors
    most: int = MAX_BUNDLE

    async def of_session(self, session: str) -> bytes:
        """``{"bundle", "openings"}`` of one session, of this boot or an earlier one: JSON.

        Raises:
            ``not_found``: no session of this id has a record here. BundleTooLarge, IndexUnavailable: as named.
        """
        own = await self._ends(session)
        last = _last_of(own)
        await self._require_small(session, own[0], last)
        chain, named = await self._chain(own[0], last)
        of_session = await self.index.peers(session)
        records = await self._records([record.place for record in chain])
        peers = await self._peers([peer.place for peer in of_session])
        orders = await self._orders(session, chain, of_session)
        later = [*orders, *await self._gap(own, chain)]
        introduced, more = await self._introduced(later, own[0].boot)
        records = [*records, *await self._records([each.place for each in introduced])]
        objects = await self._objects([*await self.index.objects(own[0].boot, session), *named, *more])
        texts = [record.jws for record in records] + [peer.jws for peer in peers]
        openings = await self._openings(session, texts)
        proofs = await self._proofs(texts)
        if proofs:  # an order of a boot that was killed before the leaf: it was never carried out
            unlogged = {each.rh for each in orders} - set(proofs)
            texts = [text for text in texts if receipt_hash(text) not in unlogged]
        bundle = await self._bundle([text + "~" for text in texts], proofs, objects)
        made = await asyncio.to_thread(_encoded, bundle, openings)
        if len(made) > self.most:
            raise self._too_large()
        return made

    async def _require_small(self, session: str, start: RecordPlace, last: int) -> None:
        """Read nothing of a bundle that would be too large; its records are in the log's checkpoint then."""
        found = await self.index.extent(start.boot, session, start.seq - 1, last)
        if found.size + found.records * _bytes_beside(self.log.head) <= self.most:
            return
        with suppress(LogUnavailable):
            await self.log.include()
        raise self._too_large()

    def _too_large(self) -> BundleTooLarge:
        return BundleTooLarge(
            "a single bundle does not hold the session's records and those of its gateway's other sessions meanwhile",
            expected=f"at most {self.most >> 20} MiB",
            hint="Export them as a period: affiant bundle export --session ID",
        )

    async def of_receipt(self, session: str, sdjwt: str) -> bytes:
        """A bundle of one receipt of a session, with the records that introduce its signer and its session."""
        own = await self._ends(session)
        chain, named = await self._chain(own[0], own[0].seq)
        records = await self._records([record.place for record in chain])
        objects = await self._objects([*await self.index.objects(own[0].boot, session), *named])
        introduced = [record.jws for record in records if not sdjwt.startswith(record.jws + "~")]
        receipts = (*(text + "~" for text in introduced), sdjwt)
        proofs = await self._proofs([text.partition("~")[0] for text in receipts])
        return (await self._bundle(receipts, proofs, objects)).to_bytes()

    async def proof_of(self, sdjwt: str) -> bytes:
        """The proof of inclusion of one receipt, as C2SP tlog-proof text.

        Raises:
            ``not_found``: it has no leaf. LogUnavailable: as named.
        """
        head = await self.log.include()
        (proof,) = await self.log.prove([_hash_of(sdjwt.partition("~")[0])], head)
        if proof is None:
            raise StateError("the receipt has no leaf in the log", code="not_found")
        return proof.to_bytes()

    async def _bundle(
        self,
        receipts: Sequence[str],
        proofs: Mapping[str, str],
        objects: Mapping[str, Mapping[str, bytes]],
    ) -> Bundle:
        """A bundle with the first anchors of the log that cover it, where there are any."""
        bare = Bundle(receipts=tuple(receipts), proofs=proofs, anchors=Anchors(), **objects)
        return await asyncio.to_thread(self.anchors.added_to, bare)

    async def _proofs(self, texts: Sequence[str]) -> Mapping[str, str]:
        """Proofs of the records with these JWS; what has no leaf, or a log that failed, gives none."""
        hashes = await asyncio.to_thread(lambda: [_hash_of(text) for text in texts])
        try:
            found = await self.log.prove(hashes, await self.log.include())
        except LogUnavailable:
            return {}
        return await asyncio.to_thread(_as_text, hashes, found)

    async def _ends(self, session: str) -> Sequence[RecordPlace]:
        """Its start and, once it has it, its close."""
        await self.index.caught_up()
        ends = await self.index.session_ends(session)
        starts = [record for record in ends if record.kind == "session-start"]
        if not starts:
            raise StateError(
                "there is no such session here; or it was, and was pruned after its retention",
                code="not_found",
            )
        return [record for record in ends if record.boot == starts[0].boot and record.seq >= starts[0].seq]

    async def _chain(self, start: RecordPlace, last: int) -> tuple[Sequence[RecordPlace], Sequence[Place]]:
        """Record 0 and those from ``start`` to ``last``, and the checkpoints that epochs among them name.

        The epoch right before ``start`` belongs to them if it names one: it is what the session is not before.
        """
        chain = await self.index.chain(start.boot, start.seq - 1, last)
        named = await self.index.checkpoints(start.boot, start.seq - 1, last)
        kept = [each for each in chain if each.seq == 0 or each.seq >= start.seq or each.seq in named]
        return kept, list(named.values())

    async def _orders(
        self, session: str, chain: Sequence[RecordPlace], peers: Sequence[PeerPlace]
    ) -> Sequence[RecordPlace]:
        """The erasures that name a record of this bundle, and the holds on it; those that the chain does not hold."""
        begin = min(record.seq for record in chain if record.ses == session)
        wanted = set(await self.index.ordered_in(chain[0].chn, begin, chain[-1].seq))
        for chn in {peer.chn for peer in peers}:
            wanted |= await self.index.ordered_in(chn, 0, 1 << 53)
        targets = {session, *(each.rh for each in chain), *(each.rh for each in peers)}
        wanted |= {jti for jti, target in await self.index.held() if target in targets}
        known = {record.jti for record in chain}
        return [each for each in await self.index.orders() if each.jti in wanted - known] if wanted else []

    async def _gap(self, own: Sequence[RecordPlace], chain: Sequence[RecordPlace]) -> Sequence[RecordPlace]:
        """The first record of a later boot that discloses this chain's end, where the session has no close."""
        if any(record.kind == "session-close" for record in own):
            return ()
        gaps = {gap.jti: gap for gap in await self.index.gaps() if gap.boot != own[0].boot}
        entries = await self._records([gap.place for gap in gaps.values()])
        found = (gaps[entry.jti] for entry in entries if _left_open(entry.jws) == chain[0].chn)
        return tuple(islice(found, 1))

    async def _introduced(
        self, later: Sequence[RecordPlace], boot: str
    ) -> tuple[Sequence[RecordPlace], Sequence[Place]]:
        """Records of other boots come with the boot record and the objects of their gateway."""
        found = list(later)
        objects: list[Place] = []
        for other in {each.boot for each in later} - {boot}:
            found += await self.index.chain(other, 0, 0)
            objects += await self.index.objects(other, "")
        return found, objects

    async def _records(self, places: Sequence[Place]) -> Sequence[RecordEntry]:
        entries = await asyncio.to_thread(self._read, places)
        return [entry for entry in entries if isinstance(entry, RecordEntry)]

    async def _peers(self, places: Sequence[Place]) -> Sequence[PeerEntry]:
        entries = await asyncio.to_thread(self._read, places)
        return [entry for entry in entries if isinstance(entry, PeerEntry)]

    async def _openings(self, session: str, texts: Sequence[str]) -> Mapping[str, str]:
        """Sealed disclosures of a session's records with these JWS and the keys to them, by what each is kept under."""
        places = await self.index.openings(session)

        def read() -> Mapping[str, str]:
            hashes = {receipt_hash(text) for text in texts}
            entries = (entry for entry in self._read(places) if isinstance(entry, OpeningEntry))
            return {
                entry.rh: entry.sealed
                for entry in entries
                if entry.rh in hashes or entry.sealed.startswith(KEY_MARK)
            }

        return await asyncio.to_thread(read)

    async def _objects(self, places: Sequence[Place]) -> Mapping[str, Mapping[str, bytes]]:
        maps: dict[str, dict[str, bytes]] = defaultdict(dict)
        for entry in await asyncio.to_thread(self._read, places):
            if isinstance(entry, ObjectEntry):
                data = from_b64u(entry.data)
                maps[entry.map][sha256_name(data)] = data
        return maps

    def _read(self, places: Iterable[Place]) -> list[Entry]:
        entries = []
        try:
            for place in places:
                with suppress(EntryErased):  # between the index's answer and now
                    entries.append(decode_entry(self.journal.read(place)))
        except (OSError, JournalMalformed) as error:
            raise IndexUnavailable("the journal does not hold what the index says") from error
        return entries


_BESIDE: Final = 128
"""Bytes of JSON around a record and in its proof, beside the proof's path and checkpoint."""


def _bytes_beside(head: LogHead) -> int:
    """Bytes that a record's proof under ``head`` takes in a bundle, at most: a path of hashes, and the checkpoint."""
    hashes = head.checkpoint.size.bit_length() * len(json.dumps(to_base64(bytes(32)) + "\n"))
    return _BESIDE + hashes + len(json.dumps(head.note.to_bytes().decode("utf-8")))


def _as_text(hashes: Sequence[bytes], proofs: Sequence[LogProof | None]) -> Mapping[str, str]:
    return {
        b64u(rh): proof.to_bytes().decode("utf-8")
        for rh, proof in zip(hashes, proofs, strict=True)
        if proof is not None
    }


def _encoded(bundle: Bundle, openings: Mapping[str, str]) -> bytes:
    """The answer; for a large bundle this takes seconds."""
    beside = json.dumps(openings, sort_keys=True).encode("ascii")
    return b'{"bundle":%s,"openings":%s}\n' % (bundle.to_bytes().rstrip(), beside)


def _left_open(jws: str) -> object:
    """The chain that a gap record names; nothing is verified here."""
    match parse_strict(from_b64u(jws.split(".")[1])):
        case {"lst": {"chn": chn}}:
            return chn
    return None


def _hash_of(jws: str) -> bytes:
    return hashlib.sha256(jws.encode("utf-8", "surrogatepass")).digest()


def _last_of(own: Sequence[RecordPlace]) -> int:
    """The close, or all that the chain holds while the session is open."""
    return next((record.seq for record in own if record.kind == "session-close"), 1 << 53)
