"""Many that ask at once, in threads and processes: never two roots for one size, never a rollback."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.attestation.log.witness.conftest import FORK, LOG, NOW, ORIGIN, QUICK_KEYS, opened, request
from tests.attestation.log_builder import log_signer

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.log.witness.witness import Witness

_PROCESS = """
import base64, json, sys, time
from pathlib import Path
from affiant.attestation.tlog.note_keys import parse_vkey
from affiant.attestation.log.witness.evidence import EvidenceFolder
from affiant.attestation.log.witness.keys import read_key_file
from affiant.attestation.log.witness.state import open_state
from affiant.attestation.log.witness.witness import Witness

home, vkey, now = Path(sys.argv[1]), parse_vkey(sys.argv[2]), int(sys.argv[3])
requests = [(root, size, base64.urlsafe_b64decode(body + "==")) for root, size, body in json.load(sys.stdin)]
keys = read_key_file(home / "w.key")
with open_state(home / "w.key.sqlite", keys.identity) as state:
    witness = Witness(keys, {vkey.name: (vkey,)}, state, EvidenceFolder(home / "evidence"))
    given = []
    for root, size, body in requests:
        before = time.monotonic()
        if witness.add_checkpoint(body, now=now).status == 200:
            given.append((root, size, before, time.monotonic()))
print(json.dumps(given))
"""


def shuffled(seed: int, sizes: Iterable[int]) -> list[tuple[str, int, bytes]]:
    """Growth of both stories, one size after the other and each from every size before, in a random order nearby."""
    rng = random.Random(seed)
    found = []
    for size in sizes:
        for log in (LOG, FORK):
            for old in {size, max(0, size - 1), max(0, size - 2)}:
                root = log.checkpoint(size).root.hex()
                found.append((size + rng.uniform(-1.5, 1.5), (root, size, request(old, size, log))))
    return [each for _, each in sorted(found)]


def demand_one_story(given: list[tuple[str, int, float, float]]) -> None:
    roots: dict[int, str] = {}
    for root, size, _, _ in given:
        assert roots.setdefault(size, root) == root, f"two roots over {size} leaves were cosigned"
    stories = {root == LOG.checkpoint(size).root.hex() for root, size, _, _ in given if size > 0}
    assert len(stories) <= 1
    for _, size, _, ended in given:
        for _, later, began, _ in given:
            assert not (began > ended and later < size), f"{later} was cosigned after {size}"


@pytest.fixture
def eager() -> Iterator[None]:
    """Threads take turns far more often than they would."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager")
def test_threads_that_race_get_one_story(home: Path) -> None:
    given: list[tuple[str, int, float, float]] = []

    def ask(witness: Witness, seed: int) -> None:
        for root, size, body in shuffled(seed, range(1, 16)):
            began = time.monotonic()
            if witness.add_checkpoint(body, now=NOW).status == 200:
                given.append((root, size, began, time.monotonic()))

    with opened(home, QUICK_KEYS) as one, opened(home, QUICK_KEYS) as two, ThreadPoolExecutor(6) as pool:
        for each in [pool.submit(ask, (one, two)[seed % 2], seed) for seed in range(6)]:
            each.result()
        stored = one.state.stored(ORIGIN)
    demand_one_story(given)
    assert given and stored is not None and stored.size == max(size for _, size, _, _ in given)


def test_processes_that_race_get_one_story(home: Path) -> None:
    (home / "w.key").write_bytes(QUICK_KEYS.to_bytes())
    arguments = [sys.executable, "-c", _PROCESS, str(home), log_signer().verifier.vkey(), str(NOW)]
    processes = [
        subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    given: list[tuple[str, int, float, float]] = []
    for seed, process in enumerate(processes):
        assert process.stdin is not None
        json.dump(
            [(root, size, b64u(body)) for root, size, body in shuffled(seed, range(1, 40))], process.stdin
        )
        process.stdin.close()
        process.stdin = None
    for process in processes:
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        given += map(tuple, json.loads(out))
    demand_one_story(given)
    with opened(home, QUICK_KEYS) as witness:
        stored = witness.state.stored(ORIGIN)
        assert stored is not None and stored.size == max(size for _, size, _, _ in given)
