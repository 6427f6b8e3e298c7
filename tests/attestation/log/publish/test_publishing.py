"""A reader of the store never sees a checkpoint whose tiles are not there; nothing is ever written over."""

from __future__ import annotations

import pytest
from tests.attestation.log.publish.conftest import Died, Store, publisher
from tests.attestation.log_builder import LogBuilder, chain, cosigner, log_signer, write
from tests.raising import raises_code

from affiant.attestation.log.fsck.fsck import check_log
from affiant.attestation.log.publish.errors import (
    NoteUncosigned,
    StoreAhead,
    WriterRaced,
)
from affiant.attestation.log_reading.errors import LogUnreachable
from affiant.attestation.log_reading.object_store import Found
from affiant.attestation.log_reading.objects import ObjectLog
from affiant.attestation.log_reading.reader import read_checkpoint
from affiant.attestation.tlog.checkpoint import parse_checkpoint
from affiant.attestation.tlog.note import verify_note

CONFLICTS = ["tile/0/000", "tile/0/002.p/188", "tile/1/000.p/2", "tile/entries/001", "tile/entries/002.p/188"]


def shown(store: Store) -> int | None:
    """Leaves that a reader of the store sees, everything below them held against the signed root."""
    log = ObjectLog(store.inner)
    if log.read("checkpoint", limit=1 << 20) is None:
        return None
    note = read_checkpoint(log)
    verify_note(note, [log_signer().verifier])
    report = check_log(log, checkpoint := parse_checkpoint(note.text), progress=lambda _done: None)
    assert report.severity is None, report.problems
    return checkpoint.size


def test_the_checkpoint_is_written_last_and_a_second_round_writes_nothing(
    built: LogBuilder, store: Store
) -> None:
    note = built.sign()
    done = publisher(built, store).publish(note)
    assert store.written()[-1] == "checkpoint" and store.written().count("checkpoint") == 1
    assert (done.size, done.written, done.checkpoint) == (700, 7, True) and shown(store) == 700
    store.calls.clear()
    again = publisher(built, store).publish(note)
    assert (again.written, again.checkpoint) == (0, False) and store.written() == []


def test_a_log_without_leaves_is_published_too_and_grows(built: LogBuilder, store: Store) -> None:
    mirror = publisher(built, store)
    assert mirror.publish(built.note(0)).size == 0 and shown(store) == 0
    assert mirror.publish(built.note(300)).written == 5 and shown(store) == 300
    store.calls.clear()
    built.sign()
    assert mirror.publish(built.note(700)).written == 5 and shown(store) == 700
    assert "tile/0/000" not in store.written()  # what was published is not asked for again


def test_whenever_a_writer_dies_readers_see_a_whole_log_and_the_next_goes_on(
    built: LogBuilder, store: Store
) -> None:
    publisher(built, store).publish(built.note(300))
    note = built.sign()
    alive = 0
    while shown(store) == 300:
        store.live = alive
        try:
            publisher(built, store).publish(note)
        except Died:
            pass
        alive += 1
        assert alive < 40
    assert shown(store) == 700
    store.live = 100
    assert publisher(built, store).publish(note).written == 0


@pytest.mark.parametrize("path", CONFLICTS)
def test_another_content_at_a_place_that_never_changes_is_refused_and_kept(
    built: LogBuilder, store: Store, path: str
) -> None:
    note = built.sign()
    other = bytes(len((built.folder / path).read_bytes()))
    store.change(path, other)
    with raises_code("publish.conflict") as refusal:
        publisher(built, store).publish(note)
    assert refusal.value.code == "publish.conflict" and refusal.value.where == path
    kept = store.inner.get(path, limit=1 << 20)
    assert kept is not None and kept.content == other
    assert shown(store) is None


@pytest.mark.parametrize("path", CONFLICTS)
def test_a_change_after_publishing_is_found_by_fsck_and_one_of_length_by_the_next_round(
    built: LogBuilder, store: Store, path: str
) -> None:
    note = built.sign()
    publisher(built, store).publish(note)
    content = bytearray((built.folder / path).read_bytes())
    content[-1] ^= 1
    store.change(path, bytes(content))
    report = check_log(ObjectLog(store.inner), built.checkpoint(), progress=lambda _done: None)
    assert any(path in f"{problem.path} {problem.detail}" for problem in report.problems)
    assert publisher(built, store).publish(note).written == 0  # a listing does not show it
    store.change(path, bytes(content[:-1]))
    with raises_code("publish.conflict"):
        publisher(built, store).publish(note)


@pytest.mark.parametrize("path", CONFLICTS)
def test_an_object_that_the_store_lost_is_made_whole_by_the_next_first_round(
    built: LogBuilder, store: Store, path: str
) -> None:
    note = built.sign()
    mirror = publisher(built, store)
    mirror.publish(note)
    store.lose(path)
    assert mirror.publish(note).written == 0
    mirror.forget()
    assert mirror.publish(note).written == 1 and shown(store) == 700


def test_a_smaller_checkpoint_is_never_put_over_a_larger_one(built: LogBuilder, store: Store) -> None:
    publisher(built, store).publish(built.sign())
    with pytest.raises(StoreAhead) as refusal:
        publisher(built, store).publish(built.note(300))
    assert refusal.value.retryable and shown(store) == 700


def test_another_history_of_the_same_origin_is_refused(built: LogBuilder, store: Store, tmp_path) -> None:
    other = LogBuilder(tmp_path / "other", chain("other", 300))
    publisher(other, store).publish(other.sign())
    before = store.inner.get("checkpoint", limit=1 << 20)
    with raises_code("publish.fork"):
        publisher(built, store).publish(built.sign())
    assert store.inner.get("checkpoint", limit=1 << 20) == before


def test_another_log_or_none_at_that_place_is_refused(built: LogBuilder, store: Store, tmp_path) -> None:
    other = LogBuilder(tmp_path / "other", chain("other", 3), signer=log_signer("other.example"))
    for content in (other.note().to_bytes(), b"<html>", b""):
        store.change("checkpoint", content)
        with raises_code("publish.foreign"):
            publisher(built, store).publish(built.sign())
        found = store.inner.get("checkpoint", limit=1 << 20)
        assert found is not None and found.content == content


def test_a_cosigned_checkpoint_is_not_replaced_by_one_that_is_not(built: LogBuilder, store: Store) -> None:
    mirror = publisher(built, store)
    mirror.publish(built.note(300, cosigner(1)))
    note = built.sign()
    with pytest.raises(NoteUncosigned):
        mirror.publish(note)
    assert shown(store) == 300
    assert mirror.publish(built.note(700, cosigner(2))).checkpoint and shown(store) == 700
    assert mirror.publish(built.note(700, cosigner(2), cosigner(1))).checkpoint  # the same tree, fresher


def test_a_checkpoint_of_another_writer_meanwhile_is_not_written_over(
    built: LogBuilder, store: Store
) -> None:
    publisher(built, store).publish(built.note(300))
    note, newer = built.sign(), built.note(700, cosigner(1))

    class Raced(Store):
        def replace(self, path: str, content: bytes, old: Found) -> bool:
            store.change(path, newer.to_bytes())
            return super().replace(path, content, old)

    with pytest.raises(WriterRaced) as refusal:
        publisher(built, Raced(store.inner)).publish(note)
    assert refusal.value.retryable
    found = store.inner.get("checkpoint", limit=1 << 20)
    assert found is not None and found.content == newer.to_bytes()


def test_a_store_that_does_not_heed_conditions_is_refused(built: LogBuilder, store: Store) -> None:
    class Careless(Store):
        def create(self, path: str, content: bytes) -> bool:
            store.change(path, content)
            return True

    with raises_code("publish.unconditional"):
        publisher(built, Careless(store.inner)).publish(built.sign())
    assert shown(store) is None


def test_a_store_that_fails_is_asked_again_from_the_beginning(built: LogBuilder, store: Store) -> None:
    mirror = publisher(built, store)
    mirror.publish(built.note(300))
    store.live, store.refusal = 4, LogUnreachable("the store does not answer")
    note = built.sign()
    with pytest.raises(LogUnreachable):
        mirror.publish(note)
    assert shown(store) == 300
    store.live = 1000
    store.calls.clear()
    mirror.publish(note)
    assert ("sizes", "tile") in store.calls and shown(store) == 700


def test_a_folder_that_was_damaged_is_not_published(built: LogBuilder, store: Store) -> None:
    note = built.sign()
    path = built.folder / "tile/entries/001"
    write(path, bytes([*path.read_bytes()[:-1], 0]))
    with pytest.raises(Exception, match="another leaf") as refusal:
        publisher(built, store).publish(note)
    assert getattr(refusal.value, "retryable", None) is False
    assert store.inner.get("tile/entries/001", limit=1 << 20) is None and shown(store) is None


def test_anchors_follow_and_only_grow(built: LogBuilder, store: Store) -> None:
    note = built.sign()
    write(built.folder / "anchors/300.note", b"note")
    write(built.folder / "anchors/300.tsr", b"one")
    mirror = publisher(built, store)
    assert mirror.publish(note).written == 9 and mirror.publish(note).written == 0
    write(built.folder / "anchors/300.tsr", b"one, two")
    assert mirror.publish(note).written == 1
    found = store.inner.get("anchors/300.tsr", limit=100)
    assert found is not None and found.content == b"one, two"
    assert publisher(built, store).publish(note).written == 0
    for other in (b"one", b"", b"two, two", b"ONE, two, three"):
        write(built.folder / "anchors/300.tsr", other)
        with raises_code("publish.conflict"):
            publisher(built, store).publish(note)
    found = store.inner.get("anchors/300.tsr", limit=100)
    assert found is not None and found.content == b"one, two"


def test_an_anchored_note_with_other_signature_lines_is_the_same_anchor(
    built: LogBuilder, store: Store
) -> None:
    note = built.sign()
    mirror = publisher(built, store)
    write(built.folder / "anchors/300.note", built.note(300, cosigner(1), cosigner(2)).to_bytes())
    assert mirror.publish(note).written == 8
    write(built.folder / "anchors/300.note", built.note(300).to_bytes())
    assert mirror.publish(note).written == 0
    write(built.folder / "anchors/300.note", built.note(301).to_bytes())
    with raises_code("publish.conflict"):
        mirror.publish(note)
