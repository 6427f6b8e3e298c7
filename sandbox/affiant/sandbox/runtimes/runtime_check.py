"""Checks a prepared environment before a session starts: can its programs start inside, and find their packages?

The sandbox shows the environment at ``/opt/runtime`` and, of the machine or the image, the root's own directories. A
virtual environment names places outside of both in three ways: its interpreter is a link, its programs begin with
the interpreter's path, and packages may be links or installed in editable mode. Each is followed here as the kernel
will follow it inside; nothing is executed. This file reads the file system.

A package that was compiled for another machine or C library is not found here: it fails when it is imported.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from affiant.errors import ConfigurationError
from affiant.sandbox.isolation.plan.plan import RUNTIME_AT
from affiant.sandbox.isolation.plan.rootfs import check_runtime
from affiant.sandbox.workspace.tree import TreeUnreadable
from affiant.sandbox.workspace.walk import escaped

__all__ = ["require_program", "require_usable"]

_OF_THE_HOST: Final = frozenset({"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"})
"""What the sandbox has of a machine without an image: ``/usr``, and the root's links into it."""
_MADE_INSIDE: Final = frozenset({"/", "/etc", PurePosixPath(RUNTIME_AT).parent.as_posix()})
_MAX_LINKS: Final = 40
_PYTHON: Final = re.compile(r"python(\d+\.\d+)\Z")
_SHELL_START: Final = re.compile(rb"'''exec' \"?([^\s\"]+)")
"""The second line of a program whose interpreter's path is too long for ``#!`` (written by pip)."""
_BUILD: Final = "Build one with 'affiant runtime build -r requirements.txt -o DIR'"
_SMALL: Final = 1 << 16


def require_usable(directory: Path, *, root: Path) -> None:
    """Return if the interpreters and packages of ``directory`` are there inside.

    Args:
        root: whose ``/usr`` the sandbox shows: ``/``, or a folder with an unpacked image.

    Raises:
        ``isolation.plan``: it is no prepared environment.
        ``runtime.interpreter``: its interpreter, or the interpreter's own library, is not shown.
        ``runtime.python_version``: its packages are those of another Python.
        ``runtime.outside``: a package lies outside of the environment.
        TreeUnreadable: the machine did not let us look.
    """
    try:
        inside = _Inside(Path(check_runtime(str(directory))), root)
        for name in ("python3", "python", "node"):
            _require_shown(inside, name, where=str(directory))
        _require_library(inside, where=str(directory))
        for packages in _python_packages(inside, where=str(directory)):
            _require_packages_inside(inside, packages)
    except OSError as error:
        raise TreeUnreadable(
            "the environment cannot be read", where=escaped(str(directory)), found=error.strerror
        ) from error


def require_program(directory: Path, program: str, *, root: Path) -> None:
    """Return if ``program`` is none of this environment's, or can start inside.

    Raises:
        ``runtime.interpreter``: it is a link to a place that the sandbox does not show.
        ``runtime.program``: its first line names an interpreter that the sandbox does not show.
    """
    inside = _Inside(directory.resolve(), root)
    name = program.removeprefix(f"{RUNTIME_AT}/bin/")
    if not name or "/" in name or "\0" in name:
        return
    _require_shown(inside, name, where=str(directory))
    found = inside.find(f"{RUNTIME_AT}/bin/{name}")
    interpreter = None if found is None else _interpreter_of(inside.outside(found))
    if interpreter is not None and inside.find(interpreter) is None:
        raise ConfigurationError(
            "the program's first line names an interpreter that the sandbox does not show",
            where=f"bin/{escaped(name)}",
            expected=f"a path below /usr or {RUNTIME_AT}",
            found=escaped(interpreter),
            hint=f"Start it as 'python3 -m MODULE'. {_BUILD}",
            code="runtime.program",
        )


@dataclass(frozen=True, slots=True)
class _Inside:
    """What paths lead to in the sandbox."""

    runtime: Path
    root: Path

    def outside(self, path: PurePosixPath) -> Path | None:
        """Where this machine has what the sandbox shows at ``path``; None: it shows nothing there."""
        if path.is_relative_to(RUNTIME_AT):
            return self.runtime / path.relative_to(RUNTIME_AT)
        if self.root == Path("/") and not (
            path.parts[1] in _OF_THE_HOST or path.is_relative_to("/etc/alternatives")
        ):
            return None
        return self.root / path.relative_to("/")

    def find(self, path: str) -> PurePosixPath | None:
        """``path`` with its links followed as inside; None: it leads to nothing there."""
        if "\0" in path:
            return None
        at, rest, links = PurePosixPath("/"), list(reversed(PurePosixPath(path).parts)), 0
        while rest:
            name = rest.pop()
            if name == "/":
                at = PurePosixPath("/")
                continue
            if name == "..":
                at = at.parent
                continue
            step = at / name
            if str(step) in _MADE_INSIDE:
                at = step
                continue
            there = self.outside(step)
            if there is None:
                return None
            try:
                rest.extend(reversed(PurePosixPath(os.readlink(there)).parts))
                links += 1
            except OSError:  # it is no link
                at = step
            if links > _MAX_LINKS:
                return None
        there = self.outside(at) if str(at) not in _MADE_INSIDE else self.root
        return at if there is not None and os.path.exists(there) else None  # an OSError is a no


def _require_shown(inside: _Inside, name: str, *, where: str) -> None:
    """Return if there is no ``bin/name``, or it leads to something inside."""
    path = inside.runtime / "bin" / name
    if os.path.lexists(path) and inside.find(f"{RUNTIME_AT}/bin/{name}") is None:
        raise ConfigurationError(
            f"bin/{escaped(name)} is a link to a place that the sandbox does not show",
            where=where,
            expected=f"a program below /usr, or in the environment by a relative link (it is at {RUNTIME_AT})",
            found=escaped(_last_link(path)),
            hint=f"Make the environment with /usr/bin/python3. {_BUILD}",
            code="runtime.interpreter",
        )


def _last_link(path: Path) -> str:
    """Where the chain of links from ``path`` leads on this machine."""
    for _ in range(_MAX_LINKS):
        if not os.path.islink(path):
            break
        path = path.parent / path.readlink()
    return os.path.normpath(path)


def _require_library(inside: _Inside, *, where: str) -> None:
    """Return if this is no virtual environment, or its interpreter finds its own library inside."""
    try:
        with open(inside.runtime / "pyvenv.cfg", encoding="utf-8", errors="replace") as file:
            pairs = [line.partition("=") for line in file.read(_SMALL).splitlines()]
    except FileNotFoundError:
        return
    home = next((value.strip() for name, _, value in pairs if name.strip().lower() == "home"), "")
    if inside.find(f"{RUNTIME_AT}/bin/python3") is None or not home or inside.find(home) is None:
        raise ConfigurationError(
            "the sandbox does not show the virtual environment's Python",
            where=where,
            expected="bin/python3, and in pyvenv.cfg a home below /usr",
            found=f"home = {escaped(home)}",
            hint=f"Make the environment with /usr/bin/python3. {_BUILD}",
            code="runtime.interpreter",
        )


def _python_packages(inside: _Inside, *, where: str) -> Iterator[Path]:
    """The folder of packages that ``bin/python3`` will search, if this is known and there is one.

    Raises:
        ``runtime.python_version``: there are folders, and all are of other Pythons.
    """
    interpreter = inside.find(f"{RUNTIME_AT}/bin/python3")
    version = None if interpreter is None else _PYTHON.match(interpreter.name)
    folders = {
        found[1]: folder
        for folder in sorted(inside.runtime.glob("lib/python*/site-packages"))
        if (found := _PYTHON.match(folder.parent.name)) is not None
    }
    if version is None or not folders:
        return
    if version[1] not in folders:
        raise ConfigurationError(
            "the environment's packages are for another Python than the sandbox has",
            where=where,
            expected=f"lib/python{version[1]}/site-packages",
            found=", ".join(f"lib/python{each}/site-packages" for each in folders),
            hint=_BUILD,
            code="runtime.python_version",
        )
    yield folders[version[1]]


def _require_packages_inside(inside: _Inside, packages: Path) -> None:
    """Return if no package is a link to, or installed in editable mode from, a place outside."""
    at = f"{RUNTIME_AT}/{packages.relative_to(inside.runtime).as_posix()}"
    for entry in sorted(packages.iterdir()):
        kind = None
        first = entry / "__init__.py"
        if entry.is_symlink() or first.is_symlink():
            path = entry if entry.is_symlink() else first
            if inside.find(f"{at}/{path.relative_to(packages).as_posix()}") is None:
                kind = "a link to a place that the sandbox does not show"
        elif entry.suffix == ".dist-info" and _is_editable(entry / "direct_url.json"):
            kind = "installed in editable mode, from a folder that the sandbox does not show"
        if kind is not None:
            raise ConfigurationError(
                f"a package is {kind}",
                where=escaped(entry.name),
                expected="packages that are copied into the environment",
                hint=f"Install it without -e; with uv, add --link-mode=copy. {_BUILD}",
                code="runtime.outside",
            )


def _is_editable(path: Path) -> bool:
    """Whether pip or uv noted that a package is its source folder (PEP 610)."""
    try:
        with open(path, "rb") as file:
            noted = json.loads(file.read(_SMALL))
    except (OSError, ValueError):
        return False
    folder = noted.get("dir_info") if isinstance(noted, dict) else None
    return isinstance(folder, dict) and folder.get("editable") is True


def _interpreter_of(program: Path | None) -> str | None:
    """The path after ``#!``; None: a program without one."""
    try:
        with open(program or "", "rb") as file:
            lines = file.read(4096).split(b"\n")
    except OSError:
        return None
    if not lines[0].startswith(b"#!"):
        return None
    words = lines[0][2:].split()
    long_path = _SHELL_START.match(lines[1]) if len(lines) > 1 else None
    return os.fsdecode(words[0] if long_path is None else long_path[1]) if words else None
