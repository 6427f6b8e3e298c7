"""The plan: from what a profile says about files to exactly what a sandbox will see. Pure; no I/O.

The rules, in order (trust: the agent inside is hostile, the machine's files are none of its business):

1. A listed path names a place *inside* the sandbox. It is a directory of the session, empty or a copy of the
   input, and nothing else is ever there: a plan holds no path of the machine but the read-only root.
2. Effective access is the widest of the entries that cover a path, then ``none`` wins at every depth.
3. A carve-out is covered by an empty, read-only directory, whether or not anything exists there. Every
   directory between it and the writable entry above it becomes a mount point as well, because a mount
   point cannot be renamed: else the agent moves the parent aside and makes the carve-out's name anew
   (CVE-2026-25725 class).
4. What the system needs (``/proc``, ``/dev``, ``/usr``, ``/etc`` ...) cannot be listed.

>>> plan = plan_sandbox("s1", (FileGrant("/workspace", Access.READ_WRITE), FileGrant("/workspace/.git", Access.NONE)))
>>> [(bind.target, bind.source, bind.writable) for bind in plan.binds], [mask.target for mask in plan.masks]
([('/workspace', 'files/0', True)], ['/workspace/.git'])
"""

from __future__ import annotations

import enum
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from affiant.errors import ConfigurationError

__all__ = [
    "AGENT_GID",
    "AGENT_UID",
    "RESERVED",
    "RUNTIME_AT",
    "Access",
    "Bind",
    "Command",
    "DirectoryRoot",
    "FileGrant",
    "HostUsr",
    "Limits",
    "Mask",
    "RootFS",
    "SandboxPlan",
    "Scratch",
    "checked_path",
    "covers",
    "listed_path",
    "outer_first",
    "outermost",
    "plan_sandbox",
]

AGENT_UID: Final = 1000
AGENT_GID: Final = 1000
"""Who the agent is inside; it has no capability and can gain none."""

RUNTIME_AT: Final = "/opt/runtime"
"""Where ``--runtime DIR`` is mounted, read-only: ``bin/`` for PATH, ``lib/pythonX.Y/site-packages``."""

RESERVED: Final = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run/affiant", "/sbin",
    "/sys", "/usr", RUNTIME_AT,
)  # fmt: skip
"""What belongs to the sandbox's own system: neither it, nor what is below or above it, can be listed."""

GATEWAY_HOST: Final = "gateway.affiant.internal"
"""The gateway's name in the sandbox."""
OWN_HOSTS: Final[tuple[str, ...]] = (GATEWAY_HOST, "sessions.affiant.internal")
"""The names that the supervisor serves itself."""

_MIB: Final = 1 << 20
_MAX_ENTRIES: Final = 256
_SESSION: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_HOSTNAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")


class Access(enum.Enum):
    """What a profile's file entry grants; the values are the normal form's own words."""

    NONE = "none"
    READ_ONLY = "read-only"
    READ_WRITE = "read-write"


@dataclass(frozen=True, slots=True)
class FileGrant:
    """One file entry of a profile: ``path`` and its subtree inside the sandbox."""

    path: str
    access: Access


@dataclass(frozen=True, slots=True)
class HostUsr:
    """The root is the machine's ``/usr``, read-only, and nothing else of it: ``host-usr`` in receipts."""


@dataclass(frozen=True, slots=True)
class DirectoryRoot:
    """The root is an unpacked image at ``path`` on this machine, read-only."""

    path: str


RootFS = HostUsr | DirectoryRoot


@dataclass(frozen=True, slots=True)
class Limits:
    """What one sandbox may use. Sizes in bytes; wall-clock time is the supervisor's to keep."""

    memory_bytes: int = 2048 * _MIB
    tmp_bytes: int = 256 * _MIB
    files_bytes: int = 8192 * _MIB
    """In all of the session's own directories together, the input with it."""
    processes: int = 256
    open_files: int = 1024
    cpus: int | None = None
    """At most so many; None: all of the machine's."""

    @property
    def file_bytes(self) -> int:
        """What one file may grow to. A block above the larger limit: what reaches it has passed its own."""
        return max(self.files_bytes, self.tmp_bytes) + 4096


@dataclass(frozen=True, slots=True)
class Bind:
    """The session's directory ``source`` (relative to the session's folder) shown at ``target``."""

    target: str
    source: str
    writable: bool


@dataclass(frozen=True, slots=True)
class Scratch:
    """A private, size-limited tmpfs at ``target``."""

    target: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Mask:
    """An empty read-only directory at ``target``, whether or not anything exists there."""

    target: str


@dataclass(frozen=True, slots=True)
class Command:
    """What runs: argument vector, the whole environment, the working directory inside."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "/"

    def __post_init__(self) -> None:
        """Refuse what execve(2) cannot carry."""
        if not self.argv or not self.argv[0]:
            raise ConfigurationError("there is no command to run", code="isolation.plan")
        for text in (*self.argv, *self.env, *self.env.values(), self.cwd):
            if "\0" in text:
                raise ConfigurationError("the command holds a NUL character", code="isolation.plan")
            if any("\ud800" <= char <= "\udfff" for char in text):
                raise ConfigurationError(
                    "the command holds bytes that are not UTF-8",
                    found=ascii(text[:80]),
                    code="isolation.plan",
                )
        for name in self.env:
            if not name or "=" in name:
                raise ConfigurationError(
                    "not a name for an environment variable", found=repr(name[:40]), code="isolation.plan"
                )
        if self.cwd != "/":
            checked_path(self.cwd)


@dataclass(frozen=True, slots=True)
class SandboxPlan:
    """Everything a backend needs to know, and nothing secret. Mounts are in the order of mounting."""

    session: str
    binds: tuple[Bind, ...]
    masks: tuple[Mask, ...]
    scratch: tuple[Scratch, ...]
    rootfs: RootFS = HostUsr()
    runtime: str | None = None
    hostname: str = "affiant"
    limits: Limits = Limits()

    @property
    def workspaces(self) -> tuple[Bind, ...]:
        """The entries that own a directory of the session: those below no other entry."""
        return tuple(bind for bind in self.binds if bind.source.count("/") == 1)

    def source_of(self, path: str) -> str:
        """Where ``path``, at or below a listed entry, lies in the session's folder.

        Raises:
            ``isolation.plan``: no entry covers the path, or a carve-out does.
        """
        wanted = checked_path(path)
        if any(covers(mask.target, wanted) for mask in self.masks):
            raise ConfigurationError(
                "the path is carved out of the profile", where=path, code="isolation.plan"
            )
        for bind in self.workspaces:
            if covers(bind.target, wanted):
                return bind.source + wanted[len(bind.target) :]
        raise ConfigurationError(
            "no file entry of the profile covers the path",
            where=path,
            expected=", ".join(bind.target for bind in self.workspaces) or "nothing: no entry lists a path",
            code="isolation.plan",
        )

    def carved_out(self, path: str) -> tuple[str, ...]:
        """The carve-outs below ``path``, relative to it: never copied in, never copied out."""
        return tuple(
            mask.target[len(path) + 1 :]
            for mask in self.masks
            if covers(path, mask.target) and path != mask.target
        )


def plan_sandbox(
    session: str,
    files: Iterable[FileGrant],
    *,
    rootfs: RootFS = HostUsr(),
    runtime: str | None = None,
    hostname: str = "affiant",
    limits: Limits = Limits(),
) -> SandboxPlan:
    """The plan of one session.

    Args:
        session: the session's id, 1 to 64 of ``A-Z a-z 0-9 _ -``.
        files: the profile's file entries, in any order.
        rootfs: what the read-only root shows.
        runtime: a prepared environment on this machine, shown read-only at ``/opt/runtime``.

    Raises:
        ``isolation.plan``: a path is not canonical or is the system's own, or a limit is out of range.
    """
    _check_scalars(session, hostname, limits)
    grants = tuple(files)
    if len(grants) > _MAX_ENTRIES:
        raise ConfigurationError(
            "too many file entries",
            expected=f"at most {_MAX_ENTRIES}",
            found=str(len(grants)),
            code="isolation.plan",
        )
    carved = outermost(listed_path(grant.path) for grant in grants if grant.access is Access.NONE)
    listed = _effective(grants, carved)
    binds = _binds(listed)
    anchors = _anchors(binds, carved)
    return SandboxPlan(
        session=session,
        binds=tuple(sorted((*binds, *anchors), key=lambda bind: outer_first(bind.target))),
        masks=tuple(Mask(path) for path in carved),
        scratch=() if "/tmp" in listed else (Scratch("/tmp", limits.tmp_bytes),),  # noqa: S108 - inside
        rootfs=rootfs,
        runtime=runtime,
        hostname=hostname,
        limits=limits,
    )


def _check_scalars(session: str, hostname: str, limits: Limits) -> None:
    if _SESSION.match(session) is None:
        raise ConfigurationError(
            "not a session id",
            expected="1 to 64 of A-Z a-z 0-9 _ -",
            found=repr(session[:80]),
            code="isolation.plan",
        )
    if _HOSTNAME.match(hostname) is None:
        raise ConfigurationError("not a host name", found=repr(hostname[:80]), code="isolation.plan")
    for name, value, least in (
        ("memory_bytes", limits.memory_bytes, 64 * _MIB),
        ("tmp_bytes", limits.tmp_bytes, _MIB),
        ("files_bytes", limits.files_bytes, _MIB),
        ("processes", limits.processes, 8),
        ("open_files", limits.open_files, 64),
        ("cpus", 1 if limits.cpus is None else limits.cpus, 1),
    ):
        if value < least:
            raise ConfigurationError(
                "a limit is too small to run anything",
                where=name,
                expected=f"at least {least}",
                code="isolation.plan",
            )


def _effective(grants: Sequence[FileGrant], carved: Sequence[str]) -> dict[str, bool]:
    """Listed path -> writable, without entries that change nothing (rule 2), outer ones first."""
    writable: dict[str, bool] = {}
    for grant in grants:
        if grant.access is not Access.NONE:
            path = listed_path(grant.path)
            writable[path] = writable.get(path, False) or grant.access is Access.READ_WRITE
    kept: dict[str, bool] = {}
    for path in sorted(writable, key=outer_first):
        above = [kept[outer] for outer in kept if covers(outer, path)]
        adds = not above or (writable[path] and not any(above))
        if adds and not any(covers(hole, path) for hole in carved):
            kept[path] = writable[path]
    return kept


def _binds(listed: Mapping[str, bool]) -> tuple[Bind, ...]:
    """A directory of the session for each outermost entry; inner ones lie in their outer one's directory."""
    outer = outermost(listed)
    binds = []
    for path, writable in listed.items():
        number, above = next((n, top) for n, top in enumerate(outer) if covers(top, path))
        binds.append(Bind(path, f"files/{number}{path[len(above) :]}", writable))
    return tuple(binds)


def _anchors(binds: Sequence[Bind], carved: Sequence[str]) -> tuple[Bind, ...]:
    """Rule 3: every directory between a carve-out and the writable entry above it, as a mount of itself."""
    anchors: dict[str, Bind] = {}
    targets = {bind.target for bind in binds}
    for hole in carved:
        for bind in binds:
            if not bind.writable or not covers(bind.target, hole):
                continue
            segments = hole[len(bind.target) + 1 :].split("/")[:-1]
            for count in range(1, len(segments) + 1):
                below = "/" + "/".join(segments[:count])
                if bind.target + below not in targets:
                    anchors[bind.target + below] = Bind(
                        bind.target + below, bind.source + below, writable=True
                    )
    return tuple(anchors.values())


def covers(above: str, path: str) -> bool:
    """Whether ``path`` is ``above`` or lies below it, by segment (``/a`` does not cover ``/ab``)."""
    return path == above or path.startswith(above + "/")


def checked_path(path: str) -> str:
    """``path``, which must be absolute and canonical.

    Raises:
        ``isolation.plan``: relative, the root itself, ``.``, ``..`` or empty segments, controls, or not NFC.
    """
    segments = path.split("/")
    if not path.startswith("/") or len(path) > 1024:
        raise ConfigurationError(
            "not an absolute path of at most 1024 characters", found=repr(path[:80]), code="isolation.plan"
        )
    if any(segment in {"", ".", ".."} or len(segment.encode()) > 255 for segment in segments[1:]):
        raise ConfigurationError(
            "not a canonical path below the root", found=repr(path[:80]), code="isolation.plan"
        )
    if any(not char.isprintable() for char in path) or unicodedata.normalize("NFC", path) != path:
        raise ConfigurationError(
            "a path with invisible characters, or not in Unicode NFC",
            found=ascii(path[:80]),
            code="isolation.plan",
        )
    return path


def listed_path(path: str) -> str:
    """A path that a profile may list.

    Raises:
        ``isolation.plan``: not canonical, or the system's own, or above what is the system's own.
    """
    checked_path(path)
    for reserved in RESERVED:
        if covers(reserved, path) or covers(path, reserved):
            raise ConfigurationError(
                "the path belongs to the sandbox's own system",
                where=path,
                hint=f"{reserved} cannot be listed in filesystem_access; the root is readable as it is",
                code="isolation.plan",
            )
    return path


def outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """``paths`` without those below another of them, sorted."""
    kept: list[str] = []
    for path in sorted(set(paths), key=outer_first):
        if not any(covers(above, path) for above in kept):
            kept.append(path)
    return tuple(kept)


def outer_first(path: str) -> tuple[int, str]:
    return path.count("/"), path
