"""An archive opened for reading: its members' bytes, bounded, each compared with its headers and, where known, digest.

I/O boundary: it opens the file. The file is read by position, so that two readers of one descriptor do not disturb each
other, and never mapped: a file that is cut while it is read gives a refusal and no signal.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from affiant.attestation.bundle.period.deflate_end import last_byte
from affiant.attestation.bundle.period.errors import (
    ArchiveUnreadable,
    DigestMismatch,
    MemberAbsent,
    ZipContentMismatch,
)
from affiant.attestation.bundle.period.zip_directory import ZIP_BOUNDS, ZipBounds, read_directory
from affiant.attestation.bundle.period.zip_form import Member

__all__ = ["Archive"]

_PIECE: Final = 1 << 16


class Archive:
    """One archive. A context manager: it holds a descriptor.

    Args:
        path: the file. bounds: what it may claim.

    Raises:
        MalformedError: ``zip.*``. ArchiveUnreadable: it cannot be read.
    """

    def __init__(self, path: Path, *, bounds: ZipBounds = ZIP_BOUNDS) -> None:
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise ArchiveUnreadable(
                "the file cannot be opened", where=path.name, found=error.strerror
            ) from error
        try:
            found = read_directory(self._read, os.fstat(self._file).st_size, bounds)
        except BaseException:
            os.close(self._file)
            raise
        self.members: Mapping[str, Member] = {member.name: member for member in found}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def pieces(self, name: str, *, sha256: str | None = None) -> Iterator[bytes]:
        """The content of ``name``, in pieces of at most 1 MiB. What was given counts once the iterator has ended.

        Args:
            sha256: 64 hex that it must have.

        Raises:
            MemberAbsent: there is none. ZipContentMismatch, DigestMismatch: at its end, or as soon as it is seen.
        """
        member = self.members.get(name)
        if member is None:
            raise MemberAbsent("the archive has no such file", where=name)
        digest, crc, left = hashlib.sha256(), 0, member.size
        for piece in self._inflated(member):
            left -= len(piece)
            if left < 0:
                raise ZipContentMismatch("a member is larger than it says", where=name, expected=member.size)
            crc = zlib.crc32(piece, crc)
            digest.update(piece)
            yield piece
        if left or crc != member.crc:
            raise ZipContentMismatch("a member has another size or checksum than it says", where=name)
        if sha256 is not None and digest.hexdigest() != sha256:
            raise DigestMismatch(
                "a file is not the one that is listed", where=name, expected=sha256, found=digest.hexdigest()
            )

    def read(self, name: str, *, sha256: str | None = None) -> bytes:
        """All of ``name``; as :meth:`pieces`. Bounded by what the directory says of it, which was checked."""
        return b"".join(self.pieces(name, sha256=sha256))

    def digest(self) -> str:
        """``sha256:`` name of the whole file."""
        digest, at = hashlib.sha256(), 0
        size = os.fstat(self._file).st_size
        while at < size:
            piece = self._read(min(1 << 20, size - at), at)
            digest.update(piece)
            at += len(piece)
        return f"sha256:{digest.hexdigest()}"

    def _inflated(self, member: Member) -> Iterator[bytes]:
        """The unpacked content; the packed bytes end where the stream does, to the bit."""
        inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        at, pending = member.content, b""
        try:
            while not inflate.eof and at < member.end - 1:
                pending = self._read(min(_PIECE, member.end - 1 - at), at)
                at += len(pending)
                while piece := inflate.decompress(pending, 1 << 20):
                    yield piece
                    pending = inflate.unconsumed_tail
            if not inflate.eof and at == member.end - 1:
                yield last_byte(inflate, self._read(1, at)[0], where=member.name)
                at += 1
        except zlib.error as error:
            raise ZipContentMismatch("a member cannot be unpacked", where=member.name) from error
        if not inflate.eof or at != member.end:
            raise ZipContentMismatch("a member's packed bytes end elsewhere than it says", where=member.name)

    def _read(self, size: int, offset: int) -> bytes:
        parts = []
        while size:
            try:
                part = os.pread(self._file, size, offset)
            except OSError as error:
                raise ArchiveUnreadable("the file cannot be read", found=error.strerror) from error
            if not part:
                raise ArchiveUnreadable(
                    "the file ends before what its directory says", found=f"{offset} bytes"
                )
            parts.append(part)
            size, offset = size - len(part), offset + len(part)
        return b"".join(parts)
