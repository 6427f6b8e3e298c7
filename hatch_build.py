"""Adds to a build what git does not hold: the release manifest and the bill of materials (wheel), and the second
verifier's page (wheel, sdist).

The manifest is made here, while building, so that reference values exist before any quote does. The list of
files is hatchling's own: exactly what it is about to pack. An editable install carries none; its source tree gets
one by ``python -m affiant.attestation.release write``.

The page was made before, by ``make verifier-page``, which needs Node. A build without it, or with one made from other
modules, warns and leaves it out. No code reads the page, and the manifest does not list it: a wheel with it measures
the same as one without.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VERIFIER: Final = "attestation/verifier-js"
PAGE: Final = f"{VERIFIER}/page/affiant-verifier.html"


class AffiantBuildHook(BuildHookInterface[Any]):
    """Hatchling's custom build hook; needs nothing but the source tree and the standard library."""

    _folder: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add what is to be packed beside the tracked files."""
        if version == "editable":
            return
        added = build_data["force_include"]
        if self.target_name == "sdist":
            self._add_page(added, PAGE)
            return
        sys.path.insert(0, str(Path(self.root) / "attestation"))
        from affiant.attestation.release.manifest import (  # noqa: PLC0415 - importable only from here on
            MANIFEST_PATH,
            build_release,
            images_of,
            measure,
        )
        from affiant.attestation.release.measured_files import VERIFIER_PAGE_PATH  # noqa: PLC0415 - as above

        packed = {
            included.distribution_path: Path(included.path)
            for included in self.build_config.builder.recurse_included_files()
            if included.distribution_path.startswith("affiant/")
        }
        self._folder = tempfile.TemporaryDirectory(prefix="affiant-release-")
        sys.path.insert(0, str(Path(self.root) / "scripts"))
        from sbom import bill_of_materials  # noqa: PLC0415 - importable only from here on

        bill = Path(self._folder.name) / "affiant.cdx.json"
        bill.write_bytes(bill_of_materials(Path(self.root)))
        build_data["sbom_files"].append(str(bill))
        manifest = Path(self._folder.name) / "release.json"
        manifest.write_bytes(build_release(measure(packed), images_of(packed)).to_bytes())
        added[str(manifest)] = MANIFEST_PATH
        self._add_page(added, VERIFIER_PAGE_PATH)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the manifest's temporary copy."""
        if self._folder is not None:
            self._folder.cleanup()

    def _add_page(self, added: dict[str, str], path: str) -> None:
        page = Path(self.root) / PAGE
        if not page.is_file():
            found = "it was not built"
        elif f'content="{verifier_build(Path(self.root) / VERIFIER)}"' not in page.read_text():
            found = "it was built from other modules than these"
        else:
            added[str(page)] = path
            return
        self.app.display_warning(
            f"WARNING: this {self.target_name} is without {PAGE}, the second verifier's page: {found}. "
            "Run `make verifier-page` (it needs Node 20 or later) and build again."
        )


def verifier_build(folder: Path) -> str:
    """The name of the verifier in ``folder``, as ``own_files.mjs`` computes it and the page carries it."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.glob("lib/*.mjs")}
    files["records.json"] = folder / "records.json"
    lines = "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {name}\n" for name, path in sorted(files.items())
    )
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"
