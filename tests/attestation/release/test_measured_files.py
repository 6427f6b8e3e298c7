from __future__ import annotations

import hashlib
import os
import shutil
import socket
from pathlib import Path

import pytest

from affiant.attestation.release import measured_files as installed_files
from affiant.attestation.release.manifest import mrtd_of
from affiant.attestation.release.measured_files import InstalledFileError, measure_files


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """An installed package of three files, some of which no build lists."""
    portion = tmp_path / "site" / "affiant"
    for name in ("errors.py", "policy/__init__.py", "policy/README.md", "__pycache__/errors.cpython-311.pyc"):
        (portion / name).parent.mkdir(parents=True, exist_ok=True)
        (portion / name).write_bytes(name.encode())
    (portion / "stray.pyc").write_bytes(b"compiled")
    (portion / "release.json").write_bytes(b"the manifest itself")
    return portion


def test_files_are_those_of_the_wheel_sorted_by_path(tree: Path) -> None:
    assert measure_files([tree]) == tuple(
        (f"affiant/{name}", hashlib.sha256(name.encode()).hexdigest())
        for name in ("errors.py", "policy/README.md", "policy/__init__.py")
    )


def test_a_source_tree_measures_as_the_wheel_that_it_becomes(tree: Path, tmp_path: Path) -> None:
    """Five portions of a namespace, or one folder: the same paths, the same MRTD."""
    whole = measure_files([tree])
    (tmp_path / "policy" / "affiant").mkdir(parents=True)
    shutil.move(tree / "policy", tmp_path / "policy" / "affiant" / "policy")
    assert measure_files([tmp_path / "policy" / "affiant", tree]) == whole


def test_one_path_in_two_portions_is_refused(tree: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    shutil.copytree(tree, second)
    with pytest.raises(InstalledFileError, match="two places"):
        measure_files([tree, second])


@pytest.mark.parametrize("kind", ["file", "folder", "dangling"])
def test_a_link_is_refused(tree: Path, kind: str) -> None:
    target = {"file": tree / "errors.py", "folder": tree / "policy", "dangling": tree / "nothing"}[kind]
    (tree / "linked").symlink_to(target)
    with pytest.raises(InstalledFileError, match="link"):
        measure_files([tree])


def test_a_pipe_or_a_socket_is_refused_without_waiting(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tree / "pipe.py")
    with pytest.raises(InstalledFileError, match="regular"):
        measure_files([tree])
    (tree / "pipe.py").unlink()
    with socket.socket(socket.AF_UNIX) as bound:
        monkeypatch.chdir(tree)  # the path may be too long for a socket's address
        bound.bind("socket.py")
        with pytest.raises(InstalledFileError):
            measure_files([tree])


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InstalledFileError, match="folder"):
        measure_files([tmp_path / "nothing"])


@pytest.mark.parametrize("change", ["edit", "add", "remove", "rename"])
def test_every_change_of_the_installed_files_changes_the_mrtd(tree: Path, change: str) -> None:
    before = mrtd_of(measure_files([tree]))
    match change:
        case "edit":
            (tree / "errors.py").write_bytes(b"errors.pY")
        case "add":
            (tree / "policy" / "empty.py").write_bytes(b"")
        case "remove":
            (tree / "policy" / "README.md").unlink()
        case "rename":
            (tree / "errors.py").rename(tree / "error.py")
    assert mrtd_of(measure_files([tree])) != before


def test_what_this_process_imports_is_measured() -> None:
    measured = dict(measure_files())
    assert {
        "affiant/errors.py",
        "affiant/attestation/release/manifest.py",
        "affiant/policy/__init__.py",
    } <= measured.keys()
    assert "affiant/release.json" not in measured
    own = Path(installed_files.__file__)
    assert (
        measured["affiant/attestation/release/measured_files.py"]
        == hashlib.sha256(own.read_bytes()).hexdigest()
    )
