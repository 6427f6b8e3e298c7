"""Installs Python packages with pip, from wheels alone, for the Python that the sandbox shows.

pip is the one beside affiant; it installs for another interpreter by ``--python``, so that markers and wheel tags are
those of that one. The machine's own configuration of pip (index, certificates, proxy) counts. Programs begin with the
path that the interpreter has inside. Modules are compiled here, since a session cannot write what it compiles; their
times are set to one date, so that the same wheels give the same bytes.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.errors import AffiantError, ConfigurationError, NotAuthenticError, UnreachableError
from affiant.sandbox.isolation.plan.plan import RUNTIME_AT
from affiant.sandbox.runtimes.build_folder import Draft
from affiant.sandbox.runtimes.child_tool import Ended, Progress, run_tool
from affiant.sandbox.runtimes.wanted import Wanted
from affiant.sandbox.workspace.walk import escaped

__all__ = ["Interpreter", "find_interpreter", "install_python"]

_FACTS: Final = "import sys; print('%d.%d %d.%d.%d' % (sys.version_info[:2] + sys.version_info[:3]))"
_NO_MATCH: Final = re.compile(r"ERROR: No matching distribution found for (.+)")
_NO_CONNECTION: Final = re.compile(
    r"WARNING: Retrying \(|Could not fetch URL|NewConnectionError|ConnectTimeout"
)
_NO_HASH: Final = "THESE PACKAGES DO NOT MATCH THE HASHES"
_MADE_AT: Final = 315_532_800
"""1980-01-01 00:00:00 UTC: the first time that a wheel can hold."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python of this machine that the sandbox shows at the same path."""

    path: Path
    short: str
    """``3.11``"""
    version: str
    """``3.11.2``"""


def find_interpreter(path: Path) -> Interpreter:
    """The Python at ``path``.

    Raises:
        ``runtime.interpreter``: it is not below ``/usr``, or does not run.
    """
    if not path.is_absolute() or not path.resolve().is_relative_to("/usr"):
        raise ConfigurationError(
            "the sandbox does not show this Python",
            where="--python",
            expected="a path below /usr",
            found=escaped(str(path.resolve())),
            code="runtime.interpreter",
        )
    try:
        done = subprocess.run(
            [path, "-I", "-S", "-c", _FACTS], capture_output=True, check=True, text=True, timeout=60, env={}
        )
        short, version = done.stdout.split()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise ConfigurationError(
            "this file does not run as a Python interpreter",
            where=escaped(str(path)),
            code="runtime.interpreter",
        ) from error
    return Interpreter(path, short, version)


def install_python(
    wanted: Wanted,
    draft: Draft,
    interpreter: Interpreter,
    *,
    environment: Mapping[str, str],
    progress: Progress,
) -> tuple[Mapping[str, object], ...]:
    """Install into ``draft.root``; return ``name``, ``version`` and ``hash`` of each package.

    Args:
        environment: that of the user's, in which pip finds its configuration.

    Raises:
        ``runtime.tool``: there is no pip.
        ``runtime.package``: no wheel of a package fits.
        ``runtime.index``: the package index does not answer.
        ``runtime.hash``: a package is not the one that was pinned.
        ``runtime.failed``: pip failed for another reason.
    """
    if importlib.util.find_spec("pip") is None:
        raise ConfigurationError(
            "pip is not installed beside affiant",
            expected=f"{sys.executable} -m pip",
            hint="Install it: python -m ensurepip",
            code="runtime.tool",
        )
    packages = draft.root / "lib" / f"python{interpreter.short}" / "site-packages"
    packages.mkdir(parents=True)
    report = draft.work / "report.json"
    done = run_tool(
        [*_pip(interpreter, packages, report), *_requirements(wanted, draft)],
        environment={**_without_python(environment), **_SETTLED},
        cwd=Path.cwd(),
        lock=draft.lock,
        progress=progress,
    )
    if done.exit_code != 0:
        raise _failure(done, interpreter)
    installed = _installed(report)
    _place_programs(packages, draft.root / "bin", interpreter)
    (draft.root / "pyvenv.cfg").write_text(
        f"home = {interpreter.path.parent}\ninclude-system-site-packages = false\nversion = {interpreter.version}\n"
    )
    progress("compiling")
    _compile(draft, packages, interpreter)
    return installed


_SETTLED: Final = {
    "PIP_REQUIRE_VIRTUALENV": "0",
    "PIP_USER": "0",
    "PIP_NO_INPUT": "1",
    "PYTHONUNBUFFERED": "1",
}
"""What a user's configuration may not turn around."""


def _without_python(environment: Mapping[str, str]) -> dict[str, str]:
    """A ``PYTHONPATH`` may name the current folder, whose ``pip.py`` is not the user's pip."""
    return {name: value for name, value in environment.items() if not name.startswith("PYTHON")}


def _pip(interpreter: Interpreter, packages: Path, report: Path) -> list[str]:
    return [
        *(
            sys.executable,
            "-P",
            "-m",
            "pip",
            "--python",
            str(interpreter.path),
            "--disable-pip-version-check",
        ),
        *(
            "install",
            "--no-compile",
            "--only-binary",
            ":all:",
            "--progress-bar",
            "off",
            "--no-warn-conflicts",
        ),
        *("--root-user-action", "ignore", "--no-warn-script-location"),
        *("--target", str(packages), "--report", str(report)),
    ]


def _requirements(wanted: Wanted, draft: Draft) -> list[str]:
    """Files of our own for pip; ``draft.work`` is private, as the password of an index is."""
    arguments = []
    for option, name, lines in (
        ("-r", "requirements.txt", wanted.requirements),
        ("-c", "constraints.txt", wanted.constraints),
    ):
        file = draft.work / name
        file.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
        arguments += [option, str(file)]
    return arguments


def _failure(done: Ended, interpreter: Interpreter) -> AffiantError:
    """What pip's last lines mean. pip shows no password of an index."""
    text = "\n".join(done.lines)
    errors = [line for line in done.lines if line.startswith("ERROR: ")]
    last = (
        escaped(errors[-1].removeprefix("ERROR: "))
        if errors
        else escaped(done.lines[-1] if done.lines else "")
    )
    if _NO_HASH in text:
        return NotAuthenticError("a package is not the one that was pinned", found=last, code="runtime.hash")
    missing = _NO_MATCH.search(text)
    if _NO_CONNECTION.search(text):
        return UnreachableError(
            "the package index does not answer",
            found=last,
            hint="See 'pip config list': which index and proxy pip uses",
            code="runtime.index",
        )
    if missing is not None:
        return ConfigurationError(
            "no wheel of this package fits",
            where=escaped(missing[1]),
            expected=f"a wheel for Python {interpreter.short} on this machine",
            hint="Name a version that has one, or build it yourself: 'pip wheel --no-deps', then --find-links",
            code="runtime.package",
        )
    return ConfigurationError("pip could not install the packages", found=last, code="runtime.failed")


def _installed(report: Path) -> tuple[Mapping[str, object], ...]:
    """What pip installed, in order of names.

    Raises:
        ``runtime.package``: pip built one from its source: a wheel named it by a URL.
    """
    found = []
    for item in json.loads(report.read_bytes())["install"]:
        info, metadata = item["download_info"], item["metadata"]
        name, archive = str(metadata["name"]), info.get("archive_info") or {}
        if not str(info["url"]).partition("#")[0].endswith(".whl"):
            raise ConfigurationError(
                "pip built a dependency from source; a wheel is required",
                where=escaped(name),
                code="runtime.package",
            )
        kind, _, value = str(archive.get("hash") or "").partition("=")  # pip before 23.1 has this alone
        digest = (archive.get("hashes") or {kind: value}).get("sha256")
        found.append(
            {
                "name": name,
                "version": str(metadata["version"]),
                "hash": f"sha256:{digest}" if digest else None,
            }
        )
    return tuple(sorted(found, key=lambda each: str(each["name"]).lower()))


def _place_programs(packages: Path, programs: Path, interpreter: Interpreter) -> None:
    """Move the packages' programs to ``bin``, with the interpreter that they find inside."""
    programs.mkdir(exist_ok=True)
    (programs / "python3").symlink_to(interpreter.path)
    (programs / "python").symlink_to("python3")
    made = packages / "bin"
    for program in sorted(made.iterdir()) if made.is_dir() else ():
        place = programs / program.name
        if place.exists() or place.is_symlink():
            raise ConfigurationError(
                "two packages install the same program", where=escaped(program.name), code="runtime.package"
            )
        first = f"#!{interpreter.path}\n".encode()
        content = program.read_bytes()
        if content.startswith(first):
            program.write_bytes(f"#!{RUNTIME_AT}/bin/python3\n".encode() + content[len(first) :])
        program.rename(place)
    if made.is_dir() and not any(made.iterdir()):
        made.rmdir()


def _compile(draft: Draft, packages: Path, interpreter: Interpreter) -> None:
    """Write ``__pycache__``; a module that cannot be compiled (a template, an old one) stays without."""
    for folder, _, names in os.walk(packages):
        for name in names:
            os.utime(os.path.join(folder, name), (_MADE_AT, _MADE_AT), follow_symlinks=False)
    run_tool(
        [
            *(str(interpreter.path), "-S", "-s", "-m", "compileall", "-qq", "-j", "1"),
            *("-s", str(draft.root), "-p", RUNTIME_AT, str(packages)),
        ],
        environment={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"},
        cwd=draft.work,
        lock=draft.lock,
        progress=lambda _: None,
    )
