"""Verifies a signature over a profile file: which file it is about, who signed it, and who says when.

1.  The bytes are one of two forms, bounded and closed: a DSSE envelope by a plain key, or a sigstore bundle. The
    statement in them is about one profile file: what it claims can be compared before anything is believed.
2.  The signature holds under the one signer who was named, or under one of a list who counted at that time. Of a
    sigstore bundle everything is verified as of every signed file (``signatures.sigstore``), offline.

What it is about is compared with a file or a profile by whoever has it (``affiant.policy.signing.signatures``).

**Time.** sigstore's log, or its timestamp authority, says when a bundle was signed; a signer's ``from`` and ``until``
are judged at that time, ``revoked_at`` at the time that is judged at. An envelope has no time, so that all three are
judged at that time: a key that has ended says nothing any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.signatures.profiles.accepted_signers import (
    AcceptedSigner,
    ProfileSigner,
    signer_name,
)
from affiant.attestation.signatures.profiles.envelope import Envelope, parse_envelope
from affiant.attestation.signatures.profiles.errors import (
    ProfileSignatureInvalid,
    ProfileSignatureMalformed,
    ProfileSignerRefused,
)
from affiant.attestation.signatures.profiles.signing_keys import ProfileKey
from affiant.attestation.signatures.profiles.statement import SignedProfiles, parse_profile_statement
from affiant.attestation.signatures.sigstore.bundle import SignedBundle, looks_like_bundle, parse_bundle
from affiant.attestation.signatures.sigstore.errors import ExtraMissing
from affiant.attestation.signatures.sigstore.signed_statement import LogRecord, verify_signed_statement
from affiant.attestation.signatures.sigstore.sigstore_anchor import STRANGERS
from affiant.attestation.signatures.sigstore.sigstore_root import SigstoreRoot
from affiant.errors import AffiantError

__all__ = [
    "MAX_SIGNATURE",
    "ProfileSignature",
    "VerifiedSignature",
    "parse_profile_signature",
    "require_usable",
    "verify_by",
    "verify_by_one_of",
]

MAX_SIGNATURE: Final = 256 << 10
"""Bytes of a signature file: a statement in base64, and what proves it."""
_AHEAD: Final = timedelta(seconds=60)
"""By how much a log's clock may be ahead of the one that is judged by."""


@dataclass(frozen=True, slots=True)
class ProfileSignature:
    """A signature file in its form; nothing of it is verified."""

    raw: bytes
    carrier: Envelope | SignedBundle
    claimed: SignedProfiles
    """What it says it is about."""

    @property
    def digest(self) -> str:
        """``sha256:`` name of its bytes."""
        return sha256_name(self.raw)


@dataclass(frozen=True, slots=True)
class VerifiedSignature:
    """A file of profiles, and on whose word. Only the functions of this module make one."""

    signed: SignedProfiles
    signer: ProfileSigner
    log: LogRecord | None
    """Where it is recorded, and when it was signed; None: a plain key, which says neither."""
    signature: str
    """``sha256:`` name of the signature file's bytes."""

    def to_json(self) -> Mapping[str, object]:
        """As members of a JSON document."""
        members: dict[str, object] = {
            "digest": self.signed.digest,
            "source": self.signed.source,
            "floor": self.signed.floor,
            "semantics": self.signed.semantics,
            "profiles": list(self.signed.profiles),
            "signature": self.signature,
        }
        if isinstance(self.signer, ProfileKey):
            return {**members, "signer": {"key": self.signer.id, "kind": self.signer.kind}, "signed_at": None}
        assert self.log is not None
        identity = self.signer.signer
        return {
            **members,
            "signer": {"identity": identity.identity, "issuer": identity.issuer},
            "signed_at": f"{self.log.at:%Y-%m-%dT%H:%M:%SZ}",
            "at_from": "log" if self.log.promised else "timestamp-authority",
            "log": {
                "id": self.log.log_id.hex(),
                "origin": self.log.origin,
                "index": self.log.index,
                "size": self.log.size,
            },
            "trusted_root": sha256_name(self.signer.trusted_root),
        }


def parse_profile_signature(raw: bytes) -> ProfileSignature:
    """Step 1, and what the statement claims.

    Raises:
        ProfileSignatureMalformed, BundleMalformed, NotLogged: another form, too large, or about something else.
    """
    if len(raw) > MAX_SIGNATURE:
        raise ProfileSignatureMalformed(
            "too large for a signature", expected=f"at most {MAX_SIGNATURE} bytes"
        )
    carrier = parse_bundle(raw) if looks_like_bundle(raw) else parse_envelope(raw, limit=MAX_SIGNATURE)
    return ProfileSignature(raw, carrier, parse_profile_statement(carrier.statement))


def require_usable(signers: Sequence[AcceptedSigner]) -> None:
    """Refuse signers under whom nothing could be verified, at the start of whoever will demand their signatures.

    Raises:
        ExtraMissing: one signs through sigstore, and the library is not installed.
        TrustedRootUnusable: a trusted root is none.
    """
    roots = [each.signer.trusted_root for each in signers if isinstance(each.signer, SigstoreRoot)]
    if not roots:
        return
    try:
        from affiant.attestation.signatures.sigstore import sigstore_verifier  # noqa: PLC0415 - an extra, and slow to load
    except ModuleNotFoundError as error:
        raise ExtraMissing from error
    for root in roots:
        sigstore_verifier.require_usable(root)


def verify_by(signature: ProfileSignature, signer: ProfileSigner) -> VerifiedSignature:
    """Step 2, for the one signer that is named.

    Raises:
        ProfileSignerRefused: a plain key was named and sigstore signed, or the other way round.
        ProfileSignatureInvalid: the key did not sign it.
        ExtraMissing, TrustedRootUnusable: of a sigstore bundle nothing can be judged.
        AffiantError: as ``verify_signed_statement``.
    """
    log: LogRecord | None = None
    if isinstance(signer, SigstoreRoot):
        if not isinstance(signature.carrier, SignedBundle):
            raise ProfileSignerRefused(
                "signed by a plain key", expected=f"a sigstore bundle by {signer_name(signer)}"
            )
        _, log = verify_signed_statement(
            signature.raw, trusted_root=signer.trusted_root, signer=signer.signer
        )
    else:
        if not isinstance(signature.carrier, Envelope):
            raise ProfileSignerRefused("signed through sigstore", expected=f"by the {signer_name(signer)}")
        signature.carrier.verify(signer)
    return VerifiedSignature(signature.claimed, signer, log, signature.digest)


def verify_by_one_of(
    signature: ProfileSignature, signers: Sequence[AcceptedSigner], *, at: datetime
) -> VerifiedSignature:
    """Step 2, for the first of ``signers`` who signed it, and counted then.

    Args:
        signers: who is accepted, and when; nobody: refused.
        at: the time judged at, UTC.

    Raises:
        ProfileSignerRefused: none of them.
        ExtraMissing, TrustedRootUnusable, BundleMalformed, ...: it cannot be judged at all.
    """
    why: list[AffiantError | str] = []
    for accepted in signers:
        try:
            found = verify_by(signature, accepted.signer)
        except (*STRANGERS, ProfileSignerRefused, ProfileSignatureInvalid) as error:
            why.append(error)
            continue
        signed_at = at if found.log is None else found.log.at
        if signed_at > at + _AHEAD:
            why.append(f"signed at {signed_at:%Y-%m-%dT%H:%M:%SZ}, which is yet to come")
        elif not accepted.counts_for(signed_at, known=at):
            why.append(f"the {signer_name(accepted.signer)} does not count for that time, or was revoked")
        else:
            return found
    last = why[-1] if why else "nobody is accepted"
    raise ProfileSignerRefused(
        "signed by nobody who is accepted",
        found=f"{last} [{last.code}]" if isinstance(last, AffiantError) else last,
    )
