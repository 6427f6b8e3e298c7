"""A stored tree is what its digest says, or it is not used; whoever fills, removes or dies beside it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from affiant.sandbox.workspace.copy_in import Copied, copy_in
from affiant.sandbox.workspace.input_store import InputStore, commit_key
from affiant.sandbox.workspace.walk import WHOLE


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a").write_text("a\n")
    (folder / "run").write_text("#!/bin/sh\n")
    (folder / "run").chmod(0o755)
    (folder / "link").symlink_to("deep/a")
    return folder


class Store:
    def __init__(self, folder: Path) -> None:
        self.used: set[str] = set()
        self.fills = 0
        self.store = InputStore(folder, lambda: frozenset(self.used))

    def use(self, source: Path, known: str | None) -> Copied:
        def fill(to: Path) -> Copied:
            self.fills += 1
            return copy_in(source, to)

        return self.store.use(known, fill=fill, mark=self.used.add, limits=WHOLE)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "inputs")


def test_what_is_there_is_not_copied_again(store, source):
    first = store.use(source, None)
    second = store.use(source, first.digest)
    assert second == first
    assert store.fills == 1


def attack_change(tree: Path) -> None:
    (tree / "deep" / "a").write_text("b\n")


def attack_add(tree: Path) -> None:
    (tree / "more").touch()


def attack_remove(tree: Path) -> None:
    (tree / "link").unlink()


def attack_mode(tree: Path) -> None:
    (tree / "run").chmod(0o644)


def attack_pipe(tree: Path) -> None:
    os.mkfifo(tree / "pipe")


def attack_link(tree: Path) -> None:
    (tree / "run").unlink()
    (tree / "run").symlink_to("/etc/passwd")


def attack_whole(tree: Path) -> None:
    tree.rename(tree.parent / "other")
    tree.symlink_to("/etc")


@pytest.mark.parametrize(
    "attack",
    [attack_change, attack_add, attack_remove, attack_mode, attack_pipe, attack_link, attack_whole],
    ids=lambda attack: attack.__name__,
)
def test_a_tree_that_was_changed_is_found_and_filled_anew(store, source, attack):
    first = store.use(source, None)
    attack(store.store.place(first.digest))
    assert store.use(source, first.digest) == first
    assert store.fills == 2
    assert copy_in(store.store.place(first.digest), source.parent / "out").digest == first.digest


def test_the_digest_of_what_came_counts_and_not_the_one_that_was_expected(store, source):
    copied = store.use(source, "sha256:" + "0" * 64)
    assert copied.digest != "sha256:" + "0" * 64
    assert not store.store.place("sha256:" + "0" * 64).exists()


def test_many_that_fill_at_once_leave_one_sound_tree(store, source):
    found: list[Copied] = []
    threads = [threading.Thread(target=lambda: found.append(store.use(source, None))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({copied.digest for copied in found}) == 1
    assert len(found) == 6
    assert store.use(source, found[0].digest) == found[0]
    assert {path.name for path in store.store.folder.iterdir()} == {
        "lock", found[0].digest.removeprefix("sha256:"),
    }  # fmt: skip


def test_one_that_is_killed_amid_filling_leaves_nothing_that_is_used(store, source, tmp_path):
    program = f"""
import os, signal, sys
from pathlib import Path
from affiant.sandbox.workspace.input_store import InputStore
from affiant.sandbox.workspace.walk import WHOLE

def fill(to):
    to.mkdir()
    (to / "half").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)

InputStore(Path({str(store.store.folder)!r}), frozenset).use(None, fill=fill, mark=print, limits=WHOLE)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert (store.store.folder / "new" / "tree" / "half").exists()
    copied = store.use(source, None)
    assert not (store.store.folder / "new").exists()
    assert copy_in(store.store.place(copied.digest), tmp_path / "out").digest == copied.digest


def test_what_a_session_uses_is_never_removed_and_the_rest_is(store, source):
    used = store.use(source, None).digest
    (source / "more").write_text("1234")
    other = store.use(source, None).digest
    store.used.discard(other)
    store.store.note_commit(commit_key({"commit": "x"}), other)
    assert store.store.prune(0.0) == 0, "it was used after that"
    assert store.store.prune(2e9, dry_run=True) == store.store.prune(2e9) > 0
    assert store.store.place(used).is_dir()
    assert not store.store.place(other).exists()
    assert store.store.known_commit(commit_key({"commit": "x"})) is None
    assert list((store.store.folder / "commits").iterdir()) == []


@pytest.mark.parametrize("text", ["", "../../etc", "sha256:../../../etc", "sha256:" + "g" * 64, "\xff"])
def test_a_note_that_is_no_digest_is_no_note(store, source, text):
    store.use(source, None)
    store.store.note_commit("key", "x")
    (store.store.folder / "commits" / "key").write_bytes(text.encode("latin-1"))
    assert store.store.known_commit("key") is None


def test_the_store_keeps_a_bounded_number_of_trees_that_none_uses(store, source, monkeypatch):
    monkeypatch.setattr("affiant.sandbox.workspace.input_store._MOST_TREES", 2)
    for number in range(5):
        (source / "number").write_text(str(number))
        newest = store.use(source, None).digest
        store.used.clear()
    kept = [path for path in store.store.folder.iterdir() if (path / "tree").is_dir()]
    assert len(kept) == 3, "two, and the one that was in use when it was filled"
    assert store.store.place(newest).parent in kept
