"""``affiant session narrow`` at a session that runs: shown first, never wider, and told to whoever started it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sandbox.conftest import affiant

PROFILES = """agent_configs:
  writer:
    tools: [read_file, write_file]
    filesystem_access: "read-write:/workspace"
    network_egress: [{host: api.example.com, methods: [GET, POST]}]
    limits: {requests: 50}
"""
NARROWER = PROFILES.replace(", write_file", "").replace("[GET, POST]", "[GET]")
WIDER = PROFILES.replace("write_file]", "write_file, deploy]")


@pytest.fixture
def session(warm, tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A session whose agent waits for the end of its input, and its launcher."""
    (warm.folder / "profiles.yaml").write_text(PROFILES)
    options = ("--bundle", str(tmp_path / "b.json"))
    process = warm.start("sh", "-c", "echo begun; cat", options=options, stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    (running,) = [each["session"] for each in sessions(warm)["sessions"] if each["state"] == "running"]
    yield running, process
    if process.poll() is None:
        process.communicate(timeout=30)


def narrow(warm, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return affiant("session", "narrow", "--home", str(warm.home), *arguments)


def sessions(warm) -> dict:
    return json.loads(affiant("session", "list", "--home", str(warm.home), "--json").stdout)


def written(tmp_path: Path, name: str, text: str) -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_a_running_session_is_narrowed_by_its_owner(warm, session, tmp_path: Path) -> None:
    running, launcher = session
    place = warm.home / "sessions" / running / "narrow.sock"
    assert stat.S_IMODE(os.stat(place).st_mode) == 0o600
    narrower, wider = written(tmp_path, "n.yaml", NARROWER), written(tmp_path, "w.yaml", WIDER)

    refused = narrow(warm, running, wider)
    assert refused.returncode == 1
    assert b"+ now allowed: tool:deploy" in refused.stdout
    assert b"[policy.not_narrower]" in refused.stderr

    tried = narrow(warm, running, narrower, "--dry-run")
    assert tried.returncode == 0
    assert b"- no longer allowed: tool:write_file" in tried.stdout
    assert b"nothing was changed (--dry-run)" in tried.stdout

    done = narrow(warm, running, narrower)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"- no longer allowed: POST https://api.example.com" in done.stdout
    assert b"narrowed: change 1 of this session, profile sha384:" in done.stdout

    again = json.loads(narrow(warm, running, narrower, "--json").stdout)
    assert (again["changed"], again["epoch"], again["difference"]["differences"]) == (False, 1, [])
    back = narrow(warm, running, written(tmp_path, "p.yaml", PROFILES))
    assert (back.returncode, b"[policy.not_narrower]" in back.stderr) == (1, True)

    files = narrow(warm, running, written(tmp_path, "f.yaml", NARROWER.replace("read-write", "read")))
    assert (files.returncode, b"[policy.narrow_unenforced]" in files.stderr) == (1, True)
    unknown = narrow(warm, running, narrower, "--agent", "nobody")
    assert unknown.returncode == 1

    less = NARROWER.replace("requests: 50", "requests: 5")
    as_json = json.loads(narrow(warm, running, written(tmp_path, "l.yaml", less), "--json").stdout)
    assert (as_json["changed"], as_json["epoch"], as_json["session"]) == (True, 2, running)
    assert as_json["dif"].startswith("sha256:")

    _, told = launcher.communicate(timeout=30)
    assert launcher.returncode == 0
    assert [line[:46] for line in told.splitlines() if b"narrowed" in line] == [
        b"affiant: the profile was narrowed (change 1): "[:46],
        b"affiant: the profile was narrowed (change 2): "[:46],
    ]
    assert not place.exists()
    assert "narrowed 2" in warm.verdict(tmp_path / "b.json")  # it holds, and says so
    ended = narrow(warm, running, narrower)
    assert (ended.returncode, b"[session.not_open]" in ended.stderr) == (1, True)
    assert narrow(warm, "A" * 22, narrower).returncode == 1


def test_before_the_end_of_a_session_whoever_asks_is_answered(warm, session, tmp_path: Path) -> None:
    """A narrowing at the agent's very end: either it was made, or it is said that the session has ended."""
    running, launcher = session
    command = [sys.executable, "-m", "affiant", "session", "narrow", "--home", str(warm.home), running]
    asking = subprocess.Popen(
        [*command, written(tmp_path, "n.yaml", NARROWER)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
    )
    time.sleep(0.6)
    launcher.communicate(timeout=30)
    _, error = asking.communicate(timeout=30)
    assert launcher.returncode == 0
    assert asking.returncode == 0 or b"[session.not_open]" in error
