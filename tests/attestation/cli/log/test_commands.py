"""`affiant log`: what it says, its exit codes, and nothing written but what was asked for."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from tests.attestation.log_builder import LogBuilder, chain, cosigner, log_signer, write
from tests.attestation.log_reading.conftest import VKEY
from tests.attestation.log_reading.test_log_trust import POLICY
from tests.attestation.log_server import served

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.tlog.entry import parse_entry
from affiant.attestation.tlog.proof import parse_log_proof, verify_log_proof

Run = Callable[..., Result]


def test_show_prints_checkpoint_signatures_and_leaves(built: LogBuilder, run: Run) -> None:
    built.sign(cosigner(1))
    done = run("log", "show", built.folder, "--from", 299, "--to", 302, "--key", VKEY)
    assert done.exit_code == 0
    fields = [line.split() for line in done.output.splitlines()]
    assert ["size", "700"] in fields and "witness.example/1" in done.output
    assert ["signature", "checked", "yes"] in fields
    rows = [line for line in done.output.splitlines() if line.lstrip()[:1].isdigit()]
    assert [row.split()[0] for row in rows] == ["299", "300", "301"] and rows[1].split()[1] == "boot"
    assert done.output.splitlines()[-1] == "The checkpoint was verified under the key given."
    unchecked = run("log", "show", built.folder)
    assert unchecked.exit_code == 0 and "not checked" in unchecked.stderr
    assert "verified under" not in unchecked.output


def test_show_json_is_one_document_the_same_over_http(built: LogBuilder, run: Run) -> None:
    with served(built.folder) as url:
        done = [
            json.loads(run("log", "show", where, "--json", "--key", VKEY).stdout)
            for where in (built.folder, url)
        ]
    assert done[0] == done[1] and len(done[0]["leaves"]) == 20
    assert done[0]["leaves"][-1]["kind"] == "end" and done[0]["signature_checked"] is True


def test_fsck_says_whether_everything_is_as_signed(built: LogBuilder, run: Run) -> None:
    assert run("log", "fsck", built.folder, "--key", VKEY).exit_code == 0
    with served(built.folder) as url:
        searched = run("log", "fsck", url, "--key", VKEY)
        assert searched.exit_code == 0 and "were not looked for" in searched.output
    write(built.folder / "strange", b"")
    assert run("log", "fsck", built.folder, "--key", VKEY).exit_code == 10
    path = built.folder / "tile/0/001"
    write(path, path.read_bytes()[:-1])
    done = run("log", "fsck", built.folder, "--key", VKEY, "--json")
    assert done.exit_code == 20
    assert "log.tile" in {each["code"] for each in json.loads(done.stdout)["problems"]}


@pytest.mark.parametrize("as_json", [False, True])
def test_a_forged_checkpoint_is_refused_before_anything_is_read(
    built: LogBuilder, run: Run, *, as_json: bool
) -> None:
    other = LogBuilder(built.folder, chain("one", 3), signer=log_signer(label="thief"))
    other.sign()
    done = run("log", "fsck", built.folder, "--key", VKEY, *(["--json"] if as_json else []))
    assert done.exit_code == 20 and "note.signature" in done.output
    for command in (["show"], ["prove", "0", "-o", built.folder / "out"]):
        name, *rest = command
        assert run("log", name, built.folder, *rest, "--key", VKEY).exit_code == 20
    assert not (built.folder / "out").exists()


def test_a_quorum_is_demanded_where_a_policy_names_one(built: LogBuilder, run: Run, tmp_path: Path) -> None:
    (tmp_path / "policy").write_bytes(POLICY)
    done = run("log", "fsck", built.folder, "--policy", tmp_path / "policy")
    assert done.exit_code == 20 and "wit.quorum" in done.output


def test_prove_writes_a_proof_that_stands_alone(built: LogBuilder, run: Run, tmp_path: Path) -> None:
    leaf = parse_entry(built.leaves[321])
    for number, name in enumerate(("321", b64u(leaf.rh), leaf.rh.hex(), f"sha256:{leaf.rh.hex()}")):
        out = tmp_path / f"{number}.tlog-proof"
        done = run("log", "prove", built.folder, name, "-o", out, "--key", VKEY, "--json")
        assert done.exit_code == 0 and json.loads(done.stdout)["index"] == 321
        proof = parse_log_proof(out.read_bytes())
        key = built.signer.verifier
        assert verify_log_proof(proof, leaf.leaf_hash, log=[key], origin=key.name).index == 321


def test_prove_overwrites_nothing_and_refuses_what_is_not_there(
    built: LogBuilder, run: Run, tmp_path: Path
) -> None:
    out = tmp_path / "there"
    out.write_text("mine")
    assert run("log", "prove", built.folder, "1", "-o", out).exit_code == 2
    assert out.read_text() == "mine"
    assert run("log", "prove", tmp_path / "no-log", "1", "-o", out).exit_code == 2
    for leaf in ("700", "0" * 64):
        done = run("log", "prove", built.folder, leaf, "-o", tmp_path / "new")
        assert done.exit_code == 20 and "log.no_such_leaf" in done.output
    for leaf in ("x", "-1", "007", "A" * 43 + "="):
        assert run("log", "prove", "-o", tmp_path / "new", built.folder, "--", leaf).exit_code == 2
    assert run("log", "prove", built.folder, "1", "-o", tmp_path / "no" / "new").exit_code == 2
    assert not (tmp_path / "new").exists()


def test_consistency_holds_or_names_the_contradiction(built: LogBuilder, run: Run, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(built.note(300).to_bytes())
    new.write_bytes(built.note(512).to_bytes())
    assert run("log", "consistency", built.folder, old, "--key", VKEY).exit_code == 0
    done = run("log", "consistency", built.folder, old, new, "--key", VKEY, "--json")
    assert done.exit_code == 0 and (json.loads(done.stdout)["old"], json.loads(done.stdout)["new"]) == (
        300,
        512,
    )
    other = LogBuilder(tmp_path / "fork", chain("fork", 300))
    old.write_bytes(other.note().to_bytes())
    done = run("log", "consistency", built.folder, old, "--key", VKEY)
    assert done.exit_code == 20 and "log.consistency" in done.output
    assert run("log", "consistency", built.folder, new, old, "--key", VKEY).exit_code == 20
    old.write_bytes(b"nonsense")
    assert run("log", "consistency", built.folder, old, "--key", VKEY).exit_code == 20


def test_nothing_there_is_none_and_a_mistake_is_usage(built: LogBuilder, run: Run, tmp_path: Path) -> None:
    assert run("log", "show", tmp_path / "nowhere").exit_code == 30
    assert run("log", "show", tmp_path).exit_code == 30
    assert run("log", "show", "http://127.0.0.1:1/log").exit_code == 30
    assert run("log", "show", "ftp://x/log").exit_code == 2
    assert run("log", "fsck", built.folder).exit_code == 2
    assert run("log", "fsck", built.folder, "--key", "nonsense").exit_code == 2


def test_a_hostile_origin_is_shown_escaped(tmp_path: Path, run: Run) -> None:
    builder = LogBuilder(tmp_path / "log", chain("one", 3))
    builder.sign()
    text = builder.note().to_bytes().replace(b"log.example/affiant", "log\u009b31m".encode())
    write(tmp_path / "log/checkpoint", text)
    done = run("log", "show", tmp_path / "log")
    assert "\u009b" not in done.output


def test_what_is_written_is_readable_by_others_and_whole(built: LogBuilder, run: Run, tmp_path: Path) -> None:
    os.umask(0o022)
    run("log", "prove", built.folder, "1", "-o", tmp_path / "p")
    assert stat.S_IMODE((tmp_path / "p").stat().st_mode) == 0o644
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "p"]
