"""Writes the release manifest into the wheel: the files of this build, and what a TD that runs it measures.

The manifest is made here, while building, so that reference values exist before any quote does. The list of
files is hatchling's own: exactly what it is about to pack. An editable install carries none; its source tree gets
one by ``python -m affiant.attestation.release write``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ReleaseManifestHook(BuildHookInterface[Any]):
    """Hatchling's custom build hook; needs nothing but the source tree and the standard library."""

    _folder: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Measure what will be packed and add the manifest to it."""
        if version == "editable":
            return
        sys.path.insert(0, str(Path(self.root) / "attestation"))
        from affiant.attestation.release.manifest import (  # noqa: PLC0415 - importable only from here on
            MANIFEST_PATH,
            build_release,
            measure,
        )

        packed = {
            included.distribution_path: Path(included.path)
            for included in self.build_config.builder.recurse_included_files()
            if included.distribution_path.startswith("affiant/")
        }
        self._folder = tempfile.TemporaryDirectory(prefix="affiant-release-")
        manifest = Path(self._folder.name) / "release.json"
        manifest.write_bytes(build_release(measure(packed)).to_bytes())
        build_data["force_include"][str(manifest)] = MANIFEST_PATH

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the manifest's temporary copy."""
        if self._folder is not None:
            self._folder.cleanup()
