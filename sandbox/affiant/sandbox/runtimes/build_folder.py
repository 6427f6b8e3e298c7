"""The folder that a build makes: whole or not at all, known again, and never another's.

A build works in a folder beside its place (``.NAME.affiant-build``) and renames the result. A note in the result
(``affiant-runtime.json``) says what it was made of, and the digest of everything else in it. So a second build with
the same requirements does nothing, and a folder that has no note, or was changed since, is not replaced.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.errors import AffiantError, ConfigurationError, StateError
from affiant.sandbox.workspace.tree import Entry, Kind, tree_digest
from affiant.sandbox.workspace.walk import read_tree

__all__ = ["NOTE", "Built", "Draft", "drafted", "finish", "known_build"]

NOTE: Final = "affiant-runtime.json"
_EARLIER: Final = "earlier"
_TYP: Final = "affiant-runtime/1"
_NOTE_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Built:
    """A folder that a build made.

    Args:
        digest: as the session's manifest names it.
        made_of: the requirements and the interpreter's version.
        packages: ``name``, ``version`` and, where the tool gave one, ``hash`` of each.
    """

    digest: str
    made_of: Mapping[str, object]
    packages: tuple[Mapping[str, object], ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """Where a build works: ``root`` becomes the result, ``work`` is thrown away; ``lock`` keeps other builds out."""

    root: Path
    work: Path
    lock: int


def known_build(place: Path, *, changed: bool = False) -> Built | None:
    """The build at ``place``; None: there is nothing, or an empty folder.

    Args:
        changed: whether one that was changed since is taken all the same.

    Raises:
        ``runtime.output``: there is something that no build made.
        ``runtime.changed``: it was changed since.
    """
    if not os.path.lexists(place) or (place.is_dir() and not any(place.iterdir())):
        return None
    note = _note_of(place)
    if note is None:
        raise ConfigurationError(
            "the folder was not made by 'affiant runtime build' and is left as it is",
            where=str(place),
            expected="no such folder, an empty one, or an earlier build",
            hint="Name another folder with -o",
            code="runtime.output",
        )
    try:
        entries = read_tree(place)
    except OSError as error:
        raise _unwritable(place, error) from error
    if not changed and tree_digest(entry for entry in entries if entry.path != NOTE) != note.tree:
        raise StateError(
            "the folder was changed since it was built",
            where=str(place),
            hint="Build it again with --rebuild, or name another folder with -o",
            code="runtime.changed",
        )
    return Built(tree_digest(entries), note.made_of, note.packages)


@dataclass(frozen=True, slots=True)
class _Note:
    made_of: Mapping[str, object]
    packages: tuple[Mapping[str, object], ...]
    tree: str


def _note_of(place: Path) -> _Note | None:
    try:
        with open(os.open(place / NOTE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            note = json.loads(file.read(_NOTE_BYTES))
    except (OSError, ValueError):
        return None
    match note:
        case {
            "typ": typ,
            "made_of": dict() as made_of,
            "packages": list() as packages,
            "tree": str() as tree,
        }:
            return _Note(made_of, tuple(packages), tree) if typ == _TYP else None
        case _:
            return None


@contextmanager
def drafted(place: Path) -> Iterator[Draft]:
    """A private, empty folder beside ``place`` to build in; removed at the end, with what is in it.

    Raises:
        ``runtime.busy``: another build works on ``place``.
        ``runtime.output``: no folder can be made there.
    """
    folder = place.parent / f".{place.name}.affiant-build"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        if os.fstat(lock).st_uid != os.geteuid():
            raise _unwritable(folder, PermissionError(0, "another user's folder"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(os.open(f"/proc/self/fd/{lock}/.", os.O_RDONLY))  # it ended, and removed the folder
        except (BlockingIOError, FileNotFoundError) as error:
            raise StateError(
                "another build works on this folder", where=str(place), code="runtime.busy"
            ) from error
        draft = Draft(folder / "root", folder / "work", lock)
        try:
            _put_back(draft, place)
            for made in (draft.root, draft.work):
                shutil.rmtree(made, ignore_errors=True)  # of a build that was killed
                made.mkdir()
            yield draft
        finally:
            _put_back(draft, place)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def _put_back(draft: Draft, place: Path) -> None:
    """Undo the first of the two renames of a build that ended before the second."""
    earlier = draft.work / _EARLIER
    if earlier.is_dir() and not os.path.lexists(place):
        earlier.rename(place)


def finish(
    draft: Draft,
    place: Path,
    *,
    made_of: Mapping[str, object],
    packages: tuple[Mapping[str, object], ...],
) -> Built:
    """Note in the draft what it is, and put it at ``place``, in place of an earlier build.

    Raises:
        FileNameError, SpecialFile, TreeTooLarge: a session could not take it.
        ``runtime.output``: it cannot be put there.
    """
    _let_others_read(draft.root)
    entries = read_tree(draft.root)
    note = {"typ": _TYP, "made_of": made_of, "packages": packages, "tree": tree_digest(entries)}
    raw = (json.dumps(note, indent=2, sort_keys=True) + "\n").encode("ascii")
    (draft.root / NOTE).write_bytes(raw)
    (draft.root / NOTE).chmod(0o644)
    try:
        if place.is_dir() and any(place.iterdir()):
            place.rename(draft.work / _EARLIER)  # one of ours: the caller has asked `known_build`
        draft.root.rename(place)
    except OSError as error:
        raise _unwritable(place, error) from error
    entry = Entry(NOTE, Kind.FILE, executable=False, content=sha256_name(raw))
    return Built(tree_digest((*entries, entry)), made_of, packages)


def _let_others_read(root: Path) -> None:
    """Give everything the modes of a usual installation, whatever the umask: the agent is another user."""
    for folder, _, names in os.walk(root):
        Path(folder).chmod(0o755)
        for name in names:
            path = Path(folder, name)
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def _unwritable(place: Path, error: OSError) -> AffiantError:
    return ConfigurationError(
        "the folder cannot be made there", where=str(place), found=error.strerror, code="runtime.output"
    )
