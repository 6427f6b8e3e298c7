"""Installs Node packages with npm: no script of a package runs, and what a lock file pins is what is installed.

npm and node are the machine's. The packages lie at ``lib/node_modules``; the sandbox shows them at ``/node_modules`` as
well, where both ``import`` and ``require`` look from every folder.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from affiant.errors import AffiantError, ConfigurationError, NotAuthenticError, UnreachableError
from affiant.sandbox.runtimes.build_folder import Draft
from affiant.sandbox.runtimes.child_tool import Ended, Progress, run_tool
from affiant.sandbox.runtimes.wanted import lock_of, locked_packages
from affiant.sandbox.workspace.walk import escaped

__all__ = ["install_node", "require_node"]

_NPM: Final = (
    "--ignore-scripts",
    "--omit=dev",
    "--no-audit",
    "--no-fund",
    "--no-update-notifier",
    "--allow-git=none",
)
_NPMRC_CHARACTERS: Final = 1 << 20
_REGISTRY_LINE: Final = re.compile(
    r"(?:(?:@[\w.-]+:)?registry|legacy-peer-deps|//[\w.:/@%-]+:(?:_authToken|_auth|username|_password|email))"
    r"\s*=[^\r\n]*",
    re.ASCII,
)
_NO_CONNECTION: Final = ("ENOTFOUND", "ECONNREFUSED", "ETIMEDOUT", "EAI_AGAIN", "ECONNRESET")
_MISSING: Final = ("E404", "ETARGET", "ENOVERSIONS")


def require_node(path: str) -> None:
    """Return if the sandbox shows a node.

    Raises:
        ``runtime.interpreter``: there is none below ``/usr`` on this machine.
        ``runtime.tool``: there is no npm.
    """
    node = shutil.which("node", path="/usr/local/bin:/usr/bin:/bin")
    if node is None or not Path(node).resolve().is_relative_to("/usr"):
        raise ConfigurationError(
            "node is not installed below /usr",
            expected="node below /usr",
            hint="Install the system's package nodejs",
            code="runtime.interpreter",
        )
    if shutil.which("npm", path=path) is None:
        raise ConfigurationError("npm is not installed", code="runtime.tool")


def install_node(
    package_json: Path, draft: Draft, *, environment: Mapping[str, str], progress: Progress
) -> tuple[Mapping[str, object], ...]:
    """Install into ``draft.root``; return ``name``, ``version`` and ``hash`` of each package.

    ``install_script`` marks those whose install scripts did not run: they may lack a part.

    Raises:
        ``runtime.index``, ``runtime.package``, ``runtime.hash``, ``runtime.failed``: npm did not install them.
        ``runtime.requirements``: a package is no finished one of a registry.
    """
    work = draft.work / "node"
    work.mkdir()
    lock = lock_of(package_json)
    for path in (package_json, lock):
        if path is not None:
            shutil.copyfile(path, work / path.name)
    _copy_registries(package_json.parent / ".npmrc", work / ".npmrc")
    done = run_tool(
        ["npm", "install" if lock is None else "ci", *_NPM],
        environment=environment,
        cwd=work,
        lock=draft.lock,
        progress=progress,
    )
    if done.exit_code != 0:
        raise _failure(done)
    packages = _installed(work / ("package-lock.json" if lock is None else lock.name))
    target = draft.root / "lib" / "node_modules"
    target.parent.mkdir(exist_ok=True)
    (work / "node_modules").mkdir(exist_ok=True)
    (work / "node_modules").rename(target)
    _link_programs(target, draft.root / "bin")
    return packages


def _copy_registries(given: Path, place: Path) -> None:
    """Of a folder's ``.npmrc``, the lines that say where packages are: others name programs for npm to run."""
    if given.is_file():
        with open(given, encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file.read(_NPMRC_CHARACTERS).split("\n")]
        kept = [f"{line}\n" for line in lines if _REGISTRY_LINE.fullmatch(line)]
        place.write_text("".join(kept), encoding="utf-8")


def _failure(done: Ended) -> AffiantError:
    codes = [line.rpartition(" ")[2] for line in done.lines if line.startswith("npm error code ")]
    errors = [
        line for line in done.lines if line.startswith("npm error") and not line.startswith("npm error code")
    ]
    said = escaped(errors[0].removeprefix("npm error").strip()) if errors else None
    if any(code in _NO_CONNECTION for code in codes):
        return UnreachableError("the package registry does not answer", found=said, code="runtime.index")
    if any(code in _MISSING for code in codes):
        return ConfigurationError("the registry has no such package", found=said, code="runtime.package")
    if "EINTEGRITY" in codes:
        return NotAuthenticError("a package is not the one that was pinned", found=said, code="runtime.hash")
    return ConfigurationError("npm could not install the packages", found=said, code="runtime.failed")


def _installed(lock: Path) -> tuple[Mapping[str, object], ...]:
    """What the lock file lists; each must have come as an archive."""
    found = []
    for place, facts in locked_packages(lock, lock.read_text(encoding="utf-8")).items():
        name = place.rpartition("node_modules/")[2]
        if facts.get("dev") or facts.get("inBundle"):
            continue
        marks = {"install_script": True} if facts.get("hasInstallScript") else {}
        found.append(
            {"name": name, "version": str(facts.get("version")), "hash": facts.get("integrity"), **marks}
        )
    return tuple(sorted(found, key=lambda each: (str(each["name"]), str(each["version"]))))


def _link_programs(packages: Path, programs: Path) -> None:
    """Name the packages' programs in ``bin``, by relative links."""
    programs.mkdir(exist_ok=True)
    made = packages / ".bin"
    for program in sorted(made.iterdir()) if made.is_dir() else ():
        place = programs / program.name
        if os.path.lexists(place):
            raise ConfigurationError(
                "two packages install the same program", where=escaped(program.name), code="runtime.package"
            )
        place.symlink_to(f"../lib/node_modules/.bin/{program.name}")
