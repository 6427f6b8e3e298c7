"""Reads ``inject: {exchange: {...}}`` of a secret from YAML nodes, and writes out the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from typing import Final

from affiant.policy.canonical.errors import PolicyConflict, ValueRefused, located
from affiant.policy.canonical.strict_yaml import Node
from affiant.policy.model.token_exchange import (
    EXCHANGE_SPELLINGS,
    ClientAuth,
    GrantType,
    SubjectTokenType,
    TokenExchange,
    check_exchange_member,
    means_nothing,
)
from affiant.policy.normal_form import schema

__all__ = ["read_token_exchange"]

_WHAT: Final = "'exchange'"
_WORDS: Final[Mapping[str, type[StrEnum]]] = {
    "grant": GrantType,
    "client_auth": ClientAuth,
    "subject_token_type": SubjectTokenType,
}


def read_token_exchange(node: Node) -> TokenExchange:
    """An exchange as a profile says it.

    Raises:
        AffiantError: with its place.
    """
    found = schema.keys(node, what=_WHAT)
    for name in ("grant", "url"):
        schema.required(found, name, node, what=_WHAT)
    members = {name: _member(name, value) for name, value in found.items()}
    grant = GrantType(members["grant"])
    for name in found:
        if means_nothing(grant, name):
            place = str(schema.key_mark(node, name))
            raise PolicyConflict(f"{name!r} means nothing with the grant {grant.value}", where=place)
    if grant is GrantType.CLIENT_CREDENTIALS:
        members.setdefault("client_auth", ClientAuth.BASIC.value)
    elif grant is GrantType.JWT_BEARER:
        members.setdefault("audience", members["url"])
    else:
        members.setdefault("subject_token_type", SubjectTokenType.ACCESS_TOKEN.value)
    with located(node.mark):
        return TokenExchange.of(members)


def _member(name: str, node: Node) -> str:
    check = partial(check_exchange_member, name) if name in EXCHANGE_SPELLINGS else partial(_check_word, name)
    return schema.checked(node, check, what=f"'{name}'")


def _check_word(name: str, text: str) -> None:
    """An unknown word is not repeated: it may be a pasted secret."""
    if (name, text) == ("grant", "refresh_token"):
        raise ValueRefused(
            "a refresh token cannot be exchanged: its issuer may replace it at any use, and the new one could not "
            "be stored",
            hint="Use client_credentials, jwt_bearer or token_exchange",
        )
    words = [each.value for each in _WORDS[name]]
    if text not in words:
        raise ValueRefused(f"not a value for '{name}'", expected=", ".join(words), found="(not shown)")
