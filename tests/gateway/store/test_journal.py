"""The journal: durable before told, in order, and refused for good once the disk refuses."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from affiant.gateway.store.journal import Journal, Place, hold_store, segment_path
from affiant.gateway.store.journal_format import MAX_PAYLOAD, scan
from affiant.gateway.wire.errors import JournalMalformed, JournalUnavailable, StoreLocked

pytestmark = pytest.mark.anyio


def make(folder: Path, seen: list | None = None, **more: object) -> Journal:
    def on_durable(entries: Sequence[tuple[object, Place]]) -> None:
        if seen is not None:
            seen.extend(entries)

    return Journal(folder, boot=bytes(16), number=0, link=bytes(32), on_durable=on_durable, **more)


async def test_entries_become_durable_in_the_order_of_the_calls(tmp_path: Path) -> None:
    seen: list = []
    journal = make(tmp_path, seen)
    futures = [journal.append(b"%d" % n, note=n) for n in range(50)]
    places = await asyncio.gather(*futures)
    await journal.close()
    assert scan(segment_path(tmp_path, 0).read_bytes()).payloads == tuple(b"%d" % n for n in range(50))
    assert [note for note, _ in seen] == list(range(50))
    assert [journal.read(place) for place in places] == [b"%d" % n for n in range(50)]


async def test_concurrent_entries_share_one_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (syncs.append(fd), real(fd)))
    journal = make(tmp_path)
    await asyncio.gather(*(journal.append(b"x") for _ in range(500)))
    await journal.close()
    assert len(syncs) < 50


async def test_what_belongs_together_is_one_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = []
    real = os.fdatasync
    journal = make(tmp_path)
    monkeypatch.setattr(os, "fdatasync", lambda fd: (syncs.append(fd), real(fd)))
    for turn in range(1, 6):
        place = await journal.append_all((b"record %d" % turn, None), (b"opening %d" % turn, None))
        assert len(syncs) == turn
        assert journal.read(place) == b"opening %d" % turn
    await journal.close()
    assert scan(segment_path(tmp_path, 0).read_bytes()).payloads[:2] == (b"record 1", b"opening 1")


async def test_of_what_belongs_together_all_is_appended_or_nothing(tmp_path: Path) -> None:
    journal = make(tmp_path)
    with pytest.raises(JournalMalformed):
        journal.append_all((b"record", None), (bytes(MAX_PAYLOAD + 1), None))
    await journal.append(b"next")
    await journal.close()
    assert scan(segment_path(tmp_path, 0).read_bytes()).payloads == (b"next",)


async def test_a_future_resolves_only_after_fdatasync_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    real = os.fdatasync
    journal = make(tmp_path)

    def slow(fd: int) -> None:
        real(fd)
        synced.append(segment_path(tmp_path, 0).stat().st_size)

    monkeypatch.setattr(os, "fdatasync", slow)
    place = await journal.append(b"entry")
    assert synced and synced[-1] >= place.offset + place.length
    await journal.close()


async def test_a_full_segment_is_followed_by_one_that_chains_to_it(tmp_path: Path) -> None:
    journal = make(tmp_path, segment_size=300)
    for n in range(20):
        await journal.append(b"%04d" % n * 10)
    await journal.close()
    segments = [scan(path.read_bytes()) for path in sorted(tmp_path.glob("*.seg"))]
    assert len(segments) > 2
    for before, after in zip(segments, segments[1:], strict=False):
        assert after.before == before.link and after.number == before.number + 1
    assert sum((s.payloads for s in segments), ()) == tuple(b"%04d" % n * 10 for n in range(20))


@pytest.mark.parametrize("call", ["write", "fdatasync"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
async def test_a_failing_disk_poisons_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    journal = make(tmp_path)
    await journal.append(b"before")

    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fail)
        first, second = journal.append(b"lost"), journal.append(b"lost too")
        for future in (first, second):
            with pytest.raises(JournalUnavailable):
                await future
    assert not journal.healthy
    with pytest.raises(JournalUnavailable, match=os.strerror(number)):
        journal.append(b"after")  # the disk works again; what was torn is not written over
    await journal.close()
    assert scan(segment_path(tmp_path, 0).read_bytes()).payloads[:1] == (b"before",)


async def test_a_write_that_stops_short_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = make(tmp_path)
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data[:7])))
    await journal.append(b"a payload longer than seven bytes")
    await journal.close()
    assert scan(segment_path(tmp_path, 0).read_bytes()).payloads == (b"a payload longer than seven bytes",)


async def test_a_closed_journal_refuses_and_closing_waits_for_what_is_queued(tmp_path: Path) -> None:
    journal = make(tmp_path)
    pending = journal.append(b"last")
    await journal.close()
    assert (await pending).segment == 0
    with pytest.raises(JournalUnavailable):
        journal.append(b"more")
    await journal.close()


async def test_an_oversized_entry_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    journal = make(tmp_path)
    with pytest.raises(JournalMalformed):
        journal.append(bytes(MAX_PAYLOAD + 1))
    await journal.append(b"fine")
    await journal.close()


async def test_a_segment_is_private_and_never_written_over(tmp_path: Path) -> None:
    segment_path(tmp_path, 0).write_bytes(b"somebody's")
    with pytest.raises(JournalUnavailable):
        make(tmp_path)
    assert segment_path(tmp_path, 0).read_bytes() == b"somebody's"
    segment_path(tmp_path, 0).unlink()
    journal = make(tmp_path)
    await journal.close()
    assert stat.S_IMODE(segment_path(tmp_path, 0).stat().st_mode) == 0o600


def test_a_second_holder_of_a_store_is_refused(tmp_path: Path) -> None:
    with hold_store(tmp_path / "store"):
        with pytest.raises(StoreLocked) as refused, hold_store(tmp_path / "store"):
            pass
        assert refused.value.code == "store.locked"
    with hold_store(tmp_path / "store"):
        pass
