"""Keeps input trees by their digest, so that a second session with the same input copies nothing.

A tree is ``<digest>/tree`` below the store's folder, which is its owner's alone, and is never written once it has
this name. Sessions get it as the read-only lower layer of an overlay. Each use reads it again and compares its digest.
A tree that was damaged or changed is removed, and filled anew.

Lookups share a lock; filling and removing hold it alone. A tree is filled under another name. If its
process is killed, the next one that holds the lock alone removes it.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import canonical
from affiant.errors import AffiantError
from affiant.sandbox.workspace.copy_in import Copied
from affiant.sandbox.workspace.tree import Entry, tree_digest
from affiant.sandbox.workspace.walk import Limits, read_tree

__all__ = ["InputStore", "commit_key"]

_DRAFT: Final = "new"
_COMMITS: Final = "commits"
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_MOST_TREES: Final = 32
_MOST_BYTES: Final = 8 << 30
_LOCK_STEP_S: Final = 0.05


def commit_key(facts: Mapping[str, object]) -> str:
    """A name for what a commit gives: of the repository, the commit and what is left out."""
    return sha256_name(canonical(facts)).removeprefix("sha256:")


@dataclass(frozen=True, slots=True)
class InputStore:
    """A store of trees.

    Args:
        folder: made where it is missing; private to its owner.
        in_use: the digests that sessions use now, asked while the lock is held.
    """

    folder: Path
    in_use: Callable[[], frozenset[str]]

    def place(self, digest: str) -> Path:
        """Where the tree with ``digest`` (``sha256:`` name) is, if it is there."""
        return self.folder / digest.removeprefix("sha256:") / "tree"

    def known_commit(self, key: str) -> str | None:
        """The digest of the tree that was noted under ``key``."""
        try:
            found = (self.folder / _COMMITS / key).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError):
            return None
        return found if _DIGEST.fullmatch(found) else None

    def note_commit(self, key: str, digest: str) -> None:
        """Note the digest of a commit's tree."""
        notes = self.folder / _COMMITS
        notes.mkdir(mode=0o700, exist_ok=True)
        draft = notes / f"{key}.{os.getpid()}.new"
        draft.write_text(digest)
        draft.rename(notes / key)

    def use(
        self,
        known: str | None,
        *,
        fill: Callable[[Path], Copied],
        mark: Callable[[str], None],
        limits: Limits,
    ) -> Copied:
        """The tree with the digest ``known``, else what ``fill`` makes.

        Args:
            fill: writes the tree into the folder that it is given.
            mark: notes that a session uses the digest; after that, :attr:`in_use` has it.
        """
        self.folder.mkdir(mode=0o700, exist_ok=True)
        if known is not None:
            with self._locked(limits, shared=True):
                entries = self._sound(known, limits)
                if entries is not None:
                    mark(known)
                    os.utime(self.place(known).parent)
                    return Copied(entries, known)
        with self._locked(limits, shared=False):
            draft = self.folder / _DRAFT
            _remove(draft)
            draft.mkdir(mode=0o700)
            copied = fill(draft / "tree")
            if self._sound(copied.digest, limits) is None:
                final = self.place(copied.digest).parent
                _remove(final)
                (draft / "bytes").write_text(str(_size(draft / "tree")))
                draft.rename(final)
            _remove(draft)
            mark(copied.digest)
            os.utime(self.place(copied.digest).parent)
            self._trim()
        return copied

    def prune(self, before: float, *, dry_run: bool = False) -> int:
        """Remove the trees that no session uses and none has used since ``before``; how many bytes they hold."""
        if not self.folder.is_dir():
            return 0
        with self._locked(Limits(), shared=False):
            unused = [(path, size) for path, used, size in self._trees() if used <= before]
            for path, _ in () if dry_run else unused:
                _remove(path)
            self._forget_commits()
            return sum(size for _, size in unused)

    def _sound(self, digest: str, limits: Limits) -> tuple[Entry, ...] | None:
        """The entries of the tree, if it is there and as its digest says."""
        try:
            entries = read_tree(self.place(digest), limits=limits)
        except (AffiantError, OSError):
            return None
        return entries if tree_digest(entries) == digest else None

    def _trees(self) -> Iterator[tuple[Path, float, int]]:
        """Path, last use and size of each tree that no session uses; the lock is held."""
        used = {digest.removeprefix("sha256:") for digest in self.in_use()}
        for path in self.folder.iterdir():
            if (path / "tree").is_dir() and path.name not in used and path.name != _DRAFT:
                size = 0
                with suppress(OSError, ValueError):
                    size = int((path / "bytes").read_text())
                yield path, path.stat().st_mtime, size

    def _trim(self) -> None:
        """Remove the trees that were used longest ago, beyond the bounds of the store."""
        total = 0
        for count, (path, _, size) in enumerate(sorted(self._trees(), key=lambda each: -each[1])):
            total += size
            if count >= _MOST_TREES or total > _MOST_BYTES:
                _remove(path)
        self._forget_commits()

    def _forget_commits(self) -> None:
        """Remove the notes about trees that are gone."""
        for note in (self.folder / _COMMITS).glob("*"):
            known = self.known_commit(note.name)
            if known is None or not self.place(known).is_dir():
                note.unlink(missing_ok=True)

    @contextmanager
    def _locked(self, limits: Limits, *, shared: bool) -> Iterator[None]:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self.folder / "lock", flags, 0o600)
        try:
            kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            while True:
                try:
                    fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
                    break
                except BlockingIOError:  # not waited for in the kernel: a start must stay interruptible
                    limits.proceed()
                    time.sleep(_LOCK_STEP_S)
            yield
        finally:
            os.close(descriptor)


def _size(tree: Path) -> int:
    total = 0
    for folder, _, files in os.walk(tree):
        total += sum(os.lstat(os.path.join(folder, name)).st_size for name in files)
    return total


def _remove(path: Path) -> None:
    subprocess.run(
        ["rm", "-rf", "--one-file-system", "--", str(path)], check=False, stderr=subprocess.DEVNULL
    )
