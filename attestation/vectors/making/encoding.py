"""Spellings: canonical JSON (RFC 8785), base64url (RFC 4648, section 5, unpadded), names of digests."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

__all__ = ["b64u", "canonical", "from_b64u", "link", "sha256_name", "sha384_name"]

_PLAIN = re.compile(r'[^\x00-\x1f"\\]*')
_SHORT = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}


def canonical(value: Any) -> bytes:
    """The RFC 8785 bytes of ``value``: no floats here, so that numbers are plain integers (section 3.2.2.3)."""
    return _text(value).encode("utf-8")


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_text(item) for item in value) + "]"
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(f"{_string(name)}:{_text(value[name])}" for name in names) + "}"
    raise TypeError(f"no canonical form for {type(value).__name__}")


def _string(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return f'"{text}"'
    out = []
    for char in text:
        code = ord(char)
        out.append(_SHORT.get(code) or (f"\\u{code:04x}" if code < 0x20 else char))
    return '"' + "".join(out) + '"'


def b64u(data: bytes) -> str:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def from_b64u(text: str) -> bytes:
    """The bytes of ``text``, which this generator has written itself."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def link(data: bytes) -> str:
    """43 characters: SHA-256, the form of every internal link."""
    return b64u(hashlib.sha256(data).digest())


def sha256_name(data: bytes) -> str:
    """``sha256:`` and 64 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def sha384_name(data: bytes) -> str:
    """``sha384:`` and 96 hexadecimal digits."""
    return "sha384:" + hashlib.sha384(data).hexdigest()
