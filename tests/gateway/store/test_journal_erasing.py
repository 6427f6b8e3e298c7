"""Entries are erased where they lie: durable state first, then zeros; other entries and offsets stay."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from affiant.gateway.store import journal_erasing
from affiant.gateway.store.journal import Place, segment_path
from affiant.gateway.store.journal_erasing import erase_entries
from affiant.gateway.store.journal_format import SegmentWriter, scan
from affiant.gateway.wire.errors import JournalMalformed, JournalUnavailable

ENTRIES = (b"a first entry", b"a secret" * 200, b"a third", b"another secret")


@pytest.fixture
def places(tmp_path: Path) -> list[Place]:
    writer = SegmentWriter(boot=bytes(16), number=3, link=bytes(32))
    data = writer.head + b"".join(map(writer.frame, ENTRIES))
    segment_path(tmp_path, 3).write_bytes(data)
    return [Place(3, entry.offset, entry.size) for entry in scan(data).entries]


def test_nothing_of_an_erased_payload_is_left_in_the_file(tmp_path: Path, places: list[Place]) -> None:
    before = scan(segment_path(tmp_path, 3).read_bytes())
    for _ in range(2):  # again is the same
        erase_entries(tmp_path, [places[1], places[3]])
    data = segment_path(tmp_path, 3).read_bytes()
    after = scan(data)
    assert b"secret" not in data
    assert after.payloads == (ENTRIES[0], ENTRIES[2])
    assert (after.link, after.size) == (before.link, before.size)
    assert [entry.offset for entry in after.erased] == [places[1].offset, places[3].offset]


def test_a_place_that_is_no_entry_changes_nothing(tmp_path: Path, places: list[Place]) -> None:
    whole = segment_path(tmp_path, 3).read_bytes()
    for wrong in (
        Place(3, places[1].offset + 1, places[1].length),
        Place(3, places[1].offset, places[1].length + 1),
        Place(3, len(whole), 80),
    ):
        with pytest.raises(JournalMalformed):
            erase_entries(tmp_path, [places[0], wrong])
    assert segment_path(tmp_path, 3).read_bytes() == whole


def test_a_segment_that_is_gone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalUnavailable):
        erase_entries(tmp_path, [Place(9, 70, 100)])


@pytest.mark.parametrize("fails_at", range(6))
def test_wherever_a_disk_fails_an_entry_is_whole_or_erased_and_a_second_try_ends_it(
    tmp_path: Path, places: list[Place], monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    calls = 0
    write, sync = os.pwrite, os.fsync

    def count() -> None:
        nonlocal calls
        calls += 1
        if calls == fails_at + 1:
            raise OSError(errno.ENOSPC, "No space left on device")

    def failing_write(descriptor: int, data: bytes, offset: int) -> int:
        count()
        return write(descriptor, data[: max(1, len(data) // 2)], offset)  # and never all at once

    def failing_sync(descriptor: int) -> None:
        count()
        sync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(journal_erasing.os, "pwrite", failing_write)
        patched.setattr(journal_erasing.os, "fsync", failing_sync)
        with pytest.raises(JournalUnavailable, match="No space left"):
            erase_entries(tmp_path, [places[1], places[3]])
    found = scan(segment_path(tmp_path, 3).read_bytes())
    assert len(found.entries) + len(found.erased) == len(ENTRIES)
    assert set(found.payloads) <= set(ENTRIES) and {ENTRIES[0], ENTRIES[2]} <= set(found.payloads)
    erase_entries(tmp_path, [places[1], places[3]])
    assert b"secret" not in segment_path(tmp_path, 3).read_bytes()


def test_the_state_is_durable_before_a_payload_is_touched(
    tmp_path: Path, places: list[Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    write, sync = os.pwrite, os.fsync

    def seen_write(descriptor: int, data: bytes, offset: int) -> int:
        steps.append("state" if bytes(data) == b"\xff" else "zeros")
        return write(descriptor, data, offset)

    def seen_sync(descriptor: int) -> None:
        steps.append("sync")
        sync(descriptor)

    monkeypatch.setattr(journal_erasing.os, "pwrite", seen_write)
    monkeypatch.setattr(journal_erasing.os, "fsync", seen_sync)
    erase_entries(tmp_path, [places[1], places[3]])
    assert steps == ["state", "state", "sync", "zeros", "zeros", "sync"]
