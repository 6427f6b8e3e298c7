"""Makes ``story`` and ``sigstore_authority`` importable by the tests of this folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1]))

from s3_server import S3Server, s3_server  # noqa: E402 - found by the line above


@pytest.fixture(scope="session")
def s3_running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def s3(s3_running: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """A real S3 server, and the environment that a client of it has."""
    for name, value in s3_running.environment.items():
        monkeypatch.setenv(name, value)
    return s3_running
