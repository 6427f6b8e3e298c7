"""Finds and reads the signature beside a profile file: ``profiles.yaml`` and ``profiles.yaml.sig.json``.

Write access to it is no advantage: a verifier names the signer, and checks the signature.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from affiant.attestation.signatures.profiles.errors import ProfileSignatureMissing
from affiant.attestation.signatures.profiles.verification import ProfileSignature, parse_profile_signature
from affiant.policy.loading.policy_file import read_bounded

__all__ = ["SIGNATURE_SUFFIX", "read_signature", "signature_beside", "signature_place"]

SIGNATURE_SUFFIX: Final = ".sig.json"


def signature_place(file: Path) -> Path:
    """The default place of the signature of ``file``."""
    return file.with_name(file.name + SIGNATURE_SUFFIX)


def signature_beside(file: Path) -> Path | None:
    """That place, if something lies there."""
    place = signature_place(file)
    return place if os.path.lexists(place) else None


def read_signature(path: Path) -> ProfileSignature:
    """The signature in a file, in its form; nothing of it is verified.

    Raises:
        ProfileSignatureMissing: there is no such file. ``policy.file``: it cannot be read.
        AffiantError: it is no signature.
    """
    if not os.path.lexists(path):
        raise ProfileSignatureMissing(
            "there is no signature", expected=path.name, hint="Sign the file: affiant policy sign"
        )
    return parse_profile_signature(read_bounded(path))
