"""Writes the release manifest of a source tree, or compares it with what is installed.

Only the standard library is imported: the build runs this before anything is installed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from affiant.attestation.release.manifest import check_release, write_release
from affiant.errors import AffiantError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command ``python -m affiant.attestation.release``: its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m affiant.attestation.release", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("action", choices=("write", "check"))
    action = write_release if parser.parse_args(arguments).action == "write" else check_release
    try:
        release = action()
    except AffiantError as error:
        sys.stderr.write(f"affiant: refused: {error} [{error.code}]\n")
        return 1
    sys.stdout.write(f"build {release.build_digest}\n")
    for image, released in release.images.items():
        sys.stdout.write(f"{image.value:7} {released.digest} {len(released.files)} files\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
