"""A log in a store of objects is read as one in a folder is."""

from __future__ import annotations

import pytest
from obstore.store import MemoryStore
from tests.attestation.log_builder import LogBuilder

from affiant.attestation.log.fsck.fsck import check_log
from affiant.attestation.log_reading.object_store import ObjectStore
from affiant.attestation.log_reading.objects import ObjectLog
from affiant.attestation.log_reading.reader import LogTree
from affiant.attestation.tlog.errors import TileMalformed


@pytest.fixture
def log(built: LogBuilder) -> ObjectLog:
    store = ObjectStore("memory", MemoryStore())
    for path in built.folder.rglob("*"):
        if path.is_file():
            store.create(str(path.relative_to(built.folder)), path.read_bytes())
    store.create("strange", b"")
    return ObjectLog(store)


def test_leaves_proofs_and_what_no_log_has_are_found(built: LogBuilder, log: ObjectLog) -> None:
    checkpoint = built.checkpoint()
    tree = LogTree(log, checkpoint)
    assert [leaf for _, leaf in tree.leaves()] == built.leaves
    assert tuple(tree.consistency(300)) == tuple(built.proof(300, 700))
    report = check_log(log, checkpoint, progress=lambda _done: None)
    assert [(each.code, each.path) for each in report.problems] == [("log.foreign", "strange")]


@pytest.mark.parametrize("path", ["strange", "../checkpoint", "tile/0/0", "tile/0/000/", ""])
def test_no_other_path_is_asked_for(log: ObjectLog, path: str) -> None:
    with pytest.raises(TileMalformed):
        log.read(path, limit=100)
