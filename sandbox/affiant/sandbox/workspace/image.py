"""Unpacks a root file system for ``--rootfs``: a tar archive, or an OCI image layout, into an empty directory.

OCI image-spec 1.1: image-layout.md (``oci-layout``, ``index.json``, ``blobs/sha256``), layer.md (whiteouts).
Every blob is checked against the digest that names it before a byte of it is unpacked. What is unpacked is
files, directories and links, owned by us and without special bits; devices and pipes are left out, the sandbox
has its own. An entry is reached directory by directory without following a link, so an archive can put a link
wherever it likes and still never write through it.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import platform
import shutil
import stat
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from affiant.attestation.encoding.binary_text import is_sha256_name
from affiant.attestation.encoding.canonical import JSONError, parse_object
from affiant.errors import MalformedError
from affiant.sandbox.workspace.tree import TreeTooLarge, TreeUnreadable, tree_digest
from affiant.sandbox.workspace.walk import Limits, descended, escaped, open_directory, read_tree

__all__ = ["IMAGE_LIMITS", "unpack_image"]

IMAGE_LIMITS: Final = Limits(files=1_000_000, total_bytes=32 << 30, depth=128)
"""How much an image may unpack to."""

_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_DOCUMENT_BYTES: Final = 4 << 20
_LAYERS: Final = ("application/vnd.oci.image.layer.v1.tar", "application/vnd.docker.image.rootfs.diff.tar")
_ARCHITECTURE: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def unpack_image(source: Path, target: Path, *, limits: Limits = IMAGE_LIMITS) -> str:
    """Unpack ``source`` into the empty directory ``target`` (made if missing); return its tree digest.

    Args:
        source: a directory with an ``oci-layout``, or a tar archive (plain, gzip, bzip2 or xz).

    Raises:
        ``workspace.image``: it is neither, a digest does not hold, or an entry leads elsewhere.
        TreeTooLarge: more files or bytes than the limits.
        TreeUnreadable: the machine did not let us read or write.
    """
    try:
        target.mkdir(mode=0o755, parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise MalformedError(
                "the image's directory is not empty", where=escaped(target.name), code="workspace.image"
            )
        with open_directory(target) as root:
            unpacking = _Unpacking(root, limits)
            for layer in _oci_layers(source) if source.is_dir() else (source,):
                unpacking.apply(layer)
    except OSError as error:
        raise TreeUnreadable("the image cannot be unpacked", found=error.strerror) from error
    return tree_digest(read_tree(target, limits=limits, skipped=[]))


def _oci_layers(layout: Path) -> Iterator[Path]:
    """The layers of the one image for this machine, lowest first, each checked against its digest."""
    if not (layout / "oci-layout").is_file():
        raise MalformedError(
            "neither an archive nor an OCI layout", expected="a file named oci-layout", code="workspace.image"
        )
    manifest = _document((layout / "index.json").read_bytes())
    for _ in range(3):  # an index may name an index; ours never nest deeper
        if "layers" in manifest:
            break
        manifest = _document(_blob(layout, _for_this_machine(_objects(manifest, "manifests"))).read_bytes())
    for layer in _objects(manifest, "layers"):
        kind = str(layer.get("mediaType"))
        if kind.removesuffix("+gzip").removesuffix(".gzip") not in _LAYERS:
            raise MalformedError(
                "a layer of a kind that is not read here",
                expected="tar, or tar with gzip",
                found=escaped(kind),
                code="workspace.image",
            )
        yield _blob(layout, layer)


def _document(data: bytes) -> Mapping[str, object]:
    try:
        return parse_object(data, limit=_DOCUMENT_BYTES, strict_form=False)
    except JSONError as error:
        raise MalformedError("a document of the OCI layout is not JSON", code="workspace.image") from error


def _objects(document: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    found = document.get(name)
    if not isinstance(found, list) or not found or not all(isinstance(item, dict) for item in found):
        raise MalformedError("a document of the OCI layout lacks a list", where=name, code="workspace.image")
    return found


def _for_this_machine(manifests: list[Mapping[str, object]]) -> Mapping[str, object]:
    """The only manifest, or the one for this machine's architecture."""
    if len(manifests) == 1:
        return manifests[0]
    wanted = _ARCHITECTURE.get(platform.machine(), platform.machine())
    for manifest in manifests:
        about = manifest.get("platform")
        if isinstance(about, dict) and (about.get("os"), about.get("architecture")) == ("linux", wanted):
            return manifest
    raise MalformedError(
        "the OCI layout has no image for this machine", expected=f"linux/{wanted}", code="workspace.image"
    )


def _blob(layout: Path, descriptor: Mapping[str, object]) -> Path:
    """The blob's path, once its content has the digest that names it."""
    name = str(descriptor.get("digest"))
    if not is_sha256_name(name):
        raise MalformedError("a blob without a SHA-256 digest", found=escaped(name), code="workspace.image")
    path = layout / "blobs" / "sha256" / name.removeprefix("sha256:")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if f"sha256:{found}" != name:
        raise MalformedError(
            "a blob has another content than its name says",
            expected=name,
            found=f"sha256:{found}",
            code="workspace.image",
        )
    return path


@dataclass(slots=True)
class _Unpacking:
    """One image on its way into the directory behind ``root``."""

    root: int
    limits: Limits
    files: int = 0
    total: int = 0

    def apply(self, layer: Path) -> None:
        """Unpack one layer over what is there."""
        try:
            with tarfile.open(layer, "r:*") as archive:
                for member in archive:
                    self._count(member.size if member.isreg() else 0)
                    self._member(archive, member)
        except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise MalformedError(
                "not a tar archive, or a broken one", where=escaped(layer.name), code="workspace.image"
            ) from error

    def _count(self, size: int) -> None:
        self.limits.proceed()
        self.files, self.total = self.files + 1, self.total + size
        if self.files > self.limits.files or self.total > self.limits.total_bytes:
            raise TreeTooLarge("the image unpacks to more than its limits")

    def _member(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        segments = _segments(member.name)
        if not segments:
            return
        name = segments[-1]
        with self._directory(segments[:-1]) as parent:
            if name == _OPAQUE:
                for below in os.listdir(parent):
                    _remove(below, parent)
            elif name.startswith(_WHITEOUT):
                _remove(_whited_out(name), parent)
            elif member.isdir():
                os.close(_enter(parent, name))
            elif member.issym():
                _remove(name, parent)
                os.symlink(member.linkname, name, dir_fd=parent)
            elif member.islnk():
                self._hard_link(_segments(member.linkname), name, parent)
            elif member.isreg():
                _remove(name, parent)
                self._write(
                    archive.extractfile(member), name, parent, executable=bool(member.mode & stat.S_IXUSR)
                )

    def _hard_link(self, to: list[str], name: str, parent: int) -> None:
        if not to:
            raise MalformedError("a hard link to nothing", where=escaped(name), code="workspace.image")
        with self._directory(to[:-1]) as there:
            if not stat.S_ISREG(os.stat(to[-1], dir_fd=there, follow_symlinks=False).st_mode):
                raise MalformedError(
                    "a hard link to something else than a file", where=escaped(name), code="workspace.image"
                )
            if (there, to[-1]) != (parent, name):
                _remove(name, parent)
                os.link(to[-1], name, src_dir_fd=there, dst_dir_fd=parent, follow_symlinks=False)

    def _write(self, content: IO[bytes] | None, name: str, parent: int, *, executable: bool) -> None:
        fd = os.open(name, _NEW_FILE, 0o755 if executable else 0o644, dir_fd=parent)
        with os.fdopen(fd, "wb") as file:
            while content is not None and (piece := content.read(1 << 20)):
                self.limits.proceed()
                file.write(piece)

    def _directory(self, segments: list[str]) -> AbstractContextManager[int]:
        """The directory ``segments`` of the image, made where it is missing, reached without following a link."""
        return descended(self.root, segments, _enter)


def _segments(path: str) -> list[str]:
    """The names in an entry's path.

    Raises:
        ``workspace.image``: it climbs, or holds a NUL.
    """
    segments = [segment for segment in path.split("/") if segment not in {"", "."}]
    if ".." in segments or "\0" in path or len(segments) > IMAGE_LIMITS.depth:
        raise MalformedError(
            "an entry of the image leads elsewhere", found=escaped(path), code="workspace.image"
        )
    return segments


def _whited_out(name: str) -> str:
    """The name that a whiteout removes.

    Raises:
        ``workspace.image``: none, or the directory itself or the one above.
    """
    removed = name.removeprefix(_WHITEOUT)
    if removed in {"", ".", ".."}:
        raise MalformedError("a whiteout of nothing", found=escaped(name), code="workspace.image")
    return removed


def _enter(parent: int, name: str) -> int:
    """The directory ``name``; a file in its place gives way, a link refuses: nothing is written through one."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=parent)
    mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        raise MalformedError(
            "an entry of the image lies below a link", where=escaped(name), code="workspace.image"
        )
    if not stat.S_ISDIR(mode):
        os.unlink(name, dir_fd=parent)
        os.mkdir(name, 0o755, dir_fd=parent)
    return os.open(name, _DIRECTORY, dir_fd=parent)


def _remove(name: str, parent: int) -> None:
    """What an earlier layer left at ``name``, whatever it is; links are removed, not followed."""
    try:
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        shutil.rmtree(name, dir_fd=parent)
    else:
        os.unlink(name, dir_fd=parent)
