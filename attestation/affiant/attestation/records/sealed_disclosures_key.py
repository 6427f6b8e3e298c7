"""Writes and reads ``openings.key``, the key with which a tenant opens the sealed disclosures of its sessions.

Canonical JSON, mode 0600::

    {"key":"<32 bytes, base64url: an X25519 private key>","typ":"affiant-openings-key/1"}
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.attestation.encoding.key_file import read_key_content
from affiant.errors import AffiantError, MalformedError

__all__ = ["DisclosureKeyMalformed", "disclosure_key_file", "read_disclosure_key"]

_TYP: Final = "affiant-openings-key/1"
_MAX_FILE: Final = 4096


class DisclosureKeyMalformed(MalformedError):
    """A file is not a key for sealed disclosures, or others can reach it."""

    code = "openings.key"


def disclosure_key_file(key: bytes) -> bytes:
    """The content of the file for a key of 32 bytes."""
    return canonical({"typ": _TYP, "key": b64u(key)})


def read_disclosure_key(path: Path) -> X25519PrivateKey:
    """The key in the file at ``path``, which only its owner may read.

    Raises:
        DisclosureKeyMalformed: another form, a link, or a file that others can reach.
    """
    content = read_key_content(path, limit=_MAX_FILE, error=DisclosureKeyMalformed)
    try:
        members = parse_object(content, limit=_MAX_FILE)
        if members.get("typ") == _TYP and isinstance(members.get("key"), str):
            return X25519PrivateKey.from_private_bytes(from_b64u(str(members["key"]), size=32))
    except (AffiantError, ValueError):  # their texts may quote the key
        pass
    raise DisclosureKeyMalformed("not a key for sealed disclosures", where=str(path), expected=_TYP)
