"""Reads what an environment is to hold: requirements files, a ``pyproject.toml``, a ``package.json``.

pip and npm run on the machine that builds, with its user's rights. So nothing may be asked of them that runs a
package's own code: a source distribution, a folder, a repository, an editable install, an install script. What could
is rejected here by its line, before the tool starts. pip never reads the files themselves: it is given lines that this
module writes from what it took, in ASCII, so nothing in a file can mean one thing here and another to pip. Pure but for
reading the files.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.errors import ConfigurationError
from affiant.sandbox.workspace.walk import escaped

__all__ = ["Wanted", "lock_of", "locked_packages", "read_wanted"]

_FLAGS: Final = frozenset({"--no-index", "--pre", "--prefer-binary", "--require-hashes"})
_CONSTRAINTS: Final = frozenset({"-c", "--constraint"})
_FILES: Final = _CONSTRAINTS | {"-r", "--requirement"}
_PLACES: Final = {"-i": "--index-url", "-f": "--find-links", "--extra-index-url": "--extra-index-url"}
_OPTIONS: Final = frozenset({*_PLACES, *_PLACES.values(), "--trusted-host", *_FILES, *_FLAGS})
"""Of lines in a requirements file; no other reaches pip."""
_COMMENT: Final = re.compile(r"(^|\s)#.*$")
_NAME: Final = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[([^\]]*)\])?")
_PROJECT: Final = r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?) ?(?:\[[A-Za-z0-9._, -]*\])?"
_OF_INDEX: Final = re.compile(_PROJECT + r" ?\(?(?:[<>=!~][A-Za-z0-9.*+!<>=~, _-]*)?\)?")
_DIRECT: Final = re.compile(rf"(?:(?P<project>{_PROJECT}) ?@ ?)?(?P<place>.+)")
_MARKER: Final = re.compile(r"[A-Za-z0-9_.*+'\"<>=!~(), -]+")
_HASHES: Final = re.compile(
    r"(?P<body>.*?)(?P<hashes>(?:\s+--hash=sha(?:256|384|512):[0-9A-Fa-f]+)*)", re.DOTALL
)
_URL: Final = re.compile(r"https?://[A-Za-z0-9._~:/?@!&*+,=%()\[\]-]+")
_URL_PATH: Final = re.compile(r"[a-z]+://[^/?]+(/[^?]*)?.*")
_URL_DIGEST: Final = re.compile(r"|#sha(?:256|384|512)=[0-9A-Fa-f]+")
_HOST: Final = re.compile(r"[A-Za-z0-9.:\[\]-]+")
_WHEEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+!]*(?:-[A-Za-z0-9_.+!]+){4,5}\.whl")
_ARCHIVE: Final = re.compile(r"\.(?:zip|whl|tar|tbz|tgz|txz|tlz|tar\.\w+)\Z", re.IGNORECASE)
"""pip takes a name that ends so for a file of the current folder, if there is one."""
_NODE_KINDS: Final = (
    "dependencies",
    "optionalDependencies",
    "peerDependencies",
    "devDependencies",
    "overrides",
)
"""npm looks at packages for development too, though it does not install them."""
_NODE_VERSION: Final = re.compile(
    r"(?!\s*\.)(?!.*\.(?:tgz|tar|tar\.gz)\s*\Z)(npm:(@[\w.-]+/)?[\w.-]+@)?[\w.\-+^~<>=|*\s]*\Z"
)
_NODE_REFERENCE: Final = re.compile(r"\$(?:@[\w.~-]+/)?[\w.~-]+", re.ASCII)
_NODE_URL: Final = re.compile(
    r"https?://(?:[A-Za-z0-9._~%:!*-]*@)?(?P<host>[A-Za-z0-9.-]+)(?::\d+)?(?P<path>/[!-~]*)", re.ASCII
)
_GIT_HOSTS: Final = frozenset({"github.com", "gist.github.com", "gitlab.com", "bitbucket.org", "git.sr.ht"})
_GITHUB_ARCHIVE: Final = re.compile(r"/[\w.-]+/[\w.-]+/(?:archive|releases)/", re.ASCII)
_NODE_PLACE: Final = re.compile(r"(?:(?:\A|/)node_modules/(?:@[\w.~-]+/)?(?!\.)[\w.~-]+)+", re.ASCII)
_MAX_CHARACTERS: Final = 8 << 20
_MAX_FILES: Final = 100


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be installed.

    Args:
        python: whether there is anything for pip.
        requirements, constraints: lines for pip, as this module writes them.
        package_json: the one for npm; its lock file lies beside it, if there is one.
        digests: file name -> ``sha256:`` of each file that was read, and of each wheel that is named by a path.
    """

    python: bool
    requirements: tuple[str, ...]
    constraints: tuple[str, ...]
    package_json: Path | None
    digests: Mapping[str, str]


@dataclass(slots=True)
class _Asked:
    """What the files ask for, so far."""

    texts: dict[Path, str] = field(default_factory=dict)
    requirements: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    taken: set[tuple[Path, bool]] = field(default_factory=set)


def read_wanted(paths: Sequence[Path], *, extras: Sequence[str] = ()) -> Wanted:
    """Read ``paths``; a ``pyproject.toml`` and a ``package.json`` are known by their names, all else are requirements.

    Args:
        extras: of ``[project.optional-dependencies]``, to be installed as well.

    Raises:
        ``runtime.requirements``: a file cannot be read, or asks for what is not installed from a finished package.
    """
    asked = _Asked()
    lines: list[str] = []
    package_json: Path | None = None
    for path in paths:
        if path.name == "pyproject.toml":
            lines += _of_pyproject(path, _read(path, asked.texts), extras)
        elif path.name == "package.json":
            if package_json is not None:
                raise _rejected(path, "a second package.json", expected="at most one")
            package_json = path
            _require_node_packages(path, _read(path, asked.texts))
            lock = lock_of(path)
            if lock is not None:
                locked_packages(lock, _read(lock, asked.texts))
        else:
            _take_file(path, asked, constraint=False)
    if extras and not any(path.name == "pyproject.toml" for path in paths):
        raise ConfigurationError(
            "--extra needs a pyproject.toml", where="--extra", code="runtime.requirements"
        )
    asked.requirements += [
        _requirement(line, f"pyproject.toml dependency {number}")
        for number, line in enumerate(lines, start=1)
    ]
    digests = [(path.name, sha256_name(text.encode())) for path, text in asked.texts.items()]
    wheels = {wheel for line in (*asked.requirements, *asked.constraints) for wheel in _local_wheels(line)}
    digests += [(wheel.name, _digest_of(wheel)) for wheel in sorted(wheels)]
    named = {name if name not in dict(digests[:at]) else f"{name} ({at + 1})": digest
             for at, (name, digest) in enumerate(digests)}  # fmt: skip
    python = bool(lines or asked.taken)
    return Wanted(python, tuple(asked.requirements), tuple(asked.constraints), package_json, named)


def lock_of(package_json: Path) -> Path | None:
    """The lock file beside ``package_json`` that npm would take."""
    names = ("npm-shrinkwrap.json", "package-lock.json")
    return next((lock for name in names if (lock := package_json.parent / name).is_file()), None)


def _read(path: Path, texts: dict[Path, str]) -> str:
    if len(texts) >= _MAX_FILES:
        raise _rejected(path, "too many requirements files", expected=f"at most {_MAX_FILES}")
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MAX_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise _rejected(path, "the file cannot be read", found=reason) from error
    if len(text) > _MAX_CHARACTERS or "\0" in text:
        raise _rejected(
            path, "the file is too long, or holds a NUL", expected=f"at most {_MAX_CHARACTERS} characters"
        )
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


def _take_file(path: Path, asked: _Asked, *, constraint: bool) -> None:
    """Add what a requirements file asks for, and those that it names."""
    if (path.absolute(), constraint) in asked.taken:
        return
    asked.taken.add((path.absolute(), constraint))
    for number, line in _logical_lines(_read(path, asked.texts)):
        where = f"{path}:{number}"
        if not line.startswith("-"):
            (asked.constraints if constraint else asked.requirements).append(_requirement(line, where))
            continue
        name, value = _option(line)
        if name not in _OPTIONS or (value is None) != (name in _FLAGS):
            raise _rejected(
                where,
                "this option is not supported",
                expected="one option a line, about packages that have wheels and where they are",
                found=escaped(name),
                hint="Sources, editable installs and --no-binary would run a package's code on this machine",
            )
        if value is None:
            asked.requirements.append(name)
        elif name not in _FILES:
            asked.requirements.append(_with_value(name, value, path.parent, where))
        elif "://" in value or "$" in value:
            raise _rejected(where, "a requirements file is named by a path", found=escaped(value))
        else:
            _take_file(path.parent / value, asked, constraint=name in _CONSTRAINTS)


def _option(line: str) -> tuple[str, str | None]:
    """The one option of a line, and its value. ``("", None)``: it is not one."""
    try:
        first, *rest = shlex.split(line)
    except ValueError:
        return "", None
    if "\\" in line:
        return "", None
    if first.startswith("--") and "=" in first:
        name, _, value = first.partition("=")
        return (name, value) if not rest else ("", None)
    if first[:2] in {"-r", "-c", "-f", "-i"} and first[2:]:
        return (first[:2], first[2:]) if not rest else ("", None)
    if len(rest) > 1 or (rest and rest[0].startswith("-")):
        return "", None
    return first, rest[0] if rest else None


def _with_value(name: str, value: str, folder: Path, where: str) -> str:
    """An option about where packages are, for pip; a path becomes a URL, from ``folder`` if there is such a one."""
    if name == "--trusted-host":
        written = value if _HOST.fullmatch(value) else None
    elif ":" in value:
        file = value.startswith("file:///") and _URL.fullmatch(value.replace("file:///", "http://", 1))
        written = value if file or _URL.fullmatch(value) else None
    else:
        path = folder / value
        written = (path if os.path.exists(path) else Path(value)).absolute().as_uri()
    if written is None:
        raise _rejected(
            where,
            "the value of this option is not supported",
            expected="a URL of http or https without variables, or a path",
            found=escaped(_without_user(value)),
            hint="An index with a secret in its URL: set PIP_INDEX_URL, or use 'pip config'",
        )
    return f"{_PLACES.get(name, name)}={written}"


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines as pip reads them: joined at a backslash, without comments."""
    start, held = 0, ""
    for number, line in enumerate(text.splitlines(), start=1):
        start = start if held else number
        comment = line.lstrip().startswith("#")
        held += f" {line}" if comment else line.removesuffix("\\")
        if line.endswith("\\") and not comment:
            continue
        if stripped := _COMMENT.sub("", held).strip():
            yield start, stripped
        held = ""
    if stripped := _COMMENT.sub("", held).strip():
        yield start, stripped


def _requirement(line: str, where: str) -> str:
    """A package of an index, or one wheel, as a line for pip."""
    parts = _HASHES.fullmatch(line)
    assert parts is not None
    body = " ".join(parts["body"].split())
    if option := re.search(r"(?:^| )(-.*)", body):
        raise _rejected(
            where, "this option of a requirement is not supported", found=escaped(_without_user(option[1]))
        )
    target, semicolon, marker = (part.strip() for part in body.partition(";"))
    direct = _DIRECT.fullmatch(target)
    named = _OF_INDEX.fullmatch(target)
    if named is not None and not _ARCHIVE.search(target) and not _ARCHIVE.search(named["name"]):
        written: str | None = target
    elif direct is not None and (wheel := _wheel(direct["place"])) is not None:
        written = wheel if direct["project"] is None else f"{direct['project'].strip()} @ {wheel}"
    else:
        written = None
    if written is None or (semicolon and not _MARKER.fullmatch(marker)):
        raise _rejected(
            where,
            "neither a package of an index nor a wheel",
            found=escaped(_without_user(body[:80])),
            hint="Build a source's wheel with 'pip wheel --no-deps', and name the wheel",
        )
    return " ".join((written, *((";", marker) if semicolon else ()), *parts["hashes"].split()))


def _wheel(place: str) -> str | None:
    """The URL of the wheel at ``place``, a URL or a path; None: that is none."""
    place, mark, digest = place.partition("#")
    if not _URL_DIGEST.fullmatch(mark + digest):
        return None
    if _URL.fullmatch(place) and (parts := _URL_PATH.fullmatch(place)) is not None:
        name = unquote(parts[1] or "").rpartition("/")[2]
        return place + mark + digest if _WHEEL.fullmatch(name) else None
    path = Path(unquote(place.removeprefix("file://")) if place.startswith("file:///") else place)
    if not _WHEEL.fullmatch(path.name) or not os.path.isfile(path):
        return None
    return (path.parent.resolve() / path.name).as_uri() + mark + digest


def _local_wheels(line: str) -> Iterator[Path]:
    """The wheel that a line for pip names by a path."""
    for part in line.split():
        if part.startswith("file://"):
            yield Path(unquote(part.removeprefix("file://").partition("#")[0]))


def _digest_of(wheel: Path) -> str:
    try:
        with open(wheel, "rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        raise _rejected(wheel, "the wheel cannot be read", found=error.strerror) from error


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


def _object(path: Path, text: str) -> dict[str, object]:
    try:
        members = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _rejected(path, "not JSON", found=str(error)) from error
    if not isinstance(members, dict):
        raise _rejected(path, "not a JSON object")
    return members


def _require_node_packages(path: Path, text: str) -> None:
    """Return if each dependency comes from a registry or as an archive over HTTPS."""
    members = _object(path, text)
    if "workspaces" in members:
        raise _rejected(path, "package.json defines workspaces", expected="no workspaces")
    for kind in _NODE_KINDS:
        _require_registry(members.get(kind) or {}, f"{path} ({kind}", overrides=kind == "overrides")


def _require_registry(versions: object, where: str, *, overrides: bool) -> None:
    """``overrides`` hold objects of versions, and ``$name``: the version of that dependency."""
    if not isinstance(versions, dict):
        raise _rejected(f"{where})", "not an object of versions")
    for name, version in versions.items():
        if overrides and isinstance(version, dict):
            _require_registry(version, f"{where}.{name}", overrides=True)
        elif overrides and isinstance(version, str) and _NODE_REFERENCE.fullmatch(version):
            continue
        elif not (isinstance(version, str) and _of_registry(version)):
            raise _rejected(
                f"{where}.{name})",
                "a source is named where a package of a registry is needed",
                found=escaped(_without_user(str(version))),
            )


def _of_registry(version: str) -> bool:
    if version.startswith("https://"):
        return _is_archive_url(version) and urlsplit(version).path.endswith((".tgz", ".tar.gz"))
    return _NODE_VERSION.match(version) is not None


def _is_archive_url(url: str) -> bool:
    """npm takes the page of a repository at one of these hosts for the repository, whatever its name ends in."""
    parts = _NODE_URL.fullmatch(url)
    if parts is None:
        return False
    host = parts["host"].lower().removeprefix("www.")
    return host not in _GIT_HOSTS or (
        host == "github.com" and _GITHUB_ARCHIVE.match(parts["path"]) is not None
    )


def locked_packages(lock: Path, text: str) -> Mapping[str, Mapping[str, object]]:
    """Where each package is to lie -> what a lock file of npm says of it.

    Raises:
        ``runtime.requirements``: one is no archive of a registry, or would lie elsewhere.
    """
    members = _object(lock, text)
    packages = {place: facts for place, facts in _entries(lock, members.get("packages")) if place}
    waiting = [(f"node_modules/{name}", facts) for name, facts in _entries(lock, members.get("dependencies"))]
    for place, facts in packages.items():
        _require_locked(place, facts)
    while waiting:  # as npm up to version 6 reads it
        place, facts = waiting.pop()
        _require_locked(place, facts)
        waiting += [
            (f"{place}/node_modules/{name}", inner)
            for name, inner in _entries(lock, facts.get("dependencies"))
        ]
    return packages


def _entries(lock: Path, members: object) -> list[tuple[str, Mapping[str, object]]]:
    if members is None:
        return []
    if not isinstance(members, dict) or not all(isinstance(facts, dict) for facts in members.values()):
        raise _rejected(lock, "not a lock file of npm")
    return list(members.items())


def _require_locked(place: str, facts: Mapping[str, object]) -> None:
    version, resolved = facts.get("version", "*"), facts.get("resolved")
    if (
        _NODE_PLACE.fullmatch(place) is None
        or facts.get("link")
        or not (isinstance(version, str) and _of_registry(version))
        or not (resolved is None or (isinstance(resolved, str) and _is_archive_url(resolved)))
    ):
        raise _rejected(place.rpartition("node_modules/")[2], "a package is no archive of a registry")
