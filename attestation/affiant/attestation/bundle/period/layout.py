"""The layout of a period bundle: which names there are, and how large a file under each may be.

::

    manifest.json                      every other path with its size and digest; range; exporter
    receipts/000000.ndjson             one JWS per line as a JSON text, in log order, at most 100,000 lines a file
    disclosures/000000.ndjson          for receipts of the same number: ["<receipt hash>", "<disclosure>", ...]
    log/checkpoint  log/tile/...       C2SP tlog-tiles, as far as the records need it
    keysets/ evidence/ endorsements/ policies/<64 hex>.json   results/<64 hex>.jwt      objects by SHA-256
    checkpoints/<size>.note            checkpoints that epoch records name, cosigned as they were then
    anchors/<size>.tsr  anchors/<size>.sigstore.json          timestamps over checkpoints
    erasures.ndjson                    what was erased, by which record
    README.txt

A name that is none of these is not read; the verdict says so.
"""

from __future__ import annotations

import re
from typing import Final

from affiant.attestation.tlog.errors import TileMalformed
from affiant.attestation.tlog.tiles import CHECKPOINT_PATH, parse_path

__all__ = [
    "CHECKPOINT",
    "ERASURES",
    "LINES_PER_FILE",
    "MANIFEST",
    "MAX_LINE",
    "OBJECT_FOLDERS",
    "README",
    "SAFE_NAME",
    "checkpoint_name",
    "is_known",
    "limit_of",
    "object_digest",
    "object_name",
    "shard_name",
]

MANIFEST: Final = "manifest.json"
README: Final = "README.txt"
ERASURES: Final = "erasures.ndjson"
CHECKPOINT: Final = "log/checkpoint"
LINES_PER_FILE: Final = 100_000
MAX_LINE: Final = 64 * 1024
"""Bytes of one line with its newline; a receipt with all its disclosures is at most as long."""
OBJECT_FOLDERS: Final = {
    "keysets": "json",
    "evidence": "json",
    "endorsements": "json",
    "results": "jwt",
    "policies": "json",
}
"""The maps of the single bundle, each a folder here, and how its files are called."""

SAFE_NAME: Final = re.compile(
    r"(?=.{1,160}\Z)[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?(?:/[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?)*\Z"
)
"""No absolute path, no ``..``, no hidden file, no backslash, colon, space or trailing dot (Windows), ASCII alone."""
_SHARD: Final = re.compile(r"(?:receipts|disclosures)/[0-9]{6}\.ndjson\Z")
_OBJECT: Final = re.compile(r"(keysets|evidence|endorsements|results|policies)/([0-9a-f]{64})\.(json|jwt)\Z")
_SIZED: Final = re.compile(
    r"(?:checkpoints/(?:0|[1-9][0-9]{0,18})\.note|anchors/(?:0|[1-9][0-9]{0,18})\.(?:tsr|sigstore\.json))\Z"
)
_MIB: Final = 1 << 20


def shard_name(folder: str, number: int) -> str:
    """The name of the ``number``-th file of ``receipts`` or ``disclosures``."""
    return f"{folder}/{number:06d}.ndjson"


def object_name(folder: str, digest: str) -> str:
    """The name of an object, by its ``sha256:`` name."""
    return f"{folder}/{digest.removeprefix('sha256:')}.{OBJECT_FOLDERS[folder]}"


def object_digest(name: str) -> str | None:
    """The ``sha256:`` name that an object's name claims; None where ``name`` is no object's."""
    match = _OBJECT.match(name)
    if match is None or OBJECT_FOLDERS[match[1]] != match[3]:
        return None
    return f"sha256:{match[2]}"


def checkpoint_name(size: int) -> str:
    """The name of a checkpoint over ``size`` leaves."""
    return f"checkpoints/{size}.note"


def is_known(name: str) -> bool:
    """Whether the layout has a file of this name."""
    return limit_of(name) is not None


def limit_of(name: str) -> int | None:
    """Bytes that the file may have; None where the layout has none of this name."""
    if name in (MANIFEST, ERASURES):
        return 64 * _MIB
    if name in (README, CHECKPOINT) or _SIZED.match(name) is not None:
        return _MIB
    if _SHARD.match(name) is not None:
        return LINES_PER_FILE * MAX_LINE
    if object_digest(name) is not None:
        return 4 * _MIB
    if name.startswith("log/") and name != f"log/{CHECKPOINT_PATH}":
        try:
            parse_path(name.removeprefix("log/"))
        except TileMalformed:
            return None
        return _MIB
    return None
