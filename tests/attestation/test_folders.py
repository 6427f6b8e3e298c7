"""A folder that is made private is so with every folder that came to be on the way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from affiant.folders import make_private


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_everything_that_is_made_is_closed_to_others_and_nothing_else_changes(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir(mode=0o755)
    for _ in range(2):
        make_private(tmp_path / "there" / "home" / "gateway")
    modes = [
        (tmp_path / name).stat().st_mode & 0o777 for name in ("there", "there/home", "there/home/gateway")
    ]
    assert [oct(mode) for mode in modes] == ["0o755", "0o700", "0o700"]


def test_a_file_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError):
            make_private(path)
