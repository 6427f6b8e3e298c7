"""Where root allows, each process of a session is a user of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from affiant.attestation.simulated.served.confinement import PLATFORM_USER
from affiant.sandbox.base.privileges import (
    BROKER_USER,
    GATEWAY_USER,
    SUPERVISOR_USER,
    WITNESS_USER,
)

USERS = {
    "affiant platform serve": PLATFORM_USER,
    "affiant.gateway.process.server": GATEWAY_USER,
    "affiant witness serve": WITNESS_USER,
    "affiant.sandbox.supervisor": SUPERVISOR_USER,
    "affiant.secrets.broker": BROKER_USER,
    "affiant.sandbox.isolation.runner.runner": 0,
}
"""What a process's arguments hold -> who it is."""


def user_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1])


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="without root everything runs as the same user")
def test_each_process_is_its_own_user(machine):
    process = machine.start("sh", "-c", "echo started; read line", stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"started\n"
    found: dict[str, set[int]] = {mark: set() for mark in USERS}
    for member in machine.family(process.pid):
        for mark, users in found.items():
            if mark in member.arguments:
                users.add(user_of(member.pid))
    process.stdin.write(b"\n")
    process.communicate(timeout=30)
    assert all(USERS[mark] in users for mark, users in found.items()), found
    assert found["affiant.gateway.process.server"] == {GATEWAY_USER}
    assert found["affiant witness serve"] == {WITNESS_USER}
    assert found["affiant.secrets.broker"] == {BROKER_USER}
