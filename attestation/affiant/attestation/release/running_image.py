"""The digest of the image that this process runs: of its memory if it is measured, else of the release manifest."""

from __future__ import annotations

from affiant.attestation.release.boot import Image
from affiant.attestation.release.manifest import load_release
from affiant.attestation.release.running import measured_process

__all__ = ["image_digest"]


def image_digest(image: Image) -> str:
    """``sha256:<hex>`` of the files of ``image``: the ``bld`` of records, and a session manifest's ``supervisor``.

    Raises:
        ReleaseMissingError, ReleaseMalformedError: this process is not measured, and there is no manifest.
    """
    measured = measured_process()
    if measured is not None and measured.image_name == image.value:
        return measured.image_digest
    return load_release().images[image].digest
