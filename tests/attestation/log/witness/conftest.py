"""A log that can tell two stories, and a witness of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.attestation.log_builder import NOW, ORIGIN, LogBuilder, chain, log_signer

from affiant.attestation.log.witness.checkpoint_request import encode_submission
from affiant.attestation.log.witness.create import make_witness
from affiant.attestation.log.witness.evidence import EvidenceFolder
from affiant.attestation.log.witness.keys import WitnessKeys, make_keys
from affiant.attestation.log.witness.state import open_state
from affiant.attestation.log.witness.witness import Witness
from affiant.attestation.tlog.note import Note

LOG = LogBuilder(Path("unused"), chain("one", 64))
FORK = LogBuilder(Path("unused"), chain("other", 64))
LOGS = {ORIGIN: (log_signer().verifier,)}
NAME = "witness.example/w1"


def random_bytes(label: str) -> Callable[[int], bytes]:
    stream = iter(range(1000))
    return lambda size: hashlib.shake_256(f"{label} {next(stream)}".encode()).digest(size)


KEYS = make_keys(NAME, ("ed25519", "mldsa44"), random_bytes("witness"))
QUICK_KEYS = WitnessKeys(KEYS.identity, NAME, KEYS.ed25519, None)


def request(old: int, size: int, log: LogBuilder = LOG, note: Note | None = None) -> bytes:
    return encode_submission(old, log.proof(old, size) if old <= size else (), note or log.note(size))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a witness in it: w.key and w.key.sqlite."""
    make_witness(KEYS, tmp_path / "w.key", tmp_path / "w.key.sqlite")
    return tmp_path


@contextmanager
def opened(home: Path, keys: WitnessKeys = KEYS) -> Iterator[Witness]:
    with open_state(home / "w.key.sqlite", keys.identity) as state:
        yield Witness(keys, LOGS, state, EvidenceFolder(home / "evidence"))


@pytest.fixture
def witness(home: Path) -> Iterator[Witness]:
    with opened(home) as made:
        yield made


__all__ = ["FORK", "KEYS", "LOG", "LOGS", "NAME", "NOW", "ORIGIN", "QUICK_KEYS", "opened", "request"]
