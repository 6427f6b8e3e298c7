"""``affiant run --decisions``: what a real session decides stands in the file, and nothing happens that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from affiant.policy.decision_log.reader import read_decision_log

PROFILE = """agent_configs:
  writer:
    tools: [read_file]
    filesystem_access: "read-write:/workspace"
    network_egress:
      - {host: api.example.test, methods: [GET], paths: [/v1/**]}
"""
REACH = """
import os, socket, urllib.request
for url in ("http://api.example.test/v1/a?token=hunter2", "http://other.example.test/"):
    try:
        urllib.request.urlopen(url, timeout=5)
    except OSError as error:
        print(getattr(error, "code", error))
"""


def told(path: Path) -> list[tuple[str, str, str]]:
    return [
        (each.request, each.effect.value, each.reason)
        for each in read_decision_log(path.read_bytes().splitlines(keepends=True))
    ]


@pytest.fixture
def profile(warm):
    path = warm.folder / "profiles.yaml"
    before = path.read_text()
    path.write_text(PROFILE)
    yield path
    path.write_text(before)


@pytest.mark.slow
def test_a_log_that_cannot_be_written_ends_the_session_before_the_agent_runs(warm, profile, full_disk):
    (full_disk / "padding").write_bytes(bytes(4096))
    log = full_disk / "decisions.jsonl"
    log.touch(mode=0o600)
    filler = b'{"agent":"a","decision":"deny","reason":"tool_not_listed","request":"tool:x"}\n'
    log.write_bytes(filler * (4096 // len(filler)))
    before = log.read_bytes()
    done = warm.run("echo", "it ran", options=("--decisions", str(log)))
    assert (done.returncode, b"[decisions.unavailable]" in done.stderr) == (125, True), done.stderr
    assert b"it ran" not in done.stdout
    assert log.read_bytes() == before


@pytest.mark.slow
def test_a_log_that_fails_while_the_agent_runs_denies_and_ends_the_session(warm, profile, full_disk):
    (full_disk / "padding").write_bytes(bytes(4096))
    log = full_disk / "decisions.jsonl"
    log.touch(mode=0o600)
    filler = b'{"agent":"a","decision":"deny","reason":"tool_not_listed","request":"tool:x"}\n'
    log.write_bytes(filler * (3600 // len(filler)))  # room for the line of the one mount, and not for another
    script = (
        REACH.replace('"http://other', '"http://api.example.test/b", "http://other')
        + "import time; time.sleep(30)"
    )
    done = warm.run("python3", "-c", script, options=("--decisions", str(log)), timeout=25)
    assert (done.returncode, b"[decisions.unavailable]" in done.stderr) == (125, True), done.stderr
    requests = [request for request, _, _ in told(log)]
    assert requests[-1] == "write:/workspace"
    assert b"200" not in done.stdout


@pytest.mark.slow
def test_a_log_that_the_agent_could_read_or_write_over_is_refused(warm, profile):
    inside = warm.folder / "in" / "decisions.jsonl"
    for option in ("--input", "--output"):
        options = (option, str(warm.folder / "in"), "--decisions", str(inside))
        done = warm.run("true", options=options)
        assert (done.returncode, b"[session.input_private]" in done.stderr) == (125, True), done.stderr
    assert not inside.exists()


@pytest.mark.slow
def test_a_file_that_others_can_reach_starts_nothing(warm, profile, tmp_path):
    log = tmp_path / "decisions.jsonl"
    log.touch(mode=0o644)
    done = warm.run("true", options=("--decisions", str(log)))
    assert (done.returncode, b"[decisions.file]" in done.stderr) == (125, True), done.stderr
