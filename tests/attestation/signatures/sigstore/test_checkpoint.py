"""An inclusion proof is one in the tree of its checkpoint, at the place that it claims."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.signatures.sigstore.conftest import Vendor
from tests.sigstore_authority.authority import encoded

from affiant.attestation.signatures.sigstore.bundle import LoggedEntry, parse_bundle
from affiant.attestation.signatures.sigstore.checkpoint import parse_checkpoint, require_proven
from affiant.attestation.signatures.sigstore.errors import NotLogged
from affiant.attestation.tlog.checkpoint import Checkpoint

ROOT = base64.b64encode(bytes(32)).decode()
NOTE = f"log.tests - 7\n5\n{ROOT}\n\n\u2014 log.tests AAAAAAA=\n"


@pytest.fixture(scope="module")
def entry(vendor: Vendor) -> LoggedEntry:
    return parse_bundle(encoded(vendor.sign(tiled=True))).entry


def test_a_checkpoint_says_who_how_many_and_what() -> None:
    assert parse_checkpoint(NOTE) == Checkpoint("log.tests - 7", 5, bytes(32))
    assert parse_checkpoint(NOTE.replace(f"{ROOT}\n", f"{ROOT}\nTimestamp: 1\n", 1)).size == 5


@pytest.mark.parametrize(
    "note",
    [
        "",
        NOTE.replace("\n\n", "\n"),
        NOTE + "\n\n",
        NOTE.replace("log.tests - 7", ""),
        NOTE.replace("log.tests - 7", "log\u202e"),
        NOTE.replace("\n5\n", "\n05\n"),
        NOTE.replace("\n5\n", "\n-5\n"),
        NOTE.replace("\n5\n", "\n\u0665\n"),
        NOTE.replace(ROOT, "AAAA", 1),
        NOTE.replace(ROOT, "!" * 44),
        NOTE.partition("\u2014")[0],
    ],
)
def test_any_other_note_is_refused(note: str) -> None:
    with pytest.raises(NotLogged):
        parse_checkpoint(note)


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        parse_checkpoint(text)
    except NotLogged:
        return


def test_the_proof_holds_at_its_own_place_alone(entry: LoggedEntry) -> None:
    assert require_proven(entry).size == entry.proof.size
    for index in range(entry.proof.size):
        moved = replace(entry, index=index, proof=replace(entry.proof, index=index))
        if index != entry.proof.index:
            with pytest.raises(NotLogged):
                require_proven(moved)


def test_size_and_index_of_another_tree_are_refused(vendor: Vendor) -> None:
    """The last leaf of a tree of 5 has the same path as the last of a tree of 9."""
    fresh = Vendor(type(vendor.authority)())
    entry = parse_bundle(encoded(fresh.sign())).entry
    assert (entry.proof.index, entry.proof.size) == (4, 5)
    with pytest.raises(NotLogged) as refused:
        require_proven(replace(entry, proof=replace(entry.proof, index=8, size=9)))
    assert "another tree" in str(refused.value)


def test_a_number_that_nobody_promised_must_be_the_proven_one(entry: LoggedEntry) -> None:
    with pytest.raises(NotLogged) as refused:
        require_proven(replace(entry, index=entry.index + 1))
    assert refused.value.where == "logIndex"


def test_another_body_is_refused(entry: LoggedEntry) -> None:
    with pytest.raises(NotLogged):
        require_proven(replace(entry, body=entry.body + b" "))
