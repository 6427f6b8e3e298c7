"""Reads JSON values as what they should be; anything else is the error ``broker.protocol``.

An error crosses from the broker to the supervisor as its code and its text; only codes of this package are taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from affiant.errors import (
    AffiantError,
    ConfigurationError,
    MalformedError,
    NotAllowedError,
    NotAuthenticError,
    StateError,
    UnreachableError,
)
from affiant.secrets.names import errors
from affiant.secrets.names.errors import BrokerFailed

__all__ = [
    "Members",
    "as_bool",
    "as_bytes",
    "as_count",
    "as_list",
    "as_object",
    "as_text",
    "as_text_or_none",
    "closed_members",
    "error_members",
    "read_error",
]

Members: TypeAlias = Mapping[str, object]
"""The members of a JSON object."""

_OF_FAMILY: Final[Mapping[type[AffiantError], frozenset[str]]] = {
    ConfigurationError: frozenset(
        {
            "broker.configuration", "secret.grants", "secret.not_found", "secret.shape", "secret.surface", "store.key",
            "store.permissions", "vault.address", "vault.not_found", "vault.path",
        }
    ),
    MalformedError: frozenset(
        {
            "broker.protocol", "secret.reference", "secret.sigv4_key", "store.malformed", "upstream.encoding",
            "upstream.partial", "upstream.upgrade",
        }
    ),
    NotAllowedError: frozenset(
        {
            "broker.request", "limit_secret_uses", "secret.placeholder_hidden", "secret.sigv4_authorization",
            "secret.sigv4_headers", "secret.sigv4_payload", "secret.sigv4_presigned", "secret.sigv4_scope",
            "vault.redirected",
        }
    ),
    NotAuthenticError: frozenset({"store.authentic", "vault.certificate"}),
    StateError: frozenset({"broker.state", "secret.outside_broker"}),
    UnreachableError: frozenset(
        {"store.keyring", "vault.rate_limited", "vault.sealed", "vault.standby", "vault.unreachable"}
    ),
}  # fmt: skip
"""The codes of ``error_codes``, which no image holds, by the family that is raised."""
_CLASSES: Final[Mapping[str, type[AffiantError]]] = {
    kind.code: kind for kind in (getattr(errors, name) for name in errors.__all__)
}
_FAMILIES: Final[Mapping[str, type[AffiantError]]] = {
    code: family for family, codes in _OF_FAMILY.items() for code in codes
}


def error_members(error: AffiantError) -> Members:
    """``error`` as it crosses: its code and its text."""
    return {"code": error.code, "message": str(error)}


def read_error(value: object) -> AffiantError:
    """The error that crossed; one with a code that is not this package's is a :class:`BrokerFailed`."""
    members = closed_members(value, "code", "message")
    code, message = as_text(members["code"]), as_text(members["message"])
    if code in _CLASSES:
        return _CLASSES[code](message)
    return _FAMILIES[code](message, code=code) if code in _FAMILIES else BrokerFailed(message)


def closed_members(value: object, *names: str) -> Members:
    """The members of an object that has exactly these."""
    members = as_object(value)
    if set(members) != set(names):
        raise MalformedError(
            "members are missing or unknown", expected=", ".join(names), code="broker.protocol"
        )
    return members


def as_object(value: object) -> Members:
    """A JSON object."""
    if not isinstance(value, dict):
        raise MalformedError("not an object", code="broker.protocol")
    return value


def as_list(value: object) -> list[object]:
    """A JSON array."""
    if not isinstance(value, list):
        raise MalformedError("not a list", code="broker.protocol")
    return value


def as_text(value: object) -> str:
    """A JSON string."""
    if not isinstance(value, str):
        raise MalformedError("not text", code="broker.protocol")
    return value


def as_text_or_none(value: object) -> str | None:
    """A JSON string or null."""
    return None if value is None else as_text(value)


def as_bytes(value: object) -> bytes:
    """The bytes that a JSON string spells in Latin-1."""
    try:
        return as_text(value).encode("latin-1")
    except UnicodeEncodeError as error:
        raise MalformedError("not bytes in Latin-1", code="broker.protocol") from error


def as_count(value: object) -> int:
    """A JSON number that counts something: a whole one, not below zero."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise MalformedError("not a number", code="broker.protocol")
    return value


def as_bool(value: object) -> bool:
    """A JSON boolean."""
    if not isinstance(value, bool):
        raise MalformedError("neither true nor false", code="broker.protocol")
    return value
