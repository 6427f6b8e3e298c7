"""Real platform, gateway and supervisors; isolation by whatever this machine has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.gateway.conftest import (  # noqa: F401 - fixtures
    Running,
    platform,
    platform_home,
    release,
    serving_gateway,
)
from tests.sandbox.supervisor.launcher import Launcher

from affiant.sandbox.isolation.backends.backend import probe
from affiant.sandbox.isolation.plan.isolation_class import BackendName

FOUND = probe()


@pytest.fixture(scope="session")
def running(tmp_path_factory, platform, platform_home) -> Iterator[Running]:  # noqa: F811
    with serving_gateway(tmp_path_factory.mktemp("gateway-home"), platform_home) as started:
        yield started


@pytest.fixture
def launcher(tmp_path: Path, platform, platform_home: Path, running: Running) -> Launcher:  # noqa: F811
    missing = FOUND[BackendName.BUBBLEWRAP].reasons
    if missing:
        pytest.skip(f"bubblewrap: {'; '.join(missing)}")
    return Launcher(platform, platform_home, running.gateway, tmp_path / "sessions")
