"""Collateral in force: what the launcher last wrote, else what it gave at start.

A file of the operator's store may be anything. What is read is believed only as far as its signatures and its
dates go; one that cannot be read leaves the last one in force, and a stale one is refused where it is used.
"""

from __future__ import annotations

import os
from pathlib import Path

from affiant.attestation.tdx.tcb.collateral import Collateral, parse_collateral
from affiant.errors import AffiantError

__all__ = ["COLLATERAL_NAME", "CollateralFile", "write_collateral"]

COLLATERAL_NAME = "collateral.json"
_MAX_BYTES = 4 << 20


class CollateralFile:
    """Reads the file anew for every appraisal: admissions are rare."""

    def __init__(self, path: Path, initial: Collateral) -> None:
        self._path = path
        self._last = initial

    def __call__(self) -> Collateral:
        """The collateral in force."""
        try:
            with self._path.open("rb") as file:
                self._last = parse_collateral(file.read(_MAX_BYTES))
        except (OSError, AffiantError):  # the last one stays in force, and is judged by its dates
            pass
        return self._last


def write_collateral(path: Path, collateral: Collateral) -> None:
    """Write the file, whole or not at all. Anybody may read it: the server is another user, and it is public."""
    unfinished = path.with_suffix(".new")
    descriptor = os.open(
        unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644
    )
    os.fchmod(descriptor, 0o644)
    with open(descriptor, "wb") as file:
        file.write(collateral.to_bytes())
    unfinished.replace(path)
