"""The key file of an erasure authority, and its public half.

::

    {"typ": "affiant-erasure-key/1", "d": <32 bytes, base64url>}

The public half is a JWK: what gateways are configured with and trust files name.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from affiant.attestation.canonical import parse_object
from affiant.attestation.encoding import b64u, from_b64u
from affiant.attestation.erasure.errors import AuthorityKeyMalformed
from affiant.attestation.keys import Signer
from affiant.errors import AffiantError
from affiant.files import ExposedFile, read_private

__all__ = ["make_key_file", "parse_key_file", "read_key_file"]

_TYP: Final = "affiant-erasure-key/1"
_MAX_FILE: Final = 1024
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""The order n of P-256's base point (SEC 2, section 2.4.2)."""


def make_key_file(random_bytes: Callable[[int], bytes]) -> bytes:
    """A new key, as its file. Secret."""
    while not 0 < int.from_bytes(drawn := random_bytes(32), "big") < _ORDER:
        pass
    return (json.dumps({"typ": _TYP, "d": b64u(drawn)}) + "\n").encode("ascii")


def parse_key_file(content: bytes) -> Signer:
    """The key in a file's content.

    Raises:
        AuthorityKeyMalformed: another form.
    """
    try:
        members = parse_object(content, limit=_MAX_FILE, strict_form=False)
        if set(members) != {"typ", "d"} or members["typ"] != _TYP:
            raise AuthorityKeyMalformed("not the key of an erasure authority", expected=_TYP)
        number = int.from_bytes(from_b64u(str(members["d"]), size=32), "big")
        return Signer(ec.derive_private_key(number, ec.SECP256R1()))
    except AuthorityKeyMalformed:
        raise
    except (AffiantError, ValueError):  # their texts may quote the key
        raise AuthorityKeyMalformed("not the key of an erasure authority", expected=_TYP) from None


def read_key_file(path: Path) -> Signer:
    """The key in the file at ``path``, which only its owner may read.

    Raises:
        AuthorityKeyMalformed: another form, a link, or a file that others can reach.
    """
    try:
        content = read_private(path, limit=_MAX_FILE)
    except ExposedFile as error:
        raise AuthorityKeyMalformed(
            "other users can reach the key file",
            where=str(path),
            expected="a regular file of mode 0600",
            found=error.strerror,
        ) from error
    except OSError as error:
        raise AuthorityKeyMalformed(
            "the key file cannot be read",
            where=str(path),
            found=error.strerror,
            hint="Make one with: affiant erase keygen",
        ) from error
    return parse_key_file(content)
