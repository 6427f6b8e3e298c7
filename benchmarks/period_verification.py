"""A period bundle of 1,000,000 receipts: how long ``affiant verify`` takes, and in how much memory.

The archive is synthetic and complete: real ES256 signatures, chains, epochs, a log with tiles, one session for each
1,000 receipts with its own simulated quote. Verification runs in a process of its own, which starts its workers as the
command does; the peer is PyJWT's decode of the same tokens in one process. Making the archive takes longer than
verifying it; ``python -m benchmarks.period_verification 100000`` makes a smaller one.

``python -m benchmarks.period_verification long`` measures one session of 1,000, 10,000 and 100,000 records instead.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Protocol

import jwt

from affiant.attestation.bundle.period.archive_reader import PeriodBundle
from affiant.attestation.bundle.period.draft import Draft
from affiant.attestation.bundle.period.layout import LINES_PER_FILE
from affiant.attestation.bundle.period.manifest import Range
from affiant.attestation.bundle.period.writer import write_archive
from affiant.attestation.encoding.keys import public_jwk
from affiant.attestation.records.receipt import Issued
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.growth import Growth
from affiant.attestation.tlog.note import signed
from affiant.attestation.verdict.trust_file import parse_trust_file
from affiant.attestation.verifier.period.verify_period import verify_period
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from benchmarks.timing import Figure, seconds

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "attestation"))

RECEIPTS = 1_000_000
EACH = 1_000
"""Receipts of one session; an agent's afternoon."""
LONG = (1_000, 10_000, 100_000)
"""Records of one long session."""
STEP_S = 0.002
SAMPLE = 2_000
MIB = 1 << 20


class Objects(Protocol):
    """Takes the objects that records name."""

    def put_object(self, folder: str, data: bytes) -> object: ...


def measure(count: int = RECEIPTS) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = make(folder, count)
        found = _verified(folder)
        wall, cpu = decoded(folder)
        peer = "PyJWT decode of each, in one process"
        return [
            Figure(f"period of {made:,} receipts", found["wall"], "s", peer, wall * made),
            Figure("its processor time", found["cpu"], "s", peer, cpu * made),
            Figure(
                "its memory at most", found["memory"] / MIB, "MiB", "the archive's size", found["size"] / MIB
            ),
        ]


def measure_long(counts: tuple[int, ...] = LONG) -> list[Figure]:
    """One session of each size, judged in one process; the memory's peer is the archive's size."""
    figures = []
    for count in counts:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make(folder, count, each=count, step_s=min(STEP_S, 40 / count))
            found = _verified(folder, processes=1)
            _, cpu = decoded(folder)
        peer = "PyJWT decode of each"
        figures.append(Figure(f"session of {count:,}: processor", found["cpu"], "s", peer, cpu * count))
        size, memory = found["size"] / MIB, found["memory"] / MIB
        figures.append(
            Figure(f"session of {count:,}: memory", memory, "MiB", f"{size:.0f} MiB archive", size)
        )
    return figures


def _verified(folder: Path, *, processes: int | None = None) -> dict[str, float]:
    """What :func:`verify` finds, in a process of its own."""
    more = [] if processes is None else [str(processes)]
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.period_verification", "verify", str(folder), *more],
        check=True,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parent.parent,
    )
    found: dict[str, float] = json.loads(run.stdout)
    return found


def make(folder: Path, count: int, *, each: int = EACH, step_s: float = STEP_S) -> int:
    """Write the archive, its trust file and the gateway's key; how many receipts it has."""
    from story import NOW, Clock, Story, trust_bytes  # noqa: PLC0415 - the tests' folder is no package

    class Slow(Clock):
        def step(self, _seconds: float = 1) -> None:
            super().step(step_s)

    gateway = Story(clock=Slow(), expires=timedelta(days=1))
    gateway.next_seq = 0
    gateway.make_gateway()
    draft, growth = Draft(folder / "draft"), Growth()
    draft.put_object("keysets", gateway.gateway_statement.raw)
    draft.put_object("evidence", gateway.gateway_evidence)
    for data in (gateway.policy, gateway.config.raw, gateway.reference):
        draft.put_object("policies", data)
    draft.put_object("endorsements", gateway.endorsements)
    total = 0

    def lines() -> Iterator[tuple[str, tuple[str, ...]]]:
        nonlocal total
        leaves = []
        for record in records_of(gateway, count, draft, each=each):
            leaves.append(_leaf(record))
            total += 1
            if len(leaves) == 4096:
                _grow(growth, leaves, draft)
                leaves = []
            yield record.jws, ()
        _grow(growth, leaves, draft)

    following, number = lines(), 0
    while draft.put_receipts(number, islice(following, LINES_PER_FILE)):
        number += 1
    checkpoint = Checkpoint(gateway.config.origin, growth.size, growth.root)
    draft.put_log("checkpoint", signed(checkpoint.to_text(), gateway.log_signer).to_bytes())
    asked = Range(None, None, gateway.config.origin, 0, total)
    write_archive(draft.folder, folder / "period.affiant.zip", asked=asked, exporter="benchmark")
    (folder / "trust.json").write_bytes(trust_bytes())
    key = {**public_jwk(gateway.gateway_signer.public_key), "alg": "ES256"}
    document = {"at": (NOW + timedelta(hours=12)).timestamp(), "key": key, "kid": gateway.gateway_signer.kid}
    (folder / "how.json").write_text(json.dumps(document))
    return total


def _leaf(record: Issued) -> bytes:
    from story import leaf_of  # noqa: PLC0415 - as above

    return leaf_of(record.jws).to_bytes()


def _grow(growth: Growth, leaves: list[bytes], draft: Draft) -> None:
    if leaves:
        for path, data in growth.grow(leaves).objects:
            draft.put_log(path, data)


def records_of(  # type: ignore[no-untyped-def]
    gateway, count: int, draft: Objects, *, each: int = EACH
) -> Iterator[Issued]:
    """Every record in the order of the log: sessions one after another under one gateway, epochs between."""
    keyset = gateway.gateway_statement.keyset_digest
    gateway.by_gateway("boot", "boot", {"ks": keyset, "bld": _build(), "col": gateway.col}, of_session=False)
    yield gateway.gateway_records[0]
    done, epoch = 1, gateway.clock.now
    while done < count:
        session = _session(gateway)
        draft.put_object("keysets", session.session_statement.raw)
        draft.put_object("evidence", session.session_evidence)
        draft.put_object("results", session.ear.encode())
        for record in _told(session, min(each, count - done)):
            done += 1
            yield record
            if gateway.clock.now - epoch > timedelta(seconds=50):
                epoch = gateway.clock.now
                done += 1
                gateway.by_gateway("epoch", "epoch", {"n": record_count(gateway), "inf": 0}, of_session=False)
                yield gateway.gateway_records.pop()


def record_count(gateway) -> int:  # type: ignore[no-untyped-def]
    return int(gateway.gateway.head.seq) + 1


def _build() -> str:
    from story import BUILD  # noqa: PLC0415 - as above

    return str(BUILD)


def _session(gateway):  # type: ignore[no-untyped-def]
    from story import Story  # noqa: PLC0415 - as above

    session = Story(expires=gateway.expires)
    session.clock = gateway.clock
    for name in (
        "gateway_signer",
        "ear_signer",
        "log_signer",
        "gateway_statement",
        "gateway_evidence",
        "gateway",
    ):
        setattr(session, name, getattr(gateway, name))
    session.endorsements, session.col = gateway.endorsements, gateway.col
    session.next_seq = 0
    session.make_session()
    return session


def _told(session, count: int) -> Iterator[Issued]:  # type: ignore[no-untyped-def]
    """One session: start, boot, as many answers as there is room for, end, close."""
    from affiant.attestation.statements.ear import ear_digest  # noqa: PLC0415 - as above

    att = {"ses": {"ear": ear_digest(session.ear), "tier": "none"}}
    start = {
        "pol": session._pol(),  # noqa: SLF001 - the story of the tests
        "att": att,
        "man": {"man": session.manifest.digest, "act": session.activation.digest},
        "ini": {"iss": "local", "method": "uid"},
        "iso": session.iso,
        "rfs": session.rootfs,
    }
    yield session.by_gateway("start", "session-start", start)
    own, keyset = session.session_statement.keyset_digest, session.gateway_statement.keyset_digest
    boot = {"ks": own, "gks": keyset, "bld": _build()}
    yield session.by_supervisor("session-boot", "boot", boot, of_session=False)
    upstream = {"id": "affiant-dev-echo", "host": "affiant-dev-echo.internal", "bind": "none", "res": "ok"}
    answers = max(1, count - 4)
    for number in range(answers):
        members = {
            "req": {"m": "POST", "p": "/v1/chat/completions"},
            "res": {"st": 200, "end": "complete"},
            "mdl": {"id": "affiant-dev-echo"},
            "use": {},
            "pol": session._pol(),  # noqa: SLF001 - the story of the tests
            "up": [upstream],
            "att": att,
        }
        yield session.by_gateway("inference", "inference", members, cseq=number)
    yield session.by_supervisor("end", "end", {"why": "shutdown", "cseq": answers - 1}, of_session=False)
    session.close()
    yield session.gateway_records[-1]


def decoded(folder: Path) -> tuple[float, float]:
    """Seconds of PyJWT for one of the archive's tokens: by the wall, and of the processor."""
    how = json.loads((folder / "how.json").read_text())
    key = jwt.PyJWK(how["key"]).key
    options = {"verify_aud": False, "verify_iat": False, "verify_iss": False, "verify_exp": False}
    with PeriodBundle(folder / "period.affiant.zip") as bundle:
        texts = islice((text[:-1] for text in bundle.receipts()), SAMPLE)
        tokens = [text for text in texts if jwt.get_unverified_header(text)["kid"] == how["kid"]]

    def all_of_them() -> None:
        for token in tokens:
            jwt.decode(token, key, algorithms=["ES256"], options=options)

    all_of_them()
    begun = time.process_time()
    wall = seconds(all_of_them, 3)
    return wall / len(tokens), (time.process_time() - begun) / 3 / len(tokens)


def _peak_kib() -> int:
    """Of this process alone: ``ru_maxrss`` would begin with the memory of the process that started it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise OSError("the kernel names no peak of memory")


def verify(folder: Path, processes: int) -> dict[str, float]:
    """In a process of its own: wall and processor time, and the memory of all its processes at most."""
    from datetime import UTC, datetime  # noqa: PLC0415 - this process alone

    how = json.loads((folder / "how.json").read_text())
    path, trust = folder / "period.affiant.zip", parse_trust_file((folder / "trust.json").read_bytes())
    begun = time.perf_counter()
    verdict = verify_period(
        path,
        trust,
        verifiers=STANDARD_VERIFIERS,
        at=datetime.fromtimestamp(how["at"], UTC),
        build="benchmark",
        processes=processes,
    )
    wall = time.perf_counter() - begun
    refused = [check.code for check in verdict.checks if str(check.state) == "refused"]
    if refused or verdict.level != "L2":
        raise AssertionError(f"the archive should be accepted at L2: {verdict.level}, {refused}")
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall": wall,
        "cpu": own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime,
        "memory": (_peak_kib() + (processes if processes > 1 else 0) * others.ru_maxrss) * 1024,
        "size": path.stat().st_size,
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["verify"]:
        workers = int(sys.argv[3]) if sys.argv[3:] else min(2, len(os.sched_getaffinity(0)))
        print(json.dumps(verify(Path(sys.argv[2]), workers)))
    else:
        long = sys.argv[1:2] == ["long"]
        sizes = tuple(map(int, sys.argv[2:])) or LONG
        for figure in (
            measure_long(sizes) if long else measure(int(sys.argv[1]) if sys.argv[1:] else RECEIPTS)
        ):
            print(
                f"{figure.name:<32}{figure.value:>10.1f} {figure.unit:<5}{figure.ratio:>6.2f} x {figure.peer}"
            )
