"""Copies: what approvers were shown, which the server's user can read and nobody but the gateway's can change."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.gateway.tool_gate import path_copies
from affiant.gateway.tool_gate.path_copies import PathChanged, PathCopies, folder_of_copies
from affiant.policy.approvals.action import BoundPath
from affiant.sandbox.base.privileges import GATEWAY_USER, is_root

needs_root = pytest.mark.skipif(not is_root(), reason="without root a tool server is no user of its own")
BOUND = BoundPath("file", "/w/a.yaml", b"a: 1\n")
OTHER = BoundPath("other", "/w/deep/a.yaml", b"")
SERVER = 60_961  # a user of nobody's, beside those that tests of processes use


@pytest.fixture
def copies(tmp_path: Path) -> PathCopies:
    return PathCopies(tmp_path, random_bytes=os.urandom)


def test_a_copy_has_the_name_and_the_content_and_is_gone_afterwards(
    copies: PathCopies, tmp_path: Path
) -> None:
    with copies.made((BOUND, OTHER)) as made:
        PathCopies.require_same(made, [BOUND.to_json(), OTHER.to_json()])
        assert [Path(place).name for place in made.values()] == ["a.yaml", "a.yaml"]
        first = Path(made["/w/a.yaml"])
        assert first.read_bytes() == b"a: 1\n"
        assert stat.S_IMODE(first.stat().st_mode) == 0o444
        assert stat.S_IMODE(first.parent.stat().st_mode) == 0o711
        assert len(first.parent.name) == 22
    assert list(tmp_path.iterdir()) == []
    for error in (RuntimeError, OSError):  # of whatever happens meanwhile, nothing is hidden
        with pytest.raises(error), copies.made((BOUND,)):
            raise error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "meddle",
    [
        lambda place: (place.chmod(0o600), place.write_bytes(b"a: 2\n")),
        lambda place: place.unlink(),
        lambda place: (place.unlink(), place.symlink_to("/etc/hostname")),
        lambda place: (place.unlink(), place.write_bytes(b"")),
        lambda place: place.symlink_to(place.rename(place.with_name("the same, until it is opened"))),
    ],
)
def test_a_copy_that_is_not_what_was_approved_is_noticed(copies: PathCopies, meddle) -> None:
    with copies.made((BOUND,)) as made:
        meddle(Path(made["/w/a.yaml"]))
        with pytest.raises(PathChanged):
            PathCopies.require_same(made, [BOUND.to_json()])


def test_what_has_no_copy_is_not_handed_over(copies: PathCopies) -> None:
    with copies.made((OTHER,)) as made, pytest.raises(PathChanged):
        PathCopies.require_same(made, [BOUND.to_json()])
    with pytest.raises(PathChanged), PathCopies(Path("/missing"), random_bytes=os.urandom).made((BOUND,)):
        raise AssertionError


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    place = Path("/run") / f"affiant-tests-{os.getpid()}" if is_root() else tmp_path / "copies"
    monkeypatch.setattr(path_copies, "_COPIES", place)
    yield place
    if place.is_dir():
        subprocess.run(["rm", "-r", str(place)], check=True)


@needs_root
def test_a_server_reads_its_copy_and_changes_nothing(base: Path) -> None:
    with folder_of_copies(user=GATEWAY_USER, random_bytes=os.urandom) as folder:
        assert folder is not None
        assert folder.stat().st_uid == GATEWAY_USER
        with PathCopies(folder, random_bytes=os.urandom).made((BOUND,)) as made:
            script = f"""
import os
os.setgroups([])
os.setresgid(*[{SERVER}] * 3)
os.setresuid(*[{SERVER}] * 3)
place = {made["/w/a.yaml"]!r}
assert open(place).read() == "a: 1\\n"
for attempt in (
    lambda: open(place, "w"), lambda: os.chmod(place, 0o666), lambda: os.unlink(place),
    lambda: os.rename(place, place + "2"), lambda: open(os.path.dirname(place) + "/new", "w"),
    lambda: os.listdir(os.path.dirname(place)), lambda: os.listdir({str(folder)!r}), lambda: os.listdir({str(base)!r}),
    lambda: os.open(place, os.O_RDWR), lambda: os.truncate(place, 0), lambda: os.utime(place),
):
    try: attempt()
    except PermissionError: continue
    raise SystemExit("it could")
"""
            command = [sys.executable, "-I", "-c", script]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
    assert list(base.iterdir()) == []


@needs_root
def test_what_a_killed_launcher_left_is_removed_and_what_a_living_one_has_is_not(base: Path) -> None:
    with folder_of_copies(user=None, random_bytes=os.urandom) as living:
        assert living is not None
        left = base / "left"
        left.mkdir()
        (left / "a.yaml").write_bytes(b"what was shown")
        with folder_of_copies(user=None, random_bytes=os.urandom) as second:
            assert second != living
            assert living.is_dir()
            assert not left.exists()


@needs_root
def test_a_folder_that_others_can_write_to_is_not_used(base: Path) -> None:
    base.mkdir()
    base.chmod(0o777)
    with raises_code("gateway.settings"), folder_of_copies(user=None, random_bytes=os.urandom):
        raise AssertionError
    base.chmod(0o700)
    os.chown(base, SERVER, SERVER)
    with raises_code("gateway.settings"), folder_of_copies(user=None, random_bytes=os.urandom):
        raise AssertionError
    base.rmdir()
    base.symlink_to("/var")
    try:
        with raises_code("gateway.settings"), folder_of_copies(user=None, random_bytes=os.urandom):
            raise AssertionError
    finally:
        base.unlink()


def test_without_root_there_are_no_copies(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_copies.os, "geteuid", lambda: 1000)
    with folder_of_copies(user=None, random_bytes=os.urandom) as folder:
        assert folder is None
    assert not base.exists()
