"""What a crash leaves is disclosed by one gap, and nothing of it is ever signed or resumed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.gateway.in_process import in_process
from tests.gateway.journal_reader import entries_of, opens_of, records_of
from tests.gateway.session_client import SessionClient
from tests.raising import raises_code

from affiant.attestation.records.head import Head
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.gateway.service.recovery import Leftover, gap_members, recover, unrecorded
from affiant.gateway.store.entries import ErasingEntry, OpenEntry, StartedEntry, encode_entry
from affiant.gateway.store.journal import segment_path
from affiant.gateway.store.journal_format import HEAD_SIZE, SegmentWriter, scan


def boot(platform: PlatformClient, store: Path, *, sessions: int = 0, end: bool = False) -> None:
    """One boot that does a little and then ends like a crash, unless told to ``end``."""
    with in_process(platform, store) as inside:
        for _ in range(sessions):
            SessionClient.start(inside, platform).say("hi")
        if end:
            inside.run(inside.service.closing.end())


def gaps(store: Path) -> list[dict]:
    return [record for record in records_of(entries_of(store)[-1]) if record["kind"] == "gap"]


def last_segment(store: Path) -> Path:
    return max(store.glob("*.seg"))


def test_an_empty_store_has_nothing_to_disclose(tmp_path: Path) -> None:
    found = recover(tmp_path)
    assert (found.number, found.link, found.leftovers) == (0, bytes(32), ())


def test_a_chain_that_ended_needs_no_gap(platform: PlatformClient, tmp_path: Path) -> None:
    boot(platform, tmp_path, sessions=1, end=True)
    boot(platform, tmp_path)
    assert gaps(tmp_path) == []


def test_a_chain_that_did_not_end_is_disclosed_by_one_gap_once(
    platform: PlatformClient, tmp_path: Path
) -> None:
    boot(platform, tmp_path, sessions=2)
    last = records_of(entries_of(tmp_path)[-1])[-1]
    boot(platform, tmp_path)
    (gap,) = gaps(tmp_path)
    assert (gap["lst"]["chn"], gap["lst"]["seq"]) == (last["chn"], last["seq"])
    assert gap["src"] == "untrusted-store" and gap["chn"] != last["chn"]
    boot(platform, tmp_path, end=True)  # the second boot crashed too: only that is new
    (gap,) = gaps(tmp_path)
    assert gap["lst"]["chn"] == records_of(entries_of(tmp_path)[-2])[0]["chn"]


def test_boots_that_crash_before_they_are_complete_are_all_disclosed(
    platform: PlatformClient, tmp_path: Path
) -> None:
    boot(platform, tmp_path, sessions=1)
    boot(platform, tmp_path)
    path = last_segment(tmp_path)
    segment = scan(path.read_bytes())
    started = next(e for e in segment.entries if e.payload == encode_entry(StartedEntry()))
    os.truncate(path, started.offset)  # as if the crash came before the start was complete
    boot(platform, tmp_path)
    assert len(gaps(tmp_path)) == 2


def test_a_torn_tail_is_cut_and_disclosed(platform: PlatformClient, tmp_path: Path) -> None:
    boot(platform, tmp_path, sessions=1)
    path = last_segment(tmp_path)
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"\x00\x00\x01\x00torn")
    boot(platform, tmp_path)
    (gap,) = gaps(tmp_path)
    assert gap["ext"]["tag:affiant.dev,2026:gap/torn"] == "8"
    assert path.stat().st_size == size


def test_an_end_that_was_torn_off_is_a_gap(platform: PlatformClient, tmp_path: Path) -> None:
    boot(platform, tmp_path, end=True)
    path = last_segment(tmp_path)
    os.truncate(path, path.stat().st_size - 1)
    boot(platform, tmp_path)
    assert len(gaps(tmp_path)) == 1


def test_an_open_without_its_record_is_counted_and_never_finished(
    platform: PlatformClient, tmp_path: Path
) -> None:
    with in_process(platform, tmp_path) as inside:
        session = SessionClient.start(inside, platform)
        found = inside.service.sessions.by_id(session.id)
        assert found is not None

        async def leave_open() -> None:
            recorder = inside.service.recorder
            for _ in range(3):
                await recorder.open(found, jti=recorder.new_id(), number=found.next_number())

        inside.run(leave_open())
    left = opens_of(entries_of(tmp_path)[-1])
    assert len(left) == 3
    boot(platform, tmp_path)
    (gap,) = gaps(tmp_path)
    assert gap["ext"]["tag:affiant.dev,2026:gap/opens"] == "3"
    assert not left & {record["jti"] for record in records_of(entries_of(tmp_path)[-1])}


def test_segments_chain_across_boots(platform: PlatformClient, tmp_path: Path) -> None:
    for _ in range(3):
        boot(platform, tmp_path)
    segments = [scan(path.read_bytes()) for path in sorted(tmp_path.glob("*.seg"))]
    assert [s.number for s in segments] == [0, 1, 2]
    assert all(after.before == before.link for before, after in zip(segments, segments[1:], strict=False))


@pytest.mark.parametrize("what", ["garbage", "empty", "half a head", "another boot's"])
def test_a_store_that_somebody_filled_starts_all_the_same(
    platform: PlatformClient, tmp_path: Path, what: str
) -> None:
    boot(platform, tmp_path, sessions=1)
    data = last_segment(tmp_path).read_bytes()
    contents = {
        "garbage": os.urandom(5000),
        "empty": b"",
        "half a head": data[: HEAD_SIZE // 2],
        "another boot's": SegmentWriter(boot=os.urandom(16), number=9, link=bytes(32)).head + b"\x00" * 50,
    }
    segment_path(tmp_path, 1).write_bytes(contents[what])
    boot(platform, tmp_path)
    assert len(gaps(tmp_path)) == 1


def test_forged_entries_are_not_signed_for(platform: PlatformClient, tmp_path: Path) -> None:
    """A store that says what it likes: entries that chain, but whose records nobody signed."""
    boot(platform, tmp_path, end=True)
    original = scan(last_segment(tmp_path).read_bytes())
    writer = SegmentWriter(boot=os.urandom(16), number=1, link=original.link)
    forged = [p.replace(b'"kind":"end"', b'"kind":"boot"') for p in original.payloads]
    forged += [encode_entry(OpenEntry(jti="A" * 22, ses="B" * 22, n=0))]
    flipped = [p.replace(b'"jws":"ey', b'"jws":"eX') for p in forged]
    segment_path(tmp_path, 1).write_bytes(writer.head + b"".join(map(writer.frame, flipped)))
    boot(platform, tmp_path)
    assert gaps(tmp_path) == []


def test_a_gap_says_what_is_left_and_from_where() -> None:
    left = Leftover(Head("A" * 22, 7, "B" * 43), opens=2, torn=9)
    members = gap_members(left)
    assert members["lst"] == {"chn": "A" * 22, "seq": 7, "rh": "B" * 43}
    assert set(members) == {"lst", "src", "ext"}


def _kinds(records: Sequence[dict]) -> list[str]:
    return [record["kind"] for record in records]


def test_a_boot_writes_its_boot_first(platform: PlatformClient, tmp_path: Path) -> None:
    boot(platform, tmp_path)
    boot(platform, tmp_path)
    assert _kinds(records_of(entries_of(tmp_path)[-1])) == ["boot", "gap"]


def test_a_store_of_another_build_is_refused_and_left_as_it_is(
    platform: PlatformClient, tmp_path: Path
) -> None:
    boot(platform, tmp_path)
    path = last_segment(tmp_path)
    other = path.read_bytes().replace(b"affiant-journal/2", b"affiant-journal/1")
    path.write_bytes(other)
    with raises_code("journal.version", match="begin with an empty state folder"):
        boot(platform, tmp_path)
    assert path.read_bytes() == other and list(tmp_path.glob("*.seg")) == [path]


def test_an_open_whose_record_is_erased_is_not_counted_as_one_without() -> None:
    opened = [OpenEntry(jti=name * 22, ses="S" * 22, n=0) for name in "AB"]
    assert unrecorded([*opened, ErasingEntry(jti="E" * 22, gone=("A" * 22,))]) == 1
