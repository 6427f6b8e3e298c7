"""Surfaces: the one place of a request in which a secret may be, and in which form.

Short form (``AUTHORIZATION``): the whole credential of the ``Authorization`` header, in any of ``Bearer X``,
``token X``, ``Basic base64(user:X)``, ``Basic base64(X:)`` and ``Basic base64(X:x-oauth-basic)``. Long form: a
header by name with a format, ``Basic`` with one user, or one parameter of the query, of which the whole value must
match (``trust.md`` rule 17): what a host stores, an agent could read back, so nothing may be beside a secret.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from affiant.errors import ConfigurationError
from affiant.policy.canonical.request_names import asks_for_a_part
from affiant.secrets.names.errors import SecretValueInvalid

__all__ = ["AUTHORIZATION", "QuerySurface", "Surface"]

_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,64}\Z")
_FORMAT: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,126}[\x21-\x7e])?\Z")
_SCHEME: Final = re.compile(rb"(bearer|token|basic) ([^\s]+)\Z", re.IGNORECASE)
_HEADER_VALUE: Final = re.compile(rb"[\x21-\x7e]+\Z")
_BASIC_PASSWORDS: Final = (b"", b"x-oauth-basic")
"""What clients send as the password when the token is the user name (git over https)."""

_PARAMETER: Final = re.compile(r"[A-Za-z0-9._~-]{1,64}\Z")
_SEPARATORS: Final = re.compile(rb"[&;]")
"""What servers take for the end of a parameter (the second: HTML 4.01, B.2.2)."""
_NESTED: Final = re.compile(rb"[\[\0].*", re.DOTALL)
"""``key[]`` and ``key[a]`` are parts of ``key`` to PHP, Rack and qs, which makes a value beside them a name; PHP ends a
name at a NUL."""

_NOT_INJECTABLE: Final = frozenset(
    {
        "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect", "host",
        "keep-alive", "origin", "proxy-authenticate", "proxy-authorization", "proxy-connection", "referer", "te",
        "trailer", "transfer-encoding", "upgrade", "user-agent", "via",
    }
)  # fmt: skip
"""Headers that steer the connection, or that servers habitually log or repeat."""


@dataclass(frozen=True, slots=True)
class Surface:
    """A header, and the format of its whole value.

    Args:
        header: the header's name, lower case.
        format: the whole value with ``{}`` in the secret's place, once; None: the credential of ``Authorization``
            in any of its forms.
        user: the credential is ``Basic``, of this user with the secret as password, and nothing else; None: any form.

    Raises:
        ``secret.surface``: a header or format that cannot carry a secret.
    """

    header: str
    format: str | None
    user: str | None = None

    def __post_init__(self) -> None:
        if _HEADER.match(self.header) is None or self.header != self.header.lower():
            raise ConfigurationError(
                "not a header's name in lower case", found=repr(self.header[:80]), code="secret.surface"
            )
        if self.header in _NOT_INJECTABLE or asks_for_a_part(self.header):
            raise ConfigurationError(
                "this header cannot carry a secret", found=self.header, code="secret.surface"
            )
        if self.format is None:
            if self.header != "authorization":
                raise ConfigurationError(
                    "a header other than Authorization needs a format",
                    found=self.header,
                    code="secret.surface",
                )
        elif self.user is not None or self.format.count("{}") != 1 or _FORMAT.match(self.format) is None:
            raise ConfigurationError(
                "not a header's format",
                expected="printable text with {} once",
                found=repr(self.format[:80]),
                code="secret.surface",
            )

    @classmethod
    def injected(cls, header: str, format: str) -> Surface:  # noqa: A002 - the profile's own word
        """The surface of a profile's ``inject: {header, format}``."""
        return cls(header.lower(), format)

    @property
    def label(self) -> str:
        """How decisions and records spell it: ``header:authorization``."""
        return f"header:{self.header}"

    def holds(self, value: bytes, placeholder: bytes) -> bool:
        """Whether ``value`` is this header's whole value with nothing but ``placeholder`` in the secret's place."""
        return self._replaced(value, placeholder, placeholder) is not None

    def substituted(self, value: bytes, placeholder: bytes, secret: bytes) -> bytes:
        """The header's value with ``secret`` in the placeholder's place. For the broker's process.

        Raises:
            SecretValueInvalid: the secret cannot be in a header (characters other than visible ASCII).
            ``secret.surface``: the header does not hold the placeholder as the surface says.
        """
        replaced = self._replaced(value, placeholder, secret)
        if replaced is None:
            raise ConfigurationError(
                "the header does not hold the placeholder in its place",
                found=self.header,
                code="secret.surface",
            )
        return replaced

    def _replaced(self, value: bytes, placeholder: bytes, secret: bytes) -> bytes | None:
        if self.format is not None:
            before, _, after = self.format.encode("ascii").partition(b"{}")
            return before + _visible(secret) + after if value == before + placeholder + after else None
        match = _SCHEME.match(value)
        if match is None:
            return None
        scheme, credential = match.groups()
        if scheme.lower() == b"basic":
            replaced = _replaced_in_basic(credential, placeholder, secret, self.user)
            return None if replaced is None else scheme + b" " + replaced
        if self.user is not None:
            return None
        return scheme + b" " + _visible(secret) if credential == placeholder else None


AUTHORIZATION: Final = Surface("authorization", None)
"""The short form's surface: the whole credential of ``Authorization``."""


@dataclass(frozen=True, slots=True)
class QuerySurface:
    """One parameter of the query (``?name=value``), and nothing but the secret in its value.

    Args:
        name: letters, digits, ``.``, ``_``, ``~`` and ``-``: what no client has to escape.

    Raises:
        ``secret.surface``: another name.
    """

    name: str

    def __post_init__(self) -> None:
        if _PARAMETER.match(self.name) is None:
            raise ConfigurationError(
                "not the name of a parameter", found=repr(self.name[:80]), code="secret.surface"
            )

    @property
    def label(self) -> str:
        """How decisions and records spell it: ``query:key``."""
        return f"query:{self.name}"

    def place(self, target: bytes, placeholder: bytes) -> slice | None:
        """Where in ``target`` the placeholder is all of this parameter; None where it is not.

        A parameter that is there twice, in any encoding or as a list, is none: two servers would read two values.
        """
        path, mark, query = target.partition(b"?")
        names = [
            unquote_to_bytes(part.partition(b"=")[0].replace(b"+", b" ")) for part in _SEPARATORS.split(query)
        ]
        wanted = self.name.encode("ascii")
        if sum(_NESTED.sub(b"", name).strip().lower() == wanted.lower() for name in names) != 1:
            return None
        at = len(path) + len(mark)
        for part in query.split(b"&"):
            if part == wanted + b"=" + placeholder:
                return slice(at + len(wanted) + 1, at + len(part))
            at += len(part) + 1
        return None

    @staticmethod
    def substituted(target: bytes, place: slice, secret: bytes) -> bytes:
        """``target`` with ``secret`` in the placeholder's place, percent-encoded. For the broker's process."""
        return (
            target[: place.start] + quote_from_bytes(secret, safe="").encode("ascii") + target[place.stop :]
        )


def _replaced_in_basic(
    credential: bytes, placeholder: bytes, secret: bytes, only: str | None
) -> bytes | None:
    """RFC 7617: base64 of ``user:password``; exactly one of the two is the placeholder.

    Args:
        only: the one user whose password it may be; None: any, and in the user's place too.
    """
    try:
        decoded = base64.b64decode(credential, validate=True)
    except binascii.Error:
        return None
    user, colon, password = decoded.partition(b":")
    if not colon or (only is not None and user != only.encode("ascii")):
        return None
    if password == placeholder and placeholder not in user:
        return base64.b64encode(user + b":" + secret)
    if only is None and user == placeholder and password in _BASIC_PASSWORDS and b":" not in secret:
        return base64.b64encode(secret + b":" + password)
    return None


def _visible(secret: bytes) -> bytes:
    if _HEADER_VALUE.match(secret) is None:
        raise SecretValueInvalid(
            "a header cannot carry the value as it is",
            expected="visible ASCII characters without spaces",
            hint="Store the value in the form in which the host expects it",
        )
    return secret
