"""The release manifest: which files this build consists of, and what a TD that runs it will measure.

Made when the package is built, before any quote exists, so reference values are never copied from evidence::

    python -m affiant.attestation.release write     # a source tree: writes attestation/affiant/release.json
    python -m affiant.attestation.release check     # does what is installed still match its manifest?

The manifest is RFC 8785 JSON ``{"typ":"affiant-release/2","files":[[path,sha256 hex],...],
"images":{"gateway":{"digest","files":[path,...],"mrtd","rtmr0","rtmr1","rtmr2"},"session":{...}}}``. ``files``
is the whole wheel without ``*.dist-info/``, ``__pycache__/`` and the manifest itself, sorted by path; the
manifest's own digest names the installation in verdicts. An image has the files that its programs can import or
read (``images``). Its MRTD is SHA-384, its ``digest`` SHA-256, of the RFC 8785 array of their ``[path, sha256
hex]``: what the simulated platform measures, again, from the installed files at each launch. A changed file of
an image therefore yields another MRTD than its manifest says, and its quotes are refused; any other file moves
neither.

Only the standard library is imported: the build runs this before anything is installed.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from affiant.attestation.encoding.binary_text import from_hex, sha256_name
from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.attestation.release.boot import Image, ReleaseMissingError, boot_registers
from affiant.attestation.release.images import files_of_images
from affiant.attestation.release.measured_files import (
    MANIFEST_PATH,
    InstalledFileError,
    MeasuredFile,
    find_files,
    measure,
    measure_files,
    read_file,
)
from affiant.attestation.release.platform_identity import EVALUATION_NUMBER, TD_ATTRIBUTES, XFAM
from affiant.errors import AffiantError, MalformedError, NotAuthenticError

__all__ = [
    "MANIFEST_PATH",
    "InstalledFileError",
    "MeasuredFile",
    "Release",
    "ReleaseDiffersError",
    "ReleaseMalformedError",
    "ReleaseMissingError",
    "ReleasedImage",
    "build_name",
    "build_release",
    "check_release",
    "images_of",
    "installed_image",
    "load_release",
    "measure",
    "measure_files",
    "mrtd_of",
    "parse_release",
    "reference_values",
    "write_release",
]

_TYP: Final = "affiant-release/2"
_LIMIT: Final = 1 << 22
"""Bytes of a manifest, at most."""


class ReleaseMalformedError(MalformedError):
    """The release manifest is not one, or contradicts itself."""

    code = "release.malformed"


class ReleaseDiffersError(NotAuthenticError):
    """What is installed is not what its release manifest lists."""

    code = "release.differs"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedImage:
    """One image: its files, sorted by path, and what they measure into (48 bytes each)."""

    files: tuple[MeasuredFile, ...]
    mrtd: bytes
    rtmr0: bytes
    rtmr1: bytes
    rtmr2: bytes

    @property
    def digest(self) -> str:
        """``sha256:<hex>`` of its files: the ``bld`` of records, and ``supervisor`` in a session's manifest."""
        return sha256_name(canonical(self.files))

    def registers(self) -> dict[str, str]:
        """The four values in hexadecimal, as reference values name them."""
        return {name: getattr(self, name).hex() for name in ("mrtd", "rtmr0", "rtmr1", "rtmr2")}

    def to_json(self) -> dict[str, object]:
        """The image as the manifest has it: its files by path alone."""
        return {"digest": self.digest, "files": [path for path, _ in self.files], **self.registers()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """An installation: all its files, and its images."""

    files: tuple[MeasuredFile, ...]
    images: Mapping[Image, ReleasedImage]

    def to_bytes(self) -> bytes:
        """The manifest, RFC 8785."""
        return canonical(
            {
                "typ": _TYP,
                "files": self.files,
                "images": {image.value: released.to_json() for image, released in self.images.items()},
            }
        )

    @property
    def build_digest(self) -> str:
        """``sha256:<hex>`` of the manifest's bytes: how verdicts and reports name the program that made them."""
        return sha256_name(self.to_bytes())


# -- pure ------------------------------------------------------------------------------------------------------


def mrtd_of(files: Sequence[MeasuredFile]) -> bytes:
    """SHA-384 of the RFC 8785 array of ``[path, sha256 hex]``, sorted by path: 48 bytes."""
    return hashlib.sha384(canonical(sorted(files))).digest()


def build_release(files: Sequence[MeasuredFile], images: Mapping[Image, Sequence[str]]) -> Release:
    """The release that consists of ``files``, with the paths of each image.

    Raises:
        ReleaseMalformedError: no file at all, a path twice, or an image without files or with a path that is not there.
    """
    digests = dict(files)
    if not files or len(digests) != len(files):
        raise ReleaseMalformedError("no file in a release, or a path twice")
    released = {}
    for image in Image:
        paths = images.get(image, ())
        if not paths or len(set(paths)) != len(paths) or not digests.keys() >= set(paths):
            raise ReleaseMalformedError(
                "an image that does not consist of files of its release", found=image.value
            )
        released[image] = _image([(path, digests[path]) for path in paths], image)
    return Release(files=tuple(sorted(files)), images=MappingProxyType(released))


def _image(files: Sequence[MeasuredFile], image: Image) -> ReleasedImage:
    rtmr0, rtmr1, rtmr2, _ = boot_registers(image)
    return ReleasedImage(
        files=tuple(sorted(files)), mrtd=mrtd_of(files), rtmr0=rtmr0, rtmr1=rtmr1, rtmr2=rtmr2
    )


def parse_release(data: bytes) -> Release:
    """The release that a manifest describes; its MRTD is recomputed from its files.

    Raises:
        ReleaseMalformedError: not a manifest, or one that this build's :func:`build_release` would not write.
        JSONError: not canonical JSON.
    """
    document = parse_object(data, limit=_LIMIT)
    files, images = document.get("files"), document.get("images")
    if document.get("typ") != _TYP or not isinstance(files, list) or not isinstance(images, dict):
        raise ReleaseMalformedError("not a release manifest", expected=_TYP)
    listed = {image: _paths(images.get(image.value)) for image in Image}
    release = build_release([_file(entry) for entry in files], listed)
    if release.to_bytes() != data:
        raise ReleaseMalformedError(
            "the release manifest's measurements do not follow from its files",
            hint="Write it again: python -m affiant.attestation.release write",
        )
    return release


def _file(entry: object) -> MeasuredFile:
    match entry:
        case [str() as path, str() as digest]:
            from_hex(digest, size=32)
            return path, digest
        case _:
            raise ReleaseMalformedError("an entry of files is no pair of path and SHA-256")


def _paths(released: object) -> Sequence[str]:
    match released:
        case {"files": list() as paths} if all(isinstance(path, str) for path in paths):
            return paths
        case _:
            raise ReleaseMalformedError("an image of a release manifest lists no files")


def reference_values(release: Release, root_spki_der: bytes) -> bytes:
    """The reference values of ``release`` on the simulated platform with this root key: RFC 8785 bytes.

    Args:
        root_spki_der: the root's public key, DER SubjectPublicKeyInfo.
    """
    return canonical(
        {
            "typ": "affiant-reference-values/1",
            "cls": "simulated",
            "roots": [sha256_name(root_spki_der)],
            "images": {image.value: [release.images[image].registers()] for image in Image},
            "tcb": {"statuses": ["UpToDate"], "min_evaluation": EVALUATION_NUMBER},
            "td_attributes": TD_ATTRIBUTES.hex(),
            "xfam": XFAM.hex(),
        }
    )


# -- the manifest beside the code -------------------------------------------------------------------------------


def load_release(portions: Iterable[Path] | None = None) -> Release:
    """The release that is installed, from the manifest beside its code; ``portions`` as :func:`installed_image`.

    Raises:
        ReleaseMissingError: there is none. ReleaseMalformedError, JSONError: it is none.
    """
    own = _manifest_file()
    path = next((each / own.name for each in portions or () if (each / own.name).is_file()), own)
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise ReleaseMissingError(
            "no release manifest beside the code",
            where=str(path),
            hint="A source tree gets one by: python -m affiant.attestation.release write",
        ) from error
    return parse_release(data)


def build_name() -> str:
    """The build digest of what is installed, as verdicts name it; or that a base install has no manifest."""
    try:
        return load_release().build_digest
    except AffiantError:
        return "unknown (no release manifest beside this install)"


def images_of(files: Mapping[str, Path]) -> Mapping[Image, Sequence[str]]:
    """The paths of each image among ``files``, given as path in the wheel -> file.

    Raises:
        InstalledFileError: a program of an image is missing, or a file cannot be read as Python.
    """
    return files_of_images({path: file.read_bytes for path, file in files.items()})


def installed_image(image: Image, portions: Iterable[Path] | None = None) -> Mapping[str, bytes]:
    """The bytes, as they are now, of each file that the release manifest lists for ``image``.

    Args:
        portions: where the files are; default: everything that ``affiant`` imports from.

    Raises:
        ReleaseMissingError, ReleaseMalformedError: no manifest, or none to rely on.
        InstalledFileError: a file is gone, or cannot be read.
    """
    found = find_files(portions)
    content = {}
    for path, _ in load_release(portions).images[image].files:
        if path not in found:
            raise InstalledFileError("a file of an image is not installed", found=path)
        content[path] = read_file(found[path])
    return content


def check_release() -> Release:
    """The installed release, after comparing it with the installed files.

    Raises:
        ReleaseDiffersError: they differ; at most five paths are named.
    """
    release = load_release()
    listed, found = set(release.files), set(measure_files())
    if listed != found:
        paths = sorted({path for path, _ in listed ^ found})
        raise ReleaseDiffersError(
            "the installed files are not those of the release manifest",
            found=f"{len(paths)} that differ: {', '.join(paths[:5])}",
            hint="Install again, or, in a source tree: python -m affiant.attestation.release write",
        )
    return release


def write_release() -> Release:
    """Measure the installed files and write their manifest beside the code, whole or not at all.

    One that is there already and right stays as it is. The draft of a new one has a name of its own and lies outside
    of what is measured: others may measure, or write, at the same time.
    """
    found = find_files()
    release = build_release(measure(found), images_of(found))
    path, data = _manifest_file(), release.to_bytes()
    with suppress(FileNotFoundError):
        if path.read_bytes() == data:
            return release
    descriptor, draft = tempfile.mkstemp(prefix=".release-", dir=path.parent.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.chmod(draft, 0o644)
        os.replace(draft, path)
    except BaseException:  # nothing stays, and raised again
        with suppress(FileNotFoundError):
            os.unlink(draft)
        raise
    return release


def _manifest_file() -> Path:
    return Path(__file__).resolve().parents[2] / Path(MANIFEST_PATH).name
