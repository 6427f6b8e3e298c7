"""Reads JSON values as what they should be; anything else is the error ``broker.protocol``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from affiant.secrets.names.errors import BrokerProtocolError

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
]

Members: TypeAlias = Mapping[str, object]
"""The members of a JSON object."""


def closed_members(value: object, *names: str) -> Members:
    """The members of an object that has exactly these."""
    members = as_object(value)
    if set(members) != set(names):
        raise BrokerProtocolError("members are missing or unknown", expected=", ".join(names))
    return members


def as_object(value: object) -> Members:
    """A JSON object."""
    if not isinstance(value, dict):
        raise BrokerProtocolError("not an object")
    return value


def as_list(value: object) -> list[object]:
    """A JSON array."""
    if not isinstance(value, list):
        raise BrokerProtocolError("not a list")
    return value


def as_text(value: object) -> str:
    """A JSON string."""
    if not isinstance(value, str):
        raise BrokerProtocolError("not text")
    return value


def as_text_or_none(value: object) -> str | None:
    """A JSON string or null."""
    return None if value is None else as_text(value)


def as_bytes(value: object) -> bytes:
    """The bytes that a JSON string spells in Latin-1."""
    try:
        return as_text(value).encode("latin-1")
    except UnicodeEncodeError as error:
        raise BrokerProtocolError("not bytes in Latin-1") from error


def as_count(value: object) -> int:
    """A JSON number that counts something: a whole one, not below zero."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BrokerProtocolError("not a number")
    return value


def as_bool(value: object) -> bool:
    """A JSON boolean."""
    if not isinstance(value, bool):
        raise BrokerProtocolError("neither true nor false")
    return value
