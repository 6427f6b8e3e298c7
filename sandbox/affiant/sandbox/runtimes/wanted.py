"""Reads what an environment is to hold: requirements files, a ``pyproject.toml``, a ``package.json``.

pip and npm run on the machine that builds, with its user's rights. So nothing may be asked of them that runs a
package's own code: a source distribution, a folder, a repository, an editable install, an install script. What could
is rejected here by its line, before the tool starts. Pure but for reading the files.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.errors import ConfigurationError
from affiant.sandbox.workspace.walk import escaped

__all__ = ["Wanted", "read_wanted"]

_FLAGS: Final = frozenset({"--no-index", "--pre", "--prefer-binary", "--require-hashes"})
_FILES: Final = ("-r", "--requirement", "-c", "--constraint")
_OPTIONS: Final = frozenset(
    {"-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--trusted-host", *_FILES, *_FLAGS}
)
"""Of lines in a requirements file; no other reaches pip."""
_COMMENT: Final = re.compile(r"(^|\s)#.*$")
_NAME: Final = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[([^\]]*)\])?")
_ARCHIVES: Final = (".zip", ".whl", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")
_NODE_VERSION: Final = re.compile(r"(npm:(@[\w.-]+/)?[\w.-]+@)?[\w.\-+^~<>=|*\s]*\Z")
_MAX_BYTES: Final = 8 << 20
_MAX_FILES: Final = 100


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be installed.

    Args:
        files: requirements files for pip, as they lie.
        lines: requirements of a ``pyproject.toml``.
        package_json: the one for npm; its lock file lies beside it, if there is one.
        digests: file name -> ``sha256:`` of each file that was read.
    """

    files: tuple[Path, ...]
    lines: tuple[str, ...]
    package_json: Path | None
    digests: Mapping[str, str]

    @property
    def python(self) -> bool:
        """Whether pip has anything to install."""
        return bool(self.files or self.lines)


def read_wanted(paths: Sequence[Path], *, extras: Sequence[str] = ()) -> Wanted:
    """Read ``paths``; a ``pyproject.toml`` and a ``package.json`` are known by their names, all else are requirements.

    Args:
        extras: of ``[project.optional-dependencies]``, to be installed as well.

    Raises:
        ``runtime.requirements``: a file cannot be read, or asks for what is not installed from a finished package.
    """
    texts: dict[Path, str] = {}
    files: list[Path] = []
    lines: list[str] = []
    package_json: Path | None = None
    for path in paths:
        if path.name == "pyproject.toml":
            lines += _of_pyproject(path, _read(path, texts), extras)
        elif path.name == "package.json":
            if package_json is not None:
                raise _rejected(path, "a second package.json", expected="at most one")
            package_json = path
            _require_node_packages(path, _read(path, texts))
            lock = lock_of(path)
            if lock is not None:
                _read(lock, texts)
        else:
            files.append(path)
            _require_wheels(path, texts)
    if extras and not any(path.name == "pyproject.toml" for path in paths):
        raise ConfigurationError(
            "--extra needs a pyproject.toml", where="--extra", code="runtime.requirements"
        )
    for number, line in enumerate(lines, start=1):
        _require_wheel(line, f"pyproject.toml dependency {number}")
    digests = [(path.name, sha256_name(text.encode())) for path, text in texts.items()]
    named = {name if name not in dict(digests[:at]) else f"{name} ({at + 1})": digest
             for at, (name, digest) in enumerate(digests)}  # fmt: skip
    return Wanted(tuple(files), tuple(lines), package_json, named)


def lock_of(package_json: Path) -> Path | None:
    """The lock file beside ``package_json`` that npm would take."""
    names = ("npm-shrinkwrap.json", "package-lock.json")
    return next((lock for name in names if (lock := package_json.parent / name).is_file()), None)


def _read(path: Path, texts: dict[Path, str]) -> str:
    if len(texts) >= _MAX_FILES:
        raise _rejected(path, "too many requirements files", expected=f"at most {_MAX_FILES}")
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MAX_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise _rejected(path, "the file cannot be read", found=reason) from error
    texts[path.absolute()] = text
    return text


def _rejected(where: object, message: str, **facts: object) -> ConfigurationError:
    hint = facts.pop("hint", None)
    return ConfigurationError(
        message,
        where=escaped(str(where)),
        expected=facts.get("expected"),
        found=facts.get("found"),
        hint=None if hint is None else str(hint),
        code="runtime.requirements",
    )


def _require_wheels(path: Path, texts: dict[Path, str]) -> None:
    """Return if each line of a requirements file, and of those that it names, can be installed from wheels."""
    if path.absolute() in texts:
        return
    for number, line in _logical_lines(_read(path, texts)):
        where = f"{path}:{number}"
        if not line.startswith("-"):
            _require_wheel(line, where)
            continue
        name, value = _option(line)
        if name not in _OPTIONS or (value is None) != (name in _FLAGS):
            raise _rejected(
                where,
                "this option is not taken",
                expected="one option a line, about packages that have wheels and where they are",
                found=escaped(name),
                hint="Sources, editable installs and --no-binary would run a package's code on this machine",
            )
        if value is not None and name in _FILES:
            if "://" in value or "$" in value:
                raise _rejected(where, "a requirements file is named by a path", found=escaped(value))
            _require_wheels(path.parent / value, texts)


def _option(line: str) -> tuple[str, str | None]:
    """The one option of a line, and its value; pip would read more than one. ``("", None)``: it is not one."""
    try:
        first, *rest = shlex.split(line)
    except ValueError:
        return "", None
    if first.startswith("--") and "=" in first:
        name, _, value = first.partition("=")
        return (name, value) if not rest else ("", None)
    if first[:2] in {"-r", "-c", "-f", "-i"} and first[2:]:
        return (first[:2], first[2:]) if not rest else ("", None)
    if len(rest) > 1 or (rest and rest[0].startswith("-")):
        return "", None
    return first, rest[0] if rest else None


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines as pip reads them: joined at a backslash, without comments."""
    start, held = 0, ""
    for number, line in enumerate(text.splitlines(), start=1):
        start = start if held else number
        held += line.removesuffix("\\")
        if line.endswith("\\") and not line.lstrip().startswith("#"):
            continue
        if stripped := _COMMENT.sub("", held).strip():
            yield start, stripped
        held = ""
    if stripped := _COMMENT.sub("", held).strip():
        yield start, stripped


def _require_wheel(line: str, where: str) -> None:
    """Return if ``line`` names a package of an index, or one wheel."""
    requirement, *options = re.split(r"\s+(?=--?[a-z])", line)
    for option in options:
        if not option.startswith("--hash="):
            raise _rejected(where, "this option of a requirement is not taken", found=escaped(option))
    name, _, place = requirement.partition("@") if "@" in requirement else ("", "", requirement)
    target = place.partition(";")[0].strip() if name else requirement.partition(";")[0].strip()
    direct = bool(name) or "/" in target or target.startswith(".") or target.lower().endswith(_ARCHIVES)
    wheel = urlsplit(target).path
    if direct and (not wheel.lower().endswith(".whl") or Path(wheel).is_dir()):
        raise _rejected(
            where,
            "a source is named where a package of an index or a wheel is needed",
            found=escaped(_without_user(target)),
            hint="Build its wheel with 'pip wheel --no-deps', and name the wheel",
        )
    named = name or ("" if direct else requirement)
    if "$" in requirement or "\\" in requirement or (named and _NAME.match(named) is None):
        raise _rejected(where, "not a requirement", found=escaped(_without_user(requirement[:80])))


def _without_user(text: str) -> str:
    return re.sub(r"//[^/@\s]*@", "//...@", text)


def _of_pyproject(path: Path, text: str, extras: Sequence[str]) -> list[str]:
    """The requirements of ``[project]`` and its extras; the project itself is not installed."""
    try:
        project = tomllib.loads(text).get("project")
    except tomllib.TOMLDecodeError as error:
        raise _rejected(path, "not TOML", found=str(error)) from error
    if not isinstance(project, dict) or "dependencies" in project.get("dynamic", ()):
        raise _rejected(
            path,
            "the dependencies are not listed in [project]",
            expected="project.dependencies",
            hint="Export them: 'uv export --format requirements-txt' or 'poetry export'",
        )
    optional = project.get("optional-dependencies", {})
    found = list(project.get("dependencies", ()))
    waiting, seen = list(extras), set()
    while waiting:
        extra = waiting.pop()
        if extra in seen:
            continue
        seen.add(extra)
        if extra not in optional:
            raise _rejected(path, "no such extra", found=escaped(extra), expected=", ".join(optional) or None)
        for line in optional[extra]:
            named = _NAME.match(str(line))
            if named is not None and named[2] and _same(named[1], str(project.get("name"))):
                waiting += [each.strip() for each in named[2].split(",")]
            else:
                found.append(line)
    if not all(isinstance(line, str) and "\n" not in line and not line.startswith("-") for line in found):
        raise _rejected(path, "a dependency is not one line of text")
    return found


def _same(name: str, other: str) -> bool:
    return re.sub(r"[-_.]+", "-", name).lower() == re.sub(r"[-_.]+", "-", other).lower()


def _require_node_packages(path: Path, text: str) -> None:
    """Return if each dependency comes from a registry or as an archive over HTTPS."""
    try:
        members = json.loads(text)
    except ValueError as error:
        raise _rejected(path, "not JSON", found=str(error)) from error
    if not isinstance(members, dict) or "workspaces" in members:
        raise _rejected(path, "not the package.json of one package", expected="no workspaces")
    for kind in ("dependencies", "optionalDependencies"):
        for name, version in dict(members.get(kind) or {}).items():
            archive = str(version).startswith("https://") and urlsplit(str(version)).path.endswith(
                (".tgz", ".tar.gz")
            )
            if not isinstance(version, str) or not (archive or _NODE_VERSION.match(version)):
                raise _rejected(
                    f"{path} ({kind}.{name})",
                    "a source is named where a package of a registry is needed",
                    found=escaped(_without_user(str(version))),
                )
