"""Writes what a session changed as a diff, or as one commit on a new branch of the repository that its input came from.

1. git works in a private repository with a configuration of its own, as :mod:`git_commit` does. So no hook, filter,
   attribute or configuration of the repository, the user or the machine is read.
2. A diff is made beside the repository: nothing is written into it. It is what ``git apply`` takes.
3. A branch is asked for by name, and is new: the last step creates it, and fails if there is one of this name. Work
   trees, indexes, other branches and HEAD stay as they are. Before that step, only objects are added.
4. Root writes into a repository of another user as that user, so that no link in it leads further than its owner could.
5. What git or another file system would take for a ``.git``, and what lies below a submodule, is left out and named.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final

from affiant.errors import ConfigurationError, UnreachableError
from affiant.sandbox.base.privileges import is_root
from affiant.sandbox.workspace.copy_out import Left, content_left
from affiant.sandbox.workspace.git_commit import (
    Repository,
    open_repository,
    read_pointer,
    require_git,
    submodules,
)
from affiant.sandbox.workspace.git_process import Writer, asked_git, git_process
from affiant.sandbox.workspace.tree import Entry, Kind, Skipped, TreeTooLarge, TreeUnreadable, tree_digest
from affiant.sandbox.workspace.walk import escaped, open_directory, read_tree

__all__ = [
    "FolderBase",
    "branch_message",
    "fit_for_git",
    "make_branch",
    "make_diff",
    "require_new_branch",
    "submodules_of",
]

_DIFF_BYTES: Final = 256 << 20
_NONE: Final = "0" * 40
_CHANGES: Final = "refs/heads/changes"
_BASE: Final = "refs/heads/base"
_IDENTITY: Final = "affiant <affiant@localhost>"
_NTFS_SHORT: Final = re.compile(r"git~[0-9]+")
_CONFIGURATION: Final = (
    "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tfsync = committed,loose-object,reference\n"
)


@dataclass(frozen=True, slots=True)
class FolderBase:
    """The files before the session, where they came from a folder: a copy that the agent never had."""

    folder: Path
    entries: tuple[Entry, ...]


def fit_for_git(left: Left, submodule_paths: Iterable[str] = ()) -> Left:
    """``left`` without what no commit should hold; what is left out is in ``skipped``. Empty folders are no change
    to git."""
    modules, skipped = frozenset(submodule_paths), list(left.changes.skipped)
    fit: dict[str, tuple[str, ...]] = {}
    for part in ("added", "changed", "removed"):
        kept = []
        for path in getattr(left.changes, part):
            reason = _unfit(path, modules)
            if reason is None:
                kept.append(path)
            else:
                skipped.append(Skipped(escaped(path), reason))
        fit[part] = tuple(kept)
    return replace(left, changes=replace(left.changes, **fit, folders=(), skipped=tuple(skipped)))


def _unfit(path: str, modules: frozenset[str]) -> str | None:
    names = path.split("/")
    if any(_names_git(name) for name in names):
        return "workspace.git_name"
    above = ("/".join(names[:count]) for count in range(1, len(names) + 1))
    return "workspace.submodule" if any(each in modules for each in above) else None


def _names_git(name: str) -> bool:
    """Whether some file system takes ``name`` for ``.git``: other cases, Windows' short names, streams and final dots.

    Characters that a Mac ignores are not printable, and never come this far.
    """
    for part in name.split("\\"):
        plain = part.partition(":")[0].casefold().rstrip(". ")
        if plain == ".git" or _NTFS_SHORT.fullmatch(plain):
            return True
    return False


def make_diff(left: Left, source: Path, *, base: FolderBase | tuple[Path, str]) -> bytes:
    """The changes as a diff for ``git apply``, binary files too.

    Args:
        left: from :func:`fit_for_git`. source: the session's folder.
        base: the files before: a copy, or a repository and the commit in it.

    Raises:
        TreeUnreadable: what is to be read has changed. TreeTooLarge: more than 256 MiB.
        ``session.input_commit``: the repository cannot be read any more. ``workspace.git``: git is not installed.
    """
    require_git("--output-diff")
    with tempfile.TemporaryDirectory(prefix="affiant-git-", ignore_cleanup_errors=True) as made:
        git = Path(made)
        _begin(git)
        (git / "objects").mkdir()
        if isinstance(base, FolderBase):
            _require_unchanged(base)
            with _importing(git, None) as stream, open_directory(base.folder) as tree:
                _begin_commit(stream, _BASE, b"", 0)
                gone = {*left.changes.changed, *left.changes.removed}
                _write_entries(stream, [entry for entry in base.entries if entry.path in gone], tree)
                _write_changes(stream, left, source, message=b"", now=0, parent=_BASE)
            return _diff(git, _BASE)
        repository, commit = base
        with open_repository(repository) as (linked, _):
            (git / "objects" / "info").mkdir()
            place = os.fsencode((linked / "objects").resolve())
            if b"\n" in place:
                raise TreeUnreadable("the repository's path has a line break", where=escaped(str(repository)))
            (git / "objects" / "info" / "alternates").write_bytes(place + b"\n")
            with _importing(git, None) as stream:
                _write_changes(stream, left, source, message=b"", now=0, parent=commit)
            return _diff(git, commit)


def _require_unchanged(base: FolderBase) -> None:
    if tree_digest(read_tree(base.folder)) != tree_digest(base.entries):
        raise TreeUnreadable("the copy of the input was changed", expected="the input's digest")


def _diff(git: Path, before: str) -> bytes:
    options = (
        "-p",
        "--binary",
        "--full-index",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
    )
    with git_process(git, "diff-tree", *options, before, _CHANGES) as process:
        assert process.stdout is not None
        found = process.stdout.read(_DIFF_BYTES + 1)
        if len(found) > _DIFF_BYTES:
            raise TreeTooLarge("the diff is too large", expected=f"at most {_DIFF_BYTES} bytes")
    if process.returncode != 0:
        raise TreeUnreadable("git cannot compare the files")
    return found


def branch_message(
    *, session: str, agent: str, task: Mapping[str, object] | None, receipt: tuple[str, str]
) -> str:
    """The message of the branch's commit.

    Args:
        receipt: the kind of the record that the trailer names, and its hash.

    >>> print(branch_message(session="S", agent="dev", task={"task": "7"}, receipt=("session-close", "h")))
    Changes of agent dev in session S
    <BLANKLINE>
    Affiant-Session: S
    Affiant-Task: {"task":"7"}
    Affiant-Receipt: session-close h
    <BLANKLINE>
    """
    kind, name = receipt
    label = (
        [] if task is None else [f"Affiant-Task: {json.dumps(task, sort_keys=True, separators=(',', ':'))}"]
    )
    trailers = [f"Affiant-Session: {session}", *label, f"Affiant-Receipt: {kind} {name}"]
    return "\n".join([f"Changes of agent {escaped(agent)} in session {session}", "", *trailers, ""])


def require_new_branch(repository: Path, branch: str) -> None:
    """Return if ``branch`` can be made in ``repository``.

    Raises:
        ``session.output_branch``: it exists, or is no name of a branch.
        ``session.input_commit``: no such repository.
    """
    with open_repository(repository) as (git, folders):
        _require_new(git, folders, branch)


def _require_new(git: Path, folders: Repository, branch: str, writer: Writer = None) -> None:
    name = f"refs/heads/{branch}"
    if (
        branch.startswith("-")
        or branch == "HEAD"
        or "\0" in branch
        or asked_git(git, "check-ref-format", name, writer=writer) is None
    ):
        raise ConfigurationError(
            "not a name for a branch",
            where="--output-branch",
            found=escaped(branch),
            code="session.output_branch",
        )
    listed = asked_git(git, "for-each-ref", "--format=%(refname)", "refs/heads", writer=writer)
    if listed is None:
        raise _unwritable(folders.common)
    for other in (*listed.split("\n"), *_checked_out(folders)):
        if other == name or other.startswith(f"{name}/") or (other and name.startswith(f"{other}/")):
            raise ConfigurationError(
                "the repository has a branch of this name, or one that excludes it",
                where=escaped(branch),
                found=escaped(other.removeprefix("refs/heads/")),
                expected="a new branch",
                code="session.output_branch",
            )


def _checked_out(folders: Repository) -> Iterator[str]:
    """What the work trees have checked out: a branch without a commit yet is in no list."""
    for head in (folders.own / "HEAD", folders.common / "HEAD", *folders.common.glob("worktrees/*/HEAD")):
        try:
            text = read_pointer(head).decode("utf-8", "surrogateescape")
        except OSError:
            continue
        if text.startswith("ref:"):
            yield text.removeprefix("ref:").strip()


def make_branch(
    left: Left, source: Path, *, repository: Path, commit: str, branch: str, message: str, now: int
) -> str:
    """Make ``branch`` in ``repository``: one commit on top of ``commit`` with the changes; the new commit's name.

    Args:
        left: from :func:`fit_for_git`. now: seconds since 1970.

    Raises:
        ``session.output_branch``: the branch exists by now.
        ``session.input_commit``: the repository cannot be read any more.
        ``workspace.unwritable``: the repository cannot be written; no branch was made.
    """
    with (
        open_repository(repository) as (linked, folders),
        tempfile.TemporaryDirectory(prefix="affiant-git-", ignore_cleanup_errors=True) as made,
    ):
        _require_new(linked, folders, branch)
        git, writer = Path(made), _writer_of(repository)
        _begin(git)
        for name in ("objects", "shallow"):
            if (linked / name).exists():
                (git / name).symlink_to((linked / name).resolve())
        if writer is not None:
            _give(git, writer)
        with _importing(git, writer) as stream:
            _write_changes(stream, left, source, message=message.encode(), now=now, parent=commit)
        new = asked_git(git, "rev-parse", "--verify", "--quiet", _CHANGES, writer=writer)
        if new is None:
            raise _unwritable(repository)
        if writer is not None:
            _give(linked, writer)
        update = ("update-ref", "--no-deref", f"refs/heads/{branch}", new, _NONE)
        if asked_git(linked, *update, writer=writer) is None:
            _require_new(linked, folders, branch, writer)
            raise _unwritable(repository)
        return new


def submodules_of(repository: Path, commit: str) -> frozenset[str]:
    """The submodules of a commit.

    Raises:
        ``session.input_commit``: no such repository.
    """
    with open_repository(repository) as (git, _):
        return submodules(git, commit)


def _unwritable(repository: Path) -> UnreachableError:
    return UnreachableError(
        "the repository cannot be written, and no branch was made",
        where=escaped(str(repository)),
        code="workspace.unwritable",
    )


def _writer_of(repository: Path) -> Writer:
    """The user and group as whom root writes into the repository; None: as this process."""
    facts = repository.stat()
    return (facts.st_uid, facts.st_gid) if is_root() and facts.st_uid != 0 else None


def _give(git: Path, writer: tuple[int, int]) -> None:
    """Give the private repository, which holds links and no secret, to the writer."""
    for folder, _, files in os.walk(git):
        for path in (folder, *(os.path.join(folder, name) for name in files)):
            os.chown(path, *writer, follow_symlinks=False)


def _begin(git: Path) -> None:
    (git / "config").write_text(_CONFIGURATION)
    (git / "HEAD").write_text("ref: refs/heads/none\n")
    (git / "refs" / "heads").mkdir(parents=True)


@contextmanager
def _importing(git: Path, writer: Writer) -> Iterator[IO[bytes]]:
    """``git fast-import``: commits in, objects out.

    Raises:
        ``workspace.unwritable``: it failed.
    """
    arguments = ("fast-import", "--quiet", "--done", "--date-format=raw")
    with git_process(
        git, *arguments, writer=writer, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        try:
            yield process.stdin
            process.stdin.write(b"done\n")
            process.stdin.close()
        except BrokenPipeError:  # it failed: its exit status says so
            _end(process)
        except BaseException:
            _end(process)
            raise
    if process.returncode != 0:
        raise UnreachableError("git cannot write the changed files", code="workspace.unwritable")


def _end(process: subprocess.Popen[Any]) -> None:
    process.kill()
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()


def _begin_commit(stream: IO[bytes], name: str, message: bytes, now: int) -> None:
    head = f"commit {name}\ncommitter {_IDENTITY} {now} +0000\ndata {len(message)}\n"
    stream.write(head.encode() + message + b"\n")


def _write_changes(
    stream: IO[bytes], left: Left, source: Path, *, message: bytes, now: int, parent: str
) -> None:
    """One commit on top of ``parent``; what is gone first, so that a folder can follow a file."""
    _begin_commit(stream, _CHANGES, message, now)
    stream.write(f"from {parent}\n".encode())
    for path in left.changes.removed:
        stream.write(b"D " + _quoted(path) + b"\n")
    with open_directory(source) as tree:
        _write_entries(stream, [entry for entry in left.entries if entry.path in left.wanted], tree)


def _write_entries(stream: IO[bytes], entries: Iterable[Entry], tree: int) -> None:
    for entry in entries:
        if entry.kind is Kind.LINK:
            target = entry.content.encode()
            stream.write(b"M 120000 inline " + _quoted(entry.path) + f"\ndata {len(target)}\n".encode())
            stream.write(target + b"\n")
        elif entry.kind is Kind.FILE:
            mode = b"100755" if entry.executable else b"100644"
            stream.write(b"M " + mode + b" inline " + _quoted(entry.path) + b"\n")
            _write_content(stream, entry, tree)


def _write_content(stream: IO[bytes], entry: Entry, tree: int) -> None:
    """The file's bytes, which must be those that were compared before."""
    digest, sent = hashlib.sha256(), 0
    with content_left(entry, tree) as (size, pieces):
        stream.write(f"data {size}\n".encode())
        for piece in pieces:
            digest.update(piece)
            sent += len(piece)
            stream.write(piece)
    if sent != size or f"sha256:{digest.hexdigest()}" != entry.content:
        raise TreeUnreadable("a file changed while it was read", where=escaped(entry.path))
    stream.write(b"\n")


def _quoted(path: str) -> bytes:
    """A path as ``fast-import`` reads it; what is printable has no line break in it."""
    if not path.isprintable():
        raise TreeUnreadable("a path is not printable", where=escaped(path))
    return b'"' + path.replace("\\", "\\\\").replace('"', '\\"').encode() + b'"'
