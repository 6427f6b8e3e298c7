"""Computes the reference values of the simulated platform of a state folder, as a trust file has them.

Every launcher of a session needs them, so nothing of what serves the platform is loaded here.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from affiant.attestation.release.manifest import load_release, reference_values
from affiant.attestation.simulated.served.store import open_store

__all__ = ["simulated_reference"]


def simulated_reference(
    home: Path, *, now: datetime, random_bytes: Callable[[int], bytes]
) -> tuple[bytes, bytes]:
    """The root key (DER SubjectPublicKeyInfo) and the reference values of the platform in ``home``.

    Whether or not it is being served; where there is no platform yet, it is made. No quote is looked at: the
    values are those of the release manifest.

    Raises:
        ReleaseMissingError, ReleaseMalformedError: there is no manifest, or none to rely on.
        ``platform.store``: the folder is not private.
    """
    release = load_release()
    with open_store(home) as store:
        root = store.root_spki(now=now, random_bytes=random_bytes)
    return root, reference_values(release, root)
