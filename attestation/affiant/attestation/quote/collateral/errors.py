"""Defines the errors of fetching and storing collateral.

What the documents themselves fail with (a signature, a window, an older number) are the errors of ``tdx.quote.errors``.
"""

from __future__ import annotations

from affiant.errors import (
    ConfigurationError,
    MalformedError,
    NotAllowedError,
    NotAuthenticError,
    StateError,
    UnreachableError,
)

__all__ = [
    "CacheBusy",
    "CacheDamaged",
    "CollateralAbsent",
    "CollateralNotCached",
    "ExtraMissing",
    "PlatformUnknown",
    "RedirectRefused",
    "ResponseRefused",
    "ServerNotAuthentic",
    "ServiceUnavailable",
    "ServiceUnreachable",
    "SettingsInvalid",
]


class ServiceUnreachable(UnreachableError):
    """No connection, or no complete answer within its time."""

    code = "collateral.unreachable"


class ServiceUnavailable(UnreachableError):
    """The service answered that it cannot help now.

    Args:
        retry_after_s: when it asks to be asked again, in seconds; None if it does not say.
    """

    code = "collateral.unavailable"

    def __init__(self, message: str, *, retry_after_s: int | None, found: object, where: str) -> None:
        hint = "Try again later." if retry_after_s is None else f"The service asks to wait {retry_after_s} s."
        super().__init__(message, found=found, hint=hint, where=where)
        self.retry_after_s = retry_after_s


class PlatformUnknown(UnreachableError):
    """The service has no document for this FMSPC, or none of this evaluation number (any more)."""

    code = "collateral.unknown"
    retryable: bool | None = False


class ResponseRefused(MalformedError):
    """An answer of another size, type or form than the service's own; nothing of it is used."""

    code = "collateral.response"


class CacheDamaged(MalformedError):
    """What lies in the cache is not what was stored. It is left where it is, for its owner to look at."""

    code = "collateral.damaged"


class ServerNotAuthentic(NotAuthenticError):
    """The server's TLS certificate does not hold for its name under the accepted authorities."""

    code = "collateral.tls"


class RedirectRefused(NotAllowedError):
    """The service answered with another address. No redirect is ever followed."""

    code = "collateral.redirect"


class CacheBusy(StateError):
    """Another process holds the cache, for longer than storing takes."""

    code = "collateral.busy"
    retryable: bool | None = True


class SettingsInvalid(ConfigurationError):
    """An address, a platform, a number or a folder that cannot be meant."""

    code = "collateral.settings"


class CollateralAbsent(ConfigurationError):
    """The folder or cache that was named lacks an item, has two files for it, or cannot be read."""

    code = "collateral.absent"


class CollateralNotCached(UnreachableError):
    """The cache holds no collateral of this platform under the accepted roots; nothing is fetched instead."""

    code = "collateral.not_cached"
    retryable: bool | None = False


class ExtraMissing(ConfigurationError):
    """Fetching needs a package that the base install leaves out."""

    code = "collateral.extra"
