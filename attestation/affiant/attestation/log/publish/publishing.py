"""Publishes a log to a store of objects, so that a reader never sees a checkpoint whose tiles are not there.

1. The files lead to the root of the checkpoint that is to be published.
2. What the store shows is the beginning of it: the same origin, not more leaves, the same root over as many.
3. Tiles and bundles, partial ones too, never change: each is created where it is missing, and never written over. What
   is there already and is not implied by the store's own checkpoint, is compared.
4. Anchors; a renewal may only be added to one.
5. The checkpoint, last, and only over the one that was compared in 2.

A first round lists the store, so that what was interrupted or lost is made whole; later ones write what has grown. One
that failed is followed by a first one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final

from affiant.attestation.log.publish.anchor_source import AnchorSource
from affiant.attestation.log.publish.errors import (
    NoteUncosigned,
    StoreAhead,
    WriterRaced,
)
from affiant.attestation.log.publish.resources import ReadyLog, count_of, implied_by, resources_of
from affiant.attestation.log_reading.errors import ResourceTooLarge
from affiant.attestation.log_reading.object_store import Found, Objects
from affiant.attestation.log_reading.source import LogSource
from affiant.attestation.tlog.checkpoint import Checkpoint, parse_checkpoint
from affiant.attestation.tlog.entry import ENTRY_SIZE
from affiant.attestation.tlog.errors import TileMalformed
from affiant.attestation.tlog.note import MAX_NOTE_BYTES, Note, parse_note
from affiant.attestation.tlog.tiles import CHECKPOINT_PATH, EntryBundle, Tile, parse_path
from affiant.attestation.tlog.tree import HASH_SIZE
from affiant.errors import AffiantError, ConfigurationError, MalformedError, NotAuthenticError, StateError

__all__ = ["Published", "Publisher"]

_AT_ONCE: Final = 8
_BATCH: Final = 64
"""Contents in memory at once: at most about 17 KiB each."""


@dataclass(frozen=True, slots=True)
class Published:
    """What one round did.

    Args:
        size: leaves of the checkpoint that the store shows now.
        written: objects, without the checkpoint. checkpoint: whether that was written.
    """

    origin: str
    size: int
    written: int
    checkpoint: bool


class Publisher:
    """Publishes one log to one store; used in one thread, with a few of its own for the requests."""

    def __init__(self, source: LogSource, anchors: AnchorSource, store: Objects) -> None:
        self._source, self._anchors, self._store = source, anchors, store
        self._since: int | None = None
        """Leaves whose resources are known to be there; None: the next round lists them."""
        self._conditional = False

    def publish(
        self, note: Note, *, progress: Callable[[int, int], None] = lambda _done, _of: None
    ) -> Published:
        """One round.

        Args:
            note: the checkpoint to show; whether it counts is the caller's to know.
            progress: called with the resources done, and of how many.

        Raises:
            LogUnreachable, ``log.denied``: the store does not answer.
            AffiantError: what :mod:`~.errors` names, or the files are not those of ``note``.
        """
        since, self._since = self._since, None
        checkpoint = parse_checkpoint(note.text)
        log = ReadyLog(self._source, checkpoint)  # 1
        shown = self._store.get(CHECKPOINT_PATH, limit=MAX_NOTE_BYTES)
        before = 0 if shown is None else _require_continued(shown, note, log)  # 2
        listed: dict[str, int] = {}
        if since is None:
            listed = self._listed(checkpoint.size)
            self._anchors.forget()
        start = 0 if since is None else min(since, checkpoint.size)
        written = self._write_resources(log, start, listed, before, progress)  # 3
        written += self._write_anchors()  # 4
        changed = self._write_checkpoint(note.to_bytes(), shown)  # 5
        self._since = checkpoint.size
        return Published(checkpoint.origin, checkpoint.size, written, changed)

    def forget(self) -> None:
        """Let the next round be a first one."""
        self._since = None

    def _listed(self, size: int) -> dict[str, int]:
        """Path and size of the objects that a tree of ``size`` leaves can have."""
        found = {}
        for path, length in self._store.sizes("tile"):
            with suppress(TileMalformed):
                if implied_by(parse_path(path), size):
                    found[path] = length
        return found

    def _write_resources(
        self,
        log: ReadyLog,
        start: int,
        listed: dict[str, int],
        before: int,
        progress: Callable[[int, int], None],
    ) -> int:
        """Create what is missing; how many that were.

        Args:
            before: leaves of the store's own checkpoint: its writer had found everything below it in place.
        """
        size = log.checkpoint.size
        total, done, written = count_of(size, start), 0, 0
        resources = resources_of(size, start)
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="log-objects") as pool:
            while batch := tuple(islice(resources, _BATCH)):
                created = []
                for resource in batch:
                    path = resource.path()
                    if path in listed and implied_by(resource, before):
                        _require_length(resource, listed[path])
                    else:
                        created.append(pool.submit(self._create, path, log.content(resource)))
                written += sum(_results(created))
                done += len(batch)
                progress(done, total)
        return written

    def _create(self, path: str, content: bytes) -> bool:
        """Whether it was missing; what is there already has the same content."""
        if not self._store.create(path, content):
            _require_same(self._store, path, content)
            return False
        if not self._conditional:
            if self._store.create(path, content):
                raise ConfigurationError(
                    "the store overwrites an object that it was asked to create only if missing",
                    where=self._store.name,
                    expected="conditional writes: If-None-Match and If-Match",
                    hint="Without them two writers, or a mistake, could change what was published",
                    code="publish.unconditional",
                )
            self._conditional = True
        return True

    def _write_anchors(self) -> int:
        written = 0
        for path, content in self._anchors.changed():
            if self._store.create(path, content):
                written += 1
            else:
                written += self._extend(path, content)
            self._anchors.published(path)
        return written

    def _extend(self, path: str, content: bytes) -> bool:
        """Write over an anchor whose beginning the new one is: tokens are added, never taken away.

        What is anchored is a note's text: one with other signature lines says the same, and the first stays.
        """
        is_note = path.endswith(".note")
        found = _present(self._store, path, limit=MAX_NOTE_BYTES if is_note else len(content))
        if found is not None and is_note and _text(found.content) == _text(content):
            return False
        if found is None or not content.startswith(found.content):
            raise StateError(
                "another anchor is in the store than in the log's folder", where=path, code="publish.conflict"
            )
        if found.content == content:
            return False
        if not self._store.replace(path, content, found):
            raise WriterRaced("another writer was there at once", where=path)
        return True

    def _write_checkpoint(self, content: bytes, shown: Found | None) -> bool:
        if shown is not None and shown.content == content:
            return False
        placed = (
            self._store.create(CHECKPOINT_PATH, content)
            if shown is None
            else self._store.replace(CHECKPOINT_PATH, content, shown)
        )
        if not placed:
            raise WriterRaced(
                "another writer has changed the store's checkpoint meanwhile",
                where=self._store.name,
                hint="Run it again: what the store shows now is compared anew",
            )
        return True


def _text(note: bytes) -> bytes:
    return note.partition(b"\n\n")[0]


def _require_continued(shown: Found, note: Note, log: ReadyLog) -> int:
    """The size of the store's checkpoint, which ``note`` may replace; or an error."""
    try:
        stored = parse_note(shown.content)
        old = parse_checkpoint(stored.text)
    except MalformedError as error:
        raise StateError(
            "what is at `checkpoint` in the store is none",
            where=error.code,
            hint="Name another prefix",
            code="publish.foreign",
        ) from error
    new = log.checkpoint
    if old.origin != new.origin:
        raise StateError(
            "the store holds another log",
            expected=new.origin,
            found=repr(old.origin[:255]),
            hint="Each log has a bucket or a prefix of its own",
            code="publish.foreign",
        )
    if old.size > new.size:
        raise StoreAhead(
            "the store shows more leaves than this checkpoint has",
            expected=f"at most {new.size}",
            found=old.size,
        )
    if old.root != log.root_at(old.size):
        raise NotAuthenticError(
            "the store's checkpoint is of another tree than this log",
            where=f"{old.size} leaves",
            expected=log.root_at(old.size).hex(),
            found=old.root.hex(),
            hint="Keep both: two signed checkpoints that do not fit are proof against who signed them",
            code="publish.fork",
        )
    if _cosigned(stored, old) and not _cosigned(note, new):
        raise NoteUncosigned(
            "the store's checkpoint is cosigned by witnesses, and this one is not",
            hint="Publish the one that the gateway serves: --checkpoint FILE",
        )
    return old.size


def _cosigned(note: Note, checkpoint: Checkpoint) -> bool:
    return any(each.key.name != checkpoint.origin for each in note.signatures)


def _require_length(resource: Tile | EntryBundle, found: int) -> None:
    """A listing says only lengths; a content that was changed is found by `affiant log fsck`."""
    each = HASH_SIZE if isinstance(resource, Tile) else 2 + ENTRY_SIZE
    if found != resource.width * each:
        raise StateError(
            "an object of another length is in the store",
            where=resource.path(),
            expected=f"{resource.width * each} bytes",
            found=found,
            code="publish.conflict",
        )


def _require_same(store: Objects, path: str, content: bytes) -> None:
    found = _present(store, path, limit=len(content))
    if found is None or found.content != content:
        raise StateError(
            "another content is in the store at a place that never changes",
            where=path,
            hint="Nothing was written over it. See: affiant log fsck",
            code="publish.conflict",
        )


def _present(store: Objects, path: str, *, limit: int) -> Found | None:
    """What is at ``path``; None for more than ``limit`` bytes."""
    try:
        found = store.get(path, limit=limit)
    except ResourceTooLarge:
        return None
    if found is None:
        raise WriterRaced("an object is gone that was there just now", where=path)
    return found


def _results(futures: Iterable[Future[bool]]) -> Iterator[bool]:
    """Their results; the first error, once all have ended."""
    first: AffiantError | None = None
    for each in futures:
        try:
            yield each.result()
        except AffiantError as error:
            first = first or error
    if first is not None:
        raise first
