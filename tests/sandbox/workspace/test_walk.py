"""The walk through a tree: one object for each entry, and a caller who can end it."""

from __future__ import annotations

from pathlib import Path

import pytest

from affiant.sandbox.workspace import walk


def test_each_entry_is_made_once_and_carries_the_callers_callback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_bytes(b"x")
    made: list[walk.Found] = []
    init = walk.Found.__init__

    def counted(self: walk.Found, *args: object, **more: object) -> None:
        init(self, *args, **more)  # type: ignore[arg-type]
        made.append(self)

    monkeypatch.setattr(walk.Found, "__init__", counted)
    calls = []
    limits = walk.Limits(proceed=lambda: calls.append(None))
    with walk.open_directory(tmp_path) as root:
        found = list(walk.walk(root, limits=limits))
    assert [each.path for each in found] == ["a", "a/b", "a/b/file"]
    assert made == found
    assert len(calls) == 3
    assert all(each.proceed is limits.proceed for each in found)
