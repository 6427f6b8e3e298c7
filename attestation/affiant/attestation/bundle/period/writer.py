"""Writes a period bundle from a folder that lies as the layout says: the same files give the same bytes.

The folder is the draft: whoever fills it can stop and go on. The archive is written beside its place, made durable,
and renamed; a crash leaves the draft and what stood in the place before.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from affiant.attestation.bundle.period.errors import WriterMisused
from affiant.attestation.bundle.period.layout import MANIFEST, limit_of
from affiant.attestation.bundle.period.manifest import FileEntry, Manifest, Range
from affiant.attestation.bundle.period.zip_form import LOCAL, Member, end_records
from affiant.files import refuse_stream, sync_folder

__all__ = ["write_archive"]

_LEVEL: Final = 6
_PIECE: Final = 1 << 20


def write_archive(
    folder: Path,
    place: Path,
    *,
    asked: Range,
    exporter: str,
    progress: Callable[[int], None] = lambda _: None,
    private: bool = False,
) -> Manifest:
    """Write the files of ``folder``, with a manifest of them, as the archive ``place``.

    Args:
        asked: what the manifest says about the range. exporter: who wrote it.
        progress: called with the number of bytes that were packed.
        private: only its owner can read it: it holds what receipts hide.

    Raises:
        WriterMisused: a file that the layout does not have, or one that is too large.
        OSError: it cannot be written; what stood at ``place`` stands there still.
    """
    refuse_stream(place)
    names = sorted(_files(folder))
    for name in names:
        limit = limit_of(name)
        if limit is None or name == MANIFEST or (folder / name).stat().st_size > limit:
            raise WriterMisused("a file that the layout does not have, or that is too large", where=name)
    manifest = Manifest(exporter, asked, {name: _entry(folder / name) for name in names})
    draft = place.with_name(f".{place.name}.new")
    try:
        with open(draft, "wb", opener=_private if private else None) as file:
            _write(file, folder, sorted([*names, MANIFEST]), manifest.to_bytes(), progress)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(place)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
    sync_folder(place.parent)
    return manifest


def _private(path: str, flags: int) -> int:
    with suppress(FileNotFoundError):  # what a killed writer left could be open to others
        os.unlink(path)
    return os.open(path, flags | os.O_EXCL | os.O_CLOEXEC, 0o600)


def _files(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise WriterMisused("neither a file nor a folder", where=str(path.relative_to(folder)))
        if path.is_file():
            yield path.relative_to(folder).as_posix()


def _entry(path: Path) -> FileEntry:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return FileEntry(file.tell(), digest)


def _write(
    file: BinaryIO, folder: Path, names: list[str], manifest: bytes, progress: Callable[[int], None]
) -> None:
    members = []
    for name in names:
        pieces = iter([manifest]) if name == MANIFEST else _pieces(folder / name)
        members.append(_write_member(file, name, pieces, progress))
    directory = file.tell()
    file.writelines(member.central_header() for member in members)
    file.write(end_records(len(members), directory, file.tell() - directory))


def _write_member(
    file: BinaryIO, name: str, pieces: Iterator[bytes], progress: Callable[[int], None]
) -> Member:
    """Pack one file; its header is written again once its sizes are known."""
    offset = file.tell()
    file.seek(offset + LOCAL.size + len(name))
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    size = packed = crc = 0
    for piece in pieces:
        size, crc = size + len(piece), zlib.crc32(piece, crc)
        packed += file.write(deflate.compress(piece))
        progress(len(piece))
    packed += file.write(deflate.flush())
    member = Member(name, offset, packed, size, crc)
    file.seek(offset)
    file.write(member.local_header())
    file.seek(member.end)
    return member


def _pieces(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            yield piece
