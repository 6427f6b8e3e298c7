"""A token endpoint's answer, read strictly: a token and how long it holds (RFC 6749, section 5.1). No I/O.

Nothing of the answer is in an error, but for the error's name where it is one of RFC 6749, section 5.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from affiant.attestation.encoding.canonical import JSONError, parse_object
from affiant.errors import AffiantError
from affiant.policy.model.token_exchange import GrantType
from affiant.secrets.injection.body_surface import media_type
from affiant.secrets.injection.detection import HeaderField
from affiant.secrets.names.errors import (
    SecretTooWeak,
    SecretValueInvalid,
    TokenRejected,
    TokenResponseInvalid,
    TokenUnavailable,
)
from affiant.secrets.names.value import SecretValue

__all__ = ["MAX_TOKEN_RESPONSE", "IssuedToken", "parse_token_response"]

MAX_TOKEN_RESPONSE: Final = 1 << 16
"""Bytes of a body."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*\Z")
"""RFC 6750, section 2.1: all that can follow ``Bearer``."""
_ISSUED_TYPES: Final = frozenset(
    f"urn:ietf:params:oauth:token-type:{kind}" for kind in ("access_token", "jwt")
)
"""RFC 8693, section 3: those that can be used as an access token."""
_MAX_LIFETIME_S: Final = 2**31
_ERRORS: Final = frozenset(
    {
        "invalid_client", "invalid_grant", "invalid_request", "invalid_scope", "invalid_target",
        "unauthorized_client", "unsupported_grant_type",
    }
)  # fmt: skip
"""RFC 6749, section 5.2, and RFC 8693, section 2.2.2."""
_NOT_NOW: Final = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """An access token. ``lifetime_s``: seconds; None: the issuer did not say."""

    value: SecretValue
    lifetime_s: int | None


def parse_token_response(
    status: int, headers: Iterable[HeaderField], body: bytes, *, grant: GrantType
) -> IssuedToken:
    """The token in an answer.

    Args:
        body: all of it, at most :data:`MAX_TOKEN_RESPONSE` bytes.

    Raises:
        TokenRejected: the issuer says no. TokenUnavailable: it says not now.
        TokenResponseInvalid: anything else that is no token: a redirect, another media type, another token.
    """
    if status >= 500 or status in _NOT_NOW:
        raise TokenUnavailable("the token endpoint gives no token now")
    if status >= 400:
        raise TokenRejected("the token endpoint refuses the secret", found=_error(headers, body))
    if status != 200:
        raise TokenResponseInvalid(
            "the token endpoint gives no answer to take a token from", expected="status 200"
        )
    members = _object(headers, body)
    if grant is GrantType.TOKEN_EXCHANGE and members.get("issued_token_type") not in _ISSUED_TYPES:
        raise TokenResponseInvalid("the token endpoint does not say that it gives an access token")
    kind = members.get("token_type")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise TokenResponseInvalid(
            "the token endpoint gives no bearer token", expected='"token_type": "Bearer"'
        )
    return IssuedToken(_token(members.get("access_token")), _lifetime(members))


def _object(headers: Iterable[HeaderField], body: bytes) -> Mapping[str, object]:
    if media_type(headers) != b"application/json":
        raise TokenResponseInvalid(
            "the token endpoint's answer is not JSON", expected="application/json, UTF-8"
        )
    try:
        return parse_object(body, limit=MAX_TOKEN_RESPONSE, strict_form=False)
    except JSONError:  # not chained: it may repeat the answer
        raise TokenResponseInvalid("the token endpoint's answer is no strict JSON object") from None


def _token(value: object) -> SecretValue:
    if not isinstance(value, str) or _TOKEN.match(value) is None:
        raise TokenResponseInvalid(
            "the token endpoint's response holds no token that a header can carry",
            expected="RFC 6750, 2.1",
        )
    try:
        return SecretValue(value.encode("ascii"))
    except (SecretTooWeak, SecretValueInvalid) as error:
        raise TokenResponseInvalid("the token is none that can be kept secret", found=error.code) from None


def _lifetime(members: Mapping[str, object]) -> int | None:
    if "expires_in" not in members:
        return None
    lifetime = members["expires_in"]
    if type(lifetime) is not int or not 1 <= lifetime <= _MAX_LIFETIME_S:
        raise TokenResponseInvalid(
            "the token endpoint does not say in seconds how long the token holds",
            expected='"expires_in": a whole number, 1 or more',
        )
    return lifetime


def _error(headers: Iterable[HeaderField], body: bytes) -> str | None:
    try:
        named = _object(headers, body).get("error")
    except AffiantError:
        return None
    return named if isinstance(named, str) and named in _ERRORS else None
