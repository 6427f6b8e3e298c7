"""A period bundle opened for reading: receipts one after another, objects by digest, the log as a place to read from.

::

    with PeriodBundle(Path("november.affiant.zip")) as bundle:
        for sdjwt in bundle.receipts():          # log order; nothing is verified
            ...

Every file is compared with the manifest's digest when it is read to its end; :meth:`PeriodBundle.read_rest` reads
those that nobody has asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from affiant.attestation.bundle.bundle import Bundle
from affiant.attestation.bundle.bundle_anchors import Anchors
from affiant.attestation.bundle.period.archive import Archive
from affiant.attestation.bundle.period.errors import DigestMismatch, ManifestMalformed, ZipTooLarge
from affiant.attestation.bundle.period.layout import (
    ERASURES,
    MANIFEST,
    OBJECT_FOLDERS,
    limit_of,
    object_digest,
)
from affiant.attestation.bundle.period.lines import (
    join_disclosures,
    parse_disclosures,
    parse_receipt_line,
    split_lines,
)
from affiant.attestation.bundle.period.manifest import Manifest, parse_manifest
from affiant.attestation.bundle.period.zip_directory import ZIP_BOUNDS, ZipBounds

__all__ = ["LogFolder", "Objects", "PeriodBundle", "is_archive"]

_NUMBER: Final = re.compile(r"[a-z]+/([0-9]+)\.")


def is_archive(head: bytes) -> bool:
    """Whether a file that begins with ``head`` (4 bytes) is an archive, and no single bundle."""
    return head.startswith((b"PK\x03\x04", b"PK\x05\x06"))


class PeriodBundle:
    """One period bundle; a context manager.

    Args:
        path: the file. bounds: what it may claim.

    Raises:
        MalformedError: ``zip.*``, ``period.manifest``. ArchiveUnreadable: it cannot be read.
    """

    def __init__(self, path: Path, *, bounds: ZipBounds = ZIP_BOUNDS) -> None:
        self.path = path
        self.archive = Archive(path, bounds=bounds)
        self._unread: set[str] = set()
        self._objects: dict[str, Objects] = {}
        try:
            self.manifest, self.unknown, self.absent = self._open()
        except BaseException:
            self.archive.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.archive.close()

    # -- what it holds -----------------------------------------------------------------------------------------

    manifest: Manifest
    unknown: tuple[str, ...]
    """Names that the layout does not have: not read."""
    absent: tuple[str, ...]
    """Names that the manifest lists and that are not there."""

    @property
    def shards(self) -> tuple[str, ...]:
        """The names of the files of receipts, in log order."""
        return tuple(
            sorted(name for name in self.archive.members if name.startswith("receipts/") and limit_of(name))
        )

    @property
    def checkpoint_sizes(self) -> tuple[int, ...]:
        """The sizes under ``checkpoints/``, ascending."""
        return self._numbers("checkpoints/")

    @property
    def anchors(self) -> tuple[str, ...]:
        """The names under ``anchors/``; their bytes by :meth:`read`."""
        return tuple(name for name in self.archive.members if name.startswith("anchors/") and limit_of(name))

    def objects(self, folder: str) -> Objects:
        """The objects of one folder, by ``sha256:`` name; read when they are asked for."""
        if folder not in self._objects:
            self._objects[folder] = Objects(self, folder)
        return self._objects[folder]

    def receipts(self) -> Iterator[str]:
        """SD-JWT texts in log order, with the disclosures that are here. Nothing is verified; memory is bounded.

        Raises:
            LineMalformed, ZipContentMismatch, DigestMismatch: as named; what was given before is not taken back.
        """
        for name in self.shards:
            yield from self.receipts_of(name)

    def receipts_of(self, shard: str) -> Iterator[str]:
        """The same, of one file."""
        lines = split_lines(self.pieces(shard), where=shard)
        texts = (parse_receipt_line(line, where=f"{shard}:{at}") for at, line in enumerate(lines, 1))
        name = shard.replace("receipts/", "disclosures/")
        if name not in self.archive.members:
            return (text + "~" for text in texts)
        opened = split_lines(self.pieces(name), where=name)
        pairs = (parse_disclosures(line, where=f"{name}:{at}") for at, line in enumerate(opened, 1))
        return join_disclosures(texts, pairs, where=name)

    def erasures(self) -> bytes:
        """The exporter's list of what was erased; empty where there is none. The records count, not the list."""
        return self.read(ERASURES) if ERASURES in self.archive.members else b""

    def bundle(self, receipts: tuple[str, ...], proofs: Mapping[str, str]) -> Bundle:
        """Some of its receipts as a single bundle; objects are read when they are asked for."""
        maps = {folder: self.objects(folder) for folder in OBJECT_FOLDERS}
        return Bundle(receipts=receipts, proofs=proofs, anchors=Anchors(), **maps)

    # -- bytes -------------------------------------------------------------------------------------------------

    def read(self, name: str) -> bytes:
        """The bytes of one file of the layout, as the manifest lists them.

        Raises:
            MemberAbsent: it is not there. ZipContentMismatch, DigestMismatch: as named.
        """
        return b"".join(self.pieces(name))

    def pieces(self, name: str) -> Iterator[bytes]:
        """The same, piece by piece."""
        entry = self.manifest.files.get(name)
        yield from self.archive.pieces(name, sha256=None if entry is None else entry.sha256)
        claimed = object_digest(name)
        if entry is not None and claimed not in (None, f"sha256:{entry.sha256}"):
            raise DigestMismatch("an object is not what its name says", where=name)
        self._unread.discard(name)

    def read_rest(self) -> int:
        """Read every listed file that was not read to its end yet; how many.

        Raises:
            ZipContentMismatch, DigestMismatch: as named.
        """
        rest = sorted(self._unread)
        for name in rest:
            for _ in self.pieces(name):
                pass
        return len(rest)

    # -- inside ------------------------------------------------------------------------------------------------

    def _open(self) -> tuple[Manifest, tuple[str, ...], tuple[str, ...]]:
        members = self.archive.members
        if MANIFEST not in members:
            raise ManifestMalformed("the archive has no manifest", expected=MANIFEST)
        for name, member in members.items():
            if (limit := limit_of(name)) is not None and member.size > limit:
                raise ZipTooLarge("a file is too large", where=name, expected=f"at most {limit} bytes")
        manifest = parse_manifest(self.archive.read(MANIFEST))
        unknown = tuple(name for name in members if limit_of(name) is None)
        listed = set(manifest.files)
        foreign = sorted(set(members) - listed - set(unknown) - {MANIFEST})
        if foreign:
            raise ManifestMalformed("a file of the layout that the manifest does not list", where=foreign[0])
        for name in listed & set(members):
            if members[name].size != manifest.files[name].size:
                raise DigestMismatch(
                    "a file of another size than is listed",
                    where=name,
                    expected=manifest.files[name].size,
                    found=members[name].size,
                )
        self._unread = listed & set(members) - set(unknown)
        return manifest, unknown, tuple(sorted(listed - set(members)))

    def _numbers(self, prefix: str) -> tuple[int, ...]:
        names = (name for name in self.archive.members if name.startswith(prefix) and limit_of(name))
        return tuple(sorted(int(match[1]) for name in names if (match := _NUMBER.match(name)) is not None))


class Objects(Mapping[str, bytes]):
    """``sha256:`` name -> bytes, each compared with its name when it is read; as the maps of a single bundle."""

    __slots__ = ("_bundle", "_folder", "_known")

    def __init__(self, bundle: PeriodBundle, folder: str) -> None:
        self._bundle, self._folder = bundle, folder
        names = (name for name in bundle.archive.members if name.startswith(f"{folder}/"))
        self._known = {digest: name for name in names if (digest := object_digest(name)) is not None}

    def __getitem__(self, digest: str) -> bytes:
        return self._bundle.read(self._known[digest])

    def __contains__(self, digest: object) -> bool:
        return digest in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


class LogFolder:
    """The log of a period bundle: ``LogSource``."""

    __slots__ = ("_bundle",)

    def __init__(self, bundle: PeriodBundle) -> None:
        self._bundle = bundle

    @property
    def name(self) -> str:
        """The file."""
        return self._bundle.path.name

    def read(self, path: str, *, limit: int) -> bytes | None:
        """The content of ``log/<path>``; None where the archive does not hold it.

        Raises:
            ZipTooLarge: more than ``limit`` bytes. ZipContentMismatch, DigestMismatch: as named.
        """
        name = f"log/{path}"
        member = self._bundle.archive.members.get(name)
        if member is None or limit_of(name) is None:
            return None
        if member.size > limit:
            raise ZipTooLarge("a file of the log is too large", where=name, expected=f"at most {limit} bytes")
        return self._bundle.read(name)
