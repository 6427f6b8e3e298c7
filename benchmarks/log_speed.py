"""The log: proofs verified, leaves logged, and what a session's bundle weighs; against PyJWT, SQLite and sigstore.

Proofs and verifications are timed in this process's CPU time, so that other work on the machine is not counted; what
waits for the disk is timed by the wall. The sigstore peer is one DSSE bundle of a deployment of our own, offline.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from affiant.attestation.bundle.bundle import parse_bundle
from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import canonical, parse_canonical
from affiant.attestation.encoding.keys import public_jwk
from affiant.attestation.records.receipt import Issued
from affiant.attestation.tlog.note_signing import LogSigner
from affiant.attestation.tlog.tree import verify_inclusion
from affiant.attestation.tlog.tree_paths import MemoryNodes, inclusion_path, range_hash
from affiant.attestation.verdict.trust_file import parse_trust_file
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import verify_bundle
from affiant.gateway.log.transparency_log import LogBounds, TransparencyLog
from affiant.gateway.store.entries import RecordEntry
from affiant.gateway.store.journal import Place
from affiant.gateway.store.leaves import Logged
from benchmarks.timing import Figure, interleaved

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "attestation")]

LEAVES = 1 << 18
"""18 hashes in each proof."""
RECORDS = 60_000
GROUP = 1024
"""Records that the journal makes durable at once, at most."""
PROFILE = b"agent_configs: {bench: {filesystem_access: 'read-write:/workspace'}}\n"


def measure() -> list[Figure]:
    from story import Story  # noqa: PLC0415 - the tests' folder is no package

    story = Story().tell()
    record = next(each for each in story.gateway_records if each.payload["kind"] == "inference")
    key = jwt.PyJWK({**public_jwk(story.gateway_signer.public_key), "alg": "ES256"}).key
    options = {"verify_aud": False, "verify_iat": False, "verify_iss": False, "verify_exp": False}

    def decode() -> object:
        return jwt.decode(record.jws, key, algorithms=["ES256"], options=options)

    sigstore = _sigstore()
    proof, decoding = interleaved(_proof(), decode, count=2000, clock=time.process_time)
    _, signature = interleaved(decode, sigstore, count=20, clock=time.process_time)
    bundle, trust = _session()
    now = datetime.now(UTC)
    verdict = verify_bundle(bundle, trust, verifiers=STANDARD_VERIFIERS, at=now, build="bench")
    if verdict.level_state("L4") != "held":
        raise RuntimeError(f"the session's bundle does not hold: {verdict.level}")
    whole, _ = interleaved(
        lambda: verify_bundle(bundle, trust, verifiers=STANDARD_VERIFIERS, at=now, build="bench"),
        sigstore,
        count=10,
        clock=time.process_time,
    )
    logged, kept = _ingest(record.jws)
    collateral = sum(map(len, parse_bundle(bundle).endorsements.values()))
    return [
        Figure("inclusion proofs of 18 hashes", 1 / proof, "per second", "PyJWT decode", 1 / decoding),
        Figure("the same", 1 / proof, "per second", "sigstore DSSE", 1 / signature),
        Figure("leaves logged, durable", logged, "per second", "SQLite insert", kept),
        Figure("a session's bundle", len(bundle) / 1000, "kB", "its collateral", collateral / 1000),
        Figure("a session's bundle, verified", whole * 1000, "ms", "sigstore DSSE", signature * 1000),
    ]


def _proof() -> Callable[[], object]:
    leaves = [hashlib.sha256(n.to_bytes(8, "big")).digest() for n in range(LEAVES)]
    nodes = MemoryNodes(leaves)
    root = range_hash(nodes, 0, LEAVES)
    index = LEAVES // 3
    path = inclusion_path(nodes, index, LEAVES)
    return lambda: verify_inclusion(leaves[index], index=index, size=LEAVES, path=path, root=root)


def _sigstore() -> Callable[[], object]:
    """sigstore-python's own verification of one DSSE bundle, offline."""
    from attestation.published.conftest import AT, IDENTITY, ISSUER, STATEMENT  # noqa: PLC0415 - as above
    from sigstore.models import Bundle, TrustedRoot  # noqa: PLC0415 - an extra
    from sigstore.verify import Verifier, policy  # noqa: PLC0415 - as above
    from sigstore_authority.authority import Authority, encoded  # noqa: PLC0415 - as above

    authority = Authority()
    signed = Bundle.from_json(encoded(authority.sign(STATEMENT, identity=IDENTITY, issuer=ISSUER, at=AT)))
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(encoded(authority.trusted_root()))
        file.flush()
        verifier = Verifier(trusted_root=TrustedRoot.from_file(file.name))
    who = policy.OIDCIssuerV2(ISSUER)
    return lambda: verifier.verify_dsse(signed, who)


def _session() -> tuple[bytes, object]:
    """The bundle of ``affiant run``, and the trust file that was written before it."""
    with tempfile.TemporaryDirectory(prefix="affiant-bench-") as folder:
        place = Path(folder)
        (place / "profiles.yaml").write_bytes(PROFILE)
        (place / "work").mkdir()
        environment = {**os.environ, "AFFIANT_HOME": str(place / "home")}
        affiant = [sys.executable, "-m", "affiant"]
        trust = subprocess.run(
            [*affiant, "platform", "trust"], env=environment, check=True, capture_output=True
        ).stdout
        options = ["--min-isolation", "namespace", "--quiet", "--bundle", str(place / "bundle.json")]
        options += ["--profile", str(place / "profiles.yaml"), "--input", str(place / "work")]
        command = [*affiant, "run", *options, "--agent", "bench", "--", "true"]
        subprocess.run(command, env=environment, check=True)
        return (place / "bundle.json").read_bytes(), parse_trust_file(trust)


def _ingest(jws: str) -> tuple[float, float]:
    """Leaves a second through the gateway's log, tiles and checkpoints durable; and as rows of SQLite."""
    records = list(_records(jws))
    with tempfile.TemporaryDirectory(prefix="affiant-bench-", dir=Path.cwd()) as folder:
        return (
            RECORDS / asyncio.run(_logged(Path(folder) / "log", records)),
            RECORDS / _inserted(Path(folder) / "peer.sqlite", [issued.jws for issued in records]),
        )


def _records(jws: str) -> Iterator[Issued]:
    """Records of the same form and size, each of its own content, as their signer has them."""
    header, payload, signature = jws.split(".")
    members = parse_canonical(from_b64u(payload), limit=1 << 16)
    assert isinstance(members, dict)
    for number in range(RECORDS):
        payload = {**members, "seq": number}
        yield Issued(f"{header}.{b64u(canonical(payload))}.{signature}", (), payload)


async def _logged(folder: Path, records: list[Issued]) -> float:
    """Seconds; what the recorder does for a leaf, its hash above all, is among them."""
    signer = LogSigner("bench.affiant.invalid", Ed25519PrivateKey.generate())
    log = TransparencyLog(folder, signer, seconds=time.monotonic, bounds=LogBounds())
    place = Place(0, 0, 0)
    groups = [
        [
            (RecordEntry(jws=each.jws, jti="", kind="inference", seq=0), each)
            for each in records[at : at + GROUP]
        ]
        for at in range(0, len(records), GROUP)
    ]
    begin = time.perf_counter()
    for group in groups:
        log.on_durable([(Logged(entry, issued.leaf), place) for entry, issued in group])
    head = await log.include()
    taken = time.perf_counter() - begin
    await log.close()
    if head.checkpoint.size != RECORDS:
        raise RuntimeError(f"{head.checkpoint.size} leaves were logged")
    return taken


def _inserted(path: Path, records: list[str]) -> float:
    """The digests of the same records, in groups of the log's own size, each durable before the next."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE leaves (number INTEGER PRIMARY KEY, rh BLOB UNIQUE, claims TEXT) STRICT")
    begin = time.perf_counter()
    for at in range(0, len(records), 4 * GROUP):
        connection.execute("BEGIN")
        for number, jws in enumerate(records[at : at + 4 * GROUP], start=at):
            claims = json.loads(from_b64u(jws.split(".", 2)[1]))
            row = (number, hashlib.sha256(jws.encode()).digest(), f"{claims['kind']} {claims['seq']}")
            connection.execute("INSERT INTO leaves VALUES (?, ?, ?)", row)
        connection.execute("COMMIT")
    taken = time.perf_counter() - begin
    connection.close()
    return taken
