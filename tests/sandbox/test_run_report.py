"""``affiant run`` where no terminal is: the platform, the isolation, what was denied and where the receipts are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.sandbox.conftest import Machine

REACH = """
import urllib.request
for host in ("a.test", "a.test", "b.test"):
    try:
        urllib.request.urlopen(f"http://{host}/x?token=hunter2", timeout=5)
    except OSError as error:
        print(error.code)
try:
    urllib.request.urlopen("https://c.test/", timeout=5)
except OSError as error:
    print(error)
"""


_OF_THE_MACHINE = ("affiant: no memory cgroup can be made here", "affiant: no overlay can be mounted here")
AGENT = "thinker"
"""It may have no secret, so nothing is said of the memory of a broker that holds none."""


def lines_of(stderr: bytes) -> list[str]:
    """What was said, but for what this machine lacks: containers often have no memory cgroup."""
    return [line for line in stderr.decode().splitlines() if not line.startswith(_OF_THE_MACHINE)]


def test_a_run_outside_a_terminal_says_what_happened(warm: Machine, tmp_path: Path) -> None:
    done = warm.run("python3", "-c", REACH, agent=AGENT, options=("--json", str(tmp_path / "summary.json")))
    assert done.returncode == 0
    lines = lines_of(done.stderr)
    assert lines[0].startswith("affiant: session ")
    assert lines[0].endswith((", isolation gvisor", ", isolation bwrap-landlock"))
    assert lines[1].startswith("affiant: SIMULATED platform; gateway at https://")
    assert lines[2:5] == [
        "affiant: denied 2 times: host a.test (host_not_listed)",
        "affiant: denied 1 time: host b.test (host_not_listed)",
        "affiant: denied 1 time: host c.test (host_not_listed)",
    ]
    summary = json.loads((tmp_path / "summary.json").read_bytes())
    assert lines[5:] == [f"affiant: receipts in {summary['bundle']}"]
    assert summary["denied"][0] == {
        "kind": "host",
        "name": "a.test",
        "reason": "host_not_listed",
        "count": 2,
    }
    assert b"Tunnel connection failed: 403 host_not_listed c.test" in done.stdout, (
        "all that this client shows"
    )
    assert b"hunter2" not in done.stderr


@pytest.mark.slow
def test_quiet_says_nothing_and_a_time_limit_is_said(warm: Machine, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.json"
    quiet = warm.run("true", agent=AGENT, options=("--quiet", "--bundle", str(bundle)))
    assert (quiet.returncode, quiet.stderr) == (0, b"")
    done = warm.run("sleep", "60", agent=AGENT, options=("--timeout", "0.5", "--bundle", str(bundle)))
    assert done.returncode == 143
    assert lines_of(done.stderr)[2:] == [
        "affiant: --timeout: the command was ended after 0.5 s",
        f"affiant: receipts in {bundle}",
    ]
