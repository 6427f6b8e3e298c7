"""Releases for tests: both images consist of all the files."""

from __future__ import annotations

from collections.abc import Sequence

from affiant.attestation.release.boot import Image
from affiant.attestation.release.manifest import Release, build_release
from affiant.attestation.release.measured_files import MeasuredFile
from affiant.attestation.release.memory import LaunchedImage

__all__ = ["launched", "release_of"]


def release_of(files: Sequence[MeasuredFile]) -> Release:
    return build_release(files, {image: [path for path, _ in files] for image in Image})


def launched(mrtd: bytes = bytes(48), memory: bytes = b"memory") -> LaunchedImage:
    """What a TD is launched with, where its content does not matter."""
    return LaunchedImage(mrtd, memory)
