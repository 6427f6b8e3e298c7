"""A stored tree is what its digest says, or it is not used; whoever fills, removes or dies beside it."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import NoReturn

import pytest

from affiant.sandbox.workspace.copy_in import Copied, copy_in
from affiant.sandbox.workspace.input_store import InputStore, commit_key
from affiant.sandbox.workspace.tree import TreeUnreadable
from affiant.sandbox.workspace.walk import Limits


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
    """A store, of which each use is another session's."""

    def __init__(self, folder: Path) -> None:
        self.fills = 0
        self.store = InputStore(folder)
        self.sessions: list[str] = []

    def use(self, source: Path, known: str | None) -> Copied:
        def fill(to: Path) -> Copied:
            self.fills += 1
            return copy_in(source, to)

        self.sessions.append(f"session-{len(self.sessions)}")
        return self.store.use(self.sessions[-1], known, fill=fill)

    def trees(self) -> set[str]:
        return {path.name for path in self.store.folder.iterdir() if (path / "tree").is_dir()}

    def end_all(self) -> None:
        for session in self.sessions:
            self.store.release(session)


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
    store.end_all()
    store.store.prune(0.0)
    assert {path.name for path in store.store.folder.iterdir()} == {
        "lock", "sessions", found[0].digest.removeprefix("sha256:"),
    }  # fmt: skip


def test_one_that_is_killed_amid_filling_leaves_nothing_that_is_used(store, source, tmp_path):
    program = f"""
import os, signal, sys
from pathlib import Path
from affiant.sandbox.workspace.input_store import InputStore

def fill(to):
    to.mkdir()
    (to / "half").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)

InputStore(Path({str(store.store.folder)!r})).use("killed", None, fill=fill)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert [path.read_text() for path in store.store.folder.glob("new.*/tree/half")] == ["half"]
    copied = store.use(source, None)
    assert not list(store.store.folder.glob("new.*"))
    assert copy_in(store.store.place(copied.digest), tmp_path / "out").digest == copied.digest


def test_what_a_session_uses_is_never_removed_and_the_rest_is(store, source):
    used = store.use(source, None).digest
    (source / "more").write_text("1234")
    other = store.use(source, None).digest
    store.store.release(store.sessions[-1])
    store.store.note_commit(commit_key({"commit": "x"}), other)
    assert store.store.prune(0.0) == 0, "it was used after that"
    assert store.store.prune(2e9, dry_run=True) == store.store.prune(2e9) > 0
    assert store.store.place(used).is_dir()
    assert not store.store.place(other).exists()
    assert store.store.known_commit(commit_key({"commit": "x"})) is None
    assert list((store.store.folder / "commits").iterdir()) == []


def test_a_note_of_a_use_that_cannot_be_read_keeps_everything(store, source):
    """Without the note, nothing says which tree is mounted."""
    digest = store.use(source, None).digest
    note = store.store.layers(store.sessions[0]) / "digest"
    note.unlink()
    note.mkdir()
    with pytest.raises(OSError, match="directory"):
        store.store.prune(2e9)
    assert store.store.place(digest).is_dir()


def attack_read_error(store: Store, digest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("affiant.sandbox.workspace.input_store.read_tree", fail)


def attack_damage(store: Store, digest: str, _: pytest.MonkeyPatch) -> None:
    (store.store.place(digest) / "deep" / "a").write_text("b\n")


@pytest.mark.parametrize("attack", [attack_read_error, attack_damage], ids=lambda attack: attack.__name__)
def test_a_tree_that_is_replaced_while_a_session_uses_it_stays_for_that_session(
    store, source, monkeypatch, attack
):
    digest = store.use(source, None).digest
    mounted = os.open(store.store.place(digest), os.O_RDONLY)
    try:
        attack(store, digest, monkeypatch)
        assert store.use(source, digest).digest == digest
        assert sorted(os.listdir(mounted)) == ["deep", "link", "run"]
        assert (store.store.place(digest) / "deep" / "a").read_text() == "a\n"
        assert store.store.prune(2e9) == 0
        store.end_all()
        store.store.prune(2e9)
        assert os.listdir(mounted) == []
        assert store.trees() == set()
    finally:
        os.close(mounted)


def test_while_one_input_is_filled_others_are_used_and_pruned(store, source):
    digest = store.use(source, None).digest
    found: list[str] = []

    def fill(to: Path) -> Copied:
        other = InputStore(store.store.folder)
        found.append(other.use("other", digest, fill=fill).digest)
        other.release("other")
        assert other.prune(2e9) == 0
        assert to.parent.is_dir(), "what is being filled is not removed"
        (source / "more").touch()
        return copy_in(source, to)

    assert store.store.use("slow", None, fill=fill).digest != digest
    assert found == [digest]


def test_a_process_that_holds_the_lock_is_not_waited_for_without_end(store, source, monkeypatch):
    monkeypatch.setattr("affiant.sandbox.workspace.input_store._LOCKED_FOR_S", 0.2)
    digest = store.use(source, None).digest
    with open(store.store.folder / "lock", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for call in (lambda: store.use(source, digest), lambda: store.store.prune(0.0)):
            with pytest.raises(TimeoutError, match="another process holds the store of inputs"):
                call()
        store.store.note_commit("key", digest)
        store.store.release(store.sessions[0])
    assert store.store.known_commit("key") is None, "a note is nothing that a session waits for"


def test_a_wait_for_the_lock_ends_when_the_start_is_interrupted(store, source):
    class Interrupted(BaseException):
        pass

    def proceed() -> None:
        raise Interrupted

    store.use(source, None)
    with open(store.store.folder / "lock", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(Interrupted):
            store.store.use("x", "sha256:" + "0" * 64, fill=fail_to_fill, limits=Limits(proceed=proceed))


def fail_to_fill(_: Path) -> NoReturn:
    raise AssertionError("it is not filled")


def test_where_the_disk_is_full_what_no_session_uses_goes_first(store, source):
    unused = store.use(source, None).digest
    store.end_all()
    (source / "more").touch()

    def fill(to: Path) -> Copied:
        to.mkdir()
        (to / "half").touch()
        if store.store.place(unused).exists():
            raise TreeUnreadable("the tree cannot be copied") from OSError(errno.ENOSPC, "full")
        (to / "half").unlink()
        return copy_in(source, to)

    assert store.store.place(store.store.use("x", None, fill=fill).digest).is_dir()
    assert not store.store.place(unused).exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_an_input_that_cannot_be_copied_is_an_error_after_at_most_one_more_try(store, source, number):
    unused = store.use(source, None).digest
    store.end_all()
    tries: list[Path] = []

    def fill(to: Path) -> NoReturn:
        tries.append(to)
        raise TreeUnreadable("the tree cannot be copied") from OSError(number, "x")

    with pytest.raises(TreeUnreadable):
        store.store.use("x", None, fill=fill)
    assert len(tries) == (2 if number == errno.ENOSPC else 1)
    assert store.store.place(unused).exists() == (number == errno.EIO)
    assert not list(store.store.folder.glob("new.*"))


def test_commits_are_noted_by_many_at_once_while_others_are_pruned(store, source):
    digest = store.use(source, None).digest
    errors: list[BaseException] = []

    def note() -> None:
        try:
            for number in range(60):
                store.store.note_commit(f"key{number % 3}", digest)
                store.store.prune(0.0)
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            errors.append(error)

    threads = [threading.Thread(target=note) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert {path.name for path in (store.store.folder / "commits").iterdir()} == {"key0", "key1", "key2"}


@pytest.mark.parametrize("text", ["", "../../etc", "sha256:../../../etc", "sha256:" + "g" * 64, "\xff"])
def test_a_note_that_is_no_digest_is_no_note(store, source, text):
    store.use(source, None)
    store.store.note_commit("key", "x")
    (store.store.folder / "commits" / "key").write_bytes(text.encode("latin-1"))
    assert store.store.known_commit("key") is None


def test_the_store_keeps_a_bounded_number_of_trees_that_no_session_uses(store, source, monkeypatch):
    monkeypatch.setattr("affiant.sandbox.workspace.input_store._MOST_TREES", 2)
    for number in range(5):
        (source / "number").write_text(str(number))
        newest = store.use(source, None).digest
    assert len(store.trees()) == 5
    store.end_all()
    assert len(store.trees()) == 2, "sessions that end leave no more"
    assert newest.removeprefix("sha256:") in store.trees()


def test_the_store_keeps_a_bounded_number_of_bytes_that_no_session_uses(store, source, monkeypatch):
    monkeypatch.setattr("affiant.sandbox.workspace.input_store._MOST_BYTES", 5000)
    for number in range(4):
        (source / "number").write_text(str(number) * 2000)
        store.use(source, None)
    store.end_all()
    assert len(store.trees()) == 2


def test_a_use_that_ends_removes_the_sessions_layers(store, source):
    store.use(source, None)
    layers = store.store.layers(store.sessions[0])
    (layers / "upper").mkdir()
    (layers / "upper" / "x").touch()
    store.end_all()
    assert not layers.exists()
