"""The exchange of a secret for an access token before a request goes out: issuer, grant and client.

The secret is a long-lived credential that no API host is to see. The broker sends it (or an assertion that it signs) to
one token endpoint only, and puts the short-lived token into requests to the secret's hosts. Three grants:

- ``client_credentials`` (RFC 6749, section 4.4): the secret is the client's;
- ``jwt_bearer`` (RFC 7523, section 2.1): the secret is a private key, with which an assertion is signed;
- ``token_exchange`` (RFC 8693): the secret is itself a token, which is exchanged for another.

A wrong value is never repeated: it may be a pasted secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final

from affiant.errors import MalformedError
from affiant.policy.canonical.errors import (
    HostRefused,
    PolicyConflict,
    TargetRefused,
    ValueRefused,
)
from affiant.policy.canonical.hosts import host_pattern, is_wildcard
from affiant.policy.canonical.targets import canonical_target

__all__ = [
    "BEARER",
    "EXCHANGE_SPELLINGS",
    "ClientAuth",
    "GrantType",
    "SubjectTokenType",
    "TokenExchange",
    "check_exchange_member",
    "means_nothing",
]

BEARER: Final = "Bearer {}"
"""The whole value of the Authorization header in which the token stands (RFC 6750, section 2.1)."""


class GrantType(StrEnum):
    """How the token endpoint is asked."""

    CLIENT_CREDENTIALS = "client_credentials"
    JWT_BEARER = "jwt_bearer"
    TOKEN_EXCHANGE = "token_exchange"  # noqa: S105 - the name of a grant


class ClientAuth(StrEnum):
    """How a client shows its secret, in the registered names (RFC 7591, section 2)."""

    BASIC = "client_secret_basic"
    POST = "client_secret_post"


class SubjectTokenType(StrEnum):
    """What the secret is where it is exchanged for another token (RFC 8693, section 3)."""

    ACCESS_TOKEN = "access_token"  # noqa: S105 - the name of a type
    ID_TOKEN = "id_token"  # noqa: S105 - the name of a type
    JWT = "jwt"


_MAX_URL: Final = 1024
_URL: Final = re.compile(
    r"https://([A-Za-z0-9.-]{1,253})(?::([1-9][0-9]{0,4}))?(/[\x21\x24-\x3e\x40-\x7e]*)\Z"
)
_WORD: Final = re.compile(r"[\x21-\x7e]{1,512}\Z")
_CLIENT_ID: Final = re.compile(r"[\x21-\x7e]{1,256}\Z")
"""RFC 6749, appendix A.1, without blanks."""
_SCOPE: Final = re.compile(r"(?=.{1,1024}\Z)[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*\Z")
"""RFC 6749, section 3.3."""
_RESOURCE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}:[\x21\x22\x24-\x7e]{1,480}\Z")
"""RFC 8707, section 2: an absolute URI without a fragment."""

EXCHANGE_SPELLINGS: Final[Mapping[str, re.Pattern[str]]] = {
    "url": _URL,
    "client_id": _CLIENT_ID,
    "issuer": _WORD,
    "subject": _WORD,
    "key_id": _WORD,
    "audience": _WORD,
    "resource": _RESOURCE,
    "scope": _SCOPE,
}
"""The patterns that these members have at least; of the URL more is asked."""

_EXPECTED: Final = {
    "client_id": "1 to 256 printable ASCII characters without blanks",
    "resource": "an absolute URI without a fragment",
    "scope": "words of printable ASCII with one blank between them",
}

_NEEDED: Final[Mapping[GrantType, frozenset[str]]] = {
    GrantType.CLIENT_CREDENTIALS: frozenset({"client_id", "client_auth"}),
    GrantType.JWT_BEARER: frozenset({"issuer", "audience"}),
    GrantType.TOKEN_EXCHANGE: frozenset({"subject_token_type"}),
}
_POSSIBLE: Final[Mapping[GrantType, frozenset[str]]] = {
    GrantType.CLIENT_CREDENTIALS: frozenset({"scope", "audience", "resource"}),
    GrantType.JWT_BEARER: frozenset({"subject", "key_id", "scope"}),
    GrantType.TOKEN_EXCHANGE: frozenset({"client_id", "scope", "audience", "resource"}),
}


@dataclass(frozen=True, slots=True)
class TokenExchange:
    """One way from a secret to an access token.

    Args:
        url: of the token endpoint: https, a host by name, a port other than 443, a canonical path; nothing else.
        client_id: of the client; where the secret is a token, of a client without a secret of its own.
        client_auth: of ``client_credentials``.
        issuer, subject, audience: of the assertion that is signed (RFC 7523, section 3); of the other grants
            ``audience`` is a parameter of the request.
        key_id: ``kid`` of the assertion's header.
        subject_token_type: of ``token_exchange``.
        resource: RFC 8707. scope: RFC 6749, section 3.3; an assertion carries it too.

    Raises:
        ValueRefused, HostRefused, TargetRefused, PolicyConflict, ``policy.missing_key``: what no request could hold.
    """

    grant: GrantType
    url: str
    client_id: str | None = None
    client_auth: ClientAuth | None = None
    issuer: str | None = None
    subject: str | None = None
    key_id: str | None = None
    subject_token_type: SubjectTokenType | None = None
    audience: str | None = None
    resource: str | None = None
    scope: str | None = None

    def __post_init__(self) -> None:
        written = self.members.keys() - {"grant", "url"}
        if missing := _NEEDED[self.grant] - written:
            raise MalformedError(
                f"the grant {self.grant.value} needs the key {min(missing)!r}", code="policy.missing_key"
            )
        if beside := [name for name in sorted(written) if means_nothing(self.grant, name)]:
            raise PolicyConflict(f"{beside[0]!r} means nothing with the grant {self.grant.value}")
        for name in sorted(self.members.keys() & EXCHANGE_SPELLINGS.keys()):
            check_exchange_member(name, self.members[name])

    @property
    def members(self) -> Mapping[str, str]:
        """What is written, by name."""
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        return {name: str(value) for name, value in values if value is not None}

    @classmethod
    def of(cls, members: Mapping[str, str]) -> TokenExchange:
        """Of :attr:`members`.

        Raises:
            ValueRefused: an unknown one, or an unknown word. The others: as of the constructor.
        """
        known = {each.name for each in fields(cls)}
        words: dict[str, type[StrEnum]] = {
            "grant": GrantType,
            "client_auth": ClientAuth,
            "subject_token_type": SubjectTokenType,
        }
        if not {"grant", "url"} <= members.keys() <= known:
            raise ValueRefused("not an exchange of a secret for a token", expected=", ".join(sorted(known)))
        try:
            values: dict[str, Any] = {
                name: words[name](value) if name in words else value for name, value in members.items()
            }
        except ValueError:
            raise ValueRefused("not an exchange of a secret for a token: an unknown word") from None
        return cls(**values)

    @property
    def host(self) -> str:
        """The token endpoint's."""
        return self._url[1]

    @property
    def port(self) -> int:
        """The token endpoint's."""
        return int(self._url[2] or 443)

    @property
    def path(self) -> str:
        """The token endpoint's, canonical."""
        return self._url[3]

    @property
    def _url(self) -> re.Match[str]:
        match = _URL.match(self.url)
        assert match is not None, "checked when it was made"
        return match


def means_nothing(grant: GrantType, name: str) -> bool:
    """Whether no request of this grant has such a member."""
    return name not in {"grant", "url"} | _NEEDED[grant] | _POSSIBLE[grant]


def check_exchange_member(name: str, text: str) -> None:
    """Refuse what cannot stand in this member, one of :data:`EXCHANGE_SPELLINGS`.

    Raises:
        ValueRefused: so.
    """
    if name == "url":
        _check_url(text)
    elif EXCHANGE_SPELLINGS[name].match(text) is None:
        expected = _EXPECTED.get(name, "1 to 512 printable ASCII characters without blanks")
        raise ValueRefused(f"not a value for {name!r}", expected=expected, found="(not shown)")


def _check_url(url: str) -> None:
    """Refuse an address that is not spelled as hosts and targets of requests are, or that says more than where."""
    match = _URL.match(url) if len(url) <= _MAX_URL else None
    expected = "https://host[:port]/path, without a user, a query and a fragment"
    if match is None or match[2] == "443" or int(match[2] or 443) > 65535:
        raise ValueRefused("not the address of a token endpoint", expected=expected, found="(not shown)")
    try:
        canonical = host_pattern(match[1], single_label=True)
        canonical_target(match[3])
    except (HostRefused, TargetRefused) as error:
        raise ValueRefused(
            "not the address of a token endpoint", expected=expected, found="(not shown)"
        ) from error
    if canonical != match[1] or is_wildcard(canonical):
        raise ValueRefused(
            "the token endpoint's host is not canonical", expected=expected, found="(not shown)"
        )
