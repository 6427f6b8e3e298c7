"""Copies the files of one commit of a git repository into a session's folder, without its ``.git``.

git reads the objects through a private repository that links to the given one's objects and names of commits, and has a
configuration of its own. So no configuration of the repository, the user or the machine is read, and with it no hook,
filter, helper or alias; nothing is fetched, written or locked. Commit, trees and files are compared with their names.
Files arrive as they are in the commit: pointers of LFS stay pointers, submodules are empty folders, line ends are not
changed.

Repositories with SHA-256 objects or reftable names are not read.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.errors import ConfigurationError
from affiant.sandbox.base.privileges import Owner
from affiant.sandbox.workspace.copy_in import Copied
from affiant.sandbox.workspace.git_process import SEARCHED, GitObjects, asked_git
from affiant.sandbox.workspace.tree import (
    Entry,
    FileNameError,
    Kind,
    TreeTooLarge,
    TreeUnreadable,
    tree_digest,
)
from affiant.sandbox.workspace.walk import WHOLE, Limits, escaped, open_directory

__all__ = [
    "Repository",
    "copy_commit",
    "open_repository",
    "read_pointer",
    "require_git",
    "resolve_commit",
    "submodules",
]

_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME: Final = re.compile(r"[0-9a-f]{40}")
_ENTRY: Final = re.compile(rb"([0-7]{1,6}) ([^\0]+)\0(.{20})", re.DOTALL)
"""An entry of a tree object: mode, name, and 20 bytes of SHA-1."""
_LINK_BYTES: Final = 4096
_POINTER_BYTES: Final = 1 << 16
_ALTERNATES: Final = 100
_CONFIGURATION: Final = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
_TREE_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class _Item:
    """One entry of a tree; ``mode`` is one of the five that git has."""

    path: str
    mode: str
    name: str
    """Of the object."""


def copy_commit(
    repository: Path,
    reference: str,
    target: Path,
    *,
    limits: Limits = WHOLE,
    exclude: frozenset[str] = frozenset(),
    owner: Owner | None = None,
) -> tuple[Copied, str]:
    """Write the commit's tree into the empty directory ``target`` (made if missing).

    Args:
        repository: a working tree, one made by ``git worktree``, or a bare repository.
        reference: a branch, tag or commit, as ``git rev-parse`` takes it.
        exclude, owner: as :func:`copy_in` has them.

    Returns:
        what was copied, and the commit's name.

    Raises:
        ``session.input_commit``: no such repository or commit. ``workspace.git``: git is not installed.
        FileNameError, TreeTooLarge: the commit holds what cannot be copied.
        TreeUnreadable: git or the machine did not let us.
    """
    try:
        with _private_repository(repository) as git:
            commit = _resolve(git, reference, repository)
            target.mkdir(mode=0o755, parents=True, exist_ok=True)
            with open_directory(target) as copy, GitObjects.of(git, limits) as objects:
                if os.listdir(copy):
                    raise TreeUnreadable("the copy's directory is not empty", where=escaped(target.name))
                writer = _Writer(copy, objects, limits, owner)
                writer.give(copy)
                for item in _items(objects, commit, limits):
                    if not any(item.path == path or item.path.startswith(f"{path}/") for path in exclude):
                        writer.write(item)
    except OSError as error:
        raise TreeUnreadable("the commit cannot be copied", found=error.strerror) from error
    return Copied(tuple(writer.entries), tree_digest(writer.entries), commit), commit


def require_git(where: str) -> None:
    """Return if git is installed.

    Raises:
        ``workspace.git``: it is not; ``where`` needs it.
    """
    if shutil.which("git", path=SEARCHED) is None:
        raise ConfigurationError("git is not installed", where=where, expected=SEARCHED, code="workspace.git")


def resolve_commit(repository: Path, reference: str) -> tuple[str, str]:
    """The name of the commit, and one for the repository that it is in.

    Raises:
        ``session.input_commit``: no such repository or commit.
    """
    with open_repository(repository) as (git, folders):
        facts = folders.common.stat()
        place = os.fsencode(folders.common).hex()
        return _resolve(git, reference, repository), f"{place} {facts.st_dev} {facts.st_ino} {facts.st_uid}"


def _no_repository(repository: Path, found: str) -> ConfigurationError:
    return ConfigurationError(
        "not a git repository that can be read",
        where=escaped(str(repository)),
        expected="a folder with .git, or a bare repository, with SHA-1 objects",
        found=found,
        code="session.input_commit",
    )


@dataclass(frozen=True, slots=True)
class Repository:
    """The folders of a repository: with HEAD, and with objects and names; of a worktree they differ."""

    own: Path
    common: Path


@contextmanager
def _private_repository(repository: Path) -> Iterator[Path]:
    """A repository of our own with the objects, branches and tags of ``repository``, and none of its configuration."""
    with open_repository(repository) as (git, _):
        yield git


@contextmanager
def open_repository(repository: Path) -> Iterator[tuple[Path, Repository]]:
    """A repository of our own with the objects, branches and tags of ``repository``, and none of its configuration;
    and where its own folders are.

    Raises:
        ``session.input_commit``: it is no repository that can be read. ``workspace.git``: git is not installed.
    """
    require_git("--input")
    own, common = _folders_of(repository)
    if (common / "reftable").exists() or not (common / "objects").is_dir():
        raise _no_repository(repository, "the repository lacks an objects folder, or uses reftable")
    with tempfile.TemporaryDirectory(prefix="affiant-git-", ignore_cleanup_errors=True) as made:
        git = Path(made)
        (git / "config").write_text(_CONFIGURATION)
        try:
            (git / "HEAD").write_bytes(read_pointer(own / "HEAD")[:_POINTER_BYTES])
        except OSError as error:
            raise _no_repository(repository, "HEAD cannot be read") from error
        for name in ("objects", "refs", "packed-refs", "shallow"):
            place = (common / name).resolve()
            if place.exists():
                _require_own(repository, place)
                (git / name).symlink_to(place)
        _require_own_alternates(repository, (git / "objects").resolve())
        yield git, Repository(own.resolve(), common.resolve())


def _require_own(repository: Path, place: Path) -> None:
    """Return if ``place`` belongs to the folder's owner, and no link leads out of it."""
    if place.stat().st_uid != repository.stat().st_uid:
        raise _no_repository(repository, f"{place.name} of another owner")
    waiting = [place] if place.is_dir() else []
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise _no_repository(
                        repository, f"a link in {place.name}, perhaps to another owner's files"
                    )
                if entry.is_dir():
                    waiting.append(Path(entry.path))


def _require_own_alternates(repository: Path, objects: Path) -> None:
    """Return if all folders that git would read objects from belong to the folder's owner."""
    waiting, seen = [objects], {objects}
    while waiting:
        folder = waiting.pop()
        try:
            text = read_pointer(folder / "info" / "alternates")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise _no_repository(repository, "its alternates cannot be read") from error
        if len(text) > _POINTER_BYTES:
            raise _no_repository(repository, "too many alternates")
        for line in text.split(b"\n"):
            if line.startswith(b'"') or b"\0" in line:
                raise _no_repository(repository, "an alternate whose path is quoted")
            # As git does: ".." is taken from the text, before links are followed.
            named = Path(os.path.realpath(os.path.normpath(folder / os.fsdecode(line))))
            if line and not line.startswith(b"#") and named.exists() and named not in seen:
                if len(seen) > _ALTERNATES:
                    raise _no_repository(repository, "too many alternates")
                _require_own(repository, named)
                seen.add(named)
                waiting.append(named)


def _folders_of(repository: Path) -> tuple[Path, Path]:
    """The folder that holds HEAD, and the one that holds objects; of a worktree they differ."""
    own = repository / ".git"
    try:
        if own.is_file():
            text = read_pointer(own).decode("utf-8", "surrogateescape")
            own = repository / text.removeprefix("gitdir:").strip()
        elif not own.is_dir():
            own = repository
        if not (own / "HEAD").is_file():
            raise _no_repository(repository, "no HEAD")
        common = own / "commondir"
        if common.is_file():
            return own, own / read_pointer(common).decode("utf-8", "surrogateescape").strip()
    except (OSError, ValueError) as error:
        raise _no_repository(repository, type(error).__name__) from error
    return own, own


def read_pointer(path: Path) -> bytes:
    """At most 64 KiB and one byte of a file in a repository, which may be another user's: no pipe is waited for.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return file.read(_POINTER_BYTES + 1)


def _resolve(git: Path, reference: str, repository: Path) -> str:
    name = None
    if reference and "\0" not in reference:
        options = ("--verify", "--quiet", "--end-of-options")
        name = asked_git(git, "rev-parse", *options, f"{reference}^{{commit}}")
    if name is None or not _NAME.fullmatch(name):
        raise ConfigurationError(
            "the repository has no such commit",
            where=escaped(str(repository)),
            found=escaped(reference),
            expected="a branch, a tag or a commit that is here; nothing is fetched",
            code="session.input_commit",
        )
    return name


def submodules(git: Path, commit: str) -> frozenset[str]:
    """The paths in the commit that are commits of other repositories."""
    with GitObjects.of(git, WHOLE) as objects:
        return frozenset(item.path for item in _items(objects, commit, WHOLE) if item.mode == "160000")


def _items(objects: GitObjects, commit: str, limits: Limits) -> Iterator[_Item]:
    """Each directory before what is in it."""
    content = b"".join(objects.read(commit, "commit", where=commit, at_most=_TREE_BYTES))
    tree = content.partition(b"\n")[0].removeprefix(b"tree ").decode("ascii", "replace")
    for count, item in enumerate(_below(objects, tree, "", limits)):
        if count >= limits.files:
            raise TreeTooLarge("too many files", expected=f"at most {limits.files}")
        yield item


def _below(objects: GitObjects, tree: str, prefix: str, limits: Limits) -> Iterator[_Item]:
    content, at = b"".join(objects.read(tree, "tree", where=prefix, at_most=_TREE_BYTES)), 0
    while at < len(content):
        entry = _ENTRY.match(content, at)
        if entry is None:
            raise TreeUnreadable("git cannot read the commit's tree", where=escaped(prefix))
        octal, name, object_name = entry.groups()
        item = _Item(_safe_path(prefix, name, limits), _mode(int(octal, 8)), object_name.hex())
        at = entry.end()
        yield item
        if item.mode == "040000":
            yield from _below(objects, item.name, f"{item.path}/", limits)


def _mode(number: int) -> str:
    """As git takes it: five modes, whatever the tree says."""
    match stat.S_IFMT(number):
        case stat.S_IFDIR:
            return "040000"
        case stat.S_IFLNK:
            return "120000"
        case stat.S_IFREG:
            return "100755" if number & stat.S_IXUSR else "100644"
        case _:
            return "160000"


def _safe_path(prefix: str, raw: bytes, limits: Limits) -> str:
    """The path of a tree's entry, which anyone may have made.

    Raises:
        FileNameError: not printable, or it leads elsewhere or into a ``.git``.
        TreeTooLarge: nested too deep.
    """
    name = raw.decode("utf-8", "surrogateescape")
    path = prefix + name
    if not name.isprintable() or "/" in name or name in {".", ".."} or name.lower() == ".git":
        raise FileNameError("a commit holds a path that no folder can have", where=escaped(path))
    if path.count("/") >= limits.depth:
        raise TreeTooLarge("directories nested too deep", where=escaped(path[:200]))
    return path


class _Writer:
    """Makes entries below a descriptor; every directory there was made by itself, so no link is met."""

    def __init__(self, copy: int, objects: GitObjects, limits: Limits, owner: Owner | None) -> None:
        self.entries: list[Entry] = []
        self._copy, self._objects, self._owner = copy, objects, owner
        self._left = limits.total_bytes

    def give(self, fd: int) -> None:
        if self._owner is not None:
            os.fchown(fd, self._owner.uid, self._owner.gid)

    def write(self, item: _Item) -> None:
        match item.mode:
            case "040000" | "160000":  # a folder; a submodule, which is an empty one
                os.mkdir(item.path, 0o755, dir_fd=self._copy)
                self._give_path(item.path)
                self._add(item, Kind.DIRECTORY, "")
            case "120000":
                target = b"".join(self._content(item, at_most=_LINK_BYTES)).decode("utf-8", "surrogateescape")
                if not target.isprintable() or not target:
                    raise FileNameError("a link's target is not printable Unicode", where=escaped(item.path))
                os.symlink(target, item.path, dir_fd=self._copy)
                self._give_path(item.path)
                self._add(item, Kind.LINK, target)
            case _:
                self._write_file(item)

    def _write_file(self, item: _Item) -> None:
        digest, executable = hashlib.sha256(), item.mode == "100755"
        fd = os.open(item.path, _NEW_FILE, 0o755 if executable else 0o644, dir_fd=self._copy)
        with os.fdopen(fd, "wb") as file:
            for chunk in self._content(item, at_most=self._left):
                self._left -= len(chunk)
                digest.update(chunk)
                file.write(chunk)
            file.flush()
            self.give(fd)
        self._add(item, Kind.FILE, f"sha256:{digest.hexdigest()}", executable=executable)

    def _content(self, item: _Item, *, at_most: int) -> Iterator[bytes]:
        return self._objects.read(item.name, "blob", where=item.path, at_most=at_most)

    def _give_path(self, path: str) -> None:
        if self._owner is not None:
            os.chown(path, self._owner.uid, self._owner.gid, dir_fd=self._copy, follow_symlinks=False)

    def _add(self, item: _Item, kind: Kind, content: str, *, executable: bool = False) -> None:
        self.entries.append(Entry(item.path, kind, executable, content))
