"""One call on the session's files: what is asked, and where in the plan it lies. Pure; no I/O.

A call acts as the agent and never goes beyond the profile: its path is at or below a file entry, it writes only below
an entry that the agent may write, and it never names a carve-out. ``/tmp``, ``/dev/shm`` and the root file system are
no entries, so no call reaches them.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from affiant.errors import NotAllowedError
from affiant.sandbox.isolation.plan.errors import FrameError
from affiant.sandbox.isolation.plan.plan import Bind, SandboxPlan, checked_path, covers

__all__ = ["FileAct", "FileCall", "Place", "call_from_json", "call_to_json", "place_of"]

_MOST: Final = 1 << 42


class FileAct(enum.Enum):
    """What a call does. ``DIGEST`` reads what ``REMOVE`` is to remove."""

    GET = "get"
    PUT = "put"
    DIGEST = "digest"
    REMOVE = "remove"
    LIST = "list"
    STAT = "stat"

    @property
    def writes(self) -> bool:
        """Whether it changes files, or is about to."""
        return self in {FileAct.PUT, FileAct.DIGEST, FileAct.REMOVE}


@dataclass(frozen=True, slots=True)
class FileCall:
    """One call. ``path`` is inside the sandbox.

    Args:
        single: a file is moved, not a tree. recursive: of a listing.
        cut: of a file that is longer than ``length``, its first bytes are read; else it is an error.
        length: bytes that a call writes, or may read at most.
    """

    act: FileAct
    path: str
    single: bool = False
    recursive: bool = False
    cut: bool = False
    length: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call acts: below ``bind``, at ``relative`` (empty: the entry itself), but not at ``carved_out``."""

    bind: Bind
    relative: str
    carved_out: frozenset[str]
    """Paths relative to the call's own path."""


def place_of(plan: SandboxPlan, call: FileCall) -> Place:
    """Where ``call`` acts.

    Raises:
        ``isolation.plan``: not a canonical path.
        ``files.path``: no entry covers it, or a carve-out does. ``files.read_only``: the agent may not write there.
    """
    path = checked_path(call.path)
    above = [bind for bind in plan.binds if covers(bind.target, path)]
    if not above or any(covers(mask.target, path) for mask in plan.masks):
        raise NotAllowedError(
            "the profile gives the agent no files there",
            where=path,
            expected=", ".join(bind.target for bind in plan.workspaces) or "no path: the profile lists none",
            hint="Only what filesystem_access lists can be reached; /tmp can be listed there too",
            code="files.path",
        )
    usable = [bind for bind in above if bind.writable or not call.act.writes]
    bind = min(usable, key=lambda each: len(each.target), default=None)
    relative = "" if bind is None else path[len(bind.target) + 1 :]
    if bind is None or (call.act in {FileAct.DIGEST, FileAct.REMOVE} and not relative):
        raise NotAllowedError("the agent may not write there", where=path, code="files.read_only")
    return Place(bind, relative, frozenset(plan.carved_out(path)))


def call_to_json(call: FileCall) -> Mapping[str, object]:
    """The call's members."""
    return {
        "act": call.act.value,
        "path": call.path,
        "single": call.single,
        "recursive": call.recursive,
        "cut": call.cut,
        "length": call.length,
    }


def call_from_json(members: object) -> FileCall:
    """The call that ``members`` describe.

    Raises:
        FrameError: other members or types than :func:`call_to_json` writes.
    """
    names = {"act", "path", "single", "recursive", "cut", "length"}
    if not isinstance(members, dict) or members.keys() != names:
        raise FrameError("the call on files has other members", expected=", ".join(sorted(names)))
    path, length = members["path"], members["length"]
    flags = (members["single"], members["recursive"], members["cut"])
    right = isinstance(path, str) and type(length) is int and 0 <= length <= _MOST
    if not right or not all(isinstance(flag, bool) for flag in flags):
        raise FrameError("a member of the call on files has another type")
    try:
        act = FileAct(members["act"])
    except ValueError as error:
        raise FrameError(
            "the call on files names an unknown act",
            expected=", ".join(each.value for each in FileAct),
            found=ascii(str(members["act"])[:40]),
        ) from error
    return FileCall(act, path, *flags, length)
