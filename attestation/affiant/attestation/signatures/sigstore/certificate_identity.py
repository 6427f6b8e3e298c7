"""Whom a signing certificate names: the one identity in it, and the issuer that knows it. Whether the certificate holds
is not asked here.
"""

from __future__ import annotations

from typing import Final

from cryptography import x509
from cryptography.hazmat import asn1

from affiant.attestation.signatures.sigstore.bundle import SignedBundle
from affiant.attestation.signatures.sigstore.errors import BundleMalformed, OtherSigner, SettingsInvalid
from affiant.attestation.signatures.sigstore.trusted_identity import Signer

__all__ = ["certificate_of", "signer_of"]

_ISSUER: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
"""OIDC issuer, as UTF8String (sigstore, fulcio: docs/oid-info.md). Its predecessor .1.1 is not read."""


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
