"""Reads host names into their canonical form, and patterns that match whole labels only.

A host is ASCII, lower case, letters, digits and hyphens (RFC 952, RFC 1123), at most 253 bytes and 63 in a
label; one trailing dot is dropped on both sides. Its last label is not a number, because resolvers read
``127.1``, ``0x7f000001`` and ``2130706433`` as addresses (WHATWG URL, "ends in a number"). Internationalised
names are written as their A-labels (RFC 5890). ``*.x`` is exactly one label more than ``x``, ``**.x`` one or
more; ``x`` itself is never included.

>>> canonical_host("API.Example.com.")
'api.example.com'
>>> list(covering_patterns("a.b.example.com"))
['a.b.example.com', '*.b.example.com', '**.b.example.com', '**.example.com', '**.com']
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from affiant.policy.canonical.errors import HostRefused, excerpt

__all__ = [
    "canonical_host",
    "covering_patterns",
    "host_pattern",
    "is_canonical_host",
    "is_wildcard",
    "suffix_of",
]

RESERVED_SUFFIX: Final = "affiant.internal"
"""Names under which the supervisor's own services answer; no profile speaks for them."""

_LABEL: Final = r"(?!xn--)(?!..--)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_A_LABEL: Final = r"xn--[a-z0-9](?:[a-z0-9-]{0,57}[a-z0-9])?"
_HOST: Final = re.compile(rf"(?=.{{1,253}}\Z)(?:(?:{_LABEL}|{_A_LABEL})\.)*(?:{_LABEL}|{_A_LABEL})\Z")
_PLAIN_HOST: Final = re.compile(r"[a-z0-9][a-z0-9.-]*\.[a-z]+\Z")
"""Short hosts of which nothing more is to be asked but where their dots and hyphens stand."""
_MAX_LABEL: Final = 63
_NUMERIC: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\Z")

_NAME_CATEGORIES: Final = frozenset({"Ll", "Lo", "Lm", "Mn", "Mc", "Nd"})
"""RFC 5892, section 2.1, without the exceptions of its section 2.6."""


def canonical_host(text: str) -> str:
    """The one spelling of a host that a client may write in several ways.

    Raises:
        HostRefused: an address, a port, a user name, a pattern, an underscore, a character beyond ASCII, an
            empty or too long label.
    """
    if _is_plain(text):
        return text
    host = text.removesuffix(".")
    if not host.isascii():  # before lower(): the Kelvin sign's lower case is an ASCII letter
        raise HostRefused(
            "host is not ASCII", found=excerpt(text), hint="Write the A-label, which begins with xn--"
        )
    host = host.lower()
    if not is_canonical_host(host):
        raise HostRefused("not a host name", found=excerpt(text), hint=_hint(host))
    return host


def is_canonical_host(text: str) -> bool:
    """Whether ``text`` is already the one spelling of a host name."""
    if _is_plain(text):
        return True
    return _HOST.match(text) is not None and _NUMERIC.match(text) is None and _decodes(text)


def _is_plain(text: str) -> bool:
    """Whether ``text`` is a host as most are: no label is too long where all of it is short."""
    return (
        len(text) <= _MAX_LABEL
        and _PLAIN_HOST.match(text) is not None
        and ".." not in text
        and "--" not in text
        and ".-" not in text
        and "-." not in text
    )


def _decodes(host: str) -> bool:
    """Whether every A-label is punycode (RFC 3492) of letters, marks and digits that need it (RFC 5891, 4.2)."""
    if "xn--" not in host:
        return True
    for label in host.split("."):
        if label.startswith("xn--"):
            try:
                plain = label[4:].encode("ascii").decode("punycode")
                again = plain.encode("punycode").decode("ascii")
            except (UnicodeError, ValueError, OverflowError):
                return False
            if plain.isascii() or again != label[4:] or not _is_u_label(plain):
                return False
    return True


def _is_u_label(text: str) -> bool:
    """Whether every character may stand in a name: no controls, symbols, capitals or compatibility forms."""
    return unicodedata.normalize("NFKC", text.lower()) == text and all(
        char == "-" or unicodedata.category(char) in _NAME_CATEGORIES for char in text
    )


def _hint(host: str) -> str:
    if _NUMERIC.match(host) is not None or host.startswith("["):
        return "Addresses are not hosts: name the host and give its addresses as 'address: CIDR'"
    if "*" in host:
        return "A wildcard is '*.' or '**.' and at least two labels after it"
    if "/" in host or ":" in host:
        return "Write the host alone; port, scheme and paths have keys of their own"
    return "Letters, digits, hyphens and dots only"


def host_pattern(text: str, *, single_label: bool = False) -> str:
    """The canonical form of a rule's host: a host, or ``*.`` or ``**.`` and a host of two labels or more.

    Args:
        single_label: accept a host of one label, whose addresses the rule gives itself.

    Raises:
        HostRefused: no such host; a wildcard over less than two labels; a name that the supervisor serves.
    """
    wildcard = "**." if text.startswith("**.") else "*." if text.startswith("*.") else ""
    host = canonical_host(text[len(wildcard) :])
    if "." not in host and (wildcard or not single_label):
        raise HostRefused(
            "host is too wide" if wildcard else "host has one label only",
            expected="at least two labels",
            found=excerpt(text),
            hint=None if wildcard else "For a private host, give its addresses as 'address: CIDR'",
        )
    if host == RESERVED_SUFFIX or host.endswith("." + RESERVED_SUFFIX):
        raise HostRefused("this name is served by the supervisor itself", found=excerpt(text))
    return wildcard + host


def is_wildcard(pattern: str) -> bool:
    """Whether a canonical pattern covers more than one name."""
    return pattern.startswith("*")


def suffix_of(pattern: str) -> str:
    """The host that a canonical pattern ends with."""
    return pattern.lstrip("*").removeprefix(".")


def covering_patterns(host: str) -> Iterator[str]:
    """Every pattern that covers a canonical ``host``: itself, ``*.`` its parent, ``**.`` each name above."""
    yield host
    parent = host.partition(".")[2]
    if parent:
        yield f"*.{parent}"
    while parent:
        yield f"**.{parent}"
        parent = parent.partition(".")[2]
