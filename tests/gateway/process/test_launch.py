"""What the launcher finds out before anything starts: who holds the folder, and whose it is."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.gateway.process.launch import _holder, _require_alone
from affiant.gateway.process.server import _descriptors, _within

ANOTHER = 12345


@contextmanager
def as_another_user(folder: Path) -> Iterator[None]:
    """While this process may not enter ``folder``, which its owner may."""
    if os.geteuid() != 0:
        folder.chmod(0)
        yield
        folder.chmod(0o700)
        return
    os.seteuid(ANOTHER)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_of_another_user_is_named_with_its_owner_and_what_to_do(tmp_path: Path) -> None:
    store = tmp_path / "gateway"
    store.mkdir(mode=0o700)
    (store / "lock").touch()
    with (
        as_another_user(store),
        raises_code("gateway.settings", match=f"user {os.getuid()}.*--home"),
    ):
        _require_alone(store)


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with raises_code("gateway.settings"):
        _require_alone(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def test_the_holder_of_a_lock_is_found_by_device_and_number(tmp_path: Path) -> None:
    file, locks = tmp_path / "lock", tmp_path / "locks"
    file.touch()
    found = file.stat()
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    locks.write_text(
        f"1: FLOCK  ADVISORY  WRITE 11 fe:fe:{found.st_ino} 0 EOF\n"
        f"2: POSIX  ADVISORY  WRITE 12 {place} 0 EOF\n"
        f"3: FLOCK  ADVISORY  WRITE 13 {place} 0 EOF\n"
    )
    assert _holder(found, locks) == 13
    assert _holder(tmp_path.stat(), locks) is None


@pytest.mark.parametrize(("descriptors", "most"), [(-1, 2048), (1 << 20, 2048), (4096, 2048), (1024, 512)])
def test_connections_leave_half_of_the_descriptors(descriptors: int, most: int) -> None:
    assert _within(descriptors, 2048) == most


@pytest.mark.parametrize(
    ("sessions", "allowed", "raised"),
    [
        (256, (1024, 1 << 20), None),
        (1, (256, 256), None),
        (257, (1024, 1 << 20), 4112),
        (5000, (1024, 40_000), 40_000),
        (5000, (1024, resource.RLIM_INFINITY), 80_000),
        (5000, (1 << 20, 1 << 20), None),
        (5000, (resource.RLIM_INFINITY, resource.RLIM_INFINITY), None),
    ],
)
def test_more_sessions_than_usual_raise_what_may_be_open(
    monkeypatch: pytest.MonkeyPatch, sessions: int, allowed: tuple[int, int], raised: int | None
) -> None:
    limits = [allowed]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: limits.append(limit))
    may = _descriptors(sessions, sessions * 8)
    assert limits == [allowed] if raised is None else limits == [allowed, (raised, allowed[1])]
    assert may == (allowed[0] if raised is None else raised)


def test_too_few_open_files_for_so_many_sessions_are_told_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 39_999))
    with raises_code("gateway.settings") as refused:
        _descriptors(5000, 40_000)
    assert refused.value.hint == "ulimit -Hn 80000"
