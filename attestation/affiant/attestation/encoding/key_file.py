"""Reads and makes key files: a person's P-256 key, as of an erasure authority or an approver.

::

    {"typ": "<kind>", "d": <32 bytes, base64url>}

One key has one use, so each kind has its own ``typ``. The file is its owner's alone; the public half is a JWK.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import parse_object
from affiant.attestation.encoding.keys import Signer
from affiant.errors import AffiantError, MalformedError
from affiant.files import ExposedFile, read_private

__all__ = ["KeyFileKind", "read_key_content"]

_MAX_FILE: Final = 1024
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""The order n of P-256's base point (SEC 2, section 2.4.2)."""


@dataclass(frozen=True, slots=True)
class KeyFileKind:
    """One kind of key file.

    Args:
        typ: what the file says it is. whose: for messages, such as ``an erasure authority``.
        keygen: the command that makes one. error: the class of what is raised for another form.
    """

    typ: str
    whose: str
    keygen: str
    error: type[MalformedError]

    def make(self, random_bytes: Callable[[int], bytes]) -> bytes:
        """The content of a new key file. It is secret."""
        while not 0 < int.from_bytes(drawn := random_bytes(32), "big") < _ORDER:
            pass
        return (json.dumps({"typ": self.typ, "d": b64u(drawn)}) + "\n").encode("ascii")

    def parse(self, content: bytes) -> Signer:
        """The key in a file's content.

        Raises:
            MalformedError: another form; of the class that this kind has.
        """
        try:
            members = parse_object(content, limit=_MAX_FILE, strict_form=False)
            if set(members) != {"typ", "d"} or members["typ"] != self.typ:
                raise self.error(f"not the key of {self.whose}", expected=self.typ)
            number = int.from_bytes(from_b64u(str(members["d"]), size=32), "big")
            return Signer(ec.derive_private_key(number, ec.SECP256R1()))
        except self.error:
            raise
        except (AffiantError, ValueError):  # their texts may quote the key
            raise self.error(f"not the key of {self.whose}", expected=self.typ) from None

    def read(self, path: Path) -> Signer:
        """The key in the file at ``path``, which only its owner may read.

        Raises:
            MalformedError: another form, a link, or a file that others can reach; of the class that this kind has.
        """
        hint = f"Make one with: {self.keygen}"
        return self.parse(read_key_content(path, limit=_MAX_FILE, error=self.error, hint=hint))


def read_key_content(path: Path, *, limit: int, error: type[AffiantError], hint: str | None = None) -> bytes:
    """At most ``limit`` + 1 bytes of the key file at ``path``, which only its owner may read.

    Args:
        error: the class of what is raised.
        hint: what to do where there is no such file.

    Raises:
        AffiantError: a link, a file that others can reach, or none that can be read; of the class ``error``.
    """
    try:
        return read_private(path, limit=limit)
    except ExposedFile as exposed:
        raise error(
            "other users can reach the key file",
            where=str(path),
            expected="a regular file of mode 0600",
            found=exposed.strerror,
            hint=f"Restrict it: chmod go= {path}",
        ) from exposed
    except OSError as unreadable:
        raise error(
            "the key file cannot be read", where=str(path), found=unreadable.strerror, hint=hint
        ) from unreadable
