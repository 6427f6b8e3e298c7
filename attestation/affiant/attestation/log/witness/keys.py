"""Reads and writes a witness's key file: its name, its keys, and the id of its database.

::

    {"typ": "affiant-witness-key/1", "id": <32 hex>, "name": <key name>, "ed25519": <seed>, "mldsa44": <seed>}

Seeds are 32 bytes in base64url; one of the two may be missing. The database holds the same id: a key without its
database, or with another one, signs nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import JSONError, parse_object
from affiant.attestation.encoding.key_file import read_key_content
from affiant.attestation.log.witness.errors import WitnessKeyMalformed
from affiant.attestation.tlog.note import KeyName, NoteSignature
from affiant.attestation.tlog.note_keys import CosignerKey, MLDSACosignerKey
from affiant.attestation.tlog.note_signing import Cosigner, MLDSACosigner
from affiant.errors import AffiantError

__all__ = ["KINDS", "WitnessKeys", "make_keys", "read_key_file"]

KINDS: Final = ("ed25519", "mldsa44")
_TYP: Final = "affiant-witness-key/1"
_MAX_FILE: Final = 4096
_ID: Final = re.compile(r"[0-9a-f]{32}\Z")


@dataclass(frozen=True, slots=True)
class WitnessKeys:
    """One or two private keys under one name.

    Raises:
        WitnessKeyMalformed: none, or a name that no key can have.
    """

    identity: str
    name: str
    ed25519: Ed25519PrivateKey | None = field(repr=False)
    mldsa44: MLDSA44PrivateKey | None = field(repr=False)

    def __post_init__(self) -> None:
        if _ID.match(self.identity) is None or (self.ed25519 is None and self.mldsa44 is None):
            raise WitnessKeyMalformed("not the keys of a witness", expected="an id, and one key or two")
        try:
            KeyName(self.name, bytes(4))
        except AffiantError as error:
            raise WitnessKeyMalformed("not the name of a witness", found=repr(self.name[:60])) from error
        if len(self.name.encode("utf-8")) > 255:
            raise WitnessKeyMalformed("a name is too long", expected="at most 255 bytes")

    def _signers(self, seconds: int) -> Iterator[Cosigner | MLDSACosigner]:
        if self.ed25519 is not None:
            yield Cosigner(self.name, self.ed25519, seconds)
        if self.mldsa44 is not None:
            yield MLDSACosigner(self.name, self.mldsa44, seconds)

    def verifiers(self) -> tuple[CosignerKey | MLDSACosignerKey, ...]:
        """The public keys."""
        return tuple(each.verifier for each in self._signers(1))

    def cosign(self, text: str, seconds: int) -> tuple[NoteSignature, ...]:
        """Every key's line over the checkpoint ``text``; only for what is stored already."""
        return tuple(each.sign(text) for each in self._signers(seconds))

    def to_bytes(self) -> bytes:
        """The key file. Secret."""
        members = {"typ": _TYP, "id": self.identity, "name": self.name}
        if self.ed25519 is not None:
            members["ed25519"] = b64u(self.ed25519.private_bytes_raw())
        if self.mldsa44 is not None:
            members["mldsa44"] = b64u(self.mldsa44.private_bytes_raw())
        return (json.dumps(members, indent=2) + "\n").encode("utf-8")


def make_keys(name: str, kinds: tuple[str, ...], random_bytes: Callable[[int], bytes]) -> WitnessKeys:
    """New keys of these ``kinds``.

    Raises:
        WitnessKeyMalformed: no kind, or a name that no key can have.
    """
    return WitnessKeys(
        random_bytes(16).hex(),
        name,
        Ed25519PrivateKey.from_private_bytes(random_bytes(32)) if "ed25519" in kinds else None,
        MLDSA44PrivateKey.from_seed_bytes(random_bytes(32)) if "mldsa44" in kinds else None,
    )


def read_key_file(path: Path) -> WitnessKeys:
    """The keys in the file at ``path``, which only its owner may read.

    Raises:
        WitnessKeyMalformed: another form, a link, or a file that others can reach.
    """
    content = read_key_content(
        path, limit=_MAX_FILE, error=WitnessKeyMalformed, hint="Make a witness with: affiant witness init"
    )
    try:
        return _parse(content)
    except WitnessKeyMalformed as error:
        error.where = str(path)
        raise


def _parse(content: bytes) -> WitnessKeys:
    try:
        members = parse_object(content, limit=_MAX_FILE, strict_form=False)
        named = {"typ", "id", "name"}
        if members.get("typ") != _TYP or not named <= members.keys() <= named.union(KINDS):
            raise WitnessKeyMalformed("not the key file of a witness", expected=_TYP)
        texts = {name: value for name, value in members.items() if isinstance(value, str)}
        seeds = {kind: from_b64u(texts[kind], size=32) for kind in KINDS if kind in members}
        return WitnessKeys(
            texts["id"],
            texts["name"],
            Ed25519PrivateKey.from_private_bytes(seeds["ed25519"]) if "ed25519" in seeds else None,
            MLDSA44PrivateKey.from_seed_bytes(seeds["mldsa44"]) if "mldsa44" in seeds else None,
        )
    except (JSONError, KeyError) as error:
        raise WitnessKeyMalformed("not the key file of a witness", expected=_TYP) from error
    except WitnessKeyMalformed:
        raise
    except AffiantError as error:
        raise WitnessKeyMalformed("a seed that is not 32 bytes of base64url") from error
