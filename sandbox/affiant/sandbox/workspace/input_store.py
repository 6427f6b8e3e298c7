"""Keeps input trees by their digest, so that a second session with the same input copies nothing.

A tree is ``<digest>/tree`` below the store's folder, which is its owner's alone, and is never written once it has
this name. Sessions get it as the read-only lower layer of an overlay. Each use reads it again and compares its digest.
A tree that was damaged is filled anew under its name. If a session uses the damaged one, that one is moved aside.

``sessions/<id>/digest`` says which tree a session uses; such a tree is not removed. The session's own layers are beside
it. No supervisor and no agent can enter this folder.

The lock is held only to rename and to make notes. Trees are filled, read and removed without it: what is being filled
is ``new.*``, locked by its process, and what is to be removed is ``old.*``.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import canonical
from affiant.errors import AffiantError
from affiant.files import write_whole
from affiant.sandbox.workspace.copy_in import Copied
from affiant.sandbox.workspace.tree import Entry, TreeUnreadable, tree_digest
from affiant.sandbox.workspace.walk import WHOLE, Limits, read_tree

__all__ = ["InputStore", "commit_key", "remove_whole"]

_COMMITS: Final = "commits"
_SESSIONS: Final = "sessions"
_NOTE: Final = "digest"
_DRAFT: Final = "new."
_DOOMED: Final = "old."
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_TREE: Final = re.compile(r"([0-9a-f]{64})(\.[0-9a-f]+)?")
"""Of a stored tree, and of a damaged one that was moved aside."""
_MOST_TREES: Final = 32
_MOST_BYTES: Final = 8 << 30
_LOCK_STEP_S: Final = 0.05
_LOCKED_FOR_S: Final = 20.0
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def commit_key(facts: Mapping[str, object]) -> str:
    """A name for what a commit gives: of the repository, the commit and what is left out."""
    return sha256_name(canonical(facts)).removeprefix("sha256:")


def remove_whole(*paths: Path) -> None:
    """Remove each path and what is in it, by rm(1): it follows no link, enters no mount and has no limit of depth."""
    if paths:
        command = ["rm", "-rf", "--one-file-system", "--", *(str(path) for path in paths)]
        subprocess.run(command, check=False, stderr=subprocess.DEVNULL)


@dataclass(frozen=True, slots=True)
class InputStore:
    """A store of trees. Each method raises OSError where the machine does not let it; TimeoutError: another process
    holds the lock for 20 seconds.

    Args:
        folder: made where it is missing; private to its owner.
    """

    folder: Path

    def place(self, digest: str) -> Path:
        """Where the tree with ``digest`` (``sha256:`` name) is, if it is there."""
        return self.folder / digest.removeprefix("sha256:") / "tree"

    def layers(self, session: str) -> Path:
        """Where the session's own layers are, if it has any."""
        return self.folder / _SESSIONS / session

    def used_by(self, session: str) -> Path | None:
        """Where the tree is that the session uses; None: it uses none."""
        digest = _noted(self.layers(session) / _NOTE)
        return None if digest is None else self.place(digest)

    @contextmanager
    def opened(self, session: str) -> Iterator[int]:
        """A descriptor of the tree that the session uses."""
        place = self.used_by(session)
        if place is None:
            raise FileNotFoundError(errno.ENOENT, "the session uses no stored input")
        with self._locked():  # none is being exchanged
            descriptor = os.open(place, _DIRECTORY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def known_commit(self, key: str) -> str | None:
        """The digest of the tree that was noted under ``key``."""
        return _noted(self.folder / _COMMITS / key)

    def note_commit(self, key: str, digest: str) -> None:
        """Note the digest of a commit's tree, if that can be done: without the note, the commit is read again."""
        with suppress(OSError), self._locked():
            (self.folder / _COMMITS).mkdir(mode=0o700, exist_ok=True)
            write_whole(self.folder / _COMMITS / key, digest.encode("ascii"))

    def use(
        self, session: str, known: str | None, *, fill: Callable[[Path], Copied], limits: Limits = WHOLE
    ) -> Copied:
        """The tree with the digest ``known``, else what ``fill`` makes; noted as used by ``session``.

        Args:
            fill: writes the tree into the folder that it is given. It is called again if the disk was full and trees
                that no session uses could be removed.

        Raises:
            AffiantError: of ``fill``, or of ``limits.proceed``.
        """
        self.folder.mkdir(mode=0o700, exist_ok=True)
        if known is not None:
            self._mark(session, known, limits)
            entries = self._sound(known, limits)
            if entries is not None:
                with suppress(FileNotFoundError):  # it was moved aside meanwhile
                    os.utime(self.place(known).parent)
                return Copied(entries, known)
        with self._draft(limits) as draft:
            copied = self._filled(draft, fill)
            self._mark(session, copied.digest, limits)
            if not self._store(draft, copied.digest, limits) and self._sound(copied.digest, limits) is None:
                self._store(draft, copied.digest, limits, replace=True)
        self._trim(limits)
        return copied

    def release(self, session: str) -> None:
        """The session does not use its tree any more: remove its layers, and trees beyond the bounds of the store."""
        if self.layers(session).exists():
            remove_whole(self.layers(session))
            with suppress(OSError):  # a later one does it
                self._trim(WHOLE)

    def prune(self, before: float, *, dry_run: bool = False) -> int:
        """Remove the trees that no session uses and none has used since ``before``; how many bytes they hold."""
        if not self.folder.is_dir():
            return 0
        with self._locked():
            unused = [(path, size) for path, used, size in self._unused() if used <= before]
            if not dry_run:
                self._doom(path for path, _ in unused)
        self._sweep()
        return sum(size for _, size in unused)

    def _mark(self, session: str, digest: str, limits: Limits) -> None:
        layers = self.layers(session)
        layers.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked(limits):
            write_whole(layers / _NOTE, digest.encode("ascii"))

    def _filled(self, draft: Path, fill: Callable[[Path], Copied]) -> Copied:
        try:
            copied = fill(draft / "tree")
        except TreeUnreadable as error:
            full = isinstance(error.__cause__, OSError) and error.__cause__.errno in _FULL
            if not full or self.prune(time.time()) == 0:
                raise
            remove_whole(draft / "tree")
            copied = fill(draft / "tree")
        (draft / "bytes").write_text(str(_size(draft / "tree")))
        return copied

    def _store(self, draft: Path, digest: str, limits: Limits, *, replace: bool = False) -> bool:
        """Give the filled tree its name; False: one of this name is there, and ``replace`` is false."""
        final = self.place(digest).parent
        with self._locked(limits):
            if replace and final.exists():
                final.rename(final.with_name(f"{final.name}.{secrets.token_hex(8)}"))
            if final.exists():
                return False
            draft.rename(final)
            return True

    def _sound(self, digest: str, limits: Limits) -> tuple[Entry, ...] | None:
        """The entries of the tree, if it is there and as its digest says."""
        try:
            entries = read_tree(self.place(digest), limits=limits)
        except (AffiantError, OSError):
            return None
        return entries if tree_digest(entries) == digest else None

    def _unused(self) -> Iterator[tuple[Path, float, int]]:
        """Path, last use and size of each tree that no session uses; the lock is held."""
        notes = (self.folder / _SESSIONS).glob(f"*/{_NOTE}")
        used = {digest.removeprefix("sha256:") for note in notes if (digest := _noted(note)) is not None}
        for path in self.folder.iterdir():
            named = _TREE.fullmatch(path.name)
            if named is not None and named[1] not in used:
                size = 0
                with suppress(OSError, ValueError):
                    size = int((path / "bytes").read_text())
                yield path, path.stat().st_mtime, size

    def _trim(self, limits: Limits) -> None:
        """Remove the trees that were used longest ago, beyond the bounds of the store."""
        total, beyond = 0, []
        with self._locked(limits):
            for count, (path, _, size) in enumerate(sorted(self._unused(), key=lambda each: -each[1])):
                total += size
                if count >= _MOST_TREES or total > _MOST_BYTES:
                    beyond.append(path)
            self._doom(beyond)
        self._sweep()

    def _doom(self, trees: Iterable[Path]) -> None:
        """Have the trees removed, their notes, and what killed processes were filling; the lock is held."""
        drafts = [path for path in self.folder.glob(f"{_DRAFT}*") if _abandoned(path)]
        for path in (*trees, *drafts):
            path.rename(self.folder / f"{_DOOMED}{secrets.token_hex(8)}")
        for note in (self.folder / _COMMITS).glob("*"):
            known = _noted(note)
            if known is None or not self.place(known).is_dir():
                note.unlink(missing_ok=True)

    def _sweep(self) -> None:
        remove_whole(*self.folder.glob(f"{_DOOMED}*"))

    @contextmanager
    def _draft(self, limits: Limits) -> Iterator[Path]:
        """A folder to fill. Its lock says that its process lives."""
        self._trim(limits)
        with self._locked(limits):
            draft = Path(mkdtemp(prefix=_DRAFT, dir=self.folder))
            descriptor = os.open(draft, _DIRECTORY)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            yield draft
        finally:
            remove_whole(draft)
            os.close(descriptor)

    @contextmanager
    def _locked(self, limits: Limits = WHOLE) -> Iterator[None]:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self.folder / "lock", flags, 0o600)
        until = time.monotonic() + _LOCKED_FOR_S
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:  # not waited for in the kernel: a start must stay interruptible
                    limits.proceed()
                    if time.monotonic() > until:
                        raise TimeoutError(
                            errno.ETIMEDOUT, "another process holds the store of inputs"
                        ) from None
                    time.sleep(_LOCK_STEP_S)
            yield
        finally:
            os.close(descriptor)


def _noted(path: Path) -> str | None:
    """The digest in a note; None: it is not there, or holds something else."""
    try:
        found = path.read_text(encoding="ascii")
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
        return None
    return found if _DIGEST.fullmatch(found) else None


def _abandoned(draft: Path) -> bool:
    """Whether no process fills ``draft`` any more."""
    try:
        descriptor = os.open(draft, _DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)


def _size(tree: Path) -> int:
    total = 0
    for folder, _, files in os.walk(tree):
        total += sum(os.lstat(os.path.join(folder, name)).st_size for name in files)
    return total
