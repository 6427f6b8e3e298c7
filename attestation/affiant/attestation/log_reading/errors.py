"""Defines the errors of reading a log that have a class; the others are in the table of error codes."""

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
    "ExtraMissing",
    "LeafWrong",
    "LogAbsent",
    "LogSettingsInvalid",
    "LogUnavailable",
    "LogUnreachable",
    "PathRefused",
    "RedirectRefused",
    "ResourceMissing",
    "ResourceTooLarge",
    "ServerNotAuthentic",
    "TreeWrong",
]


class LogUnreachable(UnreachableError):
    """No connection, or no whole answer within its time."""

    code = "log.unreachable"


class LogUnavailable(UnreachableError):
    """The server answered that it has no answer."""

    code = "log.unavailable"


class LogAbsent(UnreachableError):
    """No checkpoint is there."""

    code = "log.absent"
    retryable: bool | None = False


class ResourceTooLarge(MalformedError):
    """More bytes than the resource can have."""

    code = "log.too_large"


class ServerNotAuthentic(NotAuthenticError):
    """The server's TLS certificate does not hold."""

    code = "log.tls"


class TreeWrong(NotAuthenticError):
    """The tiles lead to another root than the signed one."""

    code = "log.root"


class LeafWrong(NotAuthenticError):
    """An entry bundle holds another leaf than the tree has at that place."""

    code = "log.leaf"


class RedirectRefused(NotAllowedError):
    """The server sends us elsewhere; the address that was given is the one that is asked."""

    code = "log.redirect"


class PathRefused(NotAllowedError):
    """What is at a path of the log's folder is a link, or no regular file."""

    code = "log.path"


class ResourceMissing(StateError):
    """A resource that the signed checkpoint implies is not there."""

    code = "log.missing"


class LogSettingsInvalid(ConfigurationError):
    """An address, key or policy that cannot be meant."""

    code = "log.settings"


class ExtraMissing(ConfigurationError):
    """The HTTP client, or that of object stores, is not installed."""

    code = "log.extra"
