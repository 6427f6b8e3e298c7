"""The witness as a whole: what it gives away verifies, and what contradicts is kept."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.attestation.log.witness.conftest import FORK, KEYS, LOG, NOW, ORIGIN, QUICK_KEYS, opened, request
from tests.attestation.log_builder import log_signer
from tests.raising import raises_code

from affiant.attestation.log.witness import evidence
from affiant.attestation.log.witness.checkpoint_request import encode_submission
from affiant.attestation.log.witness.evidence import EvidenceFolder
from affiant.attestation.log.witness.witness import Witness, origin_hash
from affiant.attestation.tlog.note import Note, parse_note, parse_signature_lines, verify_note
from affiant.attestation.tlog.note_keys import timestamp_of


def test_cosignatures_verify_over_the_checkpoint_and_are_served_to_monitors(witness: Witness) -> None:
    assert witness.latest(origin_hash(ORIGIN)) is None
    answer = witness.add_checkpoint(request(0, 9), now=NOW)
    assert answer.status == 200
    lines = parse_signature_lines(answer.body.decode())
    assert verify_note(Note(LOG.note(9).text, lines), KEYS.verifiers()) == KEYS.verifiers()
    assert {timestamp_of(each.signature) for each in lines} == {NOW}
    latest = witness.latest(origin_hash(ORIGIN))
    assert latest is not None
    note = parse_note(latest)
    assert len(verify_note(note, [*KEYS.verifiers(), log_signer().verifier])) == 3
    assert witness.latest(origin_hash("other")) is None


def test_the_same_tree_is_cosigned_again_and_a_smaller_one_never(witness: Witness) -> None:
    assert witness.add_checkpoint(request(0, 9), now=NOW).status == 200
    again = witness.add_checkpoint(request(9, 9), now=NOW + 60)
    assert again.status == 200
    assert {timestamp_of(each.signature) for each in parse_signature_lines(again.body.decode())} == {NOW + 60}
    for old, size in ((0, 5), (5, 5), (5, 9), (0, 9)):
        assert witness.add_checkpoint(request(old, size), now=NOW).status == 409


def test_an_unknown_log_leaves_no_state(witness: Witness) -> None:
    other = log_signer("log.example/other")
    text = LOG.note(9).text.replace(ORIGIN, other.name)
    answer = witness.add_checkpoint(request(0, 9, note=Note(text, (other.sign(text),))), now=NOW)
    assert answer.status == 404 and witness.state.all() == ()


def test_a_contradiction_is_kept_once_with_both_notes(
    witness: Witness, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    witness.add_checkpoint(request(0, 9), now=NOW)
    for _ in range(2):
        assert witness.add_checkpoint(request(9, 9, FORK), now=NOW).status == 422
    (folder,) = (home / "evidence").iterdir()
    key = log_signer().verifier
    notes = [parse_note((folder / name).read_bytes()) for name in ("held.note", "submitted.note")]
    assert all(verify_note(note, [key]) for note in notes)
    assert notes[0].text.split("\n")[:2] == notes[1].text.split("\n")[:2] and notes[0].text != notes[1].text
    about = json.loads((folder / "about.json").read_bytes())
    assert about["certain"] is True and about["origin"] == ORIGIN
    assert "CONTRADICTION" in caplog.text and str(folder) in caplog.text


def test_evidence_is_bounded_and_claims_leave_room_for_proofs(
    witness: Witness, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "MAX_KEPT", 2)
    monkeypatch.setattr(evidence, "MAX_UNPROVEN", 1)
    witness.add_checkpoint(request(0, 9), now=NOW)
    for size in (12, 14, 16):
        body = encode_submission(9, FORK.proof(9, size), FORK.note(size))
        assert witness.add_checkpoint(body, now=NOW).status == 422
    assert EvidenceFolder(home / "evidence").counts() == (0, 1)
    for size in (9, 10, 11):
        witness.add_checkpoint(request(max(size - 1, 9), size), now=NOW)
        assert witness.add_checkpoint(request(size, size, FORK), now=NOW).status == 422
    assert EvidenceFolder(home / "evidence").counts() == (2, 1)


def test_evidence_that_cannot_be_written_changes_no_answer(witness: Witness, home: Path) -> None:
    (home / "evidence").write_text("in the way")
    witness.add_checkpoint(request(0, 9), now=NOW)
    assert witness.add_checkpoint(request(9, 9, FORK), now=NOW).status == 422


def test_a_clock_that_stands_before_the_last_cosignature_signs_nothing(witness: Witness) -> None:
    witness.add_checkpoint(request(0, 9), now=NOW)
    answer = witness.add_checkpoint(request(9, 10), now=NOW - 3600)
    assert (answer.status, answer.code) == (503, "witness.clock")


def test_a_witness_without_logs_is_none(witness: Witness, home: Path) -> None:
    with raises_code("witness.settings"):
        Witness(KEYS, {}, witness.state, EvidenceFolder(home))


_DYING = """
import os, signal, sys
from pathlib import Path
from affiant.attestation.tlog.note_keys import parse_vkey
from affiant.attestation.log.witness.evidence import EvidenceFolder
from affiant.attestation.log.witness.checkpoint_request import encode_submission
from affiant.attestation.log.witness.keys import WitnessKeys, read_key_file
from affiant.attestation.log.witness.state import open_state
from affiant.attestation.log.witness.witness import Witness

WitnessKeys.cosign = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # the tree is stored, and nothing is signed
home, vkey, now = Path(sys.argv[1]), parse_vkey(sys.argv[2]), int(sys.argv[3])
keys = read_key_file(home / "w.key")
with open_state(home / "w.key.sqlite", keys.identity) as state:
    witness = Witness(keys, {vkey.name: (vkey,)}, state, EvidenceFolder(home / "evidence"))
    witness.add_checkpoint(sys.stdin.buffer.read(), now=now)
"""


def test_killed_between_storing_and_signing_it_has_stored_what_it_never_promised(home: Path) -> None:
    with opened(home) as witness:
        witness.add_checkpoint(request(0, 5), now=NOW)
    vkey = log_signer().verifier.vkey()
    done = subprocess.run(
        [sys.executable, "-c", _DYING, str(home), vkey, str(NOW)],
        input=request(5, 9),
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    with opened(home, QUICK_KEYS) as witness:
        assert witness.add_checkpoint(request(5, 9, FORK), now=NOW).status == 409
        assert witness.add_checkpoint(request(9, 9, FORK), now=NOW).status == 422
        latest = witness.latest(origin_hash(ORIGIN))
        assert latest is not None and parse_note(latest).text == LOG.note(5).text
        assert witness.add_checkpoint(request(9, 9), now=NOW).status == 200
