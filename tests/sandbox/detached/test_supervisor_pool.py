"""Sessions take supervisors from a pool: each once, and only one that was started for exactly such a session."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.conftest import Machine, family, made_machine
from tests.sandbox.session.test_template_session import opened, signers

from affiant.attestation.statements.manifest import Manifest
from affiant.policy.loading.policy_file import policy_owners
from affiant.sandbox.base.privileges import is_root
from affiant.sandbox.base.user_socket import connect_user_socket
from affiant.sandbox.detached.supervisor_pool import SupervisorPool
from affiant.sandbox.isolation.backends.backend import probe
from affiant.sandbox.isolation.plan import linux
from affiant.sandbox.isolation.plan.isolation_class import BackendName, IsolationClass
from affiant.sandbox.pools import taking
from affiant.sandbox.pools.taking import TAKE, TAKEN
from affiant.sandbox.processes.home import open_home
from affiant.sandbox.processes.launch_records import POOLED, read_launches
from affiant.sandbox.processes.provisioner import SimulatedProvisioner
from affiant.sandbox.processes.service_process import ServiceProcess
from affiant.sandbox.processes.services import Services, ensure_services
from affiant.sandbox.processes.template_service import start_template
from affiant.sandbox.session import attested_launch
from affiant.sandbox.session import session as session_module
from affiant.sandbox.session.binding import kind_of
from affiant.sandbox.session.session import Session
from affiant.sandbox.session.session_plan import SessionPlan, SessionRequest, plan_session
from affiant.sandbox.supervisor.launch.control import ControlChannel
from affiant.sandbox.supervisor.launch.lifecycle import State, read_steps

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not is_root(), reason="a pool needs root"),
]


@pytest.fixture(scope="module")
def kept(isolation: str, release: None) -> Iterator[Machine]:
    """A state folder whose platform and gateway run."""
    with made_machine(isolation) as made:
        made.keep_services()
        yield made
        made.stop_services()
        made.keeping = None


@pytest.fixture(scope="module", autouse=True)
def template(kept: Machine) -> Iterator[ServiceProcess]:
    process = start_template(open_home(kept.home))
    assert process is not None
    try:
        asyncio.run(process.ready(timeout_s=60))
        yield process
    finally:
        asyncio.run(process.stop(grace_s=1))


@pytest.fixture(params=list(BackendName), ids=lambda each: each.value)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> BackendName:
    """Each isolation that this machine has; sessions of this process then have no other."""
    found = probe()
    if not found[request.param].usable:
        pytest.skip("this machine does not have it")
    monkeypatch.setattr(session_module, "probe", lambda: {request.param: found[request.param]})
    return request.param


def planned(machine: Machine, backend: BackendName, agent: str = "writer") -> SessionPlan:
    request = SessionRequest(
        profile=machine.folder / "profiles.yaml",
        agent=agent,
        min_isolation=IsolationClass(machine.isolation),
    )
    return plan_session(
        request,
        session=POOLED,
        folder=machine.home / "sessions" / POOLED,
        probe=lambda: {backend: probe()[backend]},
        owners=policy_owners(os.geteuid(), os.environ),
    )


@asynccontextmanager
async def pooled(machine: Machine, plan: SessionPlan, size: int = 1) -> AsyncIterator[SupervisorPool]:
    """A pool that is full."""
    home, full, enough = open_home(machine.home), asyncio.Event(), asyncio.Event()
    services = await ensure_services(
        home, plan.request.gateway, now=datetime.now(UTC), random_bytes=secrets.token_bytes
    )
    pool = SupervisorPool(home, plan, services, size=size, random_bytes=secrets.token_bytes, filled=full.set)
    holding = asyncio.ensure_future(pool.hold(enough))
    try:
        waiting = asyncio.ensure_future(full.wait())
        await asyncio.wait({holding, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if holding.done():
            holding.result()
        yield pool
    finally:
        enough.set()
        await asyncio.wait({holding})
        await services.leave()
        holding.result()
    assert [launch for launch in read_launches(home) if launch.pooled] == []
    assert list((machine.home / "sessions").glob(f"{POOLED}*")) == []


def of(pool: SupervisorPool) -> list[int]:
    """The process ids of the supervisors that wait."""
    return [each.link.pid for each in pool._waiting]


async def until_full(pool: SupervisorPool, size: int = 1) -> None:
    async with asyncio.timeout(30):
        while len(of(pool)) < size:
            await asyncio.sleep(0.05)


def in_floor(machine: Machine, backend: BackendName) -> bool:
    return machine.isolation == "namespace" or backend is BackendName.GVISOR


@pytest.fixture
def place(kept: Machine, backend: BackendName, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The state folder, with a minimum that this isolation reaches."""
    return replace(kept, isolation="userspace-kernel" if backend is BackendName.GVISOR else "namespace")


def test_each_supervisor_serves_one_session_with_its_input_and_receipts(
    place: Machine, backend: BackendName
) -> None:
    async def scenario() -> list[Session]:
        sessions, served = [], []
        async with pooled(place, planned(place, backend)) as pool:
            for _ in range(2):
                (waiting,) = of(pool)
                async with opened(place) as session:
                    assert session.started_by == "pool"
                    assert session._opened.link.pid == waiting
                    assert (await session.run(["cat", "/workspace/file.txt"])).stdout == "content\n"
                    assert not (place.home / "sessions" / session.id).name.startswith(POOLED)
                sessions.append(session)
                served.append(waiting)
                await until_full(pool)
        assert len(set(served)) == 2
        return sessions

    one, other = asyncio.run(scenario())
    assert one.id != other.id
    assert len(signers(one) & signers(other)) == 1, "the gateway's alone"
    for session in (one, other):
        place.verdict(session.bundle_path)
        states = [step.state for step in read_steps(place.home / "sessions" / session.id)]
        assert states[:4] == [State.PROVISIONING, State.ATTESTING, State.WARM, State.ACTIVATING]
        assert states[-1] is State.TERMINATED


def test_a_waiting_supervisor_has_nothing_of_a_session(place: Machine, backend: BackendName) -> None:
    async def scenario() -> None:
        async with pooled(place, planned(place, backend)) as pool:
            (warm,) = pool._waiting
            folder = place.home / "sessions" / warm.slot
            assert sorted(path.name for path in folder.iterdir()) == ["states.ndjson"]
            assert read_steps(folder)[-1].state is State.WARM
            shown = subprocess.run(
                [sys.executable, "-m", "affiant", "session", "ls", "--home", str(place.home), "--json"],
                capture_output=True,
                check=True,
            )
            assert warm.slot not in shown.stdout.decode()

    asyncio.run(scenario())


@pytest.mark.parametrize("other", ["agent", "profile", "gateway", "isolation"])
def test_a_session_of_another_kind_takes_none(
    place: Machine, backend: BackendName, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        plan = planned(place, backend, agent="reader" if other == "agent" else "writer")
        profiles = place.folder / "profiles.yaml"
        text = profiles.read_text()
        async with pooled(place, plan) as pool:
            if other == "profile":
                profiles.write_text(text + "# another file\n")
            if other == "isolation":
                monkeypatch.setattr(attested_launch, "kind_of", of_another_isolation)
            if other == "gateway":
                monkeypatch.setattr(attested_launch, "ensure_services", restarted)
            try:
                before = of(pool)
                async with opened(place) as session:
                    assert session.started_by == "template"
                    assert (await session.run(["true"])).exit_code == 0
                if other != "gateway":  # an offer that was not taken has ended its supervisor
                    assert of(pool) == before
                else:
                    await until_full(pool)
                    assert not set(of(pool)) & set(before)
            finally:
                profiles.write_text(text)

    asyncio.run(scenario())


def of_another_isolation(plan: SessionPlan, services: Services, manifest: Manifest) -> str:
    other = next(name for name in BackendName if name is not plan.backend)
    return kind_of(replace(plan, backend=other), services, manifest)


async def restarted(*arguments: Any, **more: Any) -> Services:
    """The services as a launcher finds them after a start of the gateway that the pool has not seen."""
    return replace(await ensure_services(*arguments, **more), gateway_spki="A" * 43)


def test_a_dead_supervisor_is_skipped(place: Machine, backend: BackendName) -> None:
    async def scenario() -> None:
        async with pooled(place, planned(place, backend), size=2) as pool:
            dead = of(pool)[0]
            os.kill(dead, signal.SIGKILL)
            async with opened(place) as session:
                assert session.started_by == "pool"
                assert session._opened.link.pid != dead
            await until_full(pool, 2)
            assert dead not in of(pool)

    asyncio.run(scenario())


def test_a_supervisor_that_was_offered_is_never_offered_again(place: Machine, backend: BackendName) -> None:
    async def scenario() -> None:
        plan = planned(place, backend)
        async with pooled(place, plan) as pool:
            (warm,) = pool._waiting
            below = family(warm.link.pid)
            (path,) = (place.home / "pools").glob("*.sock")
            channel = ControlChannel(await connect_user_socket(path))
            await channel.send(TAKE)
            offer = await channel.receive()
            assert offer is not None
            assert offer.members["slot"] == warm.slot
            async with opened(place) as session:
                assert session.started_by == "template", "none is left while one is offered"
            channel.close()  # not taken
            offer.close()
            await until_full(pool)
            assert await asyncio.to_thread(place.all_gone, below, 8)
            async with asyncio.timeout(
                8
            ):  # the next one may be warm before the last files of this one are gone
                while (place.home / "sessions" / warm.slot).exists():
                    await asyncio.sleep(0.05)
            assert warm.link.pid not in of(pool)

    asyncio.run(scenario())


@pytest.mark.parametrize("asked", [{"op": "give"}, {**TAKE, "more": 1}, TAKEN])
def test_what_is_not_the_protocol_gets_nothing(
    place: Machine, backend: BackendName, asked: dict[str, object]
) -> None:
    async def scenario() -> None:
        async with pooled(place, planned(place, backend)) as pool:
            before = of(pool)
            (path,) = (place.home / "pools").glob("*.sock")
            channel = ControlChannel(await connect_user_socket(path))
            await channel.send(asked)
            assert await channel.receive() is None
            channel.close()
            assert of(pool) == before

    asyncio.run(scenario())


IDLE = 3 << 13
"""The idle class of ioprio_set(2)."""

TAKES = """
import asyncio, sys
from contextlib import suppress
from pathlib import Path
from affiant.sandbox.base.user_socket import connect_user_socket
from affiant.sandbox.pools.taking import TAKE
from affiant.sandbox.supervisor.launch.control import ControlChannel

async def take():
    channel = ControlChannel(await connect_user_socket(Path(sys.argv[1])))
    with suppress(ConnectionError):  # it may be closed already
        await channel.send(TAKE)
    answer = await channel.receive()
    print(None if answer is None else answer.members["event"])

asyncio.run(take())
"""


@pytest.mark.parametrize("confined", ["--no-new-privs", "--bounding-set=-sys_admin"])
def test_a_process_that_is_confined_further_than_the_pool_gets_nothing(
    place: Machine, backend: BackendName, confined: str
) -> None:
    async def scenario() -> None:
        async with pooled(place, planned(place, backend)) as pool:
            before = of(pool)
            (path,) = (place.home / "pools").glob("*.sock")
            asking = [sys.executable, "-c", TAKES, str(path)]
            process = await asyncio.create_subprocess_exec(
                "setpriv", confined, *asking, stdout=subprocess.PIPE
            )
            said, _ = await process.communicate()
            assert said == b"None\n"
            assert of(pool) == before

    asyncio.run(scenario())


def test_what_is_taken_has_the_priorities_of_its_launcher(place: Machine, backend: BackendName) -> None:
    async def scenario() -> None:
        own = linux.io_priority(0)
        async with pooled(place, planned(place, backend)) as pool:
            (supervisor,) = of(pool)
            processes = taking._of_session(supervisor)
            linux.set_io_priority(IDLE)
            try:
                async with opened(place) as session:
                    assert session.started_by == "pool"
                    found = [linux.io_priority(each) for each in processes]
            finally:
                linux.set_io_priority(own)
        assert found == [IDLE] * 3, "supervisor, runner and broker"

    asyncio.run(scenario())


def test_an_activation_that_fails_before_admission_costs_the_supervisor_and_not_the_session(
    place: Machine, backend: BackendName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the gateway was replaced in this moment: the session is started as if there were no pool."""
    real = attested_launch.provision

    async def broken(link: Any, *arguments: Any, whole: Any, **more: Any) -> None:
        if whole is None:
            await link.tell({"op": "activate"})
        else:
            await real(link, *arguments, whole=whole, **more)

    monkeypatch.setattr(attested_launch, "provision", broken)

    async def scenario() -> Path:
        async with pooled(place, planned(place, backend)) as pool:
            (waiting,) = of(pool)
            async with opened(place) as session:
                assert session.started_by == "template"
                assert (await session.run(["cat", "/workspace/file.txt"])).stdout == "content\n"
            await until_full(pool)
            assert waiting not in of(pool)
        return session.bundle_path

    place.verdict(asyncio.run(scenario()))


def test_a_step_that_the_machine_refuses_once_is_tried_again(
    place: Machine, backend: BackendName, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, refused = os.chown, []

    def chown(path: Any, *owner: Any, **more: Any) -> None:
        if POOLED in str(path) and not refused:
            refused.append(path)
            raise OSError(errno.ENOSPC, "no space left")
        real(path, *owner, **more)

    monkeypatch.setattr(os, "chown", chown)

    async def scenario() -> None:
        async with pooled(place, planned(place, backend)) as pool:
            assert len(of(pool)) == 1 and len(refused) == 1

    asyncio.run(scenario())


def test_each_supervisor_gets_the_collateral_of_its_start(
    place: Machine, backend: BackendName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Collateral holds for weeks, and a pool longer."""
    given: list[bytes] = []
    real = SimulatedProvisioner.collateral

    def collateral(self: SimulatedProvisioner) -> Any:
        found = real(self)
        given.append(found.to_bytes())
        return found

    monkeypatch.setattr(SimulatedProvisioner, "collateral", collateral)

    async def scenario() -> None:
        async with pooled(place, planned(place, backend)) as pool:
            before = len(given)
            (waiting,) = of(pool)
            os.kill(waiting, signal.SIGKILL)
            async with asyncio.timeout(30):
                while of(pool) in ([], [waiting]):
                    await asyncio.sleep(0.05)
            assert len(given) > before

    asyncio.run(scenario())


def test_two_pools_of_one_kind_cannot_be(place: Machine, backend: BackendName) -> None:
    async def scenario() -> None:
        plan = planned(place, backend)
        async with pooled(place, plan):
            with pytest.raises(Exception, match="another process holds"):
                async with pooled(place, plan):
                    pass

    asyncio.run(scenario())


def test_a_killed_pool_leaves_nothing(kept: Machine) -> None:
    command = [sys.executable, "-m", "affiant", "session", "pool", "--home", str(kept.home), "--size", "2"]
    given = ["--profile", str(kept.folder / "profiles.yaml"), "--agent", "writer"]
    process = subprocess.Popen(
        [*command, *given, "--min-isolation", kept.isolation], stdout=subprocess.PIPE, cwd="/"
    )
    kept.started.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == b"2 of 2 supervisors wait\n"
    home = open_home(kept.home)
    waiting = [launch for launch in read_launches(home) if launch.pooled]
    below = [each for launch in waiting for each in family(launch.children[0].pid)]
    assert len(waiting) == 2
    process.kill()
    process.wait()
    assert kept.all_gone(below, 8)

    async def scenario() -> None:
        async with opened(kept) as session:  # the next command
            assert session.started_by == "template"

    asyncio.run(scenario())
    assert [launch for launch in read_launches(home) if launch.pooled] == []
    assert list((kept.home / "sessions").glob(f"{POOLED}*")) == []
