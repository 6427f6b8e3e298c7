"""Surfaces: the one place of a request in which a secret may stand, and how it stands there.

Short form (``AUTHORIZATION``): the whole credential of the ``Authorization`` header, in any of ``Bearer X``,
``token X``, ``Basic base64(user:X)``, ``Basic base64(X:)`` and ``Basic base64(X:x-oauth-basic)``. Long form: a
header by name with a format, which the whole value must match (``trust.md`` rule 17): what a host stores, an
agent could read back, so nothing may stand beside a secret.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Final

from affiant.secrets.refusals import SecretValueInvalid, SurfaceInvalid

__all__ = ["AUTHORIZATION", "Surface"]

_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,64}\Z")
_FORMAT: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,126}[\x21-\x7e])?\Z")
_SCHEME: Final = re.compile(rb"(bearer|token|basic) ([^\s]+)\Z", re.IGNORECASE)
_HEADER_VALUE: Final = re.compile(rb"[\x21-\x7e]+\Z")
_BASIC_PASSWORDS: Final = (b"", b"x-oauth-basic")
"""What clients send as the password when the token stands in the user's place (git over https)."""

_NOT_INJECTABLE: Final = frozenset(
    {
        "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect", "host",
        "if-range", "keep-alive", "origin", "proxy-authenticate", "proxy-authorization", "proxy-connection",
        "range", "referer", "te", "trailer", "transfer-encoding", "upgrade", "user-agent", "via",
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

    Raises:
        SurfaceInvalid: a header or format that cannot carry a secret.
    """

    header: str
    format: str | None

    def __post_init__(self) -> None:
        if _HEADER.match(self.header) is None or self.header != self.header.lower():
            raise SurfaceInvalid("not a header's name in lower case", found=repr(self.header[:80]))
        if self.header in _NOT_INJECTABLE:
            raise SurfaceInvalid("this header cannot carry a secret", found=self.header)
        if self.format is None:
            if self.header != "authorization":
                raise SurfaceInvalid("a header other than Authorization needs a format", found=self.header)
        elif self.format.count("{}") != 1 or _FORMAT.match(self.format) is None:
            raise SurfaceInvalid(
                "not a header's format", expected="printable text with {} once", found=repr(self.format[:80])
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
            SecretValueInvalid: the secret cannot stand in a header (characters other than visible ASCII).
            SurfaceInvalid: the header does not hold the placeholder as the surface says.
        """
        replaced = self._replaced(value, placeholder, secret)
        if replaced is None:
            raise SurfaceInvalid("the header does not hold the placeholder in its place", found=self.header)
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
            replaced = _replaced_in_basic(credential, placeholder, secret)
            return None if replaced is None else scheme + b" " + replaced
        return scheme + b" " + _visible(secret) if credential == placeholder else None


AUTHORIZATION: Final = Surface("authorization", None)
"""The short form's surface: the whole credential of ``Authorization``."""


def _replaced_in_basic(credential: bytes, placeholder: bytes, secret: bytes) -> bytes | None:
    """RFC 7617: base64 of ``user:password``; exactly one of the two is the placeholder."""
    try:
        decoded = base64.b64decode(credential, validate=True)
    except binascii.Error:
        return None
    user, colon, password = decoded.partition(b":")
    if not colon:
        return None
    if password == placeholder and placeholder not in user:
        return base64.b64encode(user + b":" + secret)
    if user == placeholder and password in _BASIC_PASSWORDS and b":" not in secret:
        return base64.b64encode(secret + b":" + password)
    return None


def _visible(secret: bytes) -> bytes:
    if _HEADER_VALUE.match(secret) is None:
        raise SecretValueInvalid(
            "the value cannot stand in a header as it is",
            expected="visible ASCII characters without spaces",
            hint="Store the value in the form in which the host expects it",
        )
    return secret
