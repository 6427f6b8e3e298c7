"""Which resources there are follows from the size; what is damaged on the disk is not given away."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.log_builder import LogBuilder, write

from affiant.attestation.log.publish.resources import ReadyLog, count_of, implied_by, resources_of
from affiant.attestation.log_reading.errors import LeafWrong, ResourceMissing, TreeWrong
from affiant.attestation.log_reading.folder import FolderLog
from affiant.attestation.tlog.tiles import EntryBundle, Tile, bundles_of, tiles_of

SIZES = st.integers(0, 200_000)


@given(SIZES)
def test_from_nothing_they_are_those_of_the_tree(size: int) -> None:
    assert set(resources_of(size)) == {*tiles_of(size), *bundles_of(size)}
    assert count_of(size) == len(list(resources_of(size)))


@given(SIZES, SIZES)
def test_since_another_size_nothing_is_left_out(one: int, other: int) -> None:
    old, new = sorted((one, other))
    grown = list(resources_of(new, old))
    assert len(grown) == len(set(grown)) == count_of(new, old)
    assert set(resources_of(new)) - set(resources_of(old)) <= set(grown) <= set(resources_of(new))
    assert all(implied_by(each, new) for each in grown)


def test_what_is_given_is_what_the_writer_wrote(built: LogBuilder) -> None:
    built.sign()
    log = ReadyLog(FolderLog(built.folder), built.checkpoint())
    for each in resources_of(700):
        assert log.content(each) == (built.folder / each.path()).read_bytes()
    assert log.root_at(300) == built.checkpoint(300).root


def test_a_damaged_file_is_refused_before_it_is_published(built: LogBuilder) -> None:
    built.sign()
    for resource, refusal in ((EntryBundle(1), LeafWrong), (Tile(0, 1), TreeWrong)):
        path = built.folder / resource.path()
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        write(path, bytes(content))
        log = ReadyLog(FolderLog(built.folder), built.checkpoint())
        with pytest.raises(refusal):
            log.content(resource)
    (built.folder / EntryBundle(0).path()).unlink()
    with pytest.raises(ResourceMissing):
        log.content(EntryBundle(0))


def test_files_of_another_tree_are_refused_at_once(built: LogBuilder) -> None:
    built.sign()
    other = LogBuilder(built.folder).checkpoint()
    assert other.size == 0
    with pytest.raises(TreeWrong):
        ReadyLog(FolderLog(built.folder), type(other)(other.origin, 700, bytes(32)))
