"""The second verifier's archive reader: its own inflate, and every lie that the first one's reader refuses."""

from __future__ import annotations

import importlib
import json
import random
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest
from tests.attestation.deflate_streams import ENDING_AT, STREAMS, Stream, bits, coded
from tests.attestation.period_builder import build, central_entries, last_bytes, rezipped, sorted_records
from tests.attestation.story import Story
from tests.attestation.verifier_js.conftest import node
from tests.attestation.verifier_js.test_foundations import Probe, answered, probe, question

from affiant.attestation.bundle.period.archive_reader import PeriodBundle
from affiant.attestation.tlog.tiles import EntryBundle, Tile, parse_path
from affiant.errors import AffiantError

__all__ = ["probe"]

readers = importlib.import_module("tests.attestation.bundle.period.test_archive_reader")

SAME_FILE = {"zip.content", "period.digest", "period.line"}
"""Which of these is said of a spoiled file depends on what is looked at first."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("period"), Story().tell(), extra={"anchors/13.tsr": b"a token"})


def read(path: Path) -> dict[str, object]:
    """What the first reader finds, as the probe says it."""
    with PeriodBundle(path) as bundle:
        receipts = [
            [f"{shard}:{number}", text]
            for shard in bundle.shards
            for number, text in enumerate(bundle.receipts_of(shard), 1)
        ]
        bundle.read_rest()
        count = len(bundle.archive.members)
        return {
            "receipts": receipts,
            "unknown": list(bundle.unknown),
            "absent": list(bundle.absent),
            "count": count,
        }


def both(probe: Probe, folder: Path, archives: list[bytes]) -> list[tuple[Any, Any]]:
    """What both readers say of each."""
    ours = []
    for data in archives:
        (folder / "asked.zip").write_bytes(data)
        ours.append(answered(lambda: read(folder / "asked.zip")))
    return list(zip(ours, probe([question("period", data) for data in archives]), strict=True))


# -- inflate ---------------------------------------------------------------------------------------------------


def test_inflate_reads_and_refuses_what_zlib_does() -> None:
    script = Path(__file__).with_name("inflate_check.mjs")
    done = subprocess.run(
        [node(), str(script), "20261121", "100"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["differing"] == []
    assert found["streams"] > 2000 and found["whole"] > 200 and found["padded"] > 100


LAST_FIXED = ((1, 1), (1, 2))
HOSTILE = {
    "nothing": b"",
    "a block of kind 3": bits((1, 1), (3, 2)),
    "a stored block that contradicts its length": b"\x01\x01\x00\x00\x00A",
    "a stored block that is cut": b"\x01\x05\x00\xfa\xffABC",
    "no last block": b"\x00\x00\x00\xff\xff",
    "length symbol 286": bits(*LAST_FIXED, codes=("11000110",)),
    "distance symbol 30": bits(*LAST_FIXED, codes=("01110001", "0000001", "11110", "0000000")),
    "a distance to before the beginning": bits(
        *LAST_FIXED, codes=("01110001", "0000001", "00001", "0000000")
    ),
    "287 literal symbols": bits((1, 1), (2, 2), (30, 5), (0, 5), (0, 4)) + bytes(20),
    "31 distance symbols": bits((1, 1), (2, 2), (0, 5), (30, 5), (0, 4)) + bytes(20),
    "an over-subscribed code": bits((1, 1), (2, 2), (0, 5), (0, 5), (0, 4), (1, 3), (1, 3), (1, 3), (1, 3))
    + bytes(20),
    "an incomplete code": bits((1, 1), (2, 2), (0, 5), (0, 5), (0, 4), (2, 3), (0, 3), (0, 3), (0, 3))
    + bytes(20),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_stream_is_refused(probe: Probe, name: str) -> None:
    packed = HOSTILE[name]
    inflate = zlib.decompressobj(-15)
    try:
        inflate.decompress(packed)
        assert not inflate.eof
    except zlib.error:
        pass
    sizes = ("0", "1", "3", "4", "5")
    assert {str(each) for each in probe([question("inflate", packed, size=size) for size in sizes])} == {
        str({"code": "zip.content"})
    }


@pytest.mark.parametrize("stream", [*STREAMS.values(), *ENDING_AT.values()])
def test_padding_bits_after_the_end_are_zero(probe: Probe, stream: Stream) -> None:
    padded = [stream.with_padding(padding) for padding in range(1, 1 << (8 - stream.used))]
    size = str(len(stream.content))
    whole, *refused = probe([question("inflate", packed, size=size) for packed in (stream.packed, *padded)])
    assert whole == {"ok": stream.content.hex()}
    assert refused == [{"code": "zip.content"}] * len(padded)


def test_nothing_is_written_beyond_the_announced_size(probe: Probe) -> None:
    """A stream of 100 MiB, announced as 10 bytes, ends at the eleventh."""
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = packed.compress(bytes(100 << 20)) + packed.flush()
    assert probe([question("inflate", bomb, size="10")]) == [{"code": "zip.content"}]


# -- tiles -----------------------------------------------------------------------------------------------------


def test_paths_of_tiles_have_one_spelling(probe: Probe) -> None:
    paths = [
        *(Tile(level, index).path() for level in (0, 7) for index in (0, 999, 1000, 1234067)),
        *(EntryBundle(index, width).path() for index in (0, 1001) for width in (1, 255)),
        *(
            "tile/0/1",
            "tile/0/x000/001",
            "tile/0/000.p/256",
            "tile/0/000.p/0",
            "tile/0/000.p/01",
            "tile/8/000",
        ),
        *(
            "tile/entries/x1/001",
            "tile/0/000/001",
            "tile/0/x999/x999/x999/x999/x999/x999/999",
            "tile/0/000\n",
        ),
    ]

    def parsed(path: str) -> dict[str, object] | None:
        try:
            found = parse_path(path)
        except AffiantError:
            return None
        level = "entries" if isinstance(found, EntryBundle) else found.level
        return {"level": level, "index": found.index, "width": found.width}

    for path, theirs in zip(paths, probe([question("tile", path.encode()) for path in paths]), strict=True):
        ours = parsed(path)
        if ours is not None and int(str(ours["index"])) >= 1 << 53:
            assert theirs["ok"] is not None
        else:
            assert theirs == {"ok": ours}, path


# -- archives --------------------------------------------------------------------------------------------------


def test_what_is_in_an_archive_is_the_same_to_both(probe: Probe, archive: Path, tmp_path: Path) -> None:
    odd = rezipped(archive, tmp_path / "odd.zip", {"notes/hello.md": b"hi", "anchors/13.tsr": None})
    ((ours, theirs), (odd_ours, odd_theirs)) = both(probe, tmp_path, [archive.read_bytes(), odd.read_bytes()])
    assert ours == theirs
    assert len(theirs["ok"]["receipts"]) == len(sorted_records(Story().tell()))
    assert odd_ours == odd_theirs
    assert (odd_theirs["ok"]["unknown"], odd_theirs["ok"]["absent"]) == (
        ["notes/hello.md"],
        ["anchors/13.tsr"],
    )


def test_every_lie_is_refused_for_the_same_reason(probe: Probe, archive: Path, tmp_path: Path) -> None:
    archives = []
    for name, (_, spoil) in readers.LIES.items():
        data = bytearray(archive.read_bytes())
        if name == "one name twice by case":
            data = bytearray(rezipped(archive, tmp_path / "two.zip", {"readme.TXT": b""}).read_bytes())
        else:
            spoil(data)
        archives.append(bytes(data))
    found = both(probe, tmp_path, archives)
    for (name, (code, _)), (ours, theirs) in zip(readers.LIES.items(), found, strict=True):
        assert ours == theirs == {"code": code}, name


def test_both_refuse_every_flip_in_every_last_byte(probe: Probe, tmp_path: Path) -> None:
    path = rezipped(readers.PUBLISHED, tmp_path / "x.zip", {}, deflated=lambda data: coded(data).packed)
    whole, archives = path.read_bytes(), []
    for at in last_bytes(path).values():
        for bit in range(8):
            data = bytearray(whole)
            data[at] ^= 1 << bit
            archives.append(bytes(data))
    ((ours, theirs), *flipped) = both(probe, tmp_path, [whole, *archives])
    assert ours == theirs and "ok" in theirs
    assert flipped == [({"code": "zip.content"},) * 2] * len(archives)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"README.txt/x": b""}, "zip.duplicate"),
        ({"anchors/14.tsr": bytes(10_000_000)}, "zip.ratio"),
        ({"anchors/13.tsr": b"b token"}, "period.digest"),
        ({"anchors/13.tsr": b"another token"}, "period.digest"),
        ({"anchors/12.tsr": b""}, "period.manifest"),
        *(
            ({"manifest.json": data}, "period.manifest")
            for data in (None, b"{}", b"[]", b"{", b'{"typ":"affiant-period/1"}', b"[" * 40)
        ),
    ],
)
def test_a_file_that_is_not_as_listed_is_refused(
    probe: Probe, archive: Path, tmp_path: Path, change: dict[str, bytes | None], code: str
) -> None:
    ((ours, theirs),) = both(probe, tmp_path, [rezipped(archive, tmp_path / "x.zip", change).read_bytes()])
    assert ours == theirs == {"code": code}


@pytest.mark.parametrize(
    "lines",
    [
        *(b"abc\n", b'"a.b"\n', b'"a.b.c" \n', b'"a.b.c"', b"\n", b'"a.b.c"\r\n', b"\xff\n"),
        b'"' + readers.LONG + b'"\n',
    ],
)
def test_a_line_of_another_form_is_refused(probe: Probe, tmp_path: Path, lines: bytes) -> None:
    path = build(tmp_path, Story().tell(), extra={"receipts/000001.ndjson": lines})
    ((ours, theirs),) = both(probe, tmp_path, [path.read_bytes()])
    assert ours == theirs == {"code": "period.line"}


def test_an_object_under_another_name_is_refused(probe: Probe, tmp_path: Path) -> None:
    path = build(tmp_path, Story().tell(), extra={f"policies/{'0' * 64}.json": b"{}"})
    ((ours, theirs),) = both(probe, tmp_path, [path.read_bytes()])
    assert ours == theirs == {"code": "period.digest"}


def test_whatever_is_done_to_an_archive_both_refuse_it_or_neither(
    probe: Probe, archive: Path, tmp_path: Path
) -> None:
    whole, dice = archive.read_bytes(), random.Random(14)
    structural = [*central_entries(bytearray(whole)), len(whole) - 22, 0]
    archives = []
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(dice.randrange(1, 4)):
            base = dice.choice([*structural, None])
            at = dice.randrange(len(data)) if base is None else min(len(data) - 1, base + dice.randrange(60))
            action = dice.choice(["set", "wide", "cut", "insert"])
            if action == "set":
                data[at] = dice.randrange(256)
            elif action == "wide":
                data[at : at + 4] = struct.pack("<I", dice.choice([0, 1, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF]))
            elif action == "cut":
                del data[at : at + dice.randrange(1, 64)]
            else:
                data[at:at] = dice.randbytes(dice.randrange(64))
        archives.append(bytes(data))
    for ours, theirs in both(probe, tmp_path, archives):
        if ours.get("code") in SAME_FILE:
            assert theirs.get("code") in SAME_FILE
        else:
            assert ours == theirs
