"""A key file is private, closed, and names its database."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.attestation.log.witness.conftest import KEYS, LOG, NOW, random_bytes
from tests.raising import raises_code

from affiant.attestation.log.witness.create import make_witness
from affiant.attestation.log.witness.errors import WitnessKeyMalformed
from affiant.attestation.log.witness.keys import make_keys, read_key_file
from affiant.attestation.tlog.note import Note, verify_note
from affiant.attestation.tlog.note_keys import parse_vkey


def test_keys_are_read_back_and_nobody_else_can(home: Path) -> None:
    found = read_key_file(home / "w.key")
    assert found.verifiers() == KEYS.verifiers()
    assert {path.name: path.stat().st_mode & 0o777 for path in home.iterdir()} == {
        "w.key": 0o600,
        "w.key.sqlite": 0o600,
    }


def test_both_keys_cosign_and_their_vkeys_verify() -> None:
    text = LOG.note(9).text
    lines = KEYS.cosign(text, NOW)
    keys = [parse_vkey(each.vkey()) for each in KEYS.verifiers()]
    assert verify_note(Note(text, lines), keys) == tuple(keys)
    assert len(lines) == 2


def test_nothing_secret_is_shown() -> None:
    document = json.loads(KEYS.to_bytes())
    assert document["ed25519"] not in repr(KEYS) and "object" not in repr(KEYS)


def test_nothing_is_overwritten(home: Path, tmp_path: Path) -> None:
    before = (home / "w.key").read_bytes()
    for key, database in (("w.key", "new.sqlite"), ("new.key", "w.key.sqlite")):
        with raises_code("witness.exists"):
            make_witness(KEYS, home / key, home / database)
    assert (home / "w.key").read_bytes() == before
    assert sorted(path.name for path in home.iterdir()) == ["w.key", "w.key.sqlite"]
    with raises_code("witness.settings"):
        make_witness(KEYS, tmp_path / "no" / "key", tmp_path / "new.sqlite")
    assert not (tmp_path / "new.sqlite").exists()


def test_a_file_that_others_can_reach_is_refused(home: Path) -> None:
    (home / "w.key").chmod(0o640)
    with pytest.raises(WitnessKeyMalformed, match="other users"):
        read_key_file(home / "w.key")
    (home / "link").symlink_to("w.key")
    for name in ("link", "missing"):
        with pytest.raises(WitnessKeyMalformed):
            read_key_file(home / name)


@pytest.mark.parametrize(
    "change",
    [
        {"typ": "other"},
        {"id": "x"},
        {"id": None},
        {"name": "a b"},
        {"name": ""},
        {"name": "ü" * 130},
        {"ed25519": "AAAA"},
        {"ed25519": 7},
        {"ed25519": None, "mldsa44": None},
        {"more": "x"},
    ],
)
def test_another_form_is_refused(home: Path, change: dict[str, object]) -> None:
    document = json.loads(KEYS.to_bytes()) | change
    content = json.dumps({name: value for name, value in document.items() if value is not None})
    (home / "w.key").write_text(content)
    with pytest.raises(WitnessKeyMalformed):
        read_key_file(home / "w.key")


def test_a_witness_needs_a_name_and_a_key() -> None:
    for name, kinds in (("a+b", ("ed25519",)), ("witness.example/w", ())):
        with pytest.raises(WitnessKeyMalformed):
            make_keys(name, kinds, random_bytes("x"))
