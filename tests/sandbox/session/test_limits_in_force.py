"""What ``info`` says of each limit: its value, and the mechanism that enforces it on this backend."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from affiant.sandbox.isolation.backends.backend import Availability
from affiant.sandbox.isolation.plan.isolation_class import BackendName, IsolationClass
from affiant.sandbox.session.limits_in_force import limits_and_mechanisms
from affiant.sandbox.session.session_plan import SessionRequest, plan_session

PROFILE = """agent_configs:
  bounded:
    filesystem_access: ["read-write:/workspace"]
    network_egress: ["allowed:api.example.com"]
    resources: {cpus: 2, memory: 512MiB, disk: 64MiB, pids: 50}
    limits: {wall: 90s, bytes_out: [10MiB/h, 20MiB]}
"""

EACH = {
    "cpus",
    "memory",
    "processes",
    "disk",
    "scratch",
    "file",
    "open_files",
    "wall",
    "output",
    "egress_bytes",
}
"""CPU, memory, pids, disk (the workspace and the scratch folders), descriptors, wall, output, egress bytes."""


def limits_under(
    backend: BackendName, folder: Path, *, memory: str | None
) -> Mapping[str, Mapping[str, object]]:
    (folder / "profiles.yaml").write_text(PROFILE)
    usable = {
        name: Availability(name, "1", () if name is backend else ("not this one",)) for name in BackendName
    }
    plan = plan_session(
        SessionRequest(
            profile=folder / "profiles.yaml", agent="bounded", min_isolation=IsolationClass.NAMESPACE
        ),
        session="A" * 22,
        folder=folder / "session",
        probe=lambda: usable,
        owners=frozenset({0, os.geteuid()}),
    )
    return limits_and_mechanisms(plan, memory=memory)


@pytest.mark.parametrize("backend", list(BackendName))
@pytest.mark.parametrize("memory", ["cgroup", "watchdog", None])
def test_each_limit_has_its_value_and_its_mechanism(
    tmp_path: Path, backend: BackendName, memory: str | None
) -> None:
    limits = limits_under(backend, tmp_path, memory=memory)
    assert limits.keys() >= EACH
    assert all(limits[name]["value"] for name in EACH)
    assert all(each["enforced_by"] for each in limits.values())
    assert limits["cpus"]["value"] == 2 and limits["processes"]["value"] == 50
    assert limits["memory"]["value"] == 512 << 20
    assert limits["wall"]["value"] == 90
    assert limits["egress_bytes"]["value"] == 20 << 20, "that of the whole session"


def test_what_enforces_is_told_as_it_is_on_each_backend(tmp_path: Path) -> None:
    gvisor, bubblewrap = (
        limits_under(backend, tmp_path, memory="watchdog")
        for backend in (BackendName.GVISOR, BackendName.BUBBLEWRAP)
    )
    for name in ("cpus", "processes", "open_files", "file", "scratch"):
        assert gvisor[name]["enforced_by"] != bubblewrap[name]["enforced_by"], name
