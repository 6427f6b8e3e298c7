"""Paths inside a sandbox: which form is accepted, which may be listed, and what covers what. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final

from affiant.errors import ConfigurationError

__all__ = ["RESERVED", "RUNTIME_AT", "checked_path", "covers", "listed_path", "outer_first", "outermost"]

RUNTIME_AT: Final = "/opt/runtime"
"""Where ``--runtime DIR`` is mounted, read-only: ``bin/`` for PATH, ``lib/pythonX.Y/site-packages``."""

RESERVED: Final = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run/affiant", "/sbin",
    "/sys", "/usr", RUNTIME_AT,
)  # fmt: skip
"""What belongs to the sandbox's own system: neither it, nor what is below or above it, can be listed."""


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
