"""Defines the errors of reading a log, each with a stable code.

::

    UnreachableError    log.unreachable   no connection, or no whole answer in time
                        log.unavailable   the server says that it cannot answer now
                        log.absent        there is no log: no checkpoint is at this place
                        log.denied        a store of objects does not let these credentials read or write
    MalformedError      log.too_large     a resource is larger than it can be
    NotAuthenticError   log.tls           the server's certificate does not hold
                        log.root          the tiles are those of another tree than the one signed
                        log.leaf          a leaf is not the one that the tree has at its place
    NotAllowedError     log.redirect      the server sends us elsewhere
                        log.path          a link or something else that is no regular file of the log's folder
    StateError          log.missing       a tile or entry bundle that the signed checkpoint implies is not there
                        log.no_such_leaf  no leaf has this index, or is of this receipt
    ConfigurationError  log.settings      an address, key or policy that cannot be meant
                        log.extra         the HTTP client, or that of object stores, is not installed

What the documents themselves fail with are the errors of ``errors``.
"""

from __future__ import annotations

from typing import ClassVar

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
    """No checkpoint stands there."""

    code = "log.absent"
    retryable: ClassVar[bool | None] = False


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
