"""Period bundles made from stories, with the pure modules alone, and every way to spoil their archive."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tests.attestation.log_builder import LogBuilder
from tests.attestation.story import Story, leaf_of

from affiant.attestation.bundle.period.draft import Draft
from affiant.attestation.bundle.period.layout import LINES_PER_FILE, OBJECT_FOLDERS, checkpoint_name
from affiant.attestation.bundle.period.log_part import keep_log_part
from affiant.attestation.bundle.period.manifest import Range
from affiant.attestation.bundle.period.writer import write_archive
from affiant.attestation.log_reading.folder import FolderLog
from affiant.attestation.records.receipt import Issued
from affiant.attestation.tlog.note import NoteSigner
from affiant.attestation.tlog.tiles import TILE_WIDTH


def build(
    folder: Path,
    story: Story,
    *,
    records: Sequence[Issued] | None = None,
    withhold: Iterable[int] = (),
    witnesses: Sequence[NoteSigner] = (),
    checkpoints: Mapping[int, bytes] | None = None,
    log: Sequence[Issued] | None = None,
    name: str = "period.affiant.zip",
    extra: Mapping[str, bytes] | None = None,
) -> Path:
    """The archive of what ``story`` told.

    Args:
        records: all records, in log order. withhold: indices among them that get no line.
        log: what the log holds, if that is something else than ``records``.
    """
    if not story.gateway_records:
        story.tell()
    records = sorted_records(story) if records is None else records
    held = list(records if log is None else log)
    builder = LogBuilder(folder / "log", [leaf_of(each.jws) for each in held], signer=story.log_signer)
    note = builder.sign(*witnesses)
    draft = Draft(folder / "draft")
    left = set(withhold)
    lines = [(each.jws, each.disclosures) for at, each in enumerate(records) if at not in left]
    for number, first in enumerate(range(0, len(lines), LINES_PER_FILE)):
        draft.put_receipts(number, lines[first : first + LINES_PER_FILE])
    draft.put_log("checkpoint", note.to_bytes())
    keep_log_part(
        FolderLog(folder / "log"),
        builder.checkpoint(),
        bundles=range((len(held) + TILE_WIDTH - 1) // TILE_WIDTH),
        sizes=sorted(checkpoints or ()),
        keep=draft.put_log,
    )
    bundle = story.bundle()
    for each in OBJECT_FOLDERS:
        for data in getattr(bundle, each).values():
            draft.put_object(each, data)
    for size, raw in (checkpoints or {}).items():
        draft.put(checkpoint_name(size), raw)
    for path, data in (extra or {}).items():
        draft.put(path, data)
    place = folder / name
    asked = Range(None, None, story.config.origin, 0, len(held))
    write_archive(draft.folder, place, asked=asked, exporter="test")
    return place


def sorted_records(story: Story) -> list[Issued]:
    """Both signers' records as a log would have them: by their time, each chain in its order."""
    records = [*story.gateway_records, *story.session_records]
    return sorted(records, key=lambda each: (each.payload["iat"], each.payload["seq"]))


def _deflated(data: bytes) -> bytes:
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    return deflate.compress(data) + deflate.flush()


def rezipped(
    source: Path,
    place: Path,
    changes: Mapping[str, bytes | None],
    *,
    deflated: Callable[[bytes], bytes] = _deflated,
) -> Path:
    """``source`` with members changed, added or (None) removed, in the one form; the manifest is left as it is."""
    from affiant.attestation.bundle.period.zip_form import LOCAL, Member, end_records

    with zipfile.ZipFile(source) as archive:
        content: dict[str, bytes | None] = {name: archive.read(name) for name in archive.namelist()}
    content.update(changes)
    assert LOCAL.size == 30
    out, members = bytearray(), []
    for name, data in sorted((name, data) for name, data in content.items() if data is not None):
        packed = deflated(data)
        member = Member(name, len(out), len(packed), len(data), zlib.crc32(data))
        out += member.local_header() + packed
        members.append(member)
    directory = len(out)
    for member in members:
        out += member.central_header()
    out += end_records(len(members), directory, len(out) - directory)
    place.write_bytes(out)
    return place


def last_bytes(archive: Path) -> dict[str, int]:
    """Where the last packed byte of each member stands."""
    with zipfile.ZipFile(archive) as source:
        return {
            info.filename: info.header_offset + 30 + len(info.filename) + info.compress_size - 1
            for info in source.infolist()
        }


def central_entries(data: bytes) -> list[int]:
    """Offsets of the entries of the central directory."""
    count, _, at = struct.unpack("<HII", data[-12:-2])
    found = []
    for _ in range(count):
        found.append(at)
        name, extra, comment = struct.unpack_from("<HHH", data, at + 28)
        at += 46 + name + extra + comment
    return found
