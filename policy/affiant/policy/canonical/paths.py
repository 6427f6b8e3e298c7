"""Reads paths inside the sandbox into their canonical form, and rejects what a mount cannot express.

A path is absolute and in Unicode normal form C, without ``.``, ``..`` or empty segments; an entry covers the
node and its subtree, segment by segment (``/workspace`` does not cover ``/workspace2``: CVE-2025-53110).
A *rule* has no globs, variables, ``~``, commas or colons either: mounts and Landlock cannot express them, and
they are where reviewers err.

>>> covers("/workspace", "/workspace/a"), covers("/workspace", "/workspace2")
(True, False)
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from affiant.attestation.encoding.invisible_text import INVISIBLE
from affiant.policy.canonical.errors import PathRefused, excerpt

__all__ = ["above", "canonical_path", "covers", "grantable_path", "is_read_alike", "rule_path"]

_MAX_BYTES: Final = 4096
"""PATH_MAX of Linux."""

_PLAIN: Final = re.compile(r"/[A-Za-z0-9_@%+=:,./ -]*(?<!/)\Z")
"""Paths of which nothing more is to be asked, if no segment of theirs is empty or begins with a dot."""

_ESCAPE: Final = re.compile("%(?:u[0-9A-Fa-f]{2})?[0-9A-Fa-f]{2}", re.IGNORECASE)

_LIKE_A_SLASH: Final = frozenset("\u2044\u2215\u29f8")
"""Fraction slash, division slash, big solidus. NFKC keeps them; "best fit" mappings make a slash of them."""

_NOT_IN_RULES: Final = re.compile(r"[*?\[\]{}~$,:!|<>'\"`]|(?:\A|/) | (?:/|\Z)")
"""Globs, expansions, separators, and segments that begin or end with a space."""

_RESERVED: Final = ("/proc", "/sys", "/dev", "/run")
"""Kernel interfaces and sockets: the sandbox makes its own, and no profile widens them."""


def canonical_path(text: str) -> str:
    """``text`` itself, if it is the one spelling of an absolute path.

    Raises:
        PathRefused: relative, not NFC, ``.``, ``..``, empty segments, a trailing slash, a backslash, control
            or invisible characters, or more than 4096 bytes.
    """
    if len(text) <= _MAX_BYTES and "//" not in text and "/." not in text and _PLAIN.match(text) is not None:
        return text
    if not text.startswith("/"):
        raise PathRefused("not an absolute path", found=excerpt(text), hint="Begin it with /")
    if len(text.encode("utf-8", "surrogatepass")) > _MAX_BYTES:
        raise PathRefused("path too long", expected=f"at most {_MAX_BYTES} bytes")
    if not text.isprintable() or "\\" in text:
        raise PathRefused(
            "a path holds a control character, an invisible one or a backslash", found=excerpt(text)
        )
    if not unicodedata.is_normalized("NFC", text):
        raise PathRefused("not in Unicode normal form C", found=excerpt(text))
    if text != "/" and not {"", ".", ".."}.isdisjoint(text[1:].split("/")):
        raise PathRefused(
            "path is not canonical",
            found=excerpt(text),
            hint="Write it without '.', '..', '//' and without a slash at its end",
        )
    return text


def is_read_alike(path: str) -> bool:
    """Whether a program that decodes ``path``, which is canonical, reads the same path as one that does not.

    False with a percent-escape (``%2e%2e``, ``%252f``, ``%u002e``), where compatibility forms (NFKC) make dots or
    separators, or with a character that only looks like a slash: some programs write a plain one in its place.
    """
    if path.isascii():
        return _ESCAPE.search(path) is None
    plain = unicodedata.normalize("NFKC", path)
    if not _LIKE_A_SLASH.isdisjoint(path):
        return False
    return _ESCAPE.search(plain) is None and [plain.count(mark) for mark in "./\\"] == [
        path.count(mark) for mark in "./\\"
    ]


def rule_path(text: str) -> str:
    """:func:`canonical_path`, and nothing that looks like a pattern.

    Raises:
        PathRefused: as there, or a character that only a pattern or a list of paths would have, or that no file of
            profiles may hold.
    """
    path = canonical_path(text)
    if INVISIBLE.search(path) is not None:
        raise PathRefused("a path holds an invisible character", found=excerpt(path))
    found = _NOT_IN_RULES.search(path)
    if found is not None:
        raise PathRefused(
            "no globs, variables, '~', commas or colons in a rule's path",
            found=excerpt(path),
            hint="An entry covers its whole subtree; write one entry for each tree",
        )
    return path


def grantable_path(text: str) -> str:
    """:func:`rule_path` that a rule may open to an agent.

    Raises:
        PathRefused: as there, or ``/``, or a tree that the sandbox keeps for itself.
    """
    path = rule_path(text)
    if path == "/" or any(covers(reserved, path) for reserved in _RESERVED):
        raise PathRefused(
            "this path cannot be granted",
            expected="a tree of the agent's own",
            found=excerpt(path),
            hint="Name the folder that the agent works in, such as /workspace",
        )
    return path


def covers(entry: str, path: str) -> bool:
    """Whether ``path`` is ``entry`` or below it; both canonical."""
    return entry in (path, "/") or path.startswith(entry + "/")


def above(path: str) -> Iterator[str]:
    """``path``, its parent, and so on up to ``/``; canonical."""
    while path != "/":
        yield path
        path = path[: path.rindex("/")] or "/"
    yield "/"
