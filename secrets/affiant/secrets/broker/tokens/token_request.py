"""From a secret to the request that is sent to its token endpoint, and nowhere else. No I/O.

Every request is made twice: as it is sent, and as it is recorded, with the placeholder in place of the secret, or of
what is made of it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never
from urllib.parse import quote, quote_from_bytes, quote_plus

from affiant.attestation.encoding.binary_text import b64u
from affiant.policy.model.token_exchange import ClientAuth, GrantType, TokenExchange
from affiant.secrets.injection.detection import HeaderField
from affiant.secrets.names.value import SecretValue

__all__ = ["TokenRequest", "require_credential", "token_request"]

_GRANT: dict[GrantType, str] = {
    GrantType.CLIENT_CREDENTIALS: "client_credentials",
    GrantType.JWT_BEARER: "urn:ietf:params:oauth:grant-type:jwt-bearer",
    GrantType.TOKEN_EXCHANGE: "urn:ietf:params:oauth:grant-type:token-exchange",
}
_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:"  # noqa: S105 - the beginning of names of types
_JTI_BYTES = 16


@dataclass(frozen=True, slots=True, repr=False)
class TokenRequest:
    """A POST of a form. It holds values: nothing may show or keep it."""

    headers: tuple[HeaderField, ...]
    body: bytes


def require_credential(exchange: TokenExchange, value: SecretValue) -> None:
    """Refuse a value that this exchange can do nothing with.

    Raises:
        SecretValueInvalid: so.
    """
    if exchange.grant is GrantType.JWT_BEARER:
        from affiant.secrets.broker.tokens.signing import require_signing_key  # noqa: PLC0415 - as below

        require_signing_key(value)
    else:
        value.require_one_line()


def token_request(
    exchange: TokenExchange,
    value: SecretValue,
    *,
    placeholder: str,
    now: int,
    random_bytes: Callable[[int], bytes],
) -> tuple[TokenRequest, TokenRequest]:
    """The request as it is sent, and as it is recorded.

    Args:
        now: seconds since 1970.

    Raises:
        SecretValueInvalid: as :func:`require_credential`.
    """
    require_credential(exchange, value)
    sent = value.reveal()
    if exchange.grant is GrantType.JWT_BEARER:
        from affiant.secrets.broker.tokens.signing import signed_assertion  # noqa: PLC0415 - jwt: only where one signs

        sent = signed_assertion(exchange, value, now=now, token_id=b64u(random_bytes(_JTI_BYTES)))
    return _request(exchange, sent), _request(exchange, placeholder.encode("ascii"))


def _request(exchange: TokenExchange, shown: bytes) -> TokenRequest:
    members = [("grant_type", _GRANT[exchange.grant].encode("ascii"))]
    fields: list[HeaderField] = []
    match exchange.grant:
        case GrantType.CLIENT_CREDENTIALS if exchange.client_auth is ClientAuth.BASIC:
            fields.append((b"Authorization", _basic(exchange.client_id or "", shown)))
        case GrantType.CLIENT_CREDENTIALS:
            members += [("client_id", _text(exchange.client_id)), ("client_secret", shown)]
        case GrantType.JWT_BEARER:
            members.append(("assertion", shown))
        case GrantType.TOKEN_EXCHANGE:
            assert exchange.subject_token_type is not None
            members += [
                ("subject_token", shown),
                ("subject_token_type", f"{_TOKEN_TYPE}{exchange.subject_token_type.value}".encode("ascii")),
                ("requested_token_type", f"{_TOKEN_TYPE}access_token".encode("ascii")),
                ("client_id", _text(exchange.client_id)),
            ]
        case _:
            assert_never(exchange.grant)
    if exchange.grant is not GrantType.JWT_BEARER:  # there the audience is the assertion's
        members += [("audience", _text(exchange.audience)), ("resource", _text(exchange.resource))]
    members.append(("scope", _text(exchange.scope)))
    body = "&".join(f"{name}={quote_plus(value)}" for name, value in members if value).encode("ascii")
    fields += [
        (b"Content-Type", b"application/x-www-form-urlencoded"),
        (b"Content-Length", b"%d" % len(body)),
        (b"Accept", b"application/json"),
        (b"Accept-Encoding", b"identity"),
        (b"Connection", b"close"),
    ]
    return TokenRequest(tuple(fields), body)


def _basic(client_id: str, shown: bytes) -> bytes:
    """RFC 6749, section 2.3.1: both as in a form, then as Basic credentials. A blank is ``%20``: servers undo that that
    read escapes and no plus signs."""
    pair = f"{quote(client_id, safe='')}:{quote_from_bytes(shown, safe='')}".encode("ascii")
    return b"Basic " + base64.b64encode(pair)


def _text(member: str | None) -> bytes:
    return b"" if member is None else member.encode("ascii")
