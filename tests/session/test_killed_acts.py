"""kill -9 amid a session of many acts: what was answered has its record, and the next command leaves nothing behind.

A client on the host runs commands, moves files, starts commands in the background and opens a port, one act after
another, while one process of the session or of its services dies. Each act that came to an end for the client must be
in what is left of the session; the other way round nothing is claimed. Then everything of the session is gone.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.sandbox.conftest import Machine, Process, family, made_machine
from tests.session.journal import assert_chains_hold, boots_of
from tests.session.test_killed import PARTS, Spaces, affiant, assert_evidence_holds, assert_nothing_stays

from affiant.attestation.bundle.bundle import parse_bundle
from affiant.attestation.records.receipt import parse_receipt
from affiant.errors import AffiantError
from affiant.sandbox.detached.client import DetachedSession

ACTED_ON = {
    **{name: PARTS[name] for name in ("keeper", "platform", "gateway", "gateway-server", "runner", "broker")},
    "host": " -m affiant session create",
    "template": "affiant.sandbox.processes.template ",
    "supervisor": "affiant.sandbox.supervisor --control-fd",
    "sentry": PARTS["sentry"],
    "command": "sleep 4711",
}
"""Part -> what its arguments hold. ``command`` is only seen from outside where it has no kernel of its own."""

GOES_ON = frozenset({"template", "command", "platform"})
"""A session that runs needs none of them: it may go on, and is closed in order after the kill."""

LEFT = {"bundle.affiant.json", "bundle.json", "records.ndjson", "session.json", "states.ndjson", "isolation"}
"""All that a session's folder may hold once it has ended; ``isolation`` is empty then."""

PROFILE = """agent_configs:
  writer:
    filesystem_access: "read-write:/workspace"
    ports: [8080]
"""
SERVER = """
import socket
listening = socket.create_server(("0.0.0.0", 8080))
while True:
    connection, _ = listening.accept()
    connection.sendall(connection.recv(100))
    connection.close()
"""


@dataclass
class Acting:
    """A client's loop over the acts of one session."""

    session: DetachedSession
    done: Counter[str] = field(default_factory=Counter)
    """Acts that came to their end for the client, by the kind of their record."""
    error: AffiantError | None = None
    stopping: bool = False

    async def go(self) -> None:
        try:
            self.session = await self.session.opened()
            await self.session.detach(["python3", "-c", SERVER])
            await self.session.detach(["sleep", "4711"])
            number = 0
            while not self.stopping:
                number += 1
                await self._acts(number)
        except AffiantError as error:
            self.error = error

    async def _acts(self, number: int) -> None:
        content = f"content {number}".encode() * 100
        await self.session.files.write(f"/workspace/{number}", content)
        self.done["file"] += 1
        result = await self.session.run(["sh", "-c", f"cat /workspace/{number}; exit 3"])
        if result.exit_code != 3:  # its process may have been the victim
            return
        assert result.stdout_bytes == content
        self.done["exec"] += 1
        await self.session.files.read(f"/workspace/{number}")
        self.done["file"] += 1
        async with self.session.port(8080) as port:
            self.done["port"] += 1
            assert isinstance(port.address, tuple)
            with suppress(OSError, TimeoutError):  # its server may be the victim
                reader, writer = await asyncio.open_connection(*port.address)
                writer.write(b"asked")
                await asyncio.wait_for(reader.read(), 5)
                writer.close()


def create(machine: Machine, name: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "affiant", "session", "create", "--home", str(machine.home)),
            *("--profile", str(machine.folder / "profiles.yaml"), "--agent", "writer", "--ttl", "300"),
            *("--min-isolation", machine.isolation, "--name", name),
        ],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
    )  # fmt: skip
    machine.started.append(process)
    return process


def members_of(machine: Machine) -> tuple[Process, ...]:
    """Every process of the session and of its services."""
    return family(*machine.processes())


def victim_in(members: tuple[Process, ...], part: str) -> Process | None:
    return next((each for each in members if ACTED_ON[part] in each.arguments), None)


def kill(victim: Process | None) -> None:
    if victim is not None and victim.alive:
        with suppress(ProcessLookupError):
            os.kill(victim.pid, signal.SIGKILL)


def records_of(folder: Path) -> Counter[str]:
    """Of the session's own records that are left of it, how many there are of each kind: in bundle or journal."""
    bundle, journal = folder / "bundle.affiant.json", folder / "records.ndjson"
    texts = set(parse_bundle(bundle.read_bytes()).receipts) if bundle.exists() else set()
    lines = journal.read_bytes().split(b"\n")[:-1] if journal.exists() else []
    texts |= {text + "~" for line in lines if (text := json.loads(line).get("jws")) is not None}
    payloads = {parse_receipt(text).split.payload for text in texts}
    found = [json.loads(payload) for payload in payloads]
    return Counter(
        str(each["kind"]) for each in found if each["role"] == "session" and each.get("ph") != "outcome"
    )


async def killed_amid(
    machine: Machine, name: str, part: str, delay: float
) -> tuple[Acting, list[Process], Spaces]:
    acting = Acting(DetachedSession.connect(name, home=machine.home))
    going = asyncio.create_task(acting.go())
    await asyncio.sleep(delay)
    members = members_of(machine)
    made, victim = Spaces(members), victim_in(members, part)
    assert victim is not None, f"no {part}: {[each.arguments for each in members]}"
    kill(victim)
    await asyncio.wait({going}, timeout=1 if part in GOES_ON else 20)
    acting.stopping = True
    await asyncio.wait_for(going, 30)
    if part not in GOES_ON:
        assert acting.error is not None or not runs(machine, name), f"{part} died, and nobody noticed"
    return acting, list(members), made


def runs(machine: Machine, name: str) -> bool:
    try:
        DetachedSession.connect(name, home=machine.home)
    except AffiantError:
        return False
    return True


def after(machine: Machine, name: str, members: list[Process], made: Spaces, judged: set[str]) -> None:
    """The next commands: the session is ended, and everything of it; its evidence holds."""
    stopped = affiant(machine, "stop", name)
    assert b"Traceback" not in stopped.stderr, stopped.stderr
    assert_nothing_stays(machine, tuple(members), made)
    assert_chains_hold(boots_of(machine.home))
    assert_evidence_holds(machine, judged)
    for folder in (machine.home / "sessions").iterdir():
        left = {path.name for path in folder.iterdir()}
        assert left <= LEFT, left
        assert not (folder / "isolation").exists() or not list((folder / "isolation").iterdir())
    listed = json.loads(affiant(machine, "list", "--json").stdout)["sessions"]
    ends = {each["steps"][-1]["state"] for each in listed if each["steps"]}
    assert ends <= {"terminated", "failed", "lost"}, listed


@pytest.fixture(scope="module")
def judged() -> set[str]:
    return set()


@pytest.fixture(scope="module")
def worn(isolation: str, release: None) -> Iterator[Machine]:
    """One state folder in which kill follows kill."""
    with made_machine(isolation) as made:
        (made.folder / "profiles.yaml").write_text(PROFILE)
        yield made


def parts_seen(isolation: str) -> list[str]:
    return sorted(ACTED_ON.keys() - ({"command"} if isolation == "userspace-kernel" else {"sentry"}))


def killed_and_checked(machine: Machine, judged: set[str], part: str, delay: float) -> Counter[str]:
    name = f"acts-{len(judged)}"
    created = create(machine, name)
    out, error = created.communicate(timeout=60)
    machine.started.remove(created)
    assert created.returncode == 0, (out, error)
    session = DetachedSession.connect(name, home=machine.home).id
    acting, members, made = asyncio.run(killed_amid(machine, name, part, delay))
    after(machine, name, members, made, judged)
    assert session in judged
    left = records_of(machine.home / "sessions" / session)
    assert all(left[kind] >= count for kind, count in acting.done.items()), (left, acting.done)
    if acting.error is not None:
        assert "." in acting.error.code and acting.error.message
    return acting.done


@pytest.mark.slow
@pytest.mark.parametrize("part", ["supervisor", "host", "gateway-server", "template"])
def test_what_was_answered_amid_many_acts_has_its_record_and_nothing_stays(
    worn: Machine, judged: set[str], part: str
) -> None:
    done = killed_and_checked(worn, judged, part, 4)
    assert done["file"] and done["exec"] and done["port"], "a control: there were acts"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_any_process_killed_amid_many_acts(
    worn: Machine, judged: set[str], isolation: str, seed: int
) -> None:
    chance = random.Random(seed)
    parts = parts_seen(isolation)
    killed_and_checked(worn, judged, parts[seed % len(parts)], chance.uniform(0, 3))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_any_process_killed_while_a_hosted_session_is_made(
    worn: Machine, judged: set[str], isolation: str, seed: int
) -> None:
    """The session either comes to be, and is then stopped, or its creation fails with an error that says why."""
    chance = random.Random(seed)
    part, name = parts_seen(isolation)[seed % len(parts_seen(isolation))], f"made-{seed}"
    created = create(worn, name)

    async def until_killed() -> tuple[list[Process], Spaces]:
        wanted = asyncio.get_running_loop().time() + 10
        await asyncio.sleep(chance.uniform(0.1, 2))
        while (victim := victim_in(members := family(created.pid, *worn.processes()), part)) is None:
            if asyncio.get_running_loop().time() > wanted or created.poll() is not None:
                break
            await asyncio.sleep(0.01)
        made = Spaces(members)
        kill(victim)
        return list(members), made

    members, made = asyncio.run(until_killed())
    _, error = created.communicate(timeout=60)
    worn.started.remove(created)
    assert b"Traceback" not in error, error
    members += [each for each in members_of(worn) if each not in members]
    after(worn, name, members, made, judged)
