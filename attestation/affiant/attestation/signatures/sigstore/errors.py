"""Defines the errors of sigstore-signed files, each with a stable code.

::

    MalformedError      published.bundle         not a sigstore bundle of the one form that is read
                        published.statement      what is signed is no signed file
    NotAuthenticError   published.not_authentic  certificate or signature do not hold under the trusted root
                        published.not_logged     no log of the trusted root proves that it holds the entry
                        published.content        the content is not the one that the statement names
    NotAllowedError     published.signer         somebody else signed, or somebody that another issuer knows
                        published.kind           another kind of file than was asked for
    NotFreshError       published.validity       not signed while certificate and keys counted, or nobody says when
    UnreachableError    published.signing        the certificate authority or the log did not answer, or refused
    ConfigurationError  published.trusted_root   the reader's trusted root cannot be used
                        published.settings       an identity, a name or an option that cannot be meant
                        published.extra          the sigstore library is not installed

What the content itself fails with are the errors of its own reader.
"""

from __future__ import annotations

from affiant.errors import (
    ConfigurationError,
    MalformedError,
    NotAllowedError,
    NotAuthenticError,
    NotFreshError,
)

__all__ = [
    "BundleMalformed",
    "ExtraMissing",
    "NotLogged",
    "OtherSigner",
    "OutsideValidity",
    "SettingsInvalid",
    "SignatureNotAuthentic",
    "StatementMalformed",
    "TrustedRootUnusable",
]


class BundleMalformed(MalformedError):
    """Not a sigstore bundle, version 0.3, with one signed in-toto statement and one log entry."""

    code = "published.bundle"


class StatementMalformed(MalformedError):
    """The signed bytes are no statement about exactly one signed file."""

    code = "published.statement"


class SignatureNotAuthentic(NotAuthenticError):
    """The certificate is of no authority of the trusted root, is in no certificate log, or did not sign this."""

    code = "published.not_authentic"


class NotLogged(NotAuthenticError):
    """No transparency log of the trusted root proves that it holds this signature, at this place."""

    code = "published.not_logged"


class OtherSigner(NotAllowedError):
    """Authentic, but not signed by the one whom the reader named."""

    code = "published.signer"


class OutsideValidity(NotFreshError):
    """Signed when the certificate or a key of the trusted root did not count, or at a time that nobody vouches for."""

    code = "published.validity"


class TrustedRootUnusable(ConfigurationError):
    """The reader's trusted root is no such document, or trusts nobody."""

    code = "published.trusted_root"


class SettingsInvalid(ConfigurationError):
    """An identity, an issuer, a token or a file name that cannot be meant."""

    code = "published.settings"


class ExtraMissing(ConfigurationError):
    """The sigstore library, which the base install leaves out, is not there."""

    code = "published.extra"

    def __init__(self) -> None:
        super().__init__(
            "published files need the sigstore library", hint="Install it: pip install 'affiant[sigstore]'"
        )
