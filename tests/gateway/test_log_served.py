"""The log as others see it: proofs that stand alone, tiles over HTTP, one tree across boots."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.gateway.conftest import Gateway
from tests.gateway.in_process import InProcess, in_process
from tests.gateway.session_client import SessionClient

from affiant.attestation.bundle.bundle import parse_bundle
from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.records.receipt import parse_receipt, receipt_hash
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.statements.statement import KeysetStatement, parse_statement
from affiant.attestation.tlog.checkpoint import Checkpoint, parse_checkpoint
from affiant.attestation.tlog.entry import parse_entry
from affiant.attestation.tlog.note import parse_note, verify_note
from affiant.attestation.tlog.proof import parse_log_proof, verify_log_proof
from affiant.attestation.tlog.tiles import Tile, TileNodes, bundles_of, decode_bundle
from affiant.attestation.tlog.tree import verify_consistency
from affiant.attestation.tlog.tree_paths import consistency_path, range_hash
from affiant.gateway.log.log_key import load_log_signer
from affiant.gateway.log.transparency_log import log_folder
from affiant.gateway.store.leaves import leaf_of
from affiant.gateway.wire.errors import LogDamaged


def statement_of(gateway: Gateway) -> KeysetStatement:
    return parse_statement(gateway.ask("GET", "/.well-known/affiant/keyset").body)


def checkpoint_of(gateway: Gateway) -> Checkpoint:
    answer = gateway.ask("GET", "/log/checkpoint")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    note = parse_note(answer.body)
    log = statement_of(gateway).log
    assert log is not None
    verify_note(note, [log.key])
    return parse_checkpoint(note.text)


def tile_of(gateway: Gateway, tile: Tile) -> bytes:
    return gateway.ask("GET", f"/log/{tile.path()}").body


def test_a_receipt_is_proven_to_be_in_the_log_by_text_that_stands_alone(
    session: SessionClient, gateway: Gateway
) -> None:
    jti = session.say("hi").headers["affiant-receipt-id"]
    receipt = parse_receipt(session.ask("GET", f"/v1/receipts/{jti}").body.decode())
    proof = parse_log_proof(session.ask("GET", f"/v1/receipts/{jti}/proof").body)
    log = statement_of(gateway).log
    assert log is not None
    found = verify_log_proof(proof, leaf_of(receipt.jws).leaf_hash, log=[log.key], origin=log.origin)
    assert found.checkpoint.size > found.index


def test_the_proof_of_another_sessions_receipt_looks_like_none(
    session: SessionClient, gateway: Gateway, platform: PlatformClient
) -> None:
    jti = session.say("hi").headers["affiant-receipt-id"]
    other = SessionClient.start(gateway, platform)
    assert other.ask("GET", f"/v1/receipts/{jti}/proof").status == 404


def test_the_tiles_lead_to_the_signed_root_and_hold_every_record(
    session: SessionClient, gateway: Gateway
) -> None:
    session.say("hi")
    bundle = parse_bundle(json.dumps(session.bundle()["bundle"]).encode())
    found = checkpoint_of(gateway)
    nodes = TileNodes(found.size, lambda tile: tile_of(gateway, tile))
    assert range_hash(nodes, 0, found.size) == found.root
    entries = [
        parse_entry(entry)
        for each in bundles_of(found.size)
        for entry in decode_bundle(gateway.ask("GET", f"/log/{each.path()}").body, each.width)
    ]
    logged = {entry.rh for entry in entries}
    texts = [text.partition("~")[0] for text in bundle.receipts]
    assert {hashlib.sha256(text.encode()).digest() for text in texts} <= logged
    assert {receipt_hash(text) for text in texts} == set(bundle.proofs)


@pytest.mark.parametrize(
    "path",
    [
        "tile/0/999",
        "tile/9/000",
        "tile/0/000.p/256",
        "tile/0/..%2f..%2fkey.json",
        "tile/",
        "key.json",
        "index.sqlite",
    ],
)
def test_nothing_else_of_the_folder_is_served(gateway: Gateway, path: str) -> None:
    answer = gateway.ask("GET", f"/log/{path}")
    assert answer.status == 404
    assert b"ed25519" not in answer.body


def test_an_acknowledgement_names_the_leaf_that_the_log_will_hold(
    gateway: Gateway, platform: PlatformClient
) -> None:
    session = SessionClient.start(gateway, platform, boot=False)
    record = session.boot_record()
    leaf = from_b64u(session.submit(record).json()["leaf"])
    assert leaf == leaf_of(record.jws).leaf_hash
    proof = parse_bundle(json.dumps(session.bundle()["bundle"]).encode()).proofs[record.rh]
    log = statement_of(gateway).log
    assert log is not None
    verify_log_proof(parse_log_proof(proof.encode()), leaf, log=[log.key], origin=log.origin)


def test_one_tree_goes_on_across_boots(platform: PlatformClient, tmp_path: Path) -> None:
    heads: list[Checkpoint] = []
    for _ in range(3):
        with in_process(platform, tmp_path) as inside:
            SessionClient.start(inside, platform).say("hi")
            inside.run(inside.service.log.include())
            new = checkpoint_of(inside)
            nodes = TileNodes(new.size, lambda tile, inside=inside: tile_of(inside, tile))
            assert range_hash(nodes, 0, new.size) == new.root
            for old in heads:
                path = consistency_path(nodes, old.size, new.size)
                verify_consistency(
                    old=old.size, old_root=old.root, new=new.size, new_root=new.root, path=path
                )
            heads.append(new)
    assert heads[0].size < heads[1].size < heads[2].size
    assert len({head.origin for head in heads}) == 1


def test_every_boot_binds_the_same_log_key_by_its_quote(platform: PlatformClient, tmp_path: Path) -> None:
    keys = []
    for _ in range(2):
        with in_process(platform, tmp_path) as inside:
            log = statement_of(inside).log
            assert log is not None
            keys.append((log.origin, log.key.vkey(), log.kept))
            assert log.origin == inside.service.config.origin
    assert keys[0] == keys[1]
    assert keys[0][2] == "file"


def test_what_an_earlier_boot_could_not_log_is_never_logged_later(
    platform: PlatformClient, tmp_path: Path
) -> None:
    """The store is the operator's: what lies in its journal makes no leaf (trust rules, 2)."""

    def loses_power(inside: InProcess) -> None:
        inside.run(inside.service.log.include())

        def full(*_: object) -> None:
            raise OSError(5, "the power is gone")

        inside.service.log._own._files.settle = full  # type: ignore[method-assign]

    with in_process(platform, tmp_path) as inside:
        session = SessionClient.start(inside, platform)
        loses_power(inside)
        session.say("hi")
        lost = next(iter(inside.service.sessions)).head
        assert lost is not None
    with in_process(platform, tmp_path) as inside:
        inside.run(inside.service.log.include())
        log = inside.service.log
        (proof,) = inside.run(log.prove([from_b64u(lost.rh)], log.head))
        assert proof is None
        answer = json.loads(inside.run(inside.service.bundles.of_session(session.id)))
        bundle = parse_bundle(json.dumps(answer["bundle"]).encode())
        assert lost.rh not in bundle.proofs
        assert bundle.proofs


def test_a_log_that_cannot_be_written_stops_admission_and_requests(
    platform: PlatformClient, tmp_path: Path
) -> None:
    with in_process(platform, tmp_path) as inside:
        session = SessionClient.start(inside, platform)
        assert session.say("hi").status == 200

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        inside.service.log._own._files.write = full  # type: ignore[method-assign]
        session.say("the last one")
        for _ in range(200):
            if not inside.service.log.keeps_up:
                break
            time.sleep(0.02)
        assert inside.ask("GET", "/readyz").status == 503
        refused = session.say("one more")
        assert (refused.status, refused.json()["error"]["code"]) == (503, "log.unavailable")
        bundle = parse_bundle(json.dumps(session.bundle()["bundle"]).encode())
        assert bundle.proofs == {}, "what there is is handed out, without proofs"


# -- the key -----------------------------------------------------------------------------------------------------


def test_the_key_is_private_and_stays_the_same(tmp_path: Path) -> None:
    one, two = load_log_signer(tmp_path, "log.example"), load_log_signer(tmp_path, "log.example")
    assert one.verifier == two.verifier
    assert (tmp_path / "key.json").stat().st_mode & 0o777 == 0o600
    assert one.private_key.private_bytes_raw().hex() not in repr(one)


@pytest.mark.parametrize("harm", ["gone", "garbage", "others can read", "another log", "more", "link"])
def test_a_key_that_is_not_this_logs_own_is_refused_and_never_shown(tmp_path: Path, harm: str) -> None:
    signer, origin, path = load_log_signer(tmp_path, "log.example"), "log.example", tmp_path / "key.json"
    (tmp_path / "checkpoint").write_bytes(b"there is a log")
    secret = json.loads(path.read_bytes())["ed25519"]
    match harm:
        case "gone":
            path.unlink()
        case "garbage":
            path.write_bytes(path.read_bytes()[:-3])
        case "others can read":
            path.chmod(0o644)
        case "another log":
            origin = "log.example/other"
        case "more":
            path.write_bytes(path.read_bytes().replace(b'{"', b'{"a":1,"', 1))
        case "link":
            path.rename(tmp_path / "elsewhere")
            path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Exception) as refused:
        load_log_signer(tmp_path, origin)
    assert refused.value.code in {"log.damaged", "log.unavailable"}  # type: ignore[attr-defined]
    assert secret not in str(refused.value)
    assert isinstance(signer.private_key, Ed25519PrivateKey)


def test_a_gateway_does_not_start_on_a_log_that_is_not_what_it_signed(
    platform: PlatformClient, tmp_path: Path
) -> None:
    with in_process(platform, tmp_path) as inside:
        origin = inside.service.config.origin
        inside.run(inside.service.log.include())
    folder = log_folder(tmp_path, origin)
    (folder / "checkpoint").unlink()
    with pytest.raises(LogDamaged), in_process(platform, tmp_path):
        raise AssertionError("it started")
