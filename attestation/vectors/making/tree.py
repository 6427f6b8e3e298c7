"""The log: leaves, tree hash and paths (RFC 9162, section 2.1), notes, checkpoints, cosignatures and proofs (C2SP)."""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = [
    "checkpoint",
    "consistency",
    "cosignature",
    "key_text",
    "leaf",
    "leaf_hash",
    "note",
    "parts",
    "path",
    "proof",
    "root",
    "signature_line",
    "spliced",
    "vkey",
    "witness_vkey",
]


def leaf(code: int, chn: bytes, seq: int, iat: int, rh: bytes) -> bytes:
    """The 66 bytes of a leaf."""
    return struct.pack(">BB16sQQ32s", 1, code, chn, seq, iat, rh)


def leaf_hash(data: bytes) -> bytes:
    """SHA-256(0x00 || leaf)."""
    return hashlib.sha256(b"\x00" + data).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def _split(size: int) -> int:
    """The largest power of two below ``size``."""
    return 1 << (size - 1).bit_length() - 1


def root(hashes: Sequence[bytes]) -> bytes:
    """The tree hash over leaf hashes."""
    if not hashes:
        return hashlib.sha256(b"").digest()
    if len(hashes) == 1:
        return hashes[0]
    at = _split(len(hashes))
    return _node(root(hashes[:at]), root(hashes[at:]))


def path(hashes: Sequence[bytes], index: int) -> list[bytes]:
    """PATH(index, D), from the leaf's sibling up (section 2.1.3.1)."""
    if len(hashes) <= 1:
        return []
    at = _split(len(hashes))
    if index < at:
        return [*path(hashes[:at], index), root(hashes[at:])]
    return [*path(hashes[at:], index - at), root(hashes[:at])]


def consistency(hashes: Sequence[bytes], old: int) -> list[bytes]:
    """PROOF(old, D) (section 2.1.4.1): that the tree over all ``hashes`` begins with that over the first ``old``."""
    return [] if old in (0, len(hashes)) else _subproof(hashes, old, known=True)


def _subproof(hashes: Sequence[bytes], old: int, *, known: bool) -> list[bytes]:
    if old == len(hashes):
        return [] if known else [root(hashes)]
    at = _split(len(hashes))
    if old <= at:
        return [*_subproof(hashes[:at], old, known=known), root(hashes[at:])]
    return [*_subproof(hashes[at:], old - at, known=False), root(hashes[:at])]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _key_id(name: str, key: bytes, algorithm: int = 1) -> bytes:
    return hashlib.sha256(name.encode() + bytes((10, algorithm)) + key).digest()[:4]


def vkey(name: str, key: Ed25519PrivateKey) -> str:
    """The public key as text (C2SP signed-note): name, key id, algorithm 1 and key."""
    return key_text(name, 1, key.public_key().public_bytes_raw())


def witness_vkey(name: str, key: Ed25519PrivateKey) -> str:
    """The public key of a witness as text: algorithm 4 (C2SP tlog-cosignature)."""
    return key_text(name, 4, key.public_key().public_bytes_raw())


def key_text(name: str, algorithm: int, public: bytes) -> str:
    """A public key as text."""
    identifier = _key_id(name, public, algorithm).hex()
    return f"{name}+{identifier}+{_base64(bytes((algorithm,)) + public)}"


def signature_line(name: str, algorithm: int, public: bytes, signature: bytes) -> str:
    """A line of a note (C2SP signed-note): name, key id and signature."""
    return f"\u2014 {name} {_base64(_key_id(name, public, algorithm) + signature)}\n"


def cosignature(text: str, name: str, key: Ed25519PrivateKey, seconds: int) -> str:
    """A witness's line over the checkpoint ``text``: its time in 8 bytes, then the signature over time and text."""
    public = key.public_key().public_bytes_raw()
    signature = key.sign(f"cosignature/v1\ntime {seconds}\n{text}".encode())
    return signature_line(name, 4, public, struct.pack(">Q", seconds) + signature)


def spliced(one: str, other: str, at: int) -> str:
    """base64 of the first ``at`` bytes of one and the rest of the other."""
    return _base64(base64.b64decode(one)[:at] + base64.b64decode(other)[at:])


def checkpoint(origin: str, size: int, tree_root: bytes, *extensions: str) -> str:
    """The text of a checkpoint (C2SP tlog-checkpoint)."""
    return "".join(f"{line}\n" for line in (origin, str(size), _base64(tree_root), *extensions))


def parts(text: str) -> tuple[str, int, bytes]:
    """Origin, size and root of a checkpoint's text."""
    origin, size, tree_root = text.split("\n")[:3]
    return origin, int(size), base64.b64decode(tree_root)


def note(text: str, name: str, key: Ed25519PrivateKey) -> str:
    """A signed note (C2SP signed-note)."""
    public = key.public_key().public_bytes_raw()
    return f"{text}\n{signature_line(name, 1, public, key.sign(text.encode()))}"


def proof(index: int, hashes: Sequence[bytes], signed: str) -> str:
    """A proof of inclusion that stands alone (C2SP tlog-proof)."""
    lines = ["c2sp.org/tlog-proof@v1", f"index {index}", *map(_base64, hashes), ""]
    return "".join(f"{line}\n" for line in lines) + signed
