"""Computes the bytes that a token stamps.

The **first** token of an anchor stamps the *text* of a checkpoint's note: origin, size, root and extension lines, each
with its newline, UTF-8, up to and including the last newline before the empty line; no signature line. A **renewal**
stamps all that came before it, so that it protects them when their keys or hash functions do no more (after RFC 4998,
section 5, as one step)::

    "affiant/anchor-renewal/1" || newline || SHA-512(text) || SHA-512(token 0) || ... || SHA-512(token n-1)

each token being the authority's whole response, exactly as it came. The imprint of either is its SHA-256 or SHA-512,
whichever the token names.

>>> message("log.example/1\\n3\\nAAAA\\n", ())
b'log.example/1\\n3\\nAAAA\\n'
>>> len(message("log.example/1\\n3\\nAAAA\\n", (b"response",)))
153
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import Enum
from typing import Final

__all__ = ["Digest", "message"]

_RENEWAL: Final = b"affiant/anchor-renewal/1\n"


class Digest(Enum):
    """A hash function that an imprint may be of: its dotted OID (RFC 5754, section 2), and its size in bytes."""

    SHA256 = ("2.16.840.1.101.3.4.2.1", 32)
    SHA512 = ("2.16.840.1.101.3.4.2.3", 64)

    @property
    def oid(self) -> str:
        """Dotted form."""
        return self.value[0]

    def of(self, data: bytes) -> bytes:
        """The hash of ``data``, 32 or 64 bytes."""
        return hashlib.new(self.name.lower(), data, usedforsecurity=True).digest()


def message(text: str, before: Sequence[bytes]) -> bytes:
    """The bytes that the next token over a checkpoint stamps.

    Args:
        text: of the checkpoint's note, with its last newline.
        before: the responses that stamp it already, oldest first; empty for the first token.
    """
    body = text.encode("utf-8")
    if not before:
        return body
    return _RENEWAL + b"".join(hashlib.sha512(each).digest() for each in (body, *before))
