"""The whole log is what its checkpoint implies: each change of each file is found and named."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.log_builder import LogBuilder, chain, entry, write
from tests.attestation.log_reading.conftest import big
from tests.properties import thorough

from affiant.attestation.log.fsck.fsck import check_log
from affiant.attestation.log.fsck.report import MAX_PROBLEMS, FsckReport
from affiant.attestation.log_reading.folder import FolderLog
from affiant.attestation.log_reading.severity import Severity
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.tiles import Tile, encode_bundle, parse_path


def check(builder: LogBuilder, checkpoint: Checkpoint | None = None) -> FsckReport:
    return check_log(
        FolderLog(builder.folder), checkpoint or builder.checkpoint(), progress=lambda _done: None
    )


def codes(report: FsckReport) -> set[str]:
    return {problem.code for problem in report.problems}


class Memory:
    """A source of the first ``size`` leaves."""

    name = "memory"

    def __init__(self, builder: LogBuilder) -> None:
        self.builder = builder

    def read(self, path: str, *, limit: int) -> bytes | None:
        resource = parse_path(path)
        if isinstance(resource, Tile):
            return self.builder.tile(resource)
        first = resource.index * 256
        return encode_bundle(self.builder.leaves[first : first + resource.width])


def test_a_log_that_grew_is_whole_at_each_of_its_checkpoints(built: LogBuilder) -> None:
    report = check(built)
    assert (report.problems, report.bundles, report.tiles, report.ahead) == ((), 3, 4, 0)
    assert report.severity is None and report.listed
    earlier = check(built, built.checkpoint(300))
    assert earlier.problems == () and earlier.ahead > 0


@thorough(20)
@given(st.integers(0, 70_000))
def test_any_size_is_computed_to_its_root(size: int) -> None:
    size = size % 3000 if size % 5 else size
    report = check_log(Memory(big()), big().checkpoint(size), progress=lambda _done: None)
    assert report.problems == ()


def test_every_changed_file_is_found_and_named(built: LogBuilder) -> None:
    rng = random.Random(3)
    for path in sorted(path for path in (built.folder / "tile").rglob("*") if path.is_file()):
        original, name = path.read_bytes(), str(path.relative_to(built.folder))
        for at in (0, 1, len(original) - 1, rng.randrange(len(original))):
            write(path, original[:at] + bytes((original[at] ^ 1,)) + original[at + 1 :])
            report = check(built)
            assert report.severity is Severity.CONTRAINDICATED
            assert any(name.partition(".p/")[0] in f"{each.path} {each.detail}" for each in report.problems)
        write(path, original[:-1])
        assert check(built).severity is Severity.CONTRAINDICATED, name
        write(path, original)
    assert check(built).problems == ()


def test_a_tree_that_hangs_together_and_was_never_signed_is_refused(built: LogBuilder) -> None:
    wrong = Checkpoint(built.signer.name, 700, built.checkpoint(300).root)
    assert codes(check(built, wrong)) == {"log.root"}


def test_missing_files_are_named(built: LogBuilder) -> None:
    (built.folder / "tile/entries/001").unlink()
    (built.folder / "tile/1/000.p/2").unlink()
    report = check(built)
    assert {problem.path for problem in report.problems if problem.code == "log.missing"} == {
        "tile/entries/001",
        "tile/1/000.p/2",
    }


def test_a_leaf_of_another_version_is_named_although_the_tree_holds_it(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path / "log", chain("one", 3))
    builder.leaves.append(b"\x02" + builder.leaves[0][1:])
    from affiant.attestation.encoding.merkle import leaf_hash

    builder.nodes.append(leaf_hash(builder.leaves[-1]))
    builder.sign()
    assert codes(check(builder)) == {"log.entry"}


def test_files_too_many_warn_and_links_refuse(built: LogBuilder) -> None:
    write(built.folder / "notes.txt", b"hello")
    report = check(built)
    assert codes(report) == {"log.foreign"} and report.severity is Severity.WARNING
    (built.folder / "tile/0/x001").symlink_to("000")
    assert check(built).severity is Severity.CONTRAINDICATED


def test_what_a_gateway_keeps_beside_its_log_is_no_warning(built: LogBuilder) -> None:
    for name in ("index.sqlite", "index.sqlite-wal", "index.sqlite-shm", "vkey", "key.json"):
        write(built.folder / name, b"kept")
    key = built.folder / "key.json"
    key.chmod(0o600)
    assert check(built).problems == ()
    key.chmod(0o640)
    (problem,) = check(built).problems
    assert (problem.code, problem.path, problem.severity) == ("log.foreign", "key.json", Severity.WARNING)


def test_a_flood_of_strange_files_hides_no_contradiction(built: LogBuilder) -> None:
    for number in range(MAX_PROBLEMS + 20):
        write(built.folder / f"0{number}.txt", b"")
    (built.folder / "zzz").symlink_to("checkpoint")
    report = check(built)
    assert len(report.problems) == MAX_PROBLEMS and report.count == MAX_PROBLEMS + 21
    assert report.severity is Severity.CONTRAINDICATED


def test_an_earlier_partial_tile_that_says_otherwise_is_refused(built: LogBuilder) -> None:
    path = built.folder / "tile/entries/001.p/44"
    other = [entry("epoch", "one", seq).to_bytes() for seq in range(44)]
    write(path, encode_bundle(other))
    report = check(built)
    assert codes(report) == {"log.tile_wrong"}
    assert report.problems[0].path == "tile/entries/001.p/44"


def test_memory_does_not_grow_with_the_log() -> None:
    big()
    tracemalloc.start()
    try:
        check_log(Memory(big()), big().checkpoint(3_000), progress=lambda _done: None)
        _, small = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        check_log(Memory(big()), big().checkpoint(30_000), progress=lambda _done: None)
        _, large = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert large < small + 100_000


@pytest.mark.parametrize("size", [0, 1, 256, 257, 65_536, 65_537])
def test_sizes_at_the_edges_of_tiles(size: int) -> None:
    report = check_log(Memory(big()), big().checkpoint(size), progress=lambda _done: None)
    assert report.problems == ()
