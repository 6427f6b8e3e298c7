"""The log: in the journal's order, durable before it is signed, never forked, never ahead of itself."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.merkle import leaf_hash
from affiant.attestation.tlog.checkpoint import Checkpoint, parse_checkpoint
from affiant.attestation.tlog.entry import parse_entry
from affiant.attestation.tlog.errors import TileMalformed
from affiant.attestation.tlog.note import parse_note, signed
from affiant.attestation.tlog.note_signing import LogSigner
from affiant.attestation.tlog.proof import verify_log_proof
from affiant.attestation.tlog.tiles import EntryBundle, Tile, bundles_of, decode_bundle, tiles_of
from affiant.attestation.tlog.tree import verify_consistency
from affiant.gateway.log import log_files
from affiant.gateway.log.transparency_log import LogBounds, TransparencyLog
from affiant.gateway.store.entries import ObjectEntry, PeerEntry, RecordEntry
from affiant.gateway.store.journal import Place
from affiant.gateway.store.leaves import Logged, leaf_of
from affiant.gateway.wire.errors import LogDamaged, LogUnavailable

SIGNER = LogSigner("log.example/one", Ed25519PrivateKey.from_private_bytes(b"k" * 32))
QUICK = LogBounds(interval_s=0.01)
HERE = Place(0, 0, 0)


def record(number: int, *, kind: str = "inference") -> str:
    """Shaped as a record's JWS is; who wrote it is not the log's question."""
    claims = {"kind": kind, "chn": b64u(b"c" * 16), "seq": number, "iat": 1_780_000_000 + number, "x": "more"}
    return f"e30.{b64u(json.dumps(claims).encode())}.c2ln"


def rh(jws: str) -> bytes:
    return hashlib.sha256(jws.encode()).digest()


def hand_in(log: TransparencyLog, *texts: str) -> None:
    entries = [RecordEntry(jws=text, jti="", kind="", seq=0) for text in texts]
    log.on_durable([(Logged(entry, leaf_of(entry.jws)), HERE) for entry in entries])


def run(
    folder: Path,
    scenario: Callable[[TransparencyLog], Coroutine[Any, Any, None]],
    *,
    signer: LogSigner = SIGNER,
    bounds: LogBounds = QUICK,
    seconds: Callable[[], float] = lambda: 0.0,
) -> None:
    async def whole() -> None:
        log = TransparencyLog(folder, signer, seconds=seconds, bounds=bounds)
        try:
            await scenario(log)
        finally:
            await log.close()

    asyncio.run(whole())


def leaves_in(folder: Path) -> list[bytes]:
    note = parse_note((folder / "checkpoint").read_bytes())
    size = parse_checkpoint(note.text).size
    found: list[bytes] = []
    for bundle in bundles_of(size):
        found += decode_bundle((folder / bundle.path()).read_bytes(), bundle.width)
    return found


def test_what_becomes_durable_gets_its_leaf_in_that_order(tmp_path: Path) -> None:
    async def scenario(log: TransparencyLog) -> None:
        first, second = record(0, kind="boot"), record(1)
        log.on_durable(
            [
                (Logged(RecordEntry(jws=first, jti="", kind="boot", seq=0), leaf_of(first)), HERE),
                (ObjectEntry(map="keysets", data=""), HERE),
                (Logged(PeerEntry(jws=second, ses="", seq=1), leaf_of(second)), HERE),
            ]
        )
        head = await log.include()
        assert head.checkpoint.size == 2
        found = [parse_entry(data) for data in leaves_in(tmp_path)]
        assert [entry.rh for entry in found] == [rh(first), rh(second)]
        assert (found[0].kind, found[1].seq, found[1].iat) == ("boot", 1, 1_780_000_001)
        assert log.backlog == 0

    run(tmp_path, scenario)


def test_every_record_has_a_proof_that_stands_alone(tmp_path: Path) -> None:
    texts = [record(number) for number in range(300)]

    async def scenario(log: TransparencyLog) -> None:
        for start in range(0, 300, 70):
            hand_in(log, *texts[start : start + 70])
            await log.include()
        proofs = await log.prove([rh(text) for text in (*texts, record(999))], log.head)
        assert proofs.pop() is None
        for number, (text, proof) in enumerate(zip(texts, proofs, strict=True)):
            assert proof is not None
            found = verify_log_proof(
                proof, leaf_of(text).leaf_hash, log=[SIGNER.verifier], origin=SIGNER.name
            )
            assert (found.index, found.checkpoint.size) == (number, 300)

    run(tmp_path, scenario)


def test_nobody_waits_for_the_interval_who_needs_a_proof_now(tmp_path: Path) -> None:
    async def scenario(log: TransparencyLog) -> None:
        hand_in(log, record(0))
        async with asyncio.timeout(5):
            assert (await log.include()).checkpoint.size == 1
            assert (await log.include()).checkpoint.size == 1

    run(tmp_path, scenario, bounds=LogBounds(interval_s=600))


def test_a_closed_log_has_logged_everything_it_was_given(tmp_path: Path) -> None:
    async def scenario(log: TransparencyLog) -> None:
        hand_in(log, *map(record, range(10)))

    run(tmp_path, scenario, bounds=LogBounds(interval_s=600))
    assert len(leaves_in(tmp_path)) == 10


@pytest.mark.parametrize("size", [0, 1, 255, 256, 300, 512])
def test_the_next_boot_goes_on_and_what_it_signs_is_consistent(tmp_path: Path, size: int) -> None:
    heads: list[Checkpoint] = []

    async def first(log: TransparencyLog) -> None:
        hand_in(log, *map(record, range(size)))
        heads.append((await log.include()).checkpoint)

    async def second(log: TransparencyLog) -> None:
        assert log.head.checkpoint == heads[0]
        hand_in(log, *map(record, range(size, size + 40)))
        heads.append((await log.include()).checkpoint)
        proofs = await log.prove([rh(record(number)) for number in range(size + 40)], log.head)
        assert all(proof is not None for proof in proofs)

    run(tmp_path, first)
    run(tmp_path, second)
    old, new = heads
    leaves = leaves_in(tmp_path)
    from affiant.attestation.tlog.tree_paths import MemoryNodes, consistency_path

    path = consistency_path(MemoryNodes(map(leaf_hash, leaves)), old.size, new.size)
    verify_consistency(old=old.size, old_root=old.root, new=new.size, new_root=new.root, path=path)


def test_its_files_are_exactly_those_of_its_size(tmp_path: Path) -> None:
    async def scenario(log: TransparencyLog) -> None:
        hand_in(log, *map(record, range(600)))
        await log.include()

    run(tmp_path, scenario)
    expected = {tile.path() for tile in tiles_of(600)} | {bundle.path() for bundle in bundles_of(600)}
    expected |= {"checkpoint"}
    found = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert {path for path in found if not path.startswith("index.sqlite")} == expected


def test_partial_files_go_once_the_full_ones_are_there_and_older_proofs_still_verify(tmp_path: Path) -> None:
    async def scenario(log: TransparencyLog) -> None:
        hand_in(log, *map(record, range(200)))
        old = await log.include()
        hand_in(log, *map(record, range(200, 300)))
        await log.include()
        assert not (tmp_path / "tile/0/000.p").exists()
        (proof,) = log._prove(old, [rh(record(150))])
        assert proof is not None
        verify_log_proof(proof, leaf_of(record(150)).leaf_hash, log=[SIGNER.verifier], origin=SIGNER.name)

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    "harm",
    [
        "tile",
        "bundle",
        "checkpoint",
        "no checkpoint",
        "rolled back",
        "another key",
        "another origin",
        "index",
    ],
)
def test_a_log_that_is_not_what_it_signed_is_never_gone_on_with(tmp_path: Path, harm: str) -> None:
    folder = tmp_path / "log"

    async def grow(log: TransparencyLog) -> None:
        hand_in(log, *map(record, range(300)))
        await log.include()

    async def never(log: TransparencyLog) -> None:
        raise AssertionError("it was gone on with")

    run(folder, grow)
    signer, checkpoint = SIGNER, folder / "checkpoint"
    match harm:
        case "tile":
            path = folder / Tile(0, 1, 44).path()
            path.write_bytes(path.read_bytes()[:-1] + b"\0")
        case "bundle":
            path = folder / EntryBundle(1, 44).path()
            path.write_bytes(path.read_bytes()[:-1] + b"\0")
        case "checkpoint":
            checkpoint.write_bytes(checkpoint.read_bytes().replace(b"\n300\n", b"\n299\n"))
        case "no checkpoint":
            checkpoint.unlink()
        case "rolled back":
            root = leaf_hash(leaves_in(folder)[0])
            checkpoint.write_bytes(signed(Checkpoint(SIGNER.name, 1, root).to_text(), SIGNER).to_bytes())
            (folder / "tile/0/000.p").mkdir(parents=True)
            (folder / "tile/entries/000.p").mkdir(parents=True)
            (folder / Tile(0, 0, 1).path()).write_bytes(root)
            (folder / EntryBundle(0, 1).path()).write_bytes(b"\0\x42" + leaves_in_first(folder))
        case "another key":
            signer = LogSigner(SIGNER.name, Ed25519PrivateKey.from_private_bytes(b"x" * 32))
        case "another origin":
            signer = LogSigner("log.example/two", SIGNER.private_key)
        case "entries":
            (folder / EntryBundle(0).path()).unlink()
            (folder / "index.sqlite").unlink()
        case "index":
            shutil.rmtree(folder / "tile/entries")
            (folder / "index.sqlite").unlink()
    with pytest.raises(LogDamaged) as refused:
        run(folder, never, signer=signer)
    assert refused.value.code == "log.damaged"


def leaves_in_first(folder: Path) -> bytes:
    return decode_bundle((folder / EntryBundle(0).path()).read_bytes(), 256)[0]


def test_a_lost_or_foreign_index_is_rebuilt_from_the_log(tmp_path: Path) -> None:
    async def grow(log: TransparencyLog) -> None:
        hand_in(log, *map(record, range(300)))
        await log.include()

    async def prove(log: TransparencyLog) -> None:
        assert all(
            proof is not None for proof in await log.prove([rh(record(n)) for n in range(300)], log.head)
        )

    run(tmp_path, grow)
    for content in (None, b"not a database at all" * 50):
        for path in tmp_path.glob("index.sqlite*"):
            path.unlink()
        if content is not None:
            (tmp_path / "index.sqlite").write_bytes(content)
        run(tmp_path, prove)


def test_a_crash_before_the_checkpoint_leaves_a_log_that_goes_on_without_what_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tiles are there and no checkpoint implies them: the records of the dead boot get no leaf any more."""

    async def first(log: TransparencyLog) -> None:
        hand_in(log, *map(record, range(250)))
        await log.include()
        real = log._files.write

        def dies(path: str, data: bytes) -> None:
            if path == "checkpoint":
                raise OSError(5, "the power is gone")
            real(path, data)

        monkeypatch.setattr(log._files, "write", dies)
        hand_in(log, *map(record, range(250, 260)))
        with pytest.raises(LogUnavailable):
            await log.include()

    async def second(log: TransparencyLog) -> None:
        assert log.head.checkpoint.size == 250
        hand_in(log, *map(record, range(900, 930)))
        await log.include()
        lost, kept = await log.prove([rh(record(255)), rh(record(900))], log.head)
        assert lost is None
        assert kept is not None
        assert kept.index == 250

    run(tmp_path, first)
    run(tmp_path, second)


def test_a_full_disk_stops_admission_with_a_stable_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(log: TransparencyLog) -> None:
        log.require()

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(log_files.os, "write", full)
        hand_in(log, record(0))
        with pytest.raises(LogUnavailable) as refused:
            await log.include()
        monkeypatch.undo()
        assert "No space left" in str(refused.value)
        with pytest.raises(LogUnavailable) as refused:
            log.require()
        assert refused.value.code == "log.unavailable"
        with pytest.raises(LogUnavailable):
            await log.include()
        assert log.head.checkpoint.size == 0

    run(tmp_path, scenario)


@pytest.mark.parametrize(("count", "later"), [(11, 0.0), (1, 61.0)])
def test_a_log_that_is_behind_its_bound_stops_admission(tmp_path: Path, count: int, later: float) -> None:
    now = [0.0]

    async def scenario(log: TransparencyLog) -> None:
        hand_in(log, *map(record, range(count - 1)))
        log.require()
        hand_in(log, record(count))
        now[0] = later
        with pytest.raises(LogUnavailable, match="behind"):
            log.require()
        await log.include()
        log.require()

    run(tmp_path, scenario, bounds=LogBounds(interval_s=600, backlog=10), seconds=lambda: now[0])


def test_only_what_the_checkpoint_implies_is_handed_out(tmp_path: Path) -> None:
    async def scenario(log: TransparencyLog) -> None:
        hand_in(log, *map(record, range(300)))
        await log.include()
        (tmp_path / "tile/0/001").write_bytes(b"not signed for")
        assert log.read("tile/0/001") is None
        assert log.read("tile/0/001.p/45") is None
        assert log.read("tile/2/000.p/1") is None
        assert len(log.read("tile/0/001.p/44") or b"") == 44 * 32
        assert len(log.read("tile/0/000") or b"") == 256 * 32
        assert log.read("checkpoint") == log.head.note.to_bytes()
        for path in ("index.sqlite", "../log.key", "tile/0/../0/000", "tile/0/000.p/256", ""):
            with pytest.raises(TileMalformed):
                log.read(path)

    run(tmp_path, scenario)


def test_a_link_in_the_folder_is_not_followed(tmp_path: Path) -> None:
    async def scenario(log: TransparencyLog) -> None:
        hand_in(log, *map(record, range(300)))
        await log.include()
        secret = tmp_path / "secret"
        secret.write_bytes(b"s" * 8192)
        (tmp_path / "tile/0/000").unlink()
        os.symlink(secret, tmp_path / "tile/0/000")
        with pytest.raises(LogUnavailable):
            log.read("tile/0/000")

    run(tmp_path, scenario)
