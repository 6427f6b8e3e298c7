"""kill -9 of any process of a session, at any moment: what is left ends by itself or with the next command."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.sandbox import conftest

from affiant.sandbox.processes.home import open_home
from affiant.sandbox.processes.launch_records import read_launches
from affiant.sandbox.session_state.interrupted import reap_leftovers

PARTS = {
    "launcher": " -m affiant run ",
    "keeper": "affiant.sandbox.processes.service_supervisor",
    "platform": "affiant platform serve",
    "gateway": "affiant gateway serve",
    "gateway-server": "affiant.gateway.process.server",
    "supervisor": "affiant.sandbox.supervisor --control-fd",
    "runner": "affiant.sandbox.isolation.runner.runner",
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


def affiant(machine, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[bytes]:
    """One ``affiant session`` command on the machine's state folder."""
    done = conftest.affiant("session", arguments[0], "--home", str(machine.home), *arguments[1:])
    assert done.returncode == code, done.stderr
    return done


def the_session(machine) -> str:
    (folder,) = machine.home.glob("sessions/*")
    return folder.name


def kill(process, members, *parts: str) -> None:
    """SIGKILL the launcher, or the named parts."""
    for part in parts:
        victim = next(each for each in members if PARTS[part] in each.arguments)
        os.kill(victim.pid, signal.SIGKILL)


@pytest.mark.slow
def test_what_a_killed_launcher_left_closes_its_session_and_the_next_command_says_so(machine):
    """The supervisor notices by its control socket, ends the agent and closes the chain; then the services go."""
    process, members = running_session(machine)
    kill(process, members, "launcher")
    process.wait()
    assert machine.all_gone(members, within=10), [each for each in members if each.alive]
    session = the_session(machine)
    done = affiant(machine, "list", "--json")
    (told,) = done.stderr.decode().splitlines()
    assert f"session {session} (agent writer) was interrupted" in told
    assert f"receipts in {machine.bundle()}" in told
    (entry,) = json.loads(done.stdout)["sessions"]
    assert (entry["state"], entry["bundle"], entry["kept"]) == ("interrupted", str(machine.bundle()), None)
    assert not (machine.home / "sessions" / session / "files").exists()
    assert affiant(machine, "list").stderr == b"", "it is said once"
    assert_nothing_left(machine)
    text = machine.verdict(machine.bundle())
    assert "1 closed" in text
    assert f"session {session} closed: killed" in " ".join(text.split())


@pytest.mark.slow
def test_changes_that_a_killed_launcher_did_not_copy_out_are_kept_for_it(machine, tmp_path):
    given, output = machine.folder / "in", tmp_path / "out"
    command = ("sh", "-c", "echo made > made.txt; echo started; sleep 60")
    process, members = running_session(
        machine, *command, options=("--input", str(given), "--output", str(output))
    )
    kill(process, members, "launcher")
    process.wait()
    assert machine.all_gone(members, within=10), [each for each in members if each.alive]
    session = the_session(machine)
    told = machine.run("true").stderr
    assert f"not copied to {output}".encode() in told
    assert list(output.iterdir()) == []
    assert sorted(path.name for path in given.iterdir()) == ["file.txt"]
    affiant(machine, "recover", session, "--output", str(output))
    assert (output / "made.txt").read_text() == "made\n"
    assert not (machine.home / "sessions" / session / "files.kept").exists()
    assert (
        b"[session.not_gathered]"
        in affiant(machine, "recover", session, "--output", str(output), code=1).stderr
    )


@pytest.mark.slow
def test_launcher_and_supervisor_killed_the_session_ends_lost_and_its_receipts_are_recovered(
    machine, tmp_path
):
    process, members = running_session(machine)
    kill(process, members, "supervisor", "launcher")
    process.wait()
    assert machine.all_gone(members, within=5), [each for each in members if each.alive]
    session = the_session(machine)
    told = affiant(machine, "show", session).stderr.decode()
    assert f"session {session} (agent writer) was lost" in told
    assert f"affiant session recover {session}" in told
    assert not (machine.home / "sessions" / session / "files").exists()
    bundle = tmp_path / "bundle"
    done = affiant(machine, "recover", session, "--bundle", str(bundle), "--json")
    assert json.loads(done.stdout)["closed"] == "lost", "the gateway that admitted it says so"
    text = machine.verdict(bundle)
    assert "1 lost" in text
    assert "REFUSED" not in text
    assert machine.quiet_within(5), machine.processes()
    assert_nothing_left(machine)


@pytest.mark.slow
def test_a_shared_gateway_that_lives_on_is_asked_at_once(machine):
    machine.keep_services()
    process, members = running_session(machine)
    kill(process, members, "supervisor", "launcher")
    process.wait()
    told = affiant(machine, "list").stderr.decode()
    assert "was lost" in told
    assert f"receipts in {machine.bundle()}" in told
    assert "1 open" in machine.verdict(machine.bundle()), "until its lease ends, or its gateway does"
    machine.stop_services()
    done = affiant(machine, "recover", the_session(machine), "--json")
    assert json.loads(done.stdout)["closed"] == "lost"
    assert "1 lost" in machine.verdict(machine.bundle())


@pytest.mark.slow
@pytest.mark.parametrize("part", ["gateway-server", "gateway"])
def test_a_killed_gateway_ends_the_run_at_once_and_what_was_recorded_is_recovered(machine, tmp_path, part):
    """Killed, it leaves the session lost; its launching half's death is a SIGTERM, so it has it closed."""
    output = tmp_path / "out"
    command = ("sh", "-c", "echo made > made.txt; echo started; sleep 60")
    given = ("--input", str(machine.folder / "in"), "--output", str(output))
    process, members = running_session(machine, *command, options=given)
    killed = time.monotonic()
    kill(process, members, part)
    _, error = process.communicate(timeout=20)
    assert time.monotonic() - killed < 5
    assert process.returncode == 125
    assert b"Traceback" not in error
    assert (output / "made.txt").read_text() == "made\n", "what the agent left is copied out all the same"
    session = the_session(machine)
    if part == "gateway-server":
        assert b"[gateway.lost]" in error
        assert b"4 signed records is kept, 2 of them not acknowledged" in error
        assert f"affiant session recover {session}".encode() in error
    done = json.loads(affiant(machine, "recover", session, "--bundle", str(tmp_path / "b"), "--json").stdout)
    text = machine.verdict(tmp_path / "b")
    if part == "gateway-server":
        assert (done["closed"], done["added"]) == (None, 2)
        assert "2 exec, 1 gap" in text, "the gateway that was started says what it found"
        assert "1 lost" in text
    else:
        assert b"[gateway.drained]" in error
        assert done["closed"] == "killed"
        assert "1 closed, 0 lost" in " ".join(text.split())


@pytest.mark.slow
@pytest.mark.parametrize("part", sorted(PARTS.keys() - {"launcher"}))
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
    assert process.returncode in {125, 130, 137}, error
    if process.returncode == 125:
        assert error.splitlines()[-1].startswith(b"affiant: refused: "), error
    assert b"Traceback" not in error
    assert machine.all_gone(members, within=5), [each for each in members if each.alive]
    reap_leftovers(open_home(machine.home))
    assert_nothing_left(machine)


@pytest.mark.slow
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
        with suppress(ProcessLookupError):  # what was killed before it takes others along
            os.kill(each.pid, signal.SIGKILL)
    process.wait()
    assert machine.all_gone(members, within=5)
    done = machine.run("sh", "-c", "echo again")
    assert (done.returncode, done.stdout) == (0, b"again\n"), done.stderr
    assert machine.quiet_within(5), machine.processes()
    assert_nothing_left(machine)
