"""The key file of an erasure authority (``key_file``).

The public half is a JWK: what gateways are configured with and trust files name.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from affiant.attestation.encoding.key_file import KeyFileKind
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.erasure.errors import AuthorityKeyMalformed

__all__ = ["make_key_file", "parse_key_file", "read_key_file"]

_KIND: Final = KeyFileKind(
    "affiant-erasure-key/1", "an erasure authority", "affiant erase keygen", AuthorityKeyMalformed
)


def make_key_file(random_bytes: Callable[[int], bytes]) -> bytes:
    """A new key, as its file. Secret."""
    return _KIND.make(random_bytes)


def parse_key_file(content: bytes) -> Signer:
    """The key in a file's content.

    Raises:
        AuthorityKeyMalformed: another form.
    """
    return _KIND.parse(content)


def read_key_file(path: Path) -> Signer:
    """The key in the file at ``path``, which only its owner may read.

    Raises:
        AuthorityKeyMalformed: another form, a link, or a file that others can reach.
    """
    return _KIND.read(path)
