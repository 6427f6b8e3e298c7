"""Checks names of places in a request into which a secret is put: headers, JSON pointers, AWS services and regions."""

from __future__ import annotations

import re
from typing import Final

from affiant.policy.canonical.errors import ValueRefused

__all__ = [
    "AWS_NAME",
    "POINTER",
    "asks_for_a_part",
    "check_aws_name",
    "check_pointer",
    "is_a_token",
    "is_aws_name",
    "is_pointer",
    "looks_like_a_value",
]

POINTER: Final = re.compile(r"(?:/(?:[A-Za-z0-9._@$:+-]|~[01]){1,64}){1,8}\Z")
_MAX_POINTER: Final = 256
AWS_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?\Z")

_PART: Final = re.compile(
    r"(?!(?:.*[-_])?(?:content|source)[-_]?range\Z|accept-ranges\Z)(?:a-im\Z|(?:.*[-_])?"
    r"(?!(?:(?:pre|re)?ar|de|est|(?:la)?g|o|st)ranges?(?:[-_]|\Z))[^-_]*ranges?(?:[-_].*)?\Z)",
    re.IGNORECASE,
)
"""A word that ends in ``range`` or ``ranges``, and is none such as ``orange`` or ``arrange``.

Not of an answer: ``Content-Range`` (of what is uploaded), ``x-amz-copy-source-range`` (of what the host copies).
"""

_TOKEN: Final = re.compile(
    r"(?:ghp|gho|ghs|ghu|ghr|github_pat|glpat|sk|pk|rk|xox[a-z])_.{16}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}\Z"
)
"""The forms of well-known tokens."""
_MIXTURE: Final = re.compile(r"(?=.{20})(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])")
"""Long mixtures of cases and digits."""


def asks_for_a_part(header: str) -> bool:
    """Whether a header of this name asks for a part of an answer, in which an echoed secret could be cut.

    The standard names are ``Range``, ``If-Range`` and ``A-IM`` (RFC 3229); hosts also read ``Request-Range``,
    ``x-ms-range``, ``XRange`` and others. One that names bytes to write (``x-ms-range`` beside ``x-ms-page-write``)
    counts as well: the name alone decides.
    """
    return _PART.match(header) is not None


def looks_like_a_value(text: str) -> bool:
    """Whether ``text`` reads like a secret rather than like any name; what does is repeated nowhere."""
    return is_a_token(text) or _MIXTURE.match(text) is not None


def is_a_token(text: str) -> bool:
    """Whether ``text`` has the form of some service's tokens: a name that has it is one that was pasted."""
    return _TOKEN.match(text) is not None


def check_pointer(text: str) -> None:
    """Refuse what is no pointer into a JSON object (RFC 6901) by names that need no escape in JSON, and by indices.

    Raises:
        ValueRefused: so.
    """
    if not is_pointer(text) or any(map(looks_like_a_value, text.split("/"))):
        raise ValueRefused("not a pointer into JSON", expected="such as /auth/token", found="(not shown)")


def is_pointer(text: str) -> bool:
    """Whether ``text`` has a pointer's form: for profiles, and for the broker, which looks the place up in a body."""
    return len(text) <= _MAX_POINTER and POINTER.match(text) is not None


def check_aws_name(text: str) -> None:
    """Refuse what is not the name of a service or a region as AWS's signatures spell it.

    Raises:
        ValueRefused: so.
    """
    if not is_aws_name(text) or looks_like_a_value(text):
        expected = "lower-case letters, digits and hyphens, such as s3 or eu-central-1"
        raise ValueRefused("not a name of AWS's", expected=expected, found="(not shown)")


def is_aws_name(text: str) -> bool:
    """Whether ``text`` has the form of a region or service: for profiles, and for the broker, which signs for it."""
    return AWS_NAME.match(text) is not None
