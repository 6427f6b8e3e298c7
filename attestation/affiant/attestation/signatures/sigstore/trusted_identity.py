"""Names the identity that a reader trusts: one subject, as one issuer knows it, under a trusted root. All exact,
never a pattern.

An identity alone is worth nothing: whoever runs any accepted issuer can put any address into a token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.hazmat import asn1

from affiant.attestation.signatures.sigstore.bundle import SignedBundle
from affiant.attestation.signatures.sigstore.errors import BundleMalformed, OtherSigner, SettingsInvalid

__all__ = ["MAX_TRUSTED_ROOT", "Signer", "certificate_of", "signer_of"]

MAX_TRUSTED_ROOT: Final = 4 << 20
"""Bytes of a reader's trusted root; the public deployment's has a few thousand."""

_ISSUER: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
"""OIDC issuer, as UTF8String (sigstore, fulcio: docs/oid-info.md). Its predecessor .1.1 is not read."""
_MAX_TEXT: Final = 1024


@dataclass(frozen=True, slots=True)
class Signer:
    """An identity (an e-mail address, or the URI of a workflow) and the issuer of its token.

    Raises:
        SettingsInvalid: one of them is empty, too long, or has characters that cannot be seen.
    """

    identity: str
    issuer: str

    def __post_init__(self) -> None:
        for name, value in (("identity", self.identity), ("issuer", self.issuer)):
            if not 0 < len(value) <= _MAX_TEXT or not value.isprintable() or value != value.strip():
                raise SettingsInvalid(
                    f"no signer's {name}", expected=f"1 to {_MAX_TEXT} characters that can be seen"
                )

    def __str__(self) -> str:
        return f"{self.identity} (issuer {self.issuer})"


def certificate_of(bundle: SignedBundle) -> x509.Certificate:
    """The signer's certificate, unverified.

    Raises:
        BundleMalformed: it is none.
    """
    try:
        certificate = x509.load_der_x509_certificate(bundle.certificate)
        _ = certificate.version, certificate.not_valid_before_utc, certificate.not_valid_after_utc
    except (ValueError, x509.InvalidVersion) as error:
        raise BundleMalformed("the certificate cannot be read", where="certificate") from error
    return certificate


def signer_of(certificate: x509.Certificate) -> Signer:
    """Whom a signing certificate names. It is for the caller to know whether the certificate holds.

    Raises:
        OtherSigner: it does not name exactly one identity (e-mail address or URI) and its issuer.
    """
    try:
        names = list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
        extension = certificate.extensions.get_extension_for_oid(_ISSUER).value
        if not isinstance(extension, x509.UnrecognizedExtension):
            raise OtherSigner(
                "the certificate names no issuer"
            )  # pragma: no cover - not one that is recognised
        issuer = asn1.decode_der(str, extension.value)
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError) as error:
        raise OtherSigner(
            "the certificate does not say who signed, and who knows them",
            expected="a subject name, an issuer",
        ) from error
    if len(names) != 1 or not isinstance(names[0], (x509.RFC822Name, x509.UniformResourceIdentifier)):
        raise OtherSigner("the certificate names not exactly one e-mail address or URI", found=len(names))
    try:
        return Signer(names[0].value, issuer)
    except SettingsInvalid as error:
        raise OtherSigner("the certificate names nobody that could be meant") from error
