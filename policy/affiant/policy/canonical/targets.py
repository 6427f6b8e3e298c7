"""Reads request targets into a form that every server reads alike: what is judged is what is sent.

Only the origin form of RFC 9112, section 3.2.1, is a target: an absolute path and perhaps a query. The path
is refused wherever two servers could disagree about it: ``.`` and ``..`` segments, empty segments, ``;``,
backslash, characters beyond ASCII, escapes of ``/``, ``\\``, ``%``, ``;``, controls or of characters that need
none, lower-case or broken escapes, escapes that are not UTF-8 (overlong forms), and characters that turn into
one of those under Unicode compatibility (a fullwidth solidus). Rules and requests are then compared with
their escapes decoded, which is unambiguous because nothing decodes into structure. The query is bounded in
its characters but not judged.

>>> canonical_target("/v1/a?x=1")
'/v1/a?x=1'
>>> canonical_target("/v1/%2e%2e/a")
Traceback (most recent call last):
    ...
affiant.policy.canonical.errors.TargetRefused: escape that is not canonical; found '%2e'
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import unquote_to_bytes

from affiant.policy.canonical.errors import TargetRefused, excerpt

__all__ = ["METHODS", "PathPattern", "canonical_target", "decoded_path", "judged_path", "path_pattern"]

METHODS: Final = frozenset(
    {
        *("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"),  # RFC 9110, RFC 5789
        *("PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK"),  # WebDAV, RFC 4918
        *("REPORT", "SEARCH", "QUERY"),  # RFC 3253, RFC 5323, and the method for safe queries
    }
)
"""Every method that a rule may name or a request may use. TRACE, TRACK and CONNECT are in no list."""

_MAX_BYTES: Final = 8192
_PLAIN_PATH: Final = re.compile(r"(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._~!$&'()*+,=:@-]+)*/?\Z")
"""RFC 3986 pchar without ``;`` and without escapes; no empty segment, no dot segment."""
_JUDGED: Final = re.compile(r"/[A-Za-z0-9._~!$&'()*+,=:@/-]*\Z")
"""Targets of which nothing more is to be asked, if no segment of theirs is empty or begins with a dot."""
_PATH: Final = re.compile(
    r"(?:/(?!\.{1,2}(?:/|\Z))(?:[A-Za-z0-9._~!$&'()*+,=:@-]|%[0-9A-F]{2})+)*/?\Z",
)
_QUERY: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?\[\]-]|%[0-9A-Fa-f]{2})*\Z")
_ESCAPE: Final = re.compile(r"%.{0,2}")
_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_STRUCTURE: Final = frozenset("/\\%;.?#")


def canonical_target(raw: bytes | str) -> str:
    """The target as text, byte for byte the same, if it is in canonical form.

    Args:
        raw: the target as it stands in the request line; at most 8192 bytes.

    Raises:
        TargetRefused: any other form. It is never rewritten: that would judge one thing and send another.
    """
    text = raw.decode("latin-1") if isinstance(raw, bytes) else raw
    if _is_plain(text):
        return text
    if not text.startswith("/"):
        raise TargetRefused("not an origin-form target", expected="an absolute path", found=excerpt(text))
    if len(text) > _MAX_BYTES:
        raise TargetRefused("target too long", expected=f"at most {_MAX_BYTES} bytes", found=f"{len(text)}")
    path, _, query = text.partition("?")
    if _PLAIN_PATH.match(path) is None:
        _check_escapes(path)
    if query and _QUERY.match(query) is None:
        raise TargetRefused("query holds a character that must be escaped", found=excerpt(query))
    return text


def _check_escapes(path: str) -> None:
    """Refuse ``path`` unless all that keeps it from being plain are needed, harmless, canonical escapes."""
    if _PATH.match(path) is None:
        for escape in _ESCAPE.findall(path):
            if re.match(r"%[0-9A-F]{2}\Z", escape) is None:
                raise TargetRefused("escape that is not canonical", found=excerpt(escape))
        raise TargetRefused("path is not canonical", found=excerpt(path))
    for escape in _ESCAPE.findall(path):
        byte = int(escape[1:], 16)
        if byte in _UNRESERVED or byte < 0x20 or byte == 0x7F or chr(byte) in _STRUCTURE:
            raise TargetRefused("escape that is not canonical", found=excerpt(escape))
    try:
        text = unquote_to_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise TargetRefused("escapes are not UTF-8", found=excerpt(path)) from error
    folded = unicodedata.normalize("NFKC", text)
    if any(folded.count(char) > text.count(char) for char in _STRUCTURE) or not text.isprintable():
        raise TargetRefused("escape of a character that looks like another", found=excerpt(path))


def decoded_path(target: str) -> str:
    """The path of a canonical target, escapes decoded: what rules are compared with."""
    path = target.partition("?")[0]
    return unquote_to_bytes(path).decode("utf-8") if "%" in path else path


def _is_plain(target: str) -> bool:
    """Whether a target is canonical, has neither query nor escapes, and so is its own path."""
    return (
        len(target) <= _MAX_BYTES
        and "//" not in target
        and "/." not in target
        and _JUDGED.match(target) is not None
    )


def judged_path(target: str) -> str:
    """:func:`decoded_path` of a target that is in canonical form.

    Raises:
        TargetRefused: as :func:`canonical_target`.
    """
    if (  # as in _is_plain, without the call: of this every request waits
        len(target) <= _MAX_BYTES
        and "//" not in target
        and "/." not in target
        and _JUDGED.match(target) is not None
    ):
        return target
    return decoded_path(canonical_target(target))


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A rule's path: exact, or everything below it (``subtree``, whose ``path`` ends with a slash)."""

    path: str
    subtree: bool

    def covers(self, path: str) -> bool:
        """Whether an allow covers a decoded ``path``: the subtree without its own node."""
        return path.startswith(self.path) if self.subtree else path == self.path

    def touches(self, path: str) -> bool:
        """Whether a denial covers a decoded ``path``: its node too, with or without a slash at the end."""
        return self.covers(path) or path.rstrip("/") == self.path.rstrip("/")


@lru_cache(maxsize=4096)
def path_pattern(text: str) -> PathPattern:
    """The pattern that ``/v1/x`` (exact) or ``/v1/x/**`` (all below) stands for.

    Raises:
        TargetRefused: not canonical, a query, or a ``*`` anywhere else.
    """
    subtree = text.endswith("/**")
    path = text[:-2] if subtree else text
    if "*" in path or "?" in path:
        raise TargetRefused(
            "a path is exact, or ends with /**", found=excerpt(text), hint="Queries are not judged"
        )
    return PathPattern(decoded_path(canonical_target(path)), subtree)
