"""What the launcher finds out before anything starts: who holds the folder, and whose it is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.gateway.process.launch import _holder, _require_alone
from affiant.gateway.process.server import _within

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
