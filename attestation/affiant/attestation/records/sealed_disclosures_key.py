"""The file that holds the key which opens a tenant's disclosures: ``openings.key`` of whoever started the sessions.

Canonical JSON, mode 0600::

    {"key":"<32 bytes, base64url: an X25519 private key>","typ":"affiant-openings-key/1"}
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.errors import AffiantError, MalformedError
from affiant.files import ExposedFile, read_private

__all__ = ["OpeningsKeyMalformed", "openings_key_file", "read_openings_key"]

_TYP: Final = "affiant-openings-key/1"
_MAX_FILE: Final = 4096


class OpeningsKeyMalformed(MalformedError):
    """A file is not an openings key, or others can reach it."""

    code = "openings.key"


def openings_key_file(key: bytes) -> bytes:
    """The content of the file for a key of 32 bytes."""
    return canonical({"typ": _TYP, "key": b64u(key)})


def read_openings_key(path: Path) -> X25519PrivateKey:
    """The key in the file at ``path``, which only its owner may read.

    Raises:
        OpeningsKeyMalformed: another form, a link, or a file that others can reach.
    """
    try:
        content = read_private(path, limit=_MAX_FILE)
    except ExposedFile as error:
        raise OpeningsKeyMalformed(
            "other users can read the key",
            where=str(path),
            expected="a regular file of mode 0600",
            found=error.strerror,
            hint=f"Take it back: chmod go= {path}",
        ) from error
    except OSError as error:
        raise OpeningsKeyMalformed("the key cannot be read", where=str(path), found=error.strerror) from error
    try:
        members = parse_object(content, limit=_MAX_FILE)
        if members.get("typ") == _TYP and isinstance(members.get("key"), str):
            return X25519PrivateKey.from_private_bytes(from_b64u(str(members["key"]), size=32))
    except (AffiantError, ValueError):  # their texts may quote the key
        pass
    raise OpeningsKeyMalformed("not an openings key", where=str(path), expected=_TYP)
