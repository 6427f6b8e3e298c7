"""kill -9 of any process of a session, at any moment: what is left ends by itself or with the next command."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from affiant.sandbox.cut_off import reap_leftovers
from affiant.sandbox.home import open_home
from affiant.sandbox.launches import read_launches

PARTS = {
    "keeper": "affiant.sandbox.keeper",
    "platform": "affiant platform serve",
    "gateway": "affiant gateway serve",
    "gateway-server": "affiant.gateway.server",
    "supervisor": "affiant.sandbox.supervisor --control-fd",
    "runner": "affiant.sandbox.isolation.runner",
    "broker": "affiant.secrets.broker",
}
"""Part -> what its arguments hold."""


def running_session(machine, *command: str, options=()):
    process = machine.start(*(command or ("sh", "-c", "echo started; sleep 60")), options=options)
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"
    return process, machine.family(process.pid)


def assert_nothing_left(machine) -> None:
    assert read_launches(open_home(machine.home)) == ()
    assert str(machine.folder) not in Path("/proc/self/mountinfo").read_text()
    for session in machine.home.glob("sessions/*"):
        assert not (session / "isolation" / "record.json").exists()


def test_what_a_killed_launcher_left_closes_its_session_and_ends(machine):
    """The supervisor notices by its control socket, ends the agent and closes the chain; then the services go."""
    process, members = running_session(machine)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert machine.all_gone(members, within=10), [each for each in members if each.alive]
    (bundle,) = machine.home.glob("sessions/*/bundle.json")
    assert bundle.stat().st_size > 1000
    (launch,) = read_launches(open_home(machine.home))
    assert [cut.session for cut in reap_leftovers(open_home(machine.home))] == [launch.session]
    assert_nothing_left(machine)


@pytest.mark.slow
@pytest.mark.parametrize("part", sorted(PARTS))
def test_whatever_is_killed_the_launcher_ends_with_a_code_and_nothing_stays(machine, part):
    process, members = running_session(machine)
    victim = next(each for each in members if PARTS[part] in each.arguments)
    os.kill(victim.pid, signal.SIGKILL)
    try:
        _, error = process.communicate(timeout=6)
    except subprocess.TimeoutExpired:  # a command that asks for nothing does not notice yet: until it ends
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.3)
        _, error = process.communicate(timeout=60)
    assert process.returncode in {125, 137}, error
    if process.returncode == 125:
        assert error.startswith(b"affiant: refused: "), error
    assert b"Traceback" not in error
    assert machine.all_gone(members, within=5), [each for each in members if each.alive]
    reap_leftovers(open_home(machine.home))
    assert_nothing_left(machine)


def test_a_killed_supervisor_ends_the_agent_and_is_told(machine, tmp_path):
    process, members = running_session(machine, options=("--bundle", str(tmp_path / "b")))
    victim = next(each for each in members if PARTS["supervisor"] in each.arguments)
    os.kill(victim.pid, signal.SIGKILL)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 125
    assert b"[session.supervisor_lost]" in error
    assert machine.all_gone(members, within=5), [each for each in members if each.alive]
    assert_nothing_left(machine)
    assert "1 open" in machine.verdict(machine.bundle()), "no close record: the receipts say so"
    assert (tmp_path / "b").read_bytes() == machine.bundle().read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_a_launcher_killed_at_any_moment_leaves_nothing(machine, seed):
    process = machine.start("sh", "-c", "sleep 1")
    time.sleep(random.Random(seed).uniform(0.2, 5))
    members = machine.family(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert machine.all_gone(members, within=6), [each for each in members if each.alive]
    assert machine.quiet_within(6), machine.processes()
    reap_leftovers(open_home(machine.home))
    assert_nothing_left(machine)


@pytest.mark.slow
def test_the_next_command_works_after_everything_was_killed(machine):
    process, members = running_session(machine)
    for each in members:
        if each.alive:
            os.kill(each.pid, signal.SIGKILL)
    process.wait()
    assert machine.all_gone(members, within=5)
    done = machine.run("sh", "-c", "echo again")
    assert (done.returncode, done.stdout) == (0, b"again\n"), done.stderr
    assert machine.quiet_within(5), machine.processes()
    assert_nothing_left(machine)
