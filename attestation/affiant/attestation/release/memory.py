"""The memory that a simulated TD is launched with: one image's files, measured and compiled from the same bytes.

``marshal`` of ``{"image", "files": {path: sha256 hex}, "code": {path: compiled}}``, read by
:mod:`~affiant.attestation.release.start`. Compiling takes some 0.4 s, so a platform keeps what it made, under a key of
the files' digest and of what compiled them. Only a platform's own user can write there.
"""

from __future__ import annotations

import hashlib
import importlib.util
import marshal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Final

from affiant.attestation.release.boot import Image
from affiant.attestation.release.manifest import mrtd_of
from affiant.attestation.release.measured_files import InstalledFileError

__all__ = ["LaunchedImage", "MemoryCache", "launch_image"]

_KEY_SIZE: Final = 32

MemoryCache = tuple[Callable[[Image], bytes | None], Callable[[Image, bytes], None]]
"""What reads and what writes the kept memory of an image; both may forget."""


@dataclass(frozen=True, slots=True)
class LaunchedImage:
    """What a TD of one image is launched with: its MRTD (48 bytes) and its memory."""

    mrtd: bytes
    memory: bytes


def launch_image(
    image: Image, content: Mapping[str, bytes], cache: MemoryCache | None = None
) -> LaunchedImage:
    """Measure ``content``, the bytes of each file of ``image``, and compile it.

    Raises:
        InstalledFileError: a file does not compile.
    """
    files = {path: hashlib.sha256(data).hexdigest() for path, data in sorted(content.items())}
    mrtd = mrtd_of(list(files.items()))
    key = hashlib.sha256(mrtd + importlib.util.MAGIC_NUMBER + sys.version.encode()).digest()
    if cache is not None:
        kept = cache[0](image)
        if kept is not None and kept[:_KEY_SIZE] == key:
            digest, memory = kept[_KEY_SIZE : 2 * _KEY_SIZE], kept[2 * _KEY_SIZE :]
            if hashlib.sha256(memory).digest() == digest:  # a damaged file is made again
                return LaunchedImage(mrtd, memory)
    memory = marshal.dumps(
        {
            "image": image.value,
            "files": files,
            "code": {path: marshal.dumps(_compiled(path, data)) for path, data in content.items()},
        }
    )
    if cache is not None:
        cache[1](image, key + hashlib.sha256(memory).digest() + memory)
    return LaunchedImage(mrtd, memory)


def _compiled(path: str, data: bytes) -> CodeType:
    try:
        code: CodeType = compile(data, f"/measured/{path}", "exec", dont_inherit=True)
        return code
    except (SyntaxError, ValueError) as error:
        raise InstalledFileError("a file of an image does not compile", where=path) from error
