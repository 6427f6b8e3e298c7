"""kill -9 of any process of a session at any moment: who was answered has a record, and nothing stays.

An agent asks without pause and writes down every byte it is handed. Then one process dies. What was whole for the
agent must be in the gateway's journal, with the digest of exactly these bytes; the other way round nothing is
claimed. What is left of the session is gathered and judged: it holds, whoever died. The same state folder then serves
the next session: a new boot, which discloses and signs for no other.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.sandbox import conftest
from tests.sandbox.conftest import Machine, Process, all_gone, family, made_machine, stat_of
from tests.session.agents import ASKING, Answer, answers_in
from tests.session.journal import assert_chains_hold, boots_of, session_record_ids

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
    "agent": "-c \nimport base64, http.client",
    "sentry": "runsc-sandbox",
}
"""Part -> what its arguments hold. ``agent`` is only seen from outside where it has no kernel of its own."""

SURVIVED = frozenset({"platform", "broker", "gateway", "keeper"})
"""A session that needs none of them again may well end as if nothing had happened: its gateway's server closed it."""

_KINDS = ("net", "mnt", "pid", "user", "ipc")

STABLE_CODE = re.compile(rb"\[[a-z]+\.[a-z_]+\]")


@dataclass
class Running:
    """One ``affiant run`` of the asking agent, and what it writes."""

    process: subprocess.Popen[bytes]
    output: bytearray = field(default_factory=bytearray)
    errors: bytearray = field(default_factory=bytearray)
    readers: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        for stream, into in ((self.process.stdout, self.output), (self.process.stderr, self.errors)):
            assert stream is not None
            reader = threading.Thread(target=self._drain, args=(stream.fileno(), into))
            reader.start()
            self.readers.append(reader)

    @staticmethod
    def _drain(descriptor: int, into: bytearray) -> None:
        while data := os.read(descriptor, 1 << 16):
            into += data

    def until_asking(self) -> None:
        """Wait until the agent was answered at least once."""
        until = time.monotonic() + 40
        while b'"end"' not in self.output:
            assert self.process.poll() is None, bytes(self.errors)
            assert time.monotonic() < until, bytes(self.errors)
            time.sleep(0.02)

    def end(self, *, within: float) -> int:
        """Tell the agent to leave; the exit code of ``affiant run``."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        code = self.process.wait(within)
        for reader in self.readers:
            reader.join(10)
            assert not reader.is_alive(), "somebody still holds the terminal"
        return code

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def start(machine: Machine) -> Running:
    return Running(machine.start("python3", "-c", ASKING, stdin=subprocess.PIPE))


class Spaces:
    """The namespaces of some processes that are not this test's own; held, so that no other gets their numbers."""

    def __init__(self, processes: tuple[Process, ...]) -> None:
        self.held: dict[str, int] = {}
        own = {os.readlink(f"/proc/self/ns/{kind}") for kind in _KINDS}
        for path in (f"/proc/{each.pid}/ns/{kind}" for each in processes for kind in _KINDS):
            try:
                if (name := os.readlink(path)) not in own and name not in self.held:
                    self.held[name] = os.open(path, os.O_RDONLY)
            except OSError:
                continue

    def inhabited(self) -> set[str]:
        """Those in which some process of this machine still is."""
        found = set()
        for entry in os.listdir("/proc"):
            for kind in _KINDS if entry.isdecimal() and stat_of(int(entry)) is not None else ():
                try:
                    found.add(os.readlink(f"/proc/{entry}/ns/{kind}"))
                except OSError:
                    continue
        return found & set(self.held)

    def close(self) -> None:
        for descriptor in self.held.values():
            os.close(descriptor)
        self.held.clear()


def victim_of(root: int, part: str, *, within: float) -> Process | None:
    until = time.monotonic() + within
    while time.monotonic() < until:
        for each in family(root):
            if PARTS[part] in each.arguments:
                return each
        time.sleep(0.01)
    return None


def interfaces() -> frozenset[str]:
    return frozenset(os.listdir("/sys/class/net"))


def assert_nothing_stays(machine: Machine, members: tuple[Process, ...], made: Spaces) -> None:
    """No process, namespace, mount, interface, or note of a session; the last two after the next command."""
    assert all_gone(members, within=10), [each for each in members if each.alive]
    assert machine.quiet_within(10), machine.processes()
    assert not made.inhabited()
    made.close()
    assert not [name for name in interfaces() if name.startswith(("affiant", "veth"))]
    reap_leftovers(open_home(machine.home))
    assert read_launches(open_home(machine.home)) == ()
    assert str(machine.folder) not in Path("/proc/self/mountinfo").read_text()
    for session in machine.home.glob("sessions/*"):
        assert not (session / "isolation" / "record.json").exists()


def assert_answers_are_recorded(machine: Machine, answers: list[Answer]) -> None:
    """Every whole answer has its record, with the digest of these bytes; every refusal that was told, its own."""
    boots = boots_of(machine.home)
    recorded = {digest: record for boot in boots for digest, record in boot.answers().items()}
    for answer in answers:
        if answer.whole:
            record = recorded["sha256:" + hashlib.sha256(answer.data).hexdigest()]
            assert record.jti == answer.receipt
            assert record.member("res", "end") == "complete"
    refused = session_record_ids(machine.home)
    assert {answer.record for answer in answers if answer.record is not None} <= refused
    assert_chains_hold(boots)


def affiant(machine: Machine, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return conftest.affiant("session", arguments[0], "--home", str(machine.home), *arguments[1:])


def assert_evidence_holds(machine: Machine, judged: set[str]) -> None:
    """The receipts of every session that signed anything are there, or can be gathered, and hold as far as they go."""
    for entry in json.loads(affiant(machine, "list", "--json").stdout)["sessions"]:
        name = entry["session"]
        if name in judged:
            continue
        judged.add(name)
        if entry["bundle"] is None:
            done = affiant(machine, "recover", name)
            assert done.returncode == 0, (entry, done.stderr)
        text = machine.verdict(machine.home / "sessions" / name / "bundle.affiant.json")
        assert "REFUSED" not in text


def assert_told_clearly(code: int, errors: bytes, part: str) -> None:
    assert b"Traceback" not in errors, errors.decode()
    if part == "launcher":
        assert code == -signal.SIGKILL
    elif part in {"agent", "sentry"}:
        assert code == 137 or (code == 125 and STABLE_CODE.search(errors)), (code, errors)
    elif code != 0 or part not in SURVIVED:
        assert code in {125, 137}, (code, errors)
        if code == 125:
            lines = errors.splitlines()
            (refused,) = (n for n, line in enumerate(lines) if line.startswith(b"affiant: refused: "))
            assert all(line.startswith(b"affiant: ") for line in lines[:refused]), errors
            assert STABLE_CODE.search(errors), errors


def kill_and_check(
    machine: Machine, part: str, judged: set[str], *, delay: float, from_start: bool = False
) -> None:
    """The whole claim for one process and one moment.

    Args:
        judged: sessions of this state folder whose evidence was judged before.
        delay: seconds from the agent's first answer, or from the process's own first moment.
        from_start: kill as early as the process exists: a session that is still being made.
    """
    running = start(machine)
    try:
        if not from_start:
            running.until_asking()
        victim = victim_of(running.process.pid, part, within=20)
        assert victim is not None, f"no {part}: {bytes(running.errors)!r}"
        time.sleep(delay)
        members = family(running.process.pid)
        made = Spaces(members)
        if victim.alive:
            os.kill(victim.pid, signal.SIGKILL)
        code = running.end(within=45)
    finally:
        running.close()
        machine.started.remove(running.process)
    if not from_start:
        assert answers_in(bytes(running.output)), "a control: the agent was answered"
    assert_told_clearly(code, bytes(running.errors), part)
    assert_nothing_stays(machine, members, made)
    assert_answers_are_recorded(machine, answers_in(bytes(running.output)))
    assert_evidence_holds(machine, judged)


@pytest.fixture(scope="module")
def judged() -> set[str]:
    return set()


@pytest.fixture(scope="module")
def worn(isolation: str, release: None) -> Iterator[Machine]:
    """One state folder in which kill follows kill: that each next session starts is half of the claim."""
    with made_machine(isolation) as made:
        yield made


def parts_seen(isolation: str) -> list[str]:
    return sorted(PARTS.keys() - ({"agent"} if isolation == "userspace-kernel" else {"sentry"}))


@pytest.mark.slow
@pytest.mark.parametrize("part", ["gateway-server", "launcher", "inside"])
def test_whoever_was_answered_has_a_record_and_nothing_stays(worn, judged, isolation, part):
    inside = "sentry" if isolation == "userspace-kernel" else "agent"
    kill_and_check(worn, inside if part == "inside" else part, judged, delay=random.uniform(0, 0.5))


@pytest.mark.slow
def test_the_next_session_of_a_worn_state_folder_works(worn):
    """Runs last here: after all that, one more session, whose boot discloses the one before."""
    done = worn.run("sh", "-c", "echo again")
    assert (done.returncode, done.stdout) == (0, b"again\n"), done.stderr
    assert_chains_hold(boots_of(worn.home))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(64))
def test_any_process_killed_at_any_moment(worn, judged, isolation, seed):
    """Half of the moments lie while the session is being made, half while it is being used."""
    chance = random.Random(seed)
    part = parts_seen(isolation)[seed % len(parts_seen(isolation))]
    from_start = chance.random() < 0.5
    kill_and_check(worn, part, judged, delay=chance.uniform(0, 2.5), from_start=from_start)
