"""Compares the statement of a signature with a profile file, or with one profile of it. Pure.

A signature is about all of this at once, and about nothing else:

* the file's **meaning**: its digest, that of each profile, the baseline policy in each, the version of the meaning;
* the file's **bytes**. A comment is what a reviewer read when they approved, and the manifest of a session names the
  bytes too: a file in which only a comment was changed is another file.

It is not about the file's name, nor about the bytes of the baseline policy: that counts by what it denies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from affiant.attestation.signatures.profiles.errors import ProfileSignatureMalformed, ProfileSignatureOther
from affiant.attestation.signatures.profiles.statement import SignedProfiles
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.normal_form.digest import SEMANTICS

if TYPE_CHECKING:
    from affiant.policy.loading.profile_set import ProfileSet

__all__ = ["require_about", "require_profile", "signed_profiles"]

_AGAIN = "Have the file signed again"


def signed_profiles(profiles: ProfileSet) -> SignedProfiles:
    """What a signer of this file signs.

    Raises:
        ProfileSignatureMalformed: it has no profile, and a signature would be about nothing.
    """
    compiled = [profile.compiled for profile in profiles.profiles.values()]
    if not compiled:
        raise ProfileSignatureMalformed("the file has no profile that could be signed", where=profiles.source)
    return SignedProfiles(
        source=profiles.source_digest,
        digest=profiles.digest,
        floor=compiled[0].policy.floor,
        profiles=tuple(sorted({each.digest for each in compiled})),
        semantics=SEMANTICS,
    )


def require_about(signed: SignedProfiles, profiles: ProfileSet) -> None:
    """Refuse a signature that is about another file than this one.

    Raises:
        ProfileSignatureOther: the text says what differs: the meaning's version, the baseline policy, rules, or only
        bytes.
    """
    found = signed_profiles(profiles)
    if signed == found:
        return
    _require_same_world(signed, floor=found.floor, where=profiles.source)
    if (signed.digest, signed.profiles) != (found.digest, found.profiles):
        raise ProfileSignatureOther(
            "the signature is about other profiles",
            expected=signed.digest,
            found=found.digest,
            where=profiles.source,
            hint=_AGAIN,
        )
    raise ProfileSignatureOther(
        "the file means what was signed, and is another file: comments or layout were changed",
        expected=signed.source,
        found=found.source,
        where=profiles.source,
        hint=_AGAIN,
    )


def require_profile(signed: SignedProfiles, policy: CompiledPolicy, *, file_digest: str) -> None:
    """Refuse a signature that is not about this profile, as one of the file with these bytes.

    Args:
        file_digest: ``sha256:`` name of the file, as the session's manifest names it.

    Raises:
        ProfileSignatureOther: the text says what differs.
    """
    _require_same_world(signed, floor=policy.policy.floor, where="profile")
    if policy.digest not in signed.profiles:
        raise ProfileSignatureOther(
            "the signature is about other profiles", found=policy.digest, where="profile", hint=_AGAIN
        )
    if signed.source != file_digest:
        raise ProfileSignatureOther(
            "the signature is about another file with this profile",
            expected=signed.source,
            found=file_digest,
            where="profile",
            hint=_AGAIN,
        )


def _require_same_world(signed: SignedProfiles, *, floor: str | None, where: str) -> None:
    if signed.semantics != SEMANTICS:
        raise ProfileSignatureOther(
            "signed for another version of the meaning",
            expected=SEMANTICS,
            found=signed.semantics,
            where=where,
            hint=_AGAIN,
        )
    if signed.floor != floor:
        raise ProfileSignatureOther(
            "signed with another baseline policy",
            expected=signed.floor or "no floor",
            found=floor or "no floor",
            where=where,
            hint="Restore the baseline policy that was reviewed, or have the file signed again",
        )
