"""A tree of files as a list of entries, its digest, and the errors of reading one. Pure.

The digest is over ``{"entries": [...], "typ": "affiant-tree/1"}`` in RFC 8785 form; the entries are sorted by
path (code points) and say everything that is copied and nothing else: path, kind, whether a file is
executable, the SHA-256 of its content or the target of a link. Owners, times and other mode bits are not in it.

>>> tree_digest(())
'sha256:7d7ec73de49341cce8aabb02aafa0e4cb74376e9e11202ce3d06ea3eae191a1f'
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import canonical
from affiant.errors import NotAllowedError, UnreachableError

__all__ = [
    "Changes",
    "Entry",
    "FileNameError",
    "Kind",
    "Skipped",
    "SpecialFile",
    "TreeTooLarge",
    "TreeUnreadable",
    "compare",
    "link_stays_inside",
    "tree_digest",
]


class Kind(enum.Enum):
    """What an entry is; the values are part of the digest."""

    DIRECTORY = "d"
    FILE = "f"
    LINK = "l"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: ``content`` is a file's ``sha256:<hex>``, a link's target, and empty for a directory."""

    path: str
    kind: Kind
    executable: bool
    content: str

    def members(self) -> Mapping[str, object]:
        """The entry's part of the digest."""
        return {"c": self.content, "k": self.kind.value, "p": self.path, "x": self.executable}


@dataclass(frozen=True, slots=True)
class Skipped:
    """An entry that did not leave the sandbox, and why. ``path`` is escaped: safe to print."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs from before, as paths in order; of directories the new ones, apart from the rest."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    skipped: tuple[Skipped, ...] = ()
    folders: tuple[str, ...] = ()


def tree_digest(entries: Iterable[Entry]) -> str:
    """``sha256:<hex>`` of the tree; the order of ``entries`` does not matter."""
    listed = [entry.members() for entry in sorted(entries, key=lambda entry: entry.path)]
    return sha256_name(canonical({"entries": listed, "typ": "affiant-tree/1"}))


def compare(before: Iterable[Entry], after: Iterable[Entry], skipped: Iterable[Skipped] = ()) -> Changes:
    """What ``after`` adds to, changes in and lacks of ``before``; what was skipped is neither."""
    earlier, later = tuple(before), tuple(after)
    old = {entry.path: entry for entry in earlier if entry.kind is not Kind.DIRECTORY}
    new = {entry.path: entry for entry in later if entry.kind is not Kind.DIRECTORY}
    folders = _folders(later) - _folders(earlier)
    return Changes(
        added=tuple(sorted(new.keys() - old.keys())),
        changed=tuple(sorted(path for path in new.keys() & old.keys() if new[path] != old[path])),
        removed=tuple(sorted(old.keys() - new.keys())),
        skipped=tuple(skipped),
        folders=tuple(sorted(folders)),
    )


def _folders(entries: Iterable[Entry]) -> set[str]:
    return {entry.path for entry in entries if entry.kind is Kind.DIRECTORY}


def link_stays_inside(path: str, target: str) -> bool:
    """Whether a link at ``path`` (relative to the tree) can only ever lead to something in the tree.

    Its target must be relative, with ``..`` only at its beginning and no more of them than ``path`` has
    directories. Then it climbs real directories only and descends from there; if it descends through another
    link, that one keeps the same rule, and so the whole way stays inside. (A ``..`` behind a name is refused:
    if the name is a link, the way back up starts somewhere else.)
    """
    segments = [segment for segment in target.split("/") if segment not in {"", "."}]
    if target.startswith("/") or not target or "\0" in target:
        return False
    climbs = 0
    while climbs < len(segments) and segments[climbs] == "..":
        climbs += 1
    return climbs <= path.count("/") and ".." not in segments[climbs:]


class SpecialFile(NotAllowedError):
    """A device, pipe or socket in a tree to be copied."""

    code = "workspace.special_file"


class TreeTooLarge(NotAllowedError):
    """More files, bytes or levels than the limits allow."""

    code = "workspace.too_large"


class FileNameError(NotAllowedError):
    """A name that is no printable Unicode."""

    code = "workspace.name"


class TreeUnreadable(UnreachableError):
    """The machine did not let us read or copy the tree."""

    code = "workspace.unreadable"
