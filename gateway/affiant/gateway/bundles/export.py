"""The steps of an export, each of which can be stopped and gone on with.

1. The log: which leaves are in the range (by their own time), under which checkpoint.
2. The journal, once: where the records of those leaves lie.
3. The journal again: erasures that name a chain of which a leaf of the range has no record, then what all of these
   need beside them. The boot record of each signer, the whole of each session that has a record in the range, the last
   epoch before it, erasures and holds of its boots; statements, evidence and all other objects of those boots and
   sessions.
4. Where a tenant's key is given: the journal once more, for the sealed openings of exactly these records.
5. Receipts, 100,000 to a file, with what could be opened; the part of the log that they need; checkpoints; what was
   erased.
6. The archive.

The checkpoint is the smallest cosigned one that covers all of it, so that the same range gives the same bytes while the
log grows, until it is anchored anew; without witnesses it is the log's newest.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from affiant.attestation.bundle.period.draft import Draft
from affiant.attestation.bundle.period.layout import LINES_PER_FILE, checkpoint_name
from affiant.attestation.bundle.period.log_part import keep_log_part
from affiant.attestation.bundle.period.manifest import Manifest, Range
from affiant.attestation.bundle.period.writer import write_archive
from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.records.sealed_disclosures import KEY_MARK, recipient
from affiant.attestation.records.task_label import shown_label
from affiant.attestation.tlog.checkpoint import Checkpoint, parse_checkpoint
from affiant.attestation.tlog.note import Note, parse_note
from affiant.attestation.tlog.tiles import TILE_WIDTH
from affiant.attestation.verifier.files.opened_disclosures import Opener, Outcome
from affiant.errors import AffiantError, ConfigurationError, MalformedError, StateError
from affiant.gateway.bundles.anchored import Anchored, PeriodAnchors
from affiant.gateway.bundles.period_store import Placed, Store
from affiant.gateway.bundles.plan import Plan, Record
from affiant.gateway.store.entries import ObjectEntry, OpeningEntry, PeerEntry, RecordEntry
from affiant.gateway.store.journal import Place, hold_store
from affiant.gateway.store.order_book import is_order, payload_of
from affiant.gateway.wire.errors import EntryErased, JournalMalformed, StoreLocked

__all__ = ["Asked", "Exported", "export_period"]

_OF_NO_SESSION: Final = ("boot", "epoch", "end", "gap", "erasure", "hold")
"""Records of a gateway that name no session's content: exported also where sessions are named."""

_NOTHING: Final = "no record of what was asked for lies in the journal"

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be exported: instants from and to before, sessions; None: all."""

    since: datetime | None
    until: datetime | None
    sessions: tuple[str, ...] | None = None
    keys: tuple[X25519PrivateKey, ...] = field(default=(), repr=False)
    """Of tenants, whose sealed openings are opened; without any, receipts carry no disclosures."""
    label: tuple[str, ...] = field(default=(), repr=False)
    """Disclosures of a session's task label, which its starter keeps: no gateway has them."""


@dataclass(frozen=True, slots=True)
class Exported:
    """Finished. ``resumed``: an earlier call had begun it. ``witnessed``: the checkpoint carries cosignatures."""

    manifest: Manifest
    receipts: int
    leaves: int
    size: int
    witnessed: bool
    resumed: bool
    opened: Mapping[Outcome, int] | None = None
    """Receipts that hide something, by the outcome of opening them; None: no key was given."""


def export_period(
    store: Store, asked: Asked, place: Path, *, exporter: str, progress: Progress = lambda *_: None
) -> Exported:
    """Write the archive ``place``. The draft beside it is gone on with if it is of the same request, else begun anew.

    Raises:
        ``export.nothing``: no leaf is in the range. ``export.busy``: another export writes ``place``.
        AffiantError: the log's files are not what its checkpoint says, or lack something.
    """
    folder = place.with_name(f".{place.name}.draft")
    resumed = _prepare(folder, _request(store, asked))
    try:
        with hold_store(folder):
            plan = Plan(folder / "plan.sqlite")
            try:
                run = _Run(store, asked, plan, Draft(folder / "bundle"), progress)
                found = run.go(place, exporter)
            finally:
                plan.close()
    except StoreLocked as error:
        raise StateError("another export writes this file", where=str(place), code="export.busy") from error
    shutil.rmtree(folder)
    return replace(found, resumed=resumed)


def _request(store: Store, asked: Asked) -> bytes:
    document: dict[str, object] = {
        "version": 1,
        "store": str(store.folder.resolve()),
        "origin": store.log.origin,
        "from": _shown(asked.since),
        "to": _shown(asked.until),
        "sessions": None if asked.sessions is None else sorted(asked.sessions),
    }
    if asked.keys:
        document["openings"] = sorted(recipient(key) for key in asked.keys)
    if asked.label:
        document["label"] = [b64u(sha256(each.encode("ascii")).digest()) for each in asked.label]
    return json.dumps(document, sort_keys=True).encode("utf-8")


def _prepare(folder: Path, request: bytes) -> bool:
    """Whether a draft of the same request is gone on with; one of another is removed."""
    kept = folder / "request.json"
    if kept.exists() and kept.read_bytes() == request and (folder / "plan.sqlite").exists():
        return True
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(mode=0o700, parents=True)
    kept.write_bytes(request)
    return False


@dataclass(slots=True)
class _Run:
    store: Store
    asked: Asked
    plan: Plan
    draft: Draft
    progress: Progress

    def go(self, place: Path, exporter: str) -> Exported:
        """Every step that is not done yet."""
        self.draft.clean()
        if self.asked.keys:  # what an earlier call opened may have been erased since
            self.draft.drop_receipts()
            self.plan.forget_openings()
        _, newest = self.store.newest()
        first, end = self._choose_leaves(newest)
        self._scan("records", self._find_records)
        if self.asked.sessions is None:
            self._find_orders(newest.size)
        else:
            self.plan.drop_sessions_but(self.asked.sessions, _OF_NO_SESSION)
            if not self.plan.sessions():
                raise ConfigurationError(_NOTHING, code="export.nothing")
        sessions, boots = self.plan.sessions(), self.plan.boots()
        self._scan("beside", lambda found: self._find_beside(found, sessions, boots))
        self._place_extras(newest)
        if self.plan.count() == 0:
            raise ConfigurationError(_NOTHING, code="export.nothing")
        note, checkpoint = self._choose_checkpoint(end)
        if self.asked.keys:
            self._scan("openings", self._find_openings)
        self._write_receipts()
        self._write_log(note, checkpoint, first, end)
        self._write_erasures()
        asked = Range(
            _shown(self.asked.since),
            _shown(self.asked.until),
            self.store.log.origin,
            first,
            end,
            self._sessions(),
        )
        total = sum(path.stat().st_size for path in self.draft.folder.rglob("*") if path.is_file()) or 1
        written = 0

        def packed(size: int) -> None:
            nonlocal written
            written += size
            self.progress("packing", min(written, total), total)

        manifest = write_archive(
            self.draft.folder,
            place,
            asked=asked,
            exporter=exporter,
            progress=packed,
            private=bool(self.asked.keys or self.asked.label),
        )
        self.progress("packing", total, total)
        opened = dict.fromkeys(Outcome, 0) | {Outcome(k): n for k, n in self.plan.opened().items()}
        return Exported(
            manifest,
            self.plan.count(),
            end - first,
            checkpoint.size,
            witnessed=len(note.signatures) > 1,
            resumed=False,
            opened=opened if self.asked.keys else None,
        )

    # -- 1 -----------------------------------------------------------------------------------------------------

    def _choose_leaves(self, newest: Checkpoint) -> tuple[int, int]:
        """First leaf of the range and the one after its last."""
        if self.plan.reached("leaves") >= 0:
            return self.plan.reached("first"), self.plan.reached("end")
        since, until = _seconds(self.asked.since), _seconds(self.asked.until)
        first, end = -1, 0
        for index, entry in self.store.leaves(newest.size):
            if (since is None or entry.iat >= since) and (until is None or entry.iat < until):
                first, end = (index if first < 0 else first), index + 1
        if first < 0:
            raise ConfigurationError(
                "the log has no leaf in this range",
                found=f"{newest.size} leaves in all",
                code="export.nothing",
            )
        self.plan.add_leaves(
            (entry.rh, index) for index, entry in self.store.leaves(newest.size) if first <= index < end
        )
        self.plan.reach("first", first)
        self.plan.reach("end", end)
        self.plan.reach("leaves", newest.size)
        return first, end

    # -- 2 and 3 -----------------------------------------------------------------------------------------------

    def _scan(self, step: str, take: Callable[[Sequence[Placed]], None]) -> None:
        numbers = self.store.segments()
        known = self.plan.reached(f"{step} until")
        if known < 0:  # what is written from now on is of later leaves
            known = numbers[-1]
            self.plan.reach(f"{step} until", known)
        for number in numbers:
            if self.plan.reached(step) < number <= known:
                take(tuple(self.store.segment(number)))
                self.plan.reach(step, number)
            self.progress(f"journal {step}", min(number, known) + 1, known + 1)

    def _find_records(self, found: Sequence[Placed]) -> None:
        self.plan.find_records([record for placed in found if (record := _record(placed)) is not None])

    def _find_orders(self, size: int) -> None:
        """Erasures, of whichever boot, that name a chain of which a leaf of the range has no record any more."""
        missing = self.plan.missing()
        if missing:
            chains = {b64u(entry.chn) for index, entry in self.store.leaves(size) if index in missing}
            self._scan("orders", lambda placed: self.plan.add_extras(_orders_of(placed, chains)))

    def _find_beside(self, found: Sequence[Placed], sessions: set[str], boots: set[bytes]) -> None:
        extras: list[Record] = []
        for placed in found:
            if isinstance(placed.entry, ObjectEntry):
                self._take_object(placed, placed.entry, sessions, boots)
            elif (record := _record(placed)) is not None:
                of_boot = record.boot in boots and record.kind in ("boot", "epoch", "erasure", "hold")
                if record.ses in sessions or of_boot:
                    extras.append(record)
        self.plan.add_extras(extras)

    def _take_object(self, placed: Placed, entry: ObjectEntry, sessions: set[str], boots: set[bytes]) -> None:
        data = from_b64u(entry.data)
        if entry.map == "checkpoints":
            try:
                size = parse_checkpoint(parse_note(data).text).size
            except AffiantError:  # the journal is the operator's: whatever is there instead is no checkpoint
                return
            self.plan.add_note(size, entry.ses, placed.boot, placed.place)
        elif (not entry.ses and placed.boot in boots) or entry.ses in sessions:
            self.draft.put_object(entry.map, data)

    def _place_extras(self, newest: Checkpoint) -> None:
        """Find the leaves of what is beside the range; of a gateway's epochs, only the last before it."""
        if self.plan.reached("extras") >= 0:
            return
        wanted, first = self.plan.extra_kinds(), self.plan.reached("first")
        epochs: dict[bytes, tuple[bytes, int]] = {}
        found: list[tuple[bytes, int]] = []
        for index, entry in self.store.leaves(newest.size):
            kind = wanted.get(entry.rh)
            if kind is None or (kind == "epoch" and index >= first):
                continue
            if kind == "epoch":
                epochs[entry.chn] = (entry.rh, index)
            else:
                found.append((entry.rh, index))
        self.plan.place_extras([*found, *epochs.values()])
        self.plan.reach("extras", 0)

    # -- 4 and 5 -----------------------------------------------------------------------------------------------

    def _find_openings(self, found: Sequence[Placed]) -> None:
        """Sealed openings, and which of them were ordered to be erased, by whichever boot."""
        self.plan.add_openings(_openings_in(found))
        self.plan.add_erased(_contents_erased_in(found))

    def _choose_checkpoint(self, end: int) -> tuple[Note, Checkpoint]:
        """The smallest cosigned one over all of it, the leaf after and the first anchor that covers it; else one over
        less, at least over all of it; else the log's newest."""
        needed = self._needed(end)
        covering = self._anchors(end).covering
        best: tuple[Note, Checkpoint] | None = None
        for place in self.plan.notes_over(needed):
            note = parse_note(self._object(place))
            try:
                found = note, self.store.verified(note)
            except AffiantError:  # not the log's: it bounds nothing
                continue
            if best is None or best[1].size <= needed:
                best = found
            if found[1].size > needed and found[1].size >= covering:
                return found
        return best or self.store.newest()

    def _needed(self, end: int) -> int:
        """Leaves of a tree that has all that is exported."""
        return max(self.plan.last_index() + 1, end)

    def _anchors(self, end: int) -> PeriodAnchors:
        return PeriodAnchors(self.store, first=self.plan.reached("first"), needed=self._needed(end))

    def _object(self, place: Place) -> bytes:
        entry = self.store.read(place)
        if not isinstance(entry, ObjectEntry):
            raise JournalMalformed("the journal changed while it was read", hint="Export again.")
        return from_b64u(entry.data)

    def _write_receipts(self) -> None:
        total = self.plan.count()
        number = self.draft.shards
        while number * LINES_PER_FILE < total:
            places = self.plan.places(number * LINES_PER_FILE, LINES_PER_FILE)
            opener = Opener(self.asked.keys)
            lines = self._lines(places, number * LINES_PER_FILE, total, opener)
            self.draft.put_receipts(number, lines)
            if self.asked.keys:
                self.plan.keep_opened({str(each): count for each, count in opener.counts.items()})
            number += 1

    def _lines(
        self, places: Sequence[tuple[str, Place]], done: int, total: int, opener: Opener
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        for count, (_, place) in enumerate(places, done + 1):
            if count % 500 == 0 or count == total:
                self.progress("receipts", count, total)
            try:
                entry = self.store.read(place)
            except (EntryErased, JournalMalformed):  # erased since it was found: its leaf stays
                continue
            if isinstance(entry, (RecordEntry, PeerEntry)):
                found = self._disclosures(entry.jws, opener) if opener.keys else ()
                if self.asked.label and isinstance(entry, RecordEntry) and entry.kind == "session-start":
                    shown = shown_label("~".join([entry.jws, *found, ""]), self.asked.label)
                    found = tuple(shown.split("~")[1:-1])
                yield entry.jws, found

    def _disclosures(self, jws: str, opener: Opener) -> tuple[str, ...]:
        rh = sha256(jws.encode("ascii")).digest()
        return opener.disclosures(jws, self._opening, rh=b64u(rh), erased=self.plan.is_erased(rh))

    def _opening(self, name: str) -> str | None:
        place = self.plan.opening_of(from_b64u(name))
        if place is None:
            return None
        try:
            entry = self.store.read(place)
        except (EntryErased, JournalMalformed):  # erased since it was found
            return None
        return entry.sealed if isinstance(entry, OpeningEntry) else None

    def _write_log(self, note: Note, checkpoint: Checkpoint, first: int, end: int) -> None:
        self.draft.put_log("checkpoint", note.to_bytes())
        sizes: set[int] = set()
        for place in self.plan.notes_of_records():
            data = self._object(place)
            size = parse_checkpoint(parse_note(data).text).size
            if size <= checkpoint.size:
                self.draft.put(checkpoint_name(size), data)
                sizes.add(size)
        for anchor in self._anchors(end).under(checkpoint):
            self._write_anchor(anchor, kept=anchor.size in sizes)
            sizes.add(anchor.size)
        shown = set(range(max(0, first - 1) // TILE_WIDTH, min(end, checkpoint.size - 1) // TILE_WIDTH + 1))
        shown |= {index // TILE_WIDTH for index in self.plan.indices()}
        self.progress("log", 0, 1)
        keep_log_part(
            self.store.source, checkpoint, bundles=sorted(shown), sizes=sorted(sizes), keep=self.draft.put_log
        )
        self.progress("log", 1, 1)

    def _write_anchor(self, anchor: Anchored, *, kept: bool) -> None:
        """``kept``: an epoch names a checkpoint of this size, which says the same and stays as it was."""
        if not kept:
            self.draft.put(checkpoint_name(anchor.size), anchor.note)
        for ending, data in anchor.files.items():
            self.draft.put(f"anchors/{anchor.size}{ending}", data)

    def _write_erasures(self) -> None:
        lines = []
        for place in self.plan.of_kind("erasure"):
            entry = self.store.read(place)
            assert isinstance(entry, RecordEntry)
            claims = json.loads(from_b64u(entry.jws.split(".")[1]))
            lines += [{**each, "by": entry.jti} for each in claims.get("del", ())]
        text = "".join(json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n" for line in lines)
        self.draft.put("erasures.ndjson", text.encode("ascii"))

    def _sessions(self) -> tuple[str, ...] | None:
        return None if self.asked.sessions is None else tuple(sorted(self.asked.sessions))


def _orders_of(found: Sequence[Placed], chains: Collection[str]) -> Iterator[Record]:
    for placed in found:
        entry = placed.entry
        if not (isinstance(entry, RecordEntry) and entry.kind == "erasure"):
            continue
        try:
            claims = payload_of(entry.jws)
        except MalformedError:  # whatever the store holds instead orders nothing
            continue
        record = _record(placed)
        named = claims["del"] if is_order("erasure", claims) else ()
        if record is not None and any(item["chn"] in chains for item in named):
            yield record


def _openings_in(found: Sequence[Placed]) -> Iterator[tuple[bytes, Place, bool]]:
    for placed in found:
        if isinstance(placed.entry, OpeningEntry):
            with suppress(MalformedError):  # whatever the store holds instead opens nothing
                is_key = placed.entry.sealed.startswith(KEY_MARK)
                yield from_b64u(placed.entry.rh, size=32), placed.place, is_key


def _contents_erased_in(found: Sequence[Placed]) -> Iterator[bytes]:
    for placed in found:
        entry = placed.entry
        if isinstance(entry, RecordEntry) and entry.kind == "erasure":
            with suppress(MalformedError):
                claims = payload_of(entry.jws)
                if is_order("erasure", claims):
                    yield from (from_b64u(item["rh"], size=32) for item in claims["del"])


def _record(placed: Placed) -> Record | None:
    entry = placed.entry
    if isinstance(entry, RecordEntry):
        kind, jti = entry.kind, entry.jti
    elif isinstance(entry, PeerEntry):
        kind, jti = "", ""
    else:
        return None
    return Record(sha256(entry.jws.encode("ascii")).digest(), kind, jti, entry.ses, placed.boot, placed.place)


def _seconds(time: datetime | None) -> int | None:
    return None if time is None else int(time.timestamp())


def _shown(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
