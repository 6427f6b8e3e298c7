"""Every answer of C2SP tlog-witness, in the specification's order, from pure steps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.log.witness.conftest import FORK, LOG, LOGS, NOW, ORIGIN, request
from tests.attestation.log_builder import LogBuilder, log_signer
from tests.properties import thorough

from affiant.attestation.log.witness.checkpoint_request import encode_submission, parse_submission
from affiant.attestation.log.witness.errors import WitnessClockBehind
from affiant.attestation.log.witness.protocol import (
    SIZE_TYPE,
    Accepted,
    Admitted,
    Refused,
    Stored,
    WitnessResponse,
    admit,
    advance,
)
from affiant.attestation.tlog.note import Note, NoteSignature
from affiant.attestation.tlog.tree import EMPTY_ROOT


def admitted(body: bytes) -> Admitted:
    found = admit(parse_submission(body), LOGS)
    assert isinstance(found, Admitted)
    return found


def stored(size: int, log: LogBuilder = LOG, seconds: int = NOW) -> Stored:
    return Stored(ORIGIN, size, log.checkpoint(size).root, log.note(size).to_bytes(), seconds)


def step(body: bytes, held: Stored | None, now: int = NOW) -> Accepted | Refused:
    return advance(admitted(body), held, now=now)


def status(outcome: Accepted | Refused) -> int:
    return 200 if isinstance(outcome, Accepted) else outcome.answer.status


@thorough(80)
@given(st.integers(0, 64), st.integers(0, 64), st.integers(0, 64))
def test_a_tree_is_stored_if_and_only_if_it_grows_from_the_stored_one(held: int, old: int, size: int) -> None:
    if old > size:
        assert isinstance(answer := admit(parse_submission(request(old, size)), LOGS), WitnessResponse)
        assert answer.status == 400
        return
    outcome = step(request(old, size), stored(held))
    if old != held:
        assert isinstance(outcome, Refused)
        assert (outcome.answer.status, outcome.answer.body) == (409, f"{held}\n".encode())
        assert outcome.answer.media_type == SIZE_TYPE
    else:
        assert isinstance(outcome, Accepted)
        assert (outcome.stored.size, outcome.stored.root) == (size, LOG.checkpoint(size).root)


def test_a_log_that_was_never_seen_begins_at_zero() -> None:
    assert status(step(request(0, 9), None)) == 200
    assert status(step(request(5, 9), None)) == 409
    assert status(step(request(0, 0), None)) == 200


def test_an_unknown_log_is_404_whatever_it_signs() -> None:
    other = LogBuilder(LOG.folder, signer=log_signer("log.example/unknown"))
    found = admit(parse_submission(encode_submission(0, (), other.note(0))), LOGS)
    assert isinstance(found, WitnessResponse) and found.status == 404


def test_no_signature_of_the_log_and_one_that_does_not_hold_are_403() -> None:
    stranger = log_signer(ORIGIN, "stranger")
    note = LOG.note(9)
    broken = Note(note.text, (NoteSignature(note.signatures[0].key, bytes(64)),))
    for bad in (
        Note(note.text, (stranger.sign(note.text),)),
        broken,
        Note(FORK.note(9).text, note.signatures),
    ):
        found = admit(parse_submission(request(0, 9, note=bad)), LOGS)
        assert isinstance(found, WitnessResponse) and found.status == 403
    both = note.with_signatures([stranger.sign(note.text)])
    assert admitted(request(0, 9, note=both)).signed == note  # lines of others are not handed on


def test_a_wrong_proof_is_422() -> None:
    good = parse_submission(request(5, 9))
    for path in (good.path[:-1], (*good.path, bytes(32)), (bytes(32), *good.path[1:]), ()):
        assert status(step(encode_submission(5, path, good.note), stored(5))) == 422
    assert status(step(encode_submission(0, (bytes(32),), good.note), None)) == 422
    assert status(step(encode_submission(9, (bytes(32),), good.note), stored(9))) == 422


def test_an_empty_tree_with_a_root_is_422_after_its_signature_was_looked_at() -> None:
    text = f"{ORIGIN}\n0\n{'A' * 43}=\n"
    note = Note(text, (log_signer().sign(text),))
    assert status(step(encode_submission(0, (), note), None)) == 422
    unsigned = Note(text, (log_signer(label="thief").sign(text),))
    found = admit(parse_submission(encode_submission(0, (), unsigned)), LOGS)
    assert isinstance(found, WitnessResponse) and found.status == 403


def test_two_roots_over_one_size_are_a_certain_contradiction_whatever_is_asked() -> None:
    for old, expected in ((9, 422), (0, 409)):
        outcome = step(request(old, 9, FORK), stored(9))
        assert isinstance(outcome, Refused) and outcome.answer.status == expected
        assert outcome.contradiction is not None and outcome.contradiction.certain
        assert outcome.contradiction.held == LOG.note(9).to_bytes()
        assert outcome.contradiction.submitted == FORK.note(9).to_bytes()


def test_growth_that_does_not_hold_is_kept_as_what_it_is() -> None:
    outcome = step(encode_submission(5, FORK.proof(5, 9), FORK.note(9)), stored(5))
    assert isinstance(outcome, Refused) and outcome.answer.status == 422
    assert outcome.contradiction is not None and not outcome.contradiction.certain
    short = step(encode_submission(5, (), FORK.note(9)), stored(5))
    assert (
        isinstance(short, Refused) and short.contradiction is None
    )  # a mistake of whoever asks, not of the log


def test_the_time_of_a_log_never_goes_back() -> None:
    held = stored(5, seconds=NOW)
    outcome = step(request(5, 9), held, now=NOW - 30)
    assert isinstance(outcome, Accepted) and outcome.stored.seconds == NOW
    with pytest.raises(WitnessClockBehind):
        step(request(5, 9), held, now=NOW - 61)
    outcome = step(request(5, 9), held, now=NOW + 5)
    assert isinstance(outcome, Accepted) and outcome.stored.seconds == NOW + 5


def test_a_key_that_the_log_had_before_still_counts() -> None:
    older = log_signer(label="older")
    note = LOG.note(9)
    logs = {ORIGIN: (older.verifier, *LOGS[ORIGIN])}
    for each in (note, Note(note.text, (older.sign(note.text),))):
        assert isinstance(admit(parse_submission(request(0, 9, note=each)), logs), Admitted)


def test_an_empty_root_is_that_of_the_specification() -> None:
    assert replace(parse_submission(request(0, 0))).root == EMPTY_ROOT
