"""A log in a folder, written from entries by the pure modules alone, and every way to spoil it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey

from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.entry import LogEntry
from affiant.attestation.tlog.note import Note, NoteSigner, signed
from affiant.attestation.tlog.note_signing import Cosigner, LogSigner, MLDSACosigner
from affiant.attestation.tlog.tiles import TILE_WIDTH, Tile, bundles_of, encode_bundle, tiles_of
from affiant.attestation.tlog.tree_paths import MemoryNodes, consistency_path, range_hash

ORIGIN = "log.example/affiant"
NOW = 1_780_000_000


def seed(label: str) -> bytes:
    return hashlib.sha256(label.encode()).digest()


def log_signer(name: str = ORIGIN, label: str = "log") -> LogSigner:
    return LogSigner(name, Ed25519PrivateKey.from_private_bytes(seed(label)))


def cosigner(number: int, seconds: int = NOW) -> Cosigner:
    key = Ed25519PrivateKey.from_private_bytes(seed(f"witness {number}"))
    return Cosigner(f"witness.example/{number}", key, seconds)


def mldsa_cosigner(number: int, seconds: int = NOW) -> MLDSACosigner:
    key = MLDSA44PrivateKey.from_seed_bytes(seed(f"witness {number}"))
    return MLDSACosigner(f"witness.example/{number}", key, seconds)


def chain_id(label: str) -> bytes:
    return seed(f"chain {label}")[:16]


def entry(kind: str, chain: str, seq: int, iat: int = NOW, *, salt: str = "") -> LogEntry:
    return LogEntry(kind, chain_id(chain), seq, iat, seed(f"{kind} {chain} {seq} {iat} {salt}"))


def chain(label: str, count: int, *, start: int = NOW, step: int = 10, end: bool = False) -> list[LogEntry]:
    """A well-formed chain: boot, an epoch every 60 seconds, inferences between, and perhaps an end."""
    entries = []
    for seq in range(count):
        at = start + seq * step
        kind = "inference"
        if seq == 0:
            kind = "boot"
        elif end and seq == count - 1:
            kind = "end"
        elif (seq * step) % 60 == 0:
            kind = "epoch"
        entries.append(entry(kind, label, seq, at))
    return entries


class LogBuilder:
    """A log that grows in ``folder``; ``sign`` writes tiles and checkpoint as a log's writer would."""

    def __init__(self, folder: Path, entries: Iterable[LogEntry] = (), *, signer: LogSigner | None = None):
        self.folder = folder
        self.signer = signer or log_signer()
        self.leaves: list[bytes] = []
        self.nodes = MemoryNodes()
        self.add(entries)

    def add(self, entries: Iterable[LogEntry]) -> None:
        for each in entries:
            self.leaves.append(each.to_bytes())
            self.nodes.append(each.leaf_hash)

    def checkpoint(self, size: int | None = None) -> Checkpoint:
        size = len(self.leaves) if size is None else size
        return Checkpoint(self.signer.name, size, range_hash(self.nodes, 0, size))

    def note(self, size: int | None = None, *witnesses: NoteSigner) -> Note:
        return signed(self.checkpoint(size).to_text(), self.signer, *witnesses)

    def sign(self, *witnesses: NoteSigner, size: int | None = None, keep: bool = True) -> Note:
        """Write the tree of ``size`` leaves and its checkpoint.

        Args:
            keep: leave partial tiles that a full one has replaced, as the specification allows.
        """
        size = len(self.leaves) if size is None else size
        for tile in tiles_of(size):
            if not ((path := self.folder / tile.path()).exists() and tile.full):
                write(path, self.tile(tile))
        for bundle in bundles_of(size):
            first = bundle.index * TILE_WIDTH
            if not ((path := self.folder / bundle.path()).exists() and bundle.full):
                write(path, encode_bundle(self.leaves[first : first + bundle.width]))
        if not keep:
            for path in self.folder.rglob("*.p/*"):
                if path.parent.with_suffix("").exists():  # the full one stands
                    path.unlink()
        note = self.note(size, *witnesses)
        write(self.folder / "checkpoint", note.to_bytes())
        return note

    def tile(self, tile: Tile) -> bytes:
        first = tile.index * TILE_WIDTH
        return b"".join(self.nodes.node(8 * tile.level, at) for at in range(first, first + tile.width))

    def proof(self, old: int, new: int) -> Sequence[bytes]:
        return consistency_path(self.nodes, old, new)


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
