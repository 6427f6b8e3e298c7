"""The digest of the image that this process runs: of its memory if it is measured, else of the release manifest."""

from __future__ import annotations

import json
import re
from pathlib import Path

from affiant.attestation.release.boot import Image, ReleaseMissingError
from affiant.attestation.release.running import measured_process

__all__ = ["image_digest"]

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MANIFEST = Path(__file__).resolve().parents[2] / "release.json"


def image_digest(image: Image) -> str:
    """``sha256:<hex>`` of the files of ``image``: the ``bld`` of records, and a session manifest's ``supervisor``.

    Raises:
        ReleaseMissingError: this process is not measured, and there is no manifest to ask.
    """
    measured = measured_process()
    if measured is not None and measured.image_name == image.value:
        return measured.image_digest
    hint = "Write it: python -m affiant.attestation.release write"
    try:
        digest = json.loads(_MANIFEST.read_bytes())["images"][image.value]["digest"]
    except FileNotFoundError as error:
        raise ReleaseMissingError(
            "no release manifest beside the code", where=str(_MANIFEST), hint=hint
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReleaseMissingError(
            "the release manifest cannot be read", where=str(_MANIFEST), hint=hint
        ) from error
    if not isinstance(digest, str) or _DIGEST.fullmatch(digest) is None:
        raise ReleaseMissingError("the release manifest names no digest", where=str(_MANIFEST), hint=hint)
    return digest
