"""Whole sessions whose programs a template process forks, and what they lose when it is killed: nothing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.conftest import Machine, Process, family, made_machine, stat_of

from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.release.boot import Image
from affiant.sandbox.base.privileges import BROKER_USER, SUPERVISOR_USER, is_root
from affiant.sandbox.base.template_order import Order, forked, open_template
from affiant.sandbox.detached.client import DetachedSession
from affiant.sandbox.isolation.plan.isolation_class import IsolationClass
from affiant.sandbox.processes.home import open_home
from affiant.sandbox.processes.provisioner import SimulatedProvisioner
from affiant.sandbox.processes.service_process import ServiceProcess
from affiant.sandbox.processes.template_service import start_template, template_socket
from affiant.sandbox.session.session import Session
from affiant.sandbox.session.session_plan import SessionRequest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kept(isolation: str, release: None) -> Iterator[Machine]:
    """A state folder whose platform and gateway run."""
    with made_machine(isolation) as made:
        made.keep_services()
        yield made
        made.stop_services()
        made.keeping = None


@pytest.fixture
def template(kept: Machine) -> Iterator[ServiceProcess]:
    process = start_template(open_home(kept.home))
    assert process is not None
    try:
        asyncio.run(process.ready(timeout_s=60))
        yield process
    finally:
        asyncio.run(process.stop(grace_s=1))


def opened(machine: Machine, **more: Any) -> Any:
    request = SessionRequest(
        profile=machine.folder / "profiles.yaml",
        agent="writer",
        input=machine.folder / "in",
        min_isolation=IsolationClass(machine.isolation),
    )
    return Session.open(request, home=machine.home, **more)


def programs(template: ServiceProcess) -> dict[str, int]:
    """What ``template`` has forked, by module."""
    below = {each.pid: each.arguments.split() for each in family(template.pid)}
    children = {
        pid: words for pid, words in below.items() if (found := stat_of(pid)) and found[0] == template.pid
    }
    return {words[3]: pid for pid, words in children.items()}


def real_user(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Uid:")).split()[1])


def test_a_forked_session_runs_commands_and_its_receipts_verify(
    kept: Machine, template: ServiceProcess
) -> None:
    async def scenario() -> Path:
        async with opened(kept) as session:
            assert session.started_by == "template"
            assert (await session.run(["cat", "file.txt"])).stdout == "content\n"
        return session.bundle_path

    kept.verdict(asyncio.run(scenario()))


def test_two_forks_of_one_template_have_keys_and_an_authority_of_their_own(
    kept: Machine, template: ServiceProcess
) -> None:
    async def scenario() -> tuple[list[Session], set[str]]:
        async with opened(kept) as first, opened(kept) as second:
            assert (first.started_by, second.started_by) == ("template", "template")
            trusted = ["sh", "-c", 'cat "$SSL_CERT_FILE"']
            authorities = {(await session.run(trusted)).stdout for session in (first, second)}
        return [first, second], authorities

    sessions, authorities = asyncio.run(scenario())
    one, other = (signers(session) for session in sessions)
    assert len(one) == len(other) == 2
    assert len(one & other) == 1, "the gateway's alone"
    assert len(authorities) == 2
    assert all("BEGIN CERTIFICATE" in each for each in authorities)


def signers(session: Session) -> set[str]:
    """The names of the keys that signed the receipts of ``session``."""
    return {json.loads(from_b64u(text.split(".")[0]))["kid"] for text in session.bundle().receipts}


def test_supervisor_runner_and_broker_are_the_templates_children_under_their_users(
    kept: Machine, template: ServiceProcess
) -> None:
    async def scenario() -> None:
        async with opened(kept) as session:
            ours = programs(template)
            supervisor = ours["affiant.sandbox.supervisor"]
            runner = ours["affiant.sandbox.isolation.runner.runner"]
            broker = ours["affiant.secrets.broker.process"]
            if is_root():
                assert [real_user(each) for each in (supervisor, runner, broker)] == [
                    SUPERVISOR_USER,
                    0,
                    BROKER_USER,
                ]
                own = os.readlink("/proc/self/ns/mnt")
                views = {os.readlink(f"/proc/{each}/ns/mnt") for each in (supervisor, runner, broker)}
                assert own not in views
                assert os.readlink(f"/proc/{supervisor}/ns/mnt") == os.readlink(f"/proc/{broker}/ns/mnt")
                assert not Path(f"/proc/{supervisor}/root{kept.home}/gateway").exists()
                assert not Path(f"/proc/{broker}/root{kept.home}/template").exists()
            record = json.loads(
                (kept.home / "sessions" / session.id / "isolation" / "record.json").read_bytes()
            )
            assert record["owner"]["pid"] == supervisor
            assert record["runner"]["pid"] == runner
            for program in (supervisor, broker):
                held = [
                    os.readlink(f"/proc/{program}/fd/{name}") for name in os.listdir(f"/proc/{program}/fd")
                ]
                assert not any("template" in each for each in held), "the way to the template is closed"

    asyncio.run(scenario())


def test_a_template_killed_amid_a_session_changes_nothing_for_it_and_the_next_starts_interpreters(
    kept: Machine, template: ServiceProcess
) -> None:
    async def scenario() -> list[Path]:
        async with opened(kept) as first:
            assert first.started_by == "template"
            os.kill(template.pid, signal.SIGKILL)
            assert (await first.run(["true"])).exit_code == 0
        async with opened(kept) as second:
            assert second.started_by == "interpreter"
            assert (await second.run(["true"])).exit_code == 0
        return [first.bundle_path, second.bundle_path]

    for bundle in asyncio.run(scenario()):
        kept.verdict(bundle)


def test_a_template_killed_at_any_instant_of_a_start_costs_no_session_and_leaves_no_process(
    kept: Machine,
) -> None:
    ways: list[str] = []
    for instant in range(60):
        template = start_template(open_home(kept.home))
        assert template is not None
        asyncio.run(template.ready(timeout_s=60))
        seen: list[Process] = []

        async def scenario(template: ServiceProcess, after_s: float, seen: list[Process]) -> Path:
            def progress(step: str, _: Mapping[str, object]) -> None:
                if step == "services-ready":
                    threading.Timer(after_s, os.kill, (template.pid, signal.SIGKILL)).start()

            async with opened(kept, progress=progress) as session:
                ways.append(session.started_by)
                seen += family(session._opened.link.pid)
                assert (await session.run(["true"])).exit_code == 0
            return session.bundle_path

        try:
            kept.verdict(asyncio.run(scenario(template, instant * 0.015, seen)))
            assert kept.all_gone(seen, 8)
        finally:
            asyncio.run(template.stop(grace_s=0))
        if "interpreter" in ways and ways.count("template") >= 4:
            return
    pytest.fail(f"the instants do not lie before and after the fork: {ways}")


def test_a_killed_supervisor_takes_its_broker_and_runner_with_it(
    kept: Machine, template: ServiceProcess
) -> None:
    async def scenario() -> tuple[Any, ...]:
        with pytest.raises(Exception, match="supervisor"):
            async with opened(kept) as session:
                below = tuple(each for each in family(template.pid) if each.pid != template.pid)
                assert len(below) >= 3
                (supervisor,) = (each for each in below if "affiant.sandbox.supervisor" in each.arguments)
                os.kill(supervisor.pid, signal.SIGKILL)
                await session.run(["true"])
        return below

    assert kept.all_gone(asyncio.run(scenario()), 8)
    assert not template.ended


def test_a_killed_launcher_leaves_no_program_and_the_template_forgets_them(
    kept: Machine, template: ServiceProcess
) -> None:
    folder = f"/proc/{template.pid}/fd"
    before = len(os.listdir(folder))
    process = kept.start("sh", "-c", "echo begun; exec sleep 60")
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    below = tuple(each for each in family(template.pid, process.pid) if each.pid != template.pid)
    assert len(programs(template)) == 3
    process.kill()
    assert kept.all_gone(below, 10)
    assert until(lambda: len(os.listdir(folder)) <= before)
    assert programs(template) == {}


def test_creating_a_session_starts_the_template_with_the_services_and_all_end_with_the_last_session(
    machine: Machine,
) -> None:
    given = ("--profile", str(machine.folder / "profiles.yaml"), "--agent", "writer")
    more = ("--min-isolation", machine.isolation, "--ttl", "300")

    def session(verb: str, *arguments: str) -> bytes:
        command = [sys.executable, "-m", "affiant", "session", verb, "--home", str(machine.home), *arguments]
        return subprocess.run(command, capture_output=True, timeout=60, check=True, cwd="/").stdout

    try:
        session("create", "--name", "first", *given, *more)
        assert until(lambda: reaches(machine))
        session("create", "--name", "second", *given, *more)
        how = [asyncio.run(info(machine, name))["started_by"] for name in ("first", "second")]
        assert how[1] == "template"
        assert session("exec", "second", "echo", "ran") == b"ran\n"
    finally:
        for name in ("first", "second"):
            session("stop", name)
    assert until(lambda: not reaches(machine))


async def info(machine: Machine, name: str) -> Mapping[str, object]:
    return await DetachedSession.connect(name, home=machine.home).status()


def reaches(machine: Machine) -> bool:
    """Whether a template listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        return connection.connect_ex(str(template_socket(open_home(machine.home)))) == 0


def until(holds: Callable[[], bool], within_s: float = 30) -> bool:
    end = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def test_a_td_of_another_image_is_refused(kept: Machine, template: ServiceProcess) -> None:
    td = SimulatedProvisioner(kept.home).create_td(image=Image.GATEWAY, mrconfigid=bytes(48))
    assert td is not None
    ours, theirs = socket.socketpair()
    order = Order(
        program="affiant.sandbox.supervisor",
        arguments=("--control-fd", str(theirs.fileno()), "--td-fd", str(td)),
        environment={},
        descriptors=(2, theirs.fileno(), td),
        td=td,
    )
    place = open_template(template_socket(open_home(kept.home)))
    assert place is not None
    with ours, theirs:
        assert forked(place, order, (2, theirs.fileno(), td)) is None
    for each in (place, td):
        os.close(each)
