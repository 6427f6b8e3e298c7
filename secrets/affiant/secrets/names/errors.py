"""What this component refuses, each with its stable code.

::

    MalformedError       secret.reference  secret.value  secret.name  secret.sigv4_key  store.malformed  broker.protocol
                         secret.exchange_answer  upstream.malformed  upstream.encoding  upstream.upgrade
                         vault.response
    NotAuthenticError    store.authentic  upstream.certificate  vault.certificate
    NotAllowedError      secret.placeholder_misplaced  secret.placeholder_hidden  secret.not_bound
                         secret.body_too_large  secret_too_weak  limit_secret_uses  broker.request  vault.denied
                         vault.redirected  secret.sigv4_authorization  secret.sigv4_scope  secret.sigv4_presigned
                         secret.sigv4_payload  secret.sigv4_headers
    UnreachableError     secret.exchange_failed  secret.exchange_refused  upstream.unreachable  upstream.timeout
                         upstream.truncated  broker.gone  broker.internal  vault.unreachable  vault.sealed
                         vault.standby  vault.rate_limited
    ConfigurationError   secret.shape  secret.not_found  secret.surface  secret.grants  store.key
                         store.permissions  broker.configuration  vault.path  vault.address  vault.not_found
    StateError           secret.outside_broker  broker.state  store.locked

A text here never holds a value, a placeholder, what an upstream said, or a URL with its query. Refusals cross
from the broker to the supervisor as their code and text (:func:`to_members`, :func:`from_members`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from affiant.errors import (
    AffiantError,
    ConfigurationError,
    MalformedError,
    NotAllowedError,
    NotAuthenticError,
    StateError,
    UnreachableError,
)

__all__ = [
    "BrokerConfigurationInvalid",
    "BrokerFailed",
    "BrokerGone",
    "BrokerProtocolError",
    "BrokerStateError",
    "ExchangeNotAllowed",
    "GrantsInvalid",
    "LocalStoreKeyInvalid",
    "LocalStoreLocked",
    "LocalStoreMalformed",
    "LocalStoreNotAuthentic",
    "LocalStoreUnsafe",
    "PlaceholderHidden",
    "PlaceholderMisplaced",
    "PlaceholderShapeInvalid",
    "SecretBodyTooLarge",
    "SecretNameInvalid",
    "SecretNotBound",
    "SecretNotFound",
    "SecretOutsideBroker",
    "SecretReferenceInvalid",
    "SecretTooWeak",
    "SecretUsesSpent",
    "SecretValueInvalid",
    "SignatureHeadersRefused",
    "SignaturePayloadRefused",
    "SignaturePresigned",
    "SignatureScopeRefused",
    "SignatureUnknown",
    "SigningKeyInvalid",
    "SurfaceInvalid",
    "TokenAnswerInvalid",
    "TokenRefused",
    "TokenUnavailable",
    "UpgradeRefused",
    "UpstreamCertificateInvalid",
    "UpstreamEncodingRefused",
    "UpstreamMalformed",
    "UpstreamTimedOut",
    "UpstreamTruncated",
    "UpstreamUnreachable",
    "VaultAddressInvalid",
    "VaultCertificateInvalid",
    "VaultDenied",
    "VaultPathInvalid",
    "VaultRateLimited",
    "VaultRedirected",
    "VaultResponseMalformed",
    "VaultSealed",
    "VaultSecretNotFound",
    "VaultStandby",
    "VaultUnreachable",
    "from_members",
    "to_members",
]


class SecretNameInvalid(MalformedError):
    """The name of a secret is not one that an environment variable could carry."""

    code = "secret.name"


class SecretReferenceInvalid(MalformedError):
    """A reference to a secret's place is not ``local:NAME`` or ``vault:<mount>/<path>#<field>``."""

    code = "secret.reference"


class SecretValueInvalid(MalformedError):
    """A value holds CR, LF, NUL or another control character, or is too long."""

    code = "secret.value"


class SecretTooWeak(NotAllowedError):
    """A value is so short or so regular that redacting it would tell whether a guess was right."""

    code = "secret_too_weak"


class SecretOutsideBroker(StateError):
    """``SecretRef.resolve()`` was called anywhere but in the broker."""

    code = "secret.outside_broker"


class SecretNotFound(ConfigurationError):
    """The store holds no secret of this name."""

    code = "secret.not_found"


class SurfaceInvalid(ConfigurationError):
    """Where a secret is to be injected is not a place that the broker can fill."""

    code = "secret.surface"


class GrantsInvalid(ConfigurationError):
    """The bindings of a session's placeholders contradict each other."""

    code = "secret.grants"


class PlaceholderShapeInvalid(ConfigurationError):
    """The shape of a placeholder leaves it guessable, or uses characters that it may not."""

    code = "secret.shape"


class PlaceholderMisplaced(NotAllowedError):
    """A placeholder stands where no secret may stand: it is not forwarded."""

    code = "secret.placeholder_misplaced"


class PlaceholderHidden(NotAllowedError):
    """A request body is encoded so that it cannot be searched for placeholders."""

    code = "secret.placeholder_hidden"


class SecretBodyTooLarge(NotAllowedError):
    """A body that holds a placeholder is longer than one that is read whole."""

    code = "secret.body_too_large"


class SecretNotBound(NotAllowedError):
    """A placeholder stands in a request to a host, port, scheme or surface that it is not bound to."""

    code = "secret.not_bound"


class TokenUnavailable(UnreachableError):
    """There is no access token for a secret, and its token endpoint gave none: nobody answered there, or not now."""

    code = "secret.exchange_failed"


class TokenRefused(UnreachableError):
    """The token endpoint does not take the secret, or not for what is asked."""

    code = "secret.exchange_refused"
    retryable = False


class TokenAnswerInvalid(MalformedError):
    """The token endpoint's answer is none that a token can be taken from."""

    code = "secret.exchange_answer"


class SigningKeyInvalid(MalformedError):
    """The value of a key that signs is not the JSON object of its parts."""

    code = "secret.sigv4_key"


class SignatureUnknown(NotAllowedError):
    """An AWS signature in another algorithm or form than the one that can be made anew."""

    code = "secret.sigv4_authorization"


class SignatureScopeRefused(NotAllowedError):
    """A request was signed for another region or service than the profile names."""

    code = "secret.sigv4_scope"


class SignaturePresigned(NotAllowedError):
    """An AWS signature in the query."""

    code = "secret.sigv4_presigned"


class SignaturePayloadRefused(NotAllowedError):
    """A body that was signed in pieces, or is not the one that was signed."""

    code = "secret.sigv4_payload"


class SignatureHeadersRefused(NotAllowedError):
    """A signed header stands twice, is missing, or would go out as another."""

    code = "secret.sigv4_headers"


class LocalStoreMalformed(MalformedError):
    """The bytes are no local store of a known version."""

    code = "store.malformed"


class LocalStoreNotAuthentic(NotAuthenticError):
    """The local store does not open under this key: another key, or a changed file."""

    code = "store.authentic"


class LocalStoreKeyInvalid(ConfigurationError):
    """The key is not of the kind or the size that the local store asks for."""

    code = "store.key"


class LocalStoreUnsafe(ConfigurationError):
    """The store or its key file can be read or changed by somebody else."""

    code = "store.permissions"


class LocalStoreLocked(StateError):
    """Another process is changing the store."""

    code = "store.locked"
    retryable = True


class VaultAddressInvalid(ConfigurationError):
    """The address is not a plain https origin."""

    code = "vault.address"


class VaultPathInvalid(ConfigurationError):
    """A mount, path, field or role holds a character or a segment that could lead elsewhere."""

    code = "vault.path"


class VaultSecretNotFound(ConfigurationError):
    """Vault has no such secret, field or (any longer) version."""

    code = "vault.not_found"


class VaultDenied(NotAllowedError):
    """Vault does not accept the token, the login, or the access."""

    code = "vault.denied"


class VaultRedirected(NotAllowedError):
    """Vault answered with a redirect; it is never followed, so that no token goes to another host."""

    code = "vault.redirected"


class VaultResponseMalformed(MalformedError):
    """Vault's answer is not what its interface promises."""

    code = "vault.response"


class VaultUnreachable(UnreachableError):
    """Vault did not answer, or its certificate does not hold."""

    code = "vault.unreachable"


class VaultCertificateInvalid(NotAuthenticError):
    """Vault's certificate does not hold under the given roots."""

    code = "vault.certificate"


class VaultSealed(UnreachableError):
    """Vault is sealed or not initialised (503, 501)."""

    code = "vault.sealed"


class VaultStandby(UnreachableError):
    """The server that was asked is a standby (472, 473)."""

    code = "vault.standby"


class VaultRateLimited(UnreachableError):
    """Vault asks to slow down (429)."""

    code = "vault.rate_limited"


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


class UpstreamEncodingRefused(MalformedError):
    """The upstream's answer is encoded although it was asked not to be: it cannot be redacted."""

    code = "upstream.encoding"


class UpgradeRefused(MalformedError):
    """The connection would change to a protocol that is not inspected."""

    code = "upstream.upgrade"


class ExchangeNotAllowed(NotAllowedError):
    """A request that the broker does not send whoever decided it."""

    code = "broker.request"


class SecretUsesSpent(NotAllowedError):
    """A secret was put into as many requests of the session as the profile lets it."""

    code = "limit_secret_uses"


class BrokerProtocolError(MalformedError):
    """A frame between supervisor and broker is not what it should be."""

    code = "broker.protocol"


class BrokerConfigurationInvalid(ConfigurationError):
    """The broker's configuration does not fit together."""

    code = "broker.configuration"


class BrokerStateError(StateError):
    """The broker is asked for a step that its present state does not offer."""

    code = "broker.state"


class BrokerGone(UnreachableError):
    """The broker ended; with it every value and all egress."""

    code = "broker.gone"
    retryable = False


class BrokerFailed(UnreachableError):
    """The broker met an error of its own."""

    code = "broker.internal"
    retryable = False


def _concrete(family: type[AffiantError]) -> Iterator[type[AffiantError]]:
    for kind in family.__subclasses__():
        yield from _concrete(kind)
        if kind.__module__ == __name__:
            yield kind


_BY_CODE: Final[Mapping[str, type[AffiantError]]] = {kind.code: kind for kind in _concrete(AffiantError)}


def to_members(error: AffiantError) -> Mapping[str, object]:
    """``error`` as it crosses from the broker: its code and its text."""
    return {"code": error.code, "message": str(error)}


def from_members(code: str, message: str) -> AffiantError:
    """The refusal of that code; one that is not known here is a :class:`BrokerFailed`."""
    return _BY_CODE.get(code, BrokerFailed)(message)
