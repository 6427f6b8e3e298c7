"""A single bundle of 1, 8 and 64 MB: how long a verification takes, of distinct receipts and of a repeated one.

Distinct receipts cost a signature each; the peer is PyJWT's decode of the same tokens. The first repetition is refused
while the file is read; the peer is the reading of that file as JSON. How the work grows is held by a test
(``tests/attestation/verifier/test_linear_work.py``); this shows what it comes to.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import jwt

from affiant.attestation.bundle.bundle import Bundle, objects_by_digest
from affiant.attestation.encoding.keys import public_jwk
from affiant.attestation.verdict.trust_file import parse_trust_file
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import verify_bundle
from benchmarks.period_verification import STEP_S, records_of
from benchmarks.timing import Figure

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "attestation"))

SIZES = (1, 8, 64)
"""MiB."""
MIB = 1 << 20
SAMPLE = 2_000


class Collected:
    """Objects by the folder of an archive that they would be in."""

    def __init__(self) -> None:
        self.objects: dict[str, list[bytes]] = {}

    def put_object(self, folder: str, data: bytes) -> None:
        self.objects.setdefault(folder, []).append(data)


def measure(sizes: tuple[int, ...] = SIZES) -> list[Figure]:
    figures = []
    for size in sizes:
        kept, key, objects, trust, at = make(size)
        data = Bundle(receipts=kept, **objects).to_bytes()
        wall = judged(data, trust, at, refused=[])
        peer = decoded(kept, key) * len(kept)
        figures.append(Figure(f"{size} MB, {len(kept):,} receipts", wall, "s", "PyJWT decode of each", peer))
        document = json.loads(data)
        document["receipts"] = [document["receipts"][0]] * len(kept)
        repeated = json.dumps(document).encode()
        begun = time.process_time()
        json.loads(repeated)
        peer = time.process_time() - begun
        wall = judged(repeated, trust, at, refused=["fmt.bundle"])
        figures.append(Figure(f"{size} MB, one receipt repeated", wall, "s", "json.loads of the file", peer))
    return figures


def make(size: int) -> tuple[tuple[str, ...], dict[str, str], dict[str, Any], Any, Any]:
    """Receipts of at least ``size`` MiB in the order of their log, the gateway's key, and what else is in a bundle."""
    from story import NOW, Clock, Story, trust  # noqa: PLC0415 - the tests' folder is no package

    class Slow(Clock):
        def step(self, _seconds: float = 1) -> None:
            super().step(STEP_S)

    gateway = Story(clock=Slow(), expires=timedelta(days=1))
    gateway.next_seq = 0
    gateway.make_gateway()
    collected, texts, length = Collected(), [], 0
    for record in records_of(gateway, sys.maxsize, collected):
        texts.append(record.jws + "~")
        length += len(texts[-1])
        if length > size * MIB:
            break
    collected.put_object("keysets", gateway.gateway_statement.raw)
    collected.put_object("evidence", gateway.gateway_evidence)
    collected.put_object("endorsements", gateway.endorsements)
    for data in (gateway.policy, gateway.config.raw, gateway.reference):
        collected.put_object("policies", data)
    objects = {folder: objects_by_digest(found) for folder, found in collected.objects.items()}
    key = {**public_jwk(gateway.gateway_signer.public_key), "alg": "ES256", "kid": gateway.gateway_signer.kid}
    return tuple(texts), key, objects, parse_trust_file(trust().raw), NOW + timedelta(hours=12)


def judged(data: bytes, trust: Any, at: Any, *, refused: list[str]) -> float:
    """Seconds of the processor; the verdict is the one that it should be."""
    begun = time.process_time()
    verdict = verify_bundle(data, trust, verifiers=STANDARD_VERIFIERS, at=at, build="benchmark")
    wall = time.process_time() - begun
    found = [check.code for check in verdict.checks if str(check.state) == "refused"]
    if found != refused:
        raise AssertionError(f"refused: {found}")
    return wall


def decoded(texts: tuple[str, ...], key: dict[str, str]) -> float:
    """Seconds of the processor, of PyJWT for one of the tokens."""
    options = {"verify_aud": False, "verify_iat": False, "verify_iss": False, "verify_exp": False}
    of_gateway = [
        text[:-1] for text in texts[:SAMPLE] if jwt.get_unverified_header(text[:-1])["kid"] == key["kid"]
    ]
    public = jwt.PyJWK(key).key
    begun = time.process_time()
    for token in of_gateway:
        jwt.decode(token, public, algorithms=["ES256"], options=options)
    return (time.process_time() - begun) / len(of_gateway)


if __name__ == "__main__":
    for figure in measure(tuple(map(int, sys.argv[1:])) or SIZES):
        print(f"{figure.name:<32}{figure.value:>10.2f} {figure.unit:<5}{figure.ratio:>6.2f} x {figure.peer}")
