"""A real S3 server, for whoever asks for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.s3_server import S3Server, s3_server


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
