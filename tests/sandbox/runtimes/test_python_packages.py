"""What is read from the report that pip writes of an installation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from affiant.sandbox.runtimes.python_packages import _installed


@pytest.mark.parametrize(
    ("archive", "found"),
    [
        ({"hashes": {"sha256": "ab"}, "hash": "sha256=cd"}, "sha256:ab"),
        ({"hash": "sha256=ab"}, "sha256:ab"),  # pip before 23.1
        ({"hash": "md5=ab"}, None),
        ({"hash": "sha256"}, None),
        ({}, None),
    ],
)
def test_a_packages_hash_is_read_as_each_pip_writes_it(
    tmp_path: Path, archive: dict[str, object], found: str | None
) -> None:
    report = tmp_path / "report.json"
    download = {"url": "https://index.example/a-1.0-py3-none-any.whl", "archive_info": archive}
    item = {"download_info": download, "metadata": {"name": "a", "version": "1.0"}}
    report.write_text(json.dumps({"install": [item]}))
    assert _installed(report) == ({"name": "a", "version": "1.0", "hash": found},)
