"""A tree that is read is the signed one: every other byte, wherever it stands, is refused."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.log_builder import LogBuilder, chain, write
from tests.attestation.log_reading.conftest import big
from tests.properties import thorough
from tests.raising import raises_code

from affiant.attestation.log_reading.errors import (
    LeafWrong,
    LogAbsent,
    ResourceMissing,
    TreeWrong,
)
from affiant.attestation.log_reading.folder import FolderLog
from affiant.attestation.log_reading.reader import LogTree, read_checkpoint
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.entry import parse_entry
from affiant.attestation.tlog.errors import TileMalformed
from affiant.attestation.tlog.proof import parse_log_proof, verify_log_proof
from affiant.attestation.tlog.tiles import bundles_of, parse_path, tiles_of
from affiant.attestation.tlog.tree import verify_consistency
from affiant.errors import AffiantError


class Memory:
    """A source of a tree in memory."""

    name = "memory"

    def __init__(self, builder: LogBuilder, size: int) -> None:
        self.builder, self.size, self.asked = builder, size, list[str]()

    def read(self, path: str, *, limit: int) -> bytes | None:
        self.asked.append(path)
        resource = parse_path(path)
        return self.builder.tile(resource)  # type: ignore[arg-type]


def tree_of(builder: LogBuilder, size: int | None = None) -> LogTree:
    return LogTree(FolderLog(builder.folder), builder.checkpoint(size))


def test_a_folder_of_logs_names_them(built: LogBuilder) -> None:
    with pytest.raises(LogAbsent, match=f"There is one in: {re.escape(str(built.folder))}"):
        read_checkpoint(FolderLog(built.folder.parent))
    with pytest.raises(LogAbsent) as refused:
        read_checkpoint(FolderLog(built.folder / "tile"))
    assert refused.value.hint is None


def test_every_leaf_is_read_in_order_and_any_range_of_them(built: LogBuilder) -> None:
    tree = tree_of(built)
    assert [leaf for _, leaf in tree.leaves()] == built.leaves
    for start, end in ((0, 0), (0, 1), (255, 257), (699, 700), (512, 5000), (700, 800)):
        found = list(tree.entries(start, end))
        assert [index for index, _ in found] == list(range(start, min(end, 700)))
        assert [entry.to_bytes() for _, entry in found] == built.leaves[start:end]


def test_an_earlier_tree_is_read_after_its_partial_tiles_are_gone(built: LogBuilder) -> None:
    built.add(chain("three", 68))
    built.sign(keep=False)
    assert not (built.folder / "tile/0/002.p/188").exists()
    tree = tree_of(built, 700)
    assert [leaf for _, leaf in tree.leaves()] == built.leaves[:700]
    assert tree.root_at(300) == built.checkpoint(300).root


@thorough(60)
@given(st.data())
def test_proofs_from_tiles_hold_for_any_two_sizes(data: st.DataObject) -> None:
    builder = big()
    new = data.draw(st.integers(1, len(builder.leaves)))
    old, index = data.draw(st.integers(0, new)), data.draw(st.integers(0, new - 1))
    tree = LogTree(Memory(builder, new), builder.checkpoint(new))
    verify_consistency(
        old=old,
        old_root=builder.checkpoint(old).root,
        new=new,
        new_root=tree.checkpoint.root,
        path=tree.consistency(old),
    )
    assert tree.root_at(old) == builder.checkpoint(old).root
    proof = parse_log_proof(tree.inclusion(index, builder.note(new)).to_bytes())
    leaf = parse_entry(builder.leaves[index])
    key = builder.signer.verifier
    assert verify_log_proof(proof, leaf.leaf_hash, log=[key], origin=key.name).index == index


def test_few_tiles_are_read_for_a_proof() -> None:
    source = Memory(big(), 70_000)
    LogTree(source, big().checkpoint()).inclusion(1234, big().note())
    assert len(source.asked) <= 6


def test_any_changed_byte_of_any_file_is_refused(built: LogBuilder) -> None:
    rng = random.Random(7)
    for each in (*tiles_of(700), *bundles_of(700)):
        path = built.folder / each.path()
        original = path.read_bytes()
        for at in (0, len(original) - 1, *(rng.randrange(len(original)) for _ in range(6))):
            write(path, original[:at] + bytes((original[at] ^ 0x10,)) + original[at + 1 :])
            with pytest.raises((TreeWrong, LeafWrong, TileMalformed)):
                list(tree_of(built).leaves())
        for changed in (original[:-1], original + b"\0", b""):
            write(path, changed)
            with pytest.raises(AffiantError):
                list(tree_of(built).leaves())
        path.unlink()
        with pytest.raises(ResourceMissing):
            list(tree_of(built).leaves())
        write(path, original)
    assert len(list(tree_of(built).leaves())) == 700


def test_leaves_exchanged_within_a_bundle_are_refused(built: LogBuilder) -> None:
    path = built.folder / "tile/entries/000"
    data = path.read_bytes()
    write(path, data[68:136] + data[:68] + data[136:])
    with pytest.raises(LeafWrong, match="leaf 0"):
        list(tree_of(built).leaves())


def test_tiles_of_another_tree_are_refused_although_they_hang_together(
    built: LogBuilder, tmp_path: Path
) -> None:
    other = LogBuilder(tmp_path / "other", chain("other", 700))
    other.sign()
    with pytest.raises(TreeWrong):
        LogTree(FolderLog(other.folder), built.checkpoint())


def test_an_empty_log_is_a_log(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path / "empty")
    builder.sign()
    tree = tree_of(builder)
    assert list(tree.leaves()) == [] and tree.consistency(0) == ()
    assert read_checkpoint(FolderLog(builder.folder)) == builder.note()
    with raises_code("log.no_such_leaf"):
        tree.inclusion(0, builder.note())


def test_a_size_that_was_never_signed_is_refused(built: LogBuilder) -> None:
    wrong = Checkpoint(built.signer.name, 701, built.checkpoint().root)
    with pytest.raises(AffiantError):
        LogTree(FolderLog(built.folder), wrong)


def test_a_leaf_is_found_by_its_receipt(built: LogBuilder) -> None:
    tree = tree_of(built)
    assert tree.find(parse_entry(built.leaves[321]).rh) == 321
    with raises_code("log.no_such_leaf"):
        tree.find(bytes(32))
