"""The errors of this package that programs catch by name, or that say more than their family.

Every other error is raised as its family with a code of ``error_codes``.
A text here never holds a value, a placeholder, what an upstream said, or a URL with its query.
"""

from __future__ import annotations

from affiant.errors import (
    MalformedError,
    NotAllowedError,
    NotAuthenticError,
    StateError,
    UnreachableError,
)

__all__ = [
    "BrokerFailed",
    "BrokerGone",
    "LocalStoreLocked",
    "PlaceholderMisplaced",
    "SecretBodyTooLarge",
    "SecretNameInvalid",
    "SecretNotBound",
    "SecretPartialEcho",
    "SecretTooWeak",
    "SecretValueInvalid",
    "SecretWithdrawn",
    "TokenRejected",
    "TokenResponseInvalid",
    "TokenUnavailable",
    "UpstreamCertificateInvalid",
    "UpstreamMalformed",
    "UpstreamTimedOut",
    "UpstreamTruncated",
    "UpstreamUnreachable",
    "VaultDenied",
    "VaultResponseMalformed",
]


class SecretNameInvalid(MalformedError):
    """The name of a secret is not one that an environment variable could carry."""

    code = "secret.name"


class SecretValueInvalid(MalformedError):
    """A value holds CR, LF, NUL or another control character, or is too long."""

    code = "secret.value"


class SecretTooWeak(NotAllowedError):
    """A value is so short or so regular that redacting it would show whether a guess was right."""

    code = "secret_too_weak"


class PlaceholderMisplaced(NotAllowedError):
    """A placeholder is where no secret may be: it is not forwarded."""

    code = "secret.placeholder_misplaced"


class SecretBodyTooLarge(NotAllowedError):
    """A body that holds a placeholder is longer than one that is read whole."""

    code = "secret.body_too_large"


class SecretNotBound(NotAllowedError):
    """A placeholder is in a request to a host, port, scheme or surface that it is not bound to."""

    code = "secret.not_bound"


class SecretPartialEcho(MalformedError):
    """A host that was sent a secret gave a part of it back: the answer ends before that part."""

    code = "secret.partial_echo"


class SecretWithdrawn(NotAllowedError):
    """Parts of a secret came back three times: it goes nowhere any more, and nothing to the hosts that were sent it."""

    code = "secret.withdrawn"


class TokenUnavailable(UnreachableError):
    """There is no access token for a secret, and its token endpoint gave none: it did not answer, or not now."""

    code = "secret.exchange_failed"


class TokenRejected(UnreachableError):
    """The token endpoint does not take the secret, or not for what is asked."""

    code = "secret.exchange_refused"
    retryable = False


class TokenResponseInvalid(MalformedError):
    """The token endpoint's answer is none that a token can be taken from."""

    code = "secret.exchange_answer"


class LocalStoreLocked(StateError):
    """Another process is changing the store."""

    code = "store.locked"
    retryable = True


class VaultDenied(NotAllowedError):
    """Vault does not accept the token, the login, or the access."""

    code = "vault.denied"


class VaultResponseMalformed(MalformedError):
    """Vault's answer is not what its interface promises."""

    code = "vault.response"


class UpstreamUnreachable(UnreachableError):
    """No connection to the checked address."""

    code = "upstream.unreachable"


class UpstreamTimedOut(UnreachableError):
    """A step of the exchange took longer than it may."""

    code = "upstream.timeout"


class UpstreamTruncated(UnreachableError):
    """The upstream ended the connection in the middle of its answer."""

    code = "upstream.truncated"
    retryable = False


class UpstreamCertificateInvalid(NotAuthenticError):
    """The upstream's certificate does not hold for this host under the given roots."""

    code = "upstream.certificate"


class UpstreamMalformed(MalformedError):
    """The upstream's answer is not HTTP/1.1, or exceeds its bounds."""

    code = "upstream.malformed"


class BrokerGone(UnreachableError):
    """The broker ended; with it every value and all egress."""

    code = "broker.gone"
    retryable = False


class BrokerFailed(UnreachableError):
    """The broker met an error of its own."""

    code = "broker.internal"
    retryable = False
