"""The release manifest: which files this build consists of, and what a TD that runs it will measure.

Made when the package is built, before any quote exists, so reference values are never copied from evidence::

    python -m affiant.attestation.release write     # a source tree: writes attestation/affiant/release.json
    python -m affiant.attestation.release check     # does what is installed still match its manifest?

The manifest is RFC 8785 JSON ``{"typ":"affiant-release/1","files":[[path,sha256 hex],...],"mrtd":<96 hex>,
"images":{"gateway":{"mrtd","rtmr0","rtmr1","rtmr2"},"session":{...}}}``. Files are those of the wheel without
``*.dist-info/``, ``__pycache__/``, the second verifier's page and the manifest itself, sorted by path. MRTD is SHA-384
of the RFC 8785 array of ``[path, sha256 hex]``: what the simulated platform measures, again, from the installed files
at each launch. A changed installation therefore yields another MRTD than its manifest says, and its quotes are refused.

Only the standard library is imported: the build runs this before anything is installed.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from affiant.attestation.encoding.binary_text import from_hex, sha256_name
from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.attestation.release.boot import Image, boot_registers
from affiant.attestation.release.measured_files import (
    MANIFEST_PATH,
    InstalledFileError,
    MeasuredFile,
    measure,
    measure_files,
)
from affiant.attestation.release.platform_identity import EVALUATION_NUMBER, TD_ATTRIBUTES, XFAM
from affiant.errors import AffiantError, ConfigurationError, MalformedError, NotAuthenticError

__all__ = [
    "MANIFEST_PATH",
    "ImageMeasurements",
    "InstalledFileError",
    "MeasuredFile",
    "Release",
    "ReleaseDiffersError",
    "ReleaseMalformedError",
    "ReleaseMissingError",
    "build_name",
    "build_release",
    "check_release",
    "load_release",
    "measure",
    "measure_files",
    "mrtd_of",
    "parse_release",
    "reference_values",
    "write_release",
]

_TYP: Final = "affiant-release/1"
_LIMIT: Final = 1 << 22
"""Bytes of a manifest, at most."""


class ReleaseMissingError(ConfigurationError):
    """There is no release manifest beside the code."""

    code = "release.missing"


class ReleaseMalformedError(MalformedError):
    """The release manifest is not one, or contradicts itself."""

    code = "release.malformed"


class ReleaseDiffersError(NotAuthenticError):
    """What is installed is not what its release manifest lists."""

    code = "release.differs"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageMeasurements:
    """What one image measures into, 48 bytes each."""

    mrtd: bytes
    rtmr0: bytes
    rtmr1: bytes
    rtmr2: bytes

    def to_json(self) -> dict[str, str]:
        """The four values in hexadecimal."""
        return {name: getattr(self, name).hex() for name in ("mrtd", "rtmr0", "rtmr1", "rtmr2")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A build: its files, its MRTD (48 bytes), and what each of its images measures into."""

    files: tuple[MeasuredFile, ...]
    mrtd: bytes
    images: Mapping[Image, ImageMeasurements]

    def to_bytes(self) -> bytes:
        """The manifest, RFC 8785."""
        return canonical(
            {
                "typ": _TYP,
                "files": self.files,
                "mrtd": self.mrtd.hex(),
                "images": {image.value: measured.to_json() for image, measured in self.images.items()},
            }
        )

    @property
    def build_digest(self) -> str:
        """``sha256:<hex>`` of the manifest's bytes: the ``bld`` of receipts and verdicts."""
        return sha256_name(self.to_bytes())


# -- pure ------------------------------------------------------------------------------------------------------


def mrtd_of(files: Sequence[MeasuredFile]) -> bytes:
    """SHA-384 of the RFC 8785 array of ``[path, sha256 hex]``, sorted by path: 48 bytes."""
    return hashlib.sha384(canonical(sorted(files))).digest()


def build_release(files: Sequence[MeasuredFile]) -> Release:
    """The release that consists of ``files``.

    Raises:
        ReleaseMalformedError: no file at all, or a path twice.
    """
    if not files:
        raise ReleaseMalformedError("a release without files")
    if len({path for path, _ in files}) != len(files):
        raise ReleaseMalformedError("a path stands twice in a release")
    mrtd = mrtd_of(files)
    images = {image: _image(mrtd, image) for image in Image}
    return Release(files=tuple(sorted(files)), mrtd=mrtd, images=MappingProxyType(images))


def _image(mrtd: bytes, image: Image) -> ImageMeasurements:
    rtmr0, rtmr1, rtmr2, _ = boot_registers(image)
    return ImageMeasurements(mrtd=mrtd, rtmr0=rtmr0, rtmr1=rtmr1, rtmr2=rtmr2)


def parse_release(data: bytes) -> Release:
    """The release that a manifest describes; its MRTD is recomputed from its files.

    Raises:
        ReleaseMalformedError: not a manifest, or one that this build's :func:`build_release` would not write.
        JSONError: not canonical JSON.
    """
    document = parse_object(data, limit=_LIMIT)
    files = document.get("files")
    if document.get("typ") != _TYP or not isinstance(files, list):
        raise ReleaseMalformedError("not a release manifest", expected=_TYP)
    release = build_release([_file(entry) for entry in files])
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
            "images": {image.value: [release.images[image].to_json()] for image in Image},
            "tcb": {"statuses": ["UpToDate"], "min_evaluation": EVALUATION_NUMBER},
            "td_attributes": TD_ATTRIBUTES.hex(),
            "xfam": XFAM.hex(),
        }
    )


# -- the manifest beside the code -------------------------------------------------------------------------------


def load_release() -> Release:
    """The release that is installed, from the manifest beside its code.

    Raises:
        ReleaseMissingError: there is none. ReleaseMalformedError, JSONError: it is none.
    """
    path = _manifest_file()
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
    release = build_release(measure_files())
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
