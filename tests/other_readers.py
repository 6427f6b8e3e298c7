"""Builds the programs in ``tests/readers``: other projects' libraries, which read what this project writes.

Go and Rust are optional. Where one is not installed, or its packages cannot be had, the test is skipped and says why;
a program that does not compile fails the test.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

__all__ = ["go_reader", "rust_reader"]

_FOLDER = Path(__file__).resolve().parent / "readers"
_FETCH_SECONDS = 300
_BUILD_SECONDS = 900


def go_reader(name: str) -> Path:
    """The Go program ``name``, built."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        pytest.skip("Go is not installed: quotes are not held against go-tdx-guest")
    place, draft = _place(name)
    if not place.exists():
        environment = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
        _run([go, "mod", "download"], name, environment, why="Go modules cannot be had")
        _run([go, "build", "-o", str(draft), "."], name, {**environment, "GOPROXY": "off"})
        draft.replace(place)
    return place


def rust_reader(name: str) -> Path:
    """The Rust program ``name``, built."""
    cargo = shutil.which("cargo") or shutil.which("cargo", path=str(Path.home() / ".cargo" / "bin"))
    if cargo is None:
        pytest.skip("Rust is not installed: attestation results are not held against the crate `ear`")
    place, _ = _place(name)
    if not place.exists():
        target = place.with_name(f"{place.name}-target")
        environment = {"CARGO_TARGET_DIR": str(target)}
        _run([cargo, "fetch", "--locked"], name, environment, why="Rust crates cannot be had")
        _run([cargo, "build", "--locked", "--offline"], name, environment)
        (target / "debug" / f"{name}-reader").replace(place)
        shutil.rmtree(target)
    return place


def _place(name: str) -> tuple[Path, Path]:
    """Where the program belongs, by the digest of its sources; and a place beside it for this process."""
    digest = hashlib.sha256()
    for path in sorted((_FOLDER / name).rglob("*")):
        if path.is_file() and "target" not in path.parts:
            digest.update(path.relative_to(_FOLDER).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    folder = Path.home() / ".cache" / "affiant-tests"
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{name}-{digest.hexdigest()[:16]}"
    return place, place.with_name(f"{place.name}.{os.getpid()}")


def _run(argv: Sequence[str], name: str, environment: dict[str, str], *, why: str | None = None) -> None:
    """Run one step of a build. ``why``: a failure is no fault of the program, and the test is skipped."""
    done = subprocess.run(
        argv,
        cwd=_FOLDER / name,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=_BUILD_SECONDS if why is None else _FETCH_SECONDS,
    )
    if done.returncode == 0:
        return
    said = done.stderr.strip()[-1000:]
    if why is not None:
        pytest.skip(f"{why}: {said.splitlines()[-1] if said else argv[0]}")
    pytest.fail(f"{name} was not built: {said}")
