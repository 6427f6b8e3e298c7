"""Reads whose sigstore signatures over checkpoints a reader trusts: one identity, under one trusted root."""

from __future__ import annotations

from dataclasses import dataclass, field

from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.signatures.sigstore.errors import SettingsInvalid
from affiant.attestation.signatures.sigstore.trusted_identity import MAX_TRUSTED_ROOT, Signer
from affiant.attestation.signatures.timestamps.errors import AnchorSettingsInvalid

__all__ = ["SigstoreRoot", "parse_sigstore_root"]

_MEDIA_TYPE = "application/vnd.dev.sigstore.trustedroot"


@dataclass(frozen=True, slots=True)
class SigstoreRoot:
    """A trusted root (``trusted_root.json``, sigstore protobuf-specs, as JSON), and who must have signed."""

    trusted_root: bytes = field(repr=False)
    signer: Signer


def parse_sigstore_root(value: object) -> SigstoreRoot:
    """As trust files have it: ``{"trusted_root": <the document>, "identity": ..., "issuer": ...}``.

    The document's keys are read where something is verified under it, by the library.

    Raises:
        AnchorSettingsInvalid: another form.
    """
    if not isinstance(value, dict) or set(value) != {"trusted_root", "identity", "issuer"}:
        raise AnchorSettingsInvalid(
            "not a signer", expected='{"trusted_root": ..., "identity": ..., "issuer": ...}'
        )
    root, identity, issuer = value["trusted_root"], value["identity"], value["issuer"]
    media_type = root.get("mediaType") if isinstance(root, dict) else None
    if not isinstance(media_type, str) or not media_type.startswith(_MEDIA_TYPE):
        raise AnchorSettingsInvalid("not a trusted root", expected=f'"mediaType": "{_MEDIA_TYPE}..."')
    if not isinstance(identity, str) or not isinstance(issuer, str):
        raise AnchorSettingsInvalid("identity or issuer is no text")
    document = canonical(root)
    if len(document) > MAX_TRUSTED_ROOT:
        raise AnchorSettingsInvalid(
            "a trusted root is too large", expected=f"at most {MAX_TRUSTED_ROOT} bytes"
        )
    try:
        return SigstoreRoot(document, Signer(identity, issuer))
    except SettingsInvalid as error:
        raise AnchorSettingsInvalid(str(error)) from error
