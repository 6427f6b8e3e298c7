"""An upgrade of the gateway kills nobody: sessions end, or are closed, in order, and each has its bundle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from tests.sandbox.conftest import Machine, made_machine

from affiant.attestation.bundle.bundle import parse_bundle
from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.encoding.canonical import parse_object


@pytest.fixture
def serving(isolation: str, release: None) -> Iterator[Machine]:
    """A state folder whose gateway serves until the test stops it."""
    with made_machine(isolation) as made:
        made.keep_services()
        yield made


def drain(machine: Machine, *options: str) -> list[str]:
    return [sys.executable, "-m", "affiant", "gateway", "drain", "--home", str(machine.home), *options]


def drained(machine: Machine, *options: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(drain(machine, *options), capture_output=True, timeout=60, check=False, cwd="/")


def until_started(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"


def running_gateway(machine: Machine) -> dict:
    return json.loads((machine.home / "gateway" / "gateway.json").read_bytes())


def whys(machine: Machine) -> dict[tuple[str, str], str]:
    """Role and kind -> ``why``, of the records in the session's bundle that say why something ended."""
    records = [
        parse_object(from_b64u(text.split(".")[1]))
        for text in parse_bundle(machine.bundle().read_bytes()).receipts
    ]
    return {(str(r["role"]), str(r["kind"])): str(r["why"]) for r in records if "why" in r}


def assert_closed_in_order(machine: Machine, process: subprocess.Popen[bytes]) -> None:
    _, error = process.communicate(timeout=40)
    assert process.returncode == 125, error
    assert b"[gateway.drained]" in error and b"Traceback" not in error
    assert whys(machine) == {("session", "end"): "drain", ("gateway", "session-close"): "killed"}
    text = machine.verdict(machine.bundle())
    assert "1 closed, 0 lost, 0 open" in " ".join(text.split()), text


def test_a_drain_closes_a_session_that_does_not_end_and_it_has_its_bundle(serving: Machine) -> None:
    process = serving.start("sh", "-c", "echo started; sleep 600")
    until_started(process)
    done = drained(serving, "--within", "0", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["state"], report["finished"], report["closed"], report["lost"]) == ("drained", 0, 1, [])
    assert b"closing 1 session" in done.stderr or b"1 session open" in done.stderr
    assert_closed_in_order(serving, process)


@pytest.mark.slow
def test_a_session_that_ends_in_time_notices_nothing_and_no_other_begins(serving: Machine) -> None:
    process = serving.start("sh", "-c", "echo started; read line; echo $line", stdin=subprocess.PIPE)
    until_started(process)
    draining = subprocess.Popen(
        drain(serving, "--within", "600"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/"
    )
    serving.started.append(draining)
    assert draining.stderr is not None
    assert b"1 session open" in draining.stderr.readline()
    refused = serving.run("true")
    assert refused.returncode == 125 and b"[gateway.draining]" in refused.stderr
    assert b"--gateway" in refused.stderr, "what to do"
    out, error = process.communicate(b"goes on\n", timeout=40)
    assert (process.returncode, out) == (0, b"goes on\n"), error
    told, _ = draining.communicate(timeout=40)
    assert (draining.returncode, told) == (0, b"drained: 1 finished, 0 closed in order, 0 lost\n")


@pytest.mark.slow
def test_a_signal_to_the_gateway_closes_its_sessions_in_order(serving: Machine) -> None:
    process = serving.start("sh", "-c", "echo started; sleep 600")
    until_started(process)
    os.kill(running_gateway(serving)["pid"], signal.SIGTERM)
    assert_closed_in_order(serving, process)


@pytest.mark.slow
def test_an_interrupted_command_leaves_the_drain_going_and_can_be_repeated(serving: Machine) -> None:
    process = serving.start("sh", "-c", "echo started; sleep 600")
    until_started(process)
    first = subprocess.Popen(drain(serving), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/")
    serving.started.append(first)
    assert first.stderr is not None
    first.stderr.readline()
    first.send_signal(signal.SIGINT)
    _, error = first.communicate(timeout=20)
    assert first.returncode == 130 and b"continues to drain" in error and b"Traceback" not in error
    assert process.poll() is None
    for _ in range(2):
        done = drained(serving, "--within", "0")
        assert (done.returncode, done.stdout) == (
            0,
            b"drained: 0 finished, 1 closed in order, 0 lost\n",
        ), done.stderr
    assert_closed_in_order(serving, process)


@pytest.mark.slow
def test_a_stopped_supervisor_loses_its_session_and_no_other(serving: Machine) -> None:
    """Two sessions; the supervisor of one answers nothing. The exit code says that one was lost."""
    good, stuck = (serving.start("sh", "-c", "echo started; sleep 600") for _ in range(2))
    for each in (good, stuck):
        until_started(each)
    (supervisor,) = [
        p for p in serving.family(stuck.pid) if "affiant.sandbox.supervisor --control" in p.arguments
    ]
    os.kill(supervisor.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        done = drained(serving, "--within", "0", "--json")
        assert done.returncode == 3, done.stderr
        report = json.loads(done.stdout)
        assert report["closed"] == 1 and len(report["lost"]) == 1
        assert time.monotonic() - began < 55
    finally:
        os.kill(supervisor.pid, signal.SIGCONT)
    _, error = good.communicate(timeout=40)
    assert good.returncode == 125 and b"[gateway.drained]" in error
    stuck.communicate(timeout=40)
    assert stuck.returncode == 125


def test_without_a_gateway_a_drain_says_so(tmp_path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "affiant", "gateway", "drain", "--home", str(tmp_path)],
        capture_output=True, timeout=60, check=False, cwd="/",
    )  # fmt: skip
    assert done.returncode == 1 and b"[gateway.unreachable]" in done.stderr
