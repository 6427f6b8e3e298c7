"""Proofs that stand alone: index and size are those of the signed checkpoint, or the proof is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.tlog.conftest import LEAVES, NODES, ORIGIN, checkpoint, cosigner, log_signer

from affiant.attestation.encoding.merkle import leaf_hash
from affiant.attestation.tlog.errors import (
    CheckpointMalformed,
    InclusionInvalid,
    NoteMalformed,
    NoteSignatureInvalid,
    ProofMalformed,
)
from affiant.attestation.tlog.note import signed
from affiant.attestation.tlog.proof import LogProof, VerifiedInclusion, parse_log_proof, verify_log_proof
from affiant.attestation.tlog.tree_paths import inclusion_path
from affiant.errors import AffiantError

KEYS = [log_signer().verifier]


def proof(index: int = 5, size: int = 700) -> LogProof:
    return LogProof(index, inclusion_path(NODES, index, size), checkpoint(size))


def verify(given: LogProof, index: int = 5) -> VerifiedInclusion:
    return verify_log_proof(given, leaf_hash(LEAVES[index]), log=KEYS, origin=ORIGIN)


def test_a_proof_verifies_and_is_written_and_read_back() -> None:
    for index, size in ((0, 1), (0, 2), (1, 2), (5, 700), (699, 700), (255, 256)):
        made = proof(index, size)
        read = parse_log_proof(made.to_bytes())
        assert read == made
        found = verify(read, index)
        assert (found.index, found.checkpoint.size) == (index, size)


def test_cosignatures_travel_with_it() -> None:
    note = checkpoint(700, log_signer(), cosigner(1))
    made = replace(proof(), note=note)
    assert verify(parse_log_proof(made.to_bytes())).note.signatures == note.signatures


def test_an_index_that_the_signed_tree_does_not_have_is_refused() -> None:
    """A known mistake of others: size and index of the proof were never held against the signed checkpoint."""
    made = proof(4, 5)
    for index in (5, 8, 12, 2**62):
        with pytest.raises(ProofMalformed):
            verify(replace(made, index=index), 4)
    with pytest.raises((ProofMalformed, InclusionInvalid)):
        verify(replace(made, note=checkpoint(9)), 4)


def test_another_leaf_key_or_origin_is_refused() -> None:
    with pytest.raises(InclusionInvalid):
        verify(proof(), 6)
    stranger = checkpoint(700, log_signer(label="stranger"))
    with pytest.raises(NoteSignatureInvalid):
        verify(replace(proof(), note=stranger))
    with pytest.raises(ProofMalformed, match="another log"):
        verify_log_proof(proof(), leaf_hash(LEAVES[5]), log=KEYS, origin="log.example/other")


def test_one_key_of_two_logs_does_not_mix_them() -> None:
    """Signed by the right key, over the checkpoint of another origin."""
    other = checkpoint(700, log_signer(), origin="log.example/other")
    with pytest.raises(ProofMalformed, match="another log"):
        verify(replace(proof(), note=other))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"c2sp.org/tlog-proof@v1", b"c2sp.org/tlog-proof@v2"),
        (b"c2sp.org/tlog-proof@v1\n", b"c2sp.org/tlog-proof@v1\nextra AAAA\n"),
        (b"index 5", b"index 05"),
        (b"index 5", b"index  5"),
        (b"index 5", b"Index 5"),
        (b"index 5", b"index -1"),
        (b"index 5\n", b"index 5\nAAAA\n"),
        (b"index 5\n", b"index 5\n!\n"),
        (b"index 5\n", b"index 5\n\xc3\xa4\n"),
        (b"index 5\n", b"index 5\n" + b"A" * 43 + b"=\n" * 1),
    ],
)
def test_another_form_is_refused(old: bytes, new: bytes) -> None:
    content = proof().to_bytes()
    assert old in content
    with pytest.raises((ProofMalformed, InclusionInvalid)):
        verify(parse_log_proof(content.replace(old, new, 1)))


def test_what_carries_no_checkpoint_is_refused() -> None:
    head = b"c2sp.org/tlog-proof@v1\nindex 0\n"
    with pytest.raises(ProofMalformed):
        parse_log_proof(head)
    with pytest.raises(NoteMalformed):
        parse_log_proof(head + b"\n")
    with pytest.raises(CheckpointMalformed):
        parse_log_proof(head + b"\n" + signed("hello\n", log_signer()).to_bytes())
    with pytest.raises(ProofMalformed):
        parse_log_proof(b"x" * (1 << 21))


@given(st.integers(min_value=0), st.integers(1, 255))
def test_no_changed_byte_of_a_proof_verifies_as_another(at: int, flip: int) -> None:
    content = bytearray(PROOF)
    content[at % len(content)] ^= flip
    try:
        verify(parse_log_proof(bytes(content)))
    except AffiantError:
        return
    raise AssertionError("a changed proof verified")


PROOF = proof().to_bytes()


def test_a_proof_that_is_too_large_is_refused_before_it_is_read() -> None:
    with pytest.raises(ProofMalformed, match="too large"):
        parse_log_proof(proof().to_bytes() + b"x" * (1 << 20))
