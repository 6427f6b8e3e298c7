"""Carries out one call on the session's files, as the agent's user, in a process that can reach nothing else.

The process is a fork of the runner. Its root directory becomes the one file entry that the call is about, as the
agent's sandbox shows it: read-only and carve-outs are mounts. Then it becomes the owner of the session's files, without
a capability. It reads its input from one descriptor, writes what comes of it to another, and ends.

The agent's programs change these files meanwhile. Paths are resolved by openat2(2): a link is followed within the entry
only, never out of it, into another mount or through /proc. What is written is written without following a link.
"""

from __future__ import annotations

import errno
import hashlib
import os
import resource
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from affiant.errors import AffiantError, NotAllowedError, StateError, UnreachableError
from affiant.sandbox.base.privileges import Owner, confine
from affiant.sandbox.isolation.plan import linux
from affiant.sandbox.isolation.plan.file_access import FileAct, FileCall
from affiant.sandbox.isolation.plan.plan import Limits
from affiant.sandbox.workspace.tree import (
    Entry,
    FileNameError,
    Kind,
    Skipped,
    SpecialFile,
    TreeTooLarge,
    TreeUnreadable,
)
from affiant.sandbox.workspace.tree_stream import TreeReader, TreeWriter, pack, require_size
from affiant.sandbox.workspace.unpack import Unpacking, write_file
from affiant.sandbox.workspace.walk import (
    Found,
    chunks_of,
    descended,
    escaped,
    link_target,
    look_at,
    open_directory,
    read_chunks,
    walk,
)
from affiant.sandbox.workspace.walk import Limits as TreeLimits

__all__ = ["FilePlace", "be_file_child"]

_ADDRESS_SPACE: Final = 1 << 30
_OUTPUT: Final = 256 << 20
"""Bytes of headers, at most, beside the content."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY
_STEP: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LIMITS: Final = TreeLimits()


@dataclass(frozen=True, slots=True)
class FilePlace:
    """Where a call acts on this machine: ``relative`` below the mounted directory ``root``."""

    root: str
    relative: str
    carved_out: frozenset[str]
    owner: Owner | None
    """Whom the session's files belong to; None: the present user."""
    limits: Limits


def be_file_child(call: FileCall, place: FilePlace, *, output: int, content: int | None) -> NoReturn:
    """In a forked child: carry out ``call`` and end.

    Args:
        output: where the stream of what came of it is written. content: where the stream of a call that writes is read.
    """
    code = 1
    try:
        _close_others(output, content)
        _confine(call, place)
        with open(output, "wb") as out:
            _answer(call, place, TreeWriter(out), content)
        code = 0
    finally:
        os._exit(code)


def _close_others(output: int, content: int | None) -> None:
    kept = sorted({0, 1, 2, output} | ({content} if content is not None else set()))
    for lower, upper in zip(kept, [*kept[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
        os.closerange(lower + 1, upper)


def _confine(call: FileCall, place: FilePlace) -> None:
    """See nothing but the entry, be the owner of its files, have no privilege."""
    linux.die_with_parent()
    Path("/proc/self/oom_score_adj").write_text("500")
    os.umask(0o022)
    os.chroot(place.root)
    os.chdir("/")
    if place.owner is not None:
        os.setgroups([])
        os.setresgid(place.owner.gid, place.owner.gid, place.owner.gid)
        os.setresuid(place.owner.uid, place.owner.uid, place.owner.uid)
        linux.die_with_parent()  # which the change of user has cleared
    linux.drop_capabilities()
    confine()
    largest = place.limits.file_bytes if call.act is FileAct.PUT else call.length + _OUTPUT
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))


def _answer(call: FileCall, place: FilePlace, writer: TreeWriter, content: int | None) -> None:
    moved = Unpacking(-1)
    try:
        root = os.open("/", _FOLDER | os.O_CLOEXEC)
        match call.act:
            case FileAct.GET:
                result = _get(root, call, place, writer)
            case FileAct.LIST:
                result = _list(root, call, place, writer)
            case FileAct.STAT:
                result = _stat(root, call, place.relative, writer)
            case FileAct.DIGEST:
                result = _digest(root, call, place, writer)
            case FileAct.PUT:
                result = _put(root, call, place, moved, content)
            case FileAct.REMOVE:
                result = _remove(root, place.relative, moved, content)
    except AffiantError as error:
        result = {"error": error.to_json()}
    except MemoryError:
        result = {"error": TreeTooLarge("too many names").to_json()}
    except OSError as error:
        result = {"error": _meaning(error, call).to_json()}
    if "error" in result:
        writer.start_again()
    writer.skipped += moved.skipped
    writer.end({**result, "files": moved.files, "length": moved.length})


def _meaning(error: OSError, call: FileCall) -> AffiantError:
    where = escaped(call.path)
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return StateError("there is no such file or folder", where=where, code="files.missing")
        case errno.EXDEV | errno.ELOOP | errno.EAGAIN:
            return NotAllowedError(
                "a link on the way leads out of the profile's entry", where=where, code="files.path"
            )
        case errno.ENXIO | errno.ENODEV:
            return SpecialFile("the path names a device, pipe or socket", where=where)
        case errno.ENOTEMPTY | errno.EEXIST:
            return StateError(
                "a program in the sandbox changed it meanwhile", where=where, code="files.changed"
            )
    if call.act.writes and call.act is not FileAct.DIGEST:
        return UnreachableError(
            "the files cannot be written", where=where, found=error.strerror, code="workspace.unwritable"
        )
    return TreeUnreadable("the files cannot be read", where=where, found=error.strerror)


def _opened(root: int, relative: str, flags: int = os.O_RDONLY) -> int:
    """What ``relative`` leads to, links included as far as they stay in the entry; never waits for a pipe."""
    return linux.open_beneath(root, relative or ".", flags | os.O_NONBLOCK | os.O_NOCTTY)


def _parent(root: int, relative: str) -> tuple[int, str]:
    above, _, name = relative.rpartition("/")
    return _opened(root, above, _FOLDER), name


def _made(root: int, relative: str) -> int:
    """The folder ``relative``, made where it is missing."""
    fd, done = os.dup(root), ""
    for name in relative.split("/") if relative else ():
        done = f"{done}/{name}" if done else name
        try:
            below = _opened(root, done, _FOLDER)
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=fd)
            below = _opened(root, done, _FOLDER)
        os.close(fd)
        fd = below
    return fd


def _get(root: int, call: FileCall, place: FilePlace, writer: TreeWriter) -> Mapping[str, object]:
    fd = _opened(root, place.relative)
    facts = os.fstat(fd)
    if stat.S_ISDIR(facts.st_mode) and not call.single:
        pack(fd, writer, limits=TreeLimits(total_bytes=call.length), exclude=place.carved_out)
        return {"kind": Kind.DIRECTORY.value}
    if not stat.S_ISREG(facts.st_mode):
        raise _other_kind(facts, call)
    if not call.cut:
        require_size(facts, call.length)
    writer.entry(Entry(_name(call.path), Kind.FILE, bool(facts.st_mode & stat.S_IXUSR), ""))
    writer.content(chunks_of(fd, call.path, at_most=call.length, cut=call.cut))
    return {"kind": Kind.FILE.value}


def _other_kind(facts: os.stat_result, call: FileCall) -> AffiantError:
    if stat.S_ISDIR(facts.st_mode):
        return StateError(
            "the path names a folder; a file is expected",
            where=escaped(call.path),
            hint="Download it",
            code="files.kind",
        )
    return SpecialFile("the path names a device, pipe or socket", where=escaped(call.path))


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _list(root: int, call: FileCall, place: FilePlace, writer: TreeWriter) -> Mapping[str, object]:
    fd = _opened(root, place.relative)
    if not stat.S_ISDIR(os.fstat(fd).st_mode):
        raise StateError("not a folder", where=escaped(call.path), code="files.kind")

    def leave_out(path: str, error: FileNameError | SpecialFile | TreeUnreadable) -> None:
        writer.skipped.append(Skipped(escaped(path), error.code))

    listed = (
        walk(fd, limits=_LIMITS, exclude=place.carved_out, refuse=leave_out)
        if call.recursive
        else _children(fd, place.carved_out, writer)
    )
    for found in listed:
        with suppress(FileNotFoundError):
            _describe(found, writer)
    return {}


def _children(fd: int, carved_out: frozenset[str], writer: TreeWriter) -> Iterator[Found]:
    names = sorted(entry.name for entry in os.scandir(fd) if entry.name not in carved_out)
    if len(names) > _LIMITS.files:
        raise TreeTooLarge("too many files", expected=f"at most {_LIMITS.files}", found=str(len(names)))
    for name in names:
        try:
            yield look_at(fd, name)
        except FileNotFoundError:
            continue
        except (FileNameError, SpecialFile) as error:
            writer.skipped.append(Skipped(escaped(name), error.code))


def _describe(found: Found, writer: TreeWriter) -> None:
    """A header with size and time; a link's target is its content."""
    facts = os.stat(found.name, dir_fd=found.parent, follow_symlinks=False)
    target = escaped(os.readlink(found.name, dir_fd=found.parent)) if found.kind is Kind.LINK else ""
    writer.entry(Entry(found.path, found.kind, found.executable, target), facts)


def _stat(root: int, call: FileCall, relative: str, writer: TreeWriter) -> Mapping[str, object]:
    if not relative:
        facts = os.fstat(root)
        writer.entry(Entry(_name(call.path), Kind.DIRECTORY, executable=False, content=""), facts)
        return {}
    parent, name = _parent(root, relative)
    _describe(look_at(parent, name), writer)
    return {}


def _digest(root: int, call: FileCall, place: FilePlace, writer: TreeWriter) -> Mapping[str, object]:
    """Headers with digests of all that would be removed; a link is removed itself."""
    if place.carved_out:
        raise NotAllowedError(
            "the folder contains a path that the profile denies",
            where=escaped(call.path),
            code="files.read_only",
        )
    parent, name = _parent(root, place.relative)
    found = look_at(parent, name)
    left = call.length
    if found.kind is not Kind.DIRECTORY:
        _digested(found, writer, left)
        return {"kind": found.kind.value}
    with _step_into(parent, name) as fd:
        for below in walk(fd, limits=_LIMITS):
            left -= _digested(below, writer, left)
    return {"kind": Kind.DIRECTORY.value}


def _digested(found: Found, writer: TreeWriter, left: int) -> int:
    facts = os.stat(found.name, dir_fd=found.parent, follow_symlinks=False)
    content = ""
    if found.kind is Kind.LINK:
        content = link_target(found)
    elif found.kind is Kind.FILE:
        require_size(facts, left)
        digest = hashlib.sha256()
        for chunk in read_chunks(found, at_most=left):
            digest.update(chunk)
        content = f"sha256:{digest.hexdigest()}"
    writer.entry(Entry(found.path, found.kind, found.executable, content), facts)
    return facts.st_size if found.kind is Kind.FILE else 0


def _put(
    root: int, call: FileCall, place: FilePlace, moved: Unpacking, content: int | None
) -> Mapping[str, object]:
    assert content is not None
    with open(content, "rb") as file:
        file.seek(0)
        reader = TreeReader(file, limits=TreeLimits(total_bytes=call.length))
        if call.single:
            above, _, name = place.relative.rpartition("/")
            parent = _made(root, above)
            for entry, chunks in reader:
                moved.length += write_file(parent, name, entry, chunks)
                moved.files += 1
        else:
            moved.base = _made(root, place.relative)
            moved.unpack(reader)
    return {}


def _remove(root: int, relative: str, moved: Unpacking, content: int | None) -> Mapping[str, object]:
    """Remove what the stream at ``content`` names, and nothing that came since."""
    assert content is not None
    parent, name = _parent(root, relative)
    with open(content, "rb") as file:
        file.seek(0)
        reader = TreeReader(file, contents=False)
        named = [(entry, reader.facts) for entry, _ in reader]
    if reader.result.get("kind") != Kind.DIRECTORY.value:
        _unlink(parent, named[0][0], name, named[0][1], moved)
        return {}
    with _step_into(parent, name) as fd:
        for entry, facts in reversed(named):
            above, _, last = entry.path.rpartition("/")
            with (
                suppress(FileNotFoundError),
                descended(fd, above.split("/") if above else (), _step) as place,
            ):
                _unlink(place, entry, last, facts, moved)
    os.rmdir(name, dir_fd=parent)
    return {}


def _unlink(place: int, entry: Entry, name: str, facts: Mapping[str, object], moved: Unpacking) -> None:
    if entry.kind is Kind.DIRECTORY:
        os.rmdir(name, dir_fd=place)
        return
    os.unlink(name, dir_fd=place)
    moved.files += 1
    size = facts.get("n")
    moved.length += size if entry.kind is Kind.FILE and isinstance(size, int) else 0


def _step(parent: int, name: str) -> int:
    return os.open(name, _STEP, dir_fd=parent)


@contextmanager
def _step_into(parent: int, name: str) -> Iterator[int]:
    with open_directory(name, parent) as fd:
        yield fd
