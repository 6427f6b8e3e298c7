"""Defines the errors of signatures over profile files, each with a stable code.

::

    MalformedError      policy.signature           not a signature of one of the two forms, or about something else
    NotAuthenticError   policy.signature_invalid   it does not hold under the key
    NotAllowedError     policy.unsigned            there is none where one is demanded
                        policy.signer              it is of nobody who is accepted, or not accepted at that time
                        policy.signature_other     it is about another file, floor, meaning or profile
    ConfigurationError  policy.signing_key         a key that cannot be used
                        policy.signers             signers that cannot be meant, or none at all

What a sigstore bundle fails with where one signer is asked for is of ``errors``.
"""

from __future__ import annotations

from affiant.errors import ConfigurationError, MalformedError, NotAllowedError, NotAuthenticError

__all__ = [
    "ProfileSignatureInvalid",
    "ProfileSignatureMalformed",
    "ProfileSignatureMissing",
    "ProfileSignatureOther",
    "ProfileSignerRefused",
    "SignersInvalid",
    "SigningKeyInvalid",
]


class ProfileSignatureMalformed(MalformedError):
    """The bytes are no DSSE envelope and no sigstore bundle over a statement about one profile file."""

    code = "policy.signature"


class ProfileSignatureInvalid(NotAuthenticError):
    """The signature does not hold under the key."""

    code = "policy.signature_invalid"


class ProfileSignatureMissing(NotAllowedError):
    """A profile without a signature, where one is demanded."""

    code = "policy.unsigned"


class ProfileSignerRefused(NotAllowedError):
    """Nobody who is accepted has signed, at a time at which they were accepted."""

    code = "policy.signer"


class ProfileSignatureOther(NotAllowedError):
    """The signature is about something else than what it came with."""

    code = "policy.signature_other"


class SigningKeyInvalid(ConfigurationError):
    """A key file cannot be read, can be read by others, or holds no key that is used here."""

    code = "policy.signing_key"


class SignersInvalid(ConfigurationError):
    """A list of signers is empty, or one of them cannot be meant."""

    code = "policy.signers"
