"""Whether somebody whom the trust file accepts has signed the profile that a session ran under (trust rules, 11).

A gateway keeps the signature that a session was admitted with among the bundle's ``policies``. Nothing says that it was
that one, and nothing need: whichever is there is believed for its signer, and must be about the profile and the file
that the session's manifest names. The floor is inside the profile's digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from affiant.attestation.signatures.profiles.accepted_signers import AcceptedSigner
from affiant.attestation.signatures.profiles.verification import (
    MAX_SIGNATURE,
    ProfileSignature,
    VerifiedSignature,
    parse_profile_signature,
    verify_by_one_of,
)
from affiant.attestation.signatures.sigstore.errors import ExtraMissing
from affiant.attestation.statements.manifest import Manifest
from affiant.attestation.verdict.errors import NotMade
from affiant.attestation.verifier.case.statement_verifiers import NobodySigned
from affiant.errors import AffiantError

__all__ = ["signed_profile"]

_SEMANTICS: Final = "affiant.policy/1"
_MAX_SIGNATURES: Final = 16
"""Over one profile, in one bundle: whoever makes a bundle shall not choose how long its reader works."""


def signed_profile(
    objects: Iterable[bytes], manifest: Manifest, signers: Sequence[AcceptedSigner], *, at: datetime
) -> VerifiedSignature:
    """The first signature among ``objects`` over the manifest's profile by one of ``signers``.

    Raises:
        NobodySigned: there is none.
        NotMade: one that might be cannot be judged here.
    """
    why = "no signature over this profile is here"
    missing: ExtraMissing | None = None
    for number, signature in enumerate(_over(objects, manifest)):
        if number == _MAX_SIGNATURES:
            raise NobodySigned(f"more than {_MAX_SIGNATURES} signatures over one profile")
        try:
            return verify_by_one_of(signature, signers, at=at)
        except ExtraMissing as error:
            missing = error
        except AffiantError as error:
            why = str(error)
    if missing is not None:
        raise NotMade(str(missing)) from missing
    raise NobodySigned(why)


def _over(objects: Iterable[bytes], manifest: Manifest) -> Iterable[ProfileSignature]:
    """Signatures that say that they are over the manifest's profile, of the manifest's file."""
    for raw in objects:
        if len(raw) > MAX_SIGNATURE:
            continue
        try:
            signature = parse_profile_signature(raw)
        except AffiantError:  # a normal form, a configuration, reference values: something else
            continue
        claimed = signature.claimed
        if (
            manifest.profile_digest in claimed.profiles
            and claimed.source == manifest.file_digest
            and claimed.semantics == _SEMANTICS
        ):
            yield signature
