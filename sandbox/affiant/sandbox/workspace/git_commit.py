"""Copies the files of one commit of a git repository into a session's folder, without its ``.git``.

git reads the objects through a private repository that links to the given one's objects and names of commits, and has a
configuration of its own. So no configuration of the repository, the user or the machine is read, and with it no hook,
filter, helper or alias; nothing is fetched, written or locked. Files arrive as they are in the commit: pointers of LFS
stay pointers, submodules are empty folders, line ends are not changed.

Repositories with SHA-256 objects or reftable names are not read.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from affiant.errors import ConfigurationError, UnreachableError
from affiant.sandbox.base.privileges import Owner
from affiant.sandbox.workspace.copy_in import Copied
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
    "ENVIRONMENT",
    "Repository",
    "copy_commit",
    "git_command",
    "machine_errors",
    "open_repository",
    "require_git",
    "resolve_commit",
    "submodules",
]

_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK: Final = 1 << 20
_LINK_BYTES: Final = 4096
_POINTER_BYTES: Final = 1 << 16
_ALTERNATES: Final = 100
_CONFIGURATION: Final = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
ENVIRONMENT: Final = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LC_ALL": "C",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
}


@dataclass(frozen=True, slots=True)
class _Item:
    """One line of ``git ls-tree``."""

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
            with open_directory(target) as copy, _objects(git) as objects:
                if os.listdir(copy):
                    raise TreeUnreadable("the copy's directory is not empty", where=escaped(target.name))
                writer = _Writer(copy, objects, limits, owner)
                writer.give(copy)
                for item in _items(git, commit, limits):
                    if not any(item.path == path or item.path.startswith(f"{path}/") for path in exclude):
                        writer.write(item)
    except OSError as error:
        raise TreeUnreadable("the commit cannot be copied", found=error.strerror) from error
    return Copied(tuple(writer.entries), tree_digest(writer.entries), commit), commit


@contextmanager
def machine_errors() -> Iterator[None]:
    """Give an error of the machine a code, for the length of a block or of a call.

    Raises:
        ``workspace.unwritable``: it has no temporary folder, or its disk is full.
    """
    try:
        yield
    except OSError as error:
        raise UnreachableError(
            "git cannot read or write its files on this machine",
            where=None if error.filename is None else escaped(os.fsdecode(error.filename)),
            found=error.strerror,
            code="workspace.unwritable",
        ) from error


def require_git(where: str) -> None:
    """Return if git is installed.

    Raises:
        ``workspace.git``: it is not; ``where`` needs it.
    """
    if shutil.which("git", path=ENVIRONMENT["PATH"]) is None:
        raise ConfigurationError(
            "git is not installed", where=where, expected=ENVIRONMENT["PATH"], code="workspace.git"
        )


@machine_errors()
def resolve_commit(repository: Path, reference: str) -> tuple[str, str]:
    """The name of the commit, and one for the repository that it is in.

    Raises:
        ``session.input_commit``: no such repository or commit. ``workspace.unwritable``: the machine did not let us.
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
    with tempfile.TemporaryDirectory(prefix="affiant-git-") as made:
        git = Path(made)
        (git / "config").write_text(_CONFIGURATION)
        with open(own / "HEAD", "rb") as file:
            (git / "HEAD").write_bytes(file.read(_POINTER_BYTES))
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
            with open(folder / "info" / "alternates", "rb") as file:
                text = file.read(_POINTER_BYTES + 1)
        except FileNotFoundError:
            continue
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
            text = own.read_bytes()[:_POINTER_BYTES].decode("utf-8", "surrogateescape")
            own = repository / text.removeprefix("gitdir:").strip()
        elif not own.is_dir():
            own = repository
        if not (own / "HEAD").is_file():
            raise _no_repository(repository, "no HEAD")
        common = own / "commondir"
        if common.is_file():
            return own, own / common.read_bytes()[:_POINTER_BYTES].decode("utf-8", "surrogateescape").strip()
    except (OSError, ValueError) as error:
        raise _no_repository(repository, type(error).__name__) from error
    return own, own


def git_command(git: Path, *arguments: str) -> list[str]:
    """A call of git in the private repository ``git``; with :data:`ENVIRONMENT` it reads no other configuration."""
    return ["git", f"--git-dir={git}", "--no-pager", *arguments]


def _resolve(git: Path, reference: str, repository: Path) -> str:
    done = None
    if reference and "\0" not in reference:
        done = subprocess.run(
            git_command(
                git, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{reference}^{{commit}}"
            ),
            env=ENVIRONMENT,
            cwd=git,
            capture_output=True,
            check=False,
        )
    name = "" if done is None else done.stdout.decode("ascii", "replace").strip()
    if done is None or done.returncode != 0 or len(name) != 40:
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
    return frozenset(item.path for item in _items(git, commit, WHOLE) if item.mode == "160000")


def _items(git: Path, commit: str, limits: Limits) -> Iterator[_Item]:
    """Each directory before what is in it."""
    with subprocess.Popen(
        git_command(git, "ls-tree", "-r", "-t", "-z", "--full-tree", commit),
        env=ENVIRONMENT,
        cwd=git,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        try:
            for count, line in enumerate(_split(process.stdout)):
                if count >= limits.files:
                    raise TreeTooLarge("too many files", expected=f"at most {limits.files}")
                limits.proceed()
                facts, _, path = line.partition(b"\t")
                mode, _, name = facts.decode("ascii").split(" ")
                yield _Item(_safe_path(path, limits), mode, name)
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise TreeUnreadable("git cannot read the commit's tree", where=commit)


def _split(stream: IO[bytes]) -> Iterator[bytes]:
    """What stands before each NUL."""
    held = b""
    while chunk := stream.read(_CHUNK):
        *whole, held = (held + chunk).split(b"\0")
        yield from whole


def _safe_path(raw: bytes, limits: Limits) -> str:
    """A path of a commit, which anyone may have made.

    Raises:
        FileNameError: not printable, or it leads elsewhere or into a ``.git``.
        TreeTooLarge: nested too deep.
    """
    path = raw.decode("utf-8", "surrogateescape")
    names = path.split("/")
    if not path.isprintable() or any(name in {"", ".", ".."} or name.lower() == ".git" for name in names):
        raise FileNameError("a commit holds a path that no folder can have", where=escaped(path))
    if len(names) > limits.depth:
        raise TreeTooLarge("directories nested too deep", where=escaped(path[:200]))
    return path


@contextmanager
def _objects(git: Path) -> Iterator[subprocess.Popen[bytes]]:
    """``git cat-file --batch``: names in, contents out."""
    with subprocess.Popen(
        git_command(git, "cat-file", "--batch"),
        env=ENVIRONMENT,
        cwd=git,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


class _Writer:
    """Makes entries below a descriptor; every directory there was made by itself, so no link is met."""

    def __init__(
        self, copy: int, objects: subprocess.Popen[bytes], limits: Limits, owner: Owner | None
    ) -> None:
        self.entries: list[Entry] = []
        self._copy, self._objects, self._limits, self._owner = copy, objects, limits, owner
        self._left = limits.total_bytes
        self._folders = {""}

    def give(self, fd: int) -> None:
        if self._owner is not None:
            os.fchown(fd, self._owner.uid, self._owner.gid)

    def write(self, item: _Item) -> None:
        if item.path.rpartition("/")[0] not in self._folders:
            raise FileNameError("a commit holds a path below no folder", where=escaped(item.path))
        match item.mode:
            case "040000" | "160000":  # a folder; a submodule, which is an empty one
                os.mkdir(item.path, 0o755, dir_fd=self._copy)
                self._give_path(item.path)
                if item.mode == "040000":
                    self._folders.add(item.path)
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
        assert self._objects.stdin is not None
        assert self._objects.stdout is not None
        self._objects.stdin.write(item.name.encode("ascii") + b"\n")
        self._objects.stdin.flush()
        header = self._objects.stdout.readline().split()
        if len(header) != 3 or header[1] != b"blob":
            raise TreeUnreadable("the repository lacks an object of the commit", where=escaped(item.path))
        left = int(header[2])
        if left > at_most:
            raise TreeTooLarge("too many bytes", where=escaped(item.path))
        while left:
            self._limits.proceed()
            chunk = self._objects.stdout.read(min(left, _CHUNK))
            if not chunk:
                raise TreeUnreadable("git ended early", where=escaped(item.path))
            left -= len(chunk)
            yield chunk
        self._objects.stdout.read(1)  # the newline behind each object

    def _give_path(self, path: str) -> None:
        if self._owner is not None:
            os.chown(path, self._owner.uid, self._owner.gid, dir_fd=self._copy, follow_symlinks=False)

    def _add(self, item: _Item, kind: Kind, content: str, *, executable: bool = False) -> None:
        self.entries.append(Entry(item.path, kind, executable, content))
