"""Signs with a short-lived certificate, through the ``sigstore`` library. This is the one module here that uses the
network: the certificate authority, the transparency log and the timestamp authority that a client trust configuration
names.

What comes back is verified as a reader would, under the configuration's own trusted root, before anybody gets it. What
was signed is public from then on, whatever becomes of the file: a log forgets nothing.
"""

from __future__ import annotations

from typing import Final

from sigstore.dsse import Statement
from sigstore.errors import Error as SigstoreError
from sigstore.models import ClientTrustConfig
from sigstore.oidc import ExpiredIdentity, IdentityToken
from sigstore.sign import SigningContext

from affiant.attestation.encoding.canonical import JSONError, canonical, parse_object
from affiant.attestation.signatures.sigstore.bundle import parse_bundle
from affiant.attestation.signatures.sigstore.certificate_identity import certificate_of, signer_of
from affiant.attestation.signatures.sigstore.errors import SettingsInvalid
from affiant.attestation.signatures.sigstore.statement import SignedFile, file_statement
from affiant.attestation.signatures.sigstore.trusted_identity import Signer
from affiant.attestation.signatures.sigstore.verification import VerifiedFile, verify_signed_file
from affiant.errors import UnreachableError

__all__ = ["MAX_TRUST_CONFIG", "publish_file", "sign_statement", "trusted_root_of"]

MAX_TRUST_CONFIG: Final = 4 << 20
_EXCERPT: Final = 200


def publish_file(file: SignedFile, *, trust_config: bytes, token: str) -> tuple[bytes, VerifiedFile]:
    """Sign ``file``, and return its bundle with what a reader makes of it.

    Args:
        file: what is published.
        trust_config: a sigstore client trust configuration, as JSON: services to sign with, roots to verify under.
        token: an OIDC identity token for the audience ``sigstore``. It is secret, and goes to the authority alone.

    Raises:
        SettingsInvalid: the configuration or the token cannot be used.
        ``published.signing``: a service did not answer, or refused.
        AffiantError: what came back would be refused by its readers.
    """
    bundle, trusted_root, named = sign_statement(file_statement(file), trust_config=trust_config, token=token)
    return bundle, verify_signed_file(bundle, trusted_root=trusted_root, signer=named)


def sign_statement(statement: bytes, *, trust_config: bytes, token: str) -> tuple[bytes, bytes, Signer]:
    """Sign an in-toto statement: its bundle, the configuration's trusted root, and who the certificate says signed.

    The caller verifies the bundle as its readers would, before anybody gets it.

    Raises:
        SettingsInvalid, ``published.signing``: as :func:`publish_file`.
    """
    trusted_root = trusted_root_of(trust_config)
    try:
        context = SigningContext.from_trust_config(ClientTrustConfig.from_json(trust_config.decode()))
    except (SigstoreError, ValueError) as error:
        raise SettingsInvalid(
            "the trust configuration names no services that could be used",
            expected="a sigstore client trust configuration, version 0.1, with a signing configuration 0.2",
        ) from error
    try:
        identity = IdentityToken(token)
    except SigstoreError as error:
        raise SettingsInvalid(
            "the identity token cannot be used",
            expected="an OIDC token, not expired, for the audience sigstore, with sub, iat, exp and iss",
        ) from error
    try:
        with context.signer(identity) as signer:
            bundle = signer.sign_dsse(Statement(statement)).to_json().encode()
    except ExpiredIdentity as error:
        raise SettingsInvalid("the identity token has expired") from error
    except Exception as error:  # HTTP and foreign answers: whatever they raise, nothing was published
        raise UnreachableError(
            "not signed",
            found=_excerpt(error, token),
            hint="Nothing was written; the log may hold an entry.",
            code="published.signing",
        ) from error
    return bundle, trusted_root, signer_of(certificate_of(parse_bundle(bundle)))


def trusted_root_of(trust_config: bytes) -> bytes:
    """The trusted root of a client trust configuration.

    Raises:
        SettingsInvalid: it is no JSON.
    """
    try:
        document = parse_object(trust_config, limit=MAX_TRUST_CONFIG, strict_form=False)
    except JSONError as error:
        raise SettingsInvalid(f"the trust configuration is not strict JSON: {error}") from error
    return canonical(document.get("trustedRoot"))


def _excerpt(error: Exception, token: str) -> str:
    """What a service said, short; not a word of it if it says the token back."""
    text = str(error)
    name = type(error).__name__
    if not text or any(part in text for part in token.split(".") if part):
        return name
    return f"{name}: " + "".join(char if char.isprintable() else " " for char in text[:_EXCERPT])
