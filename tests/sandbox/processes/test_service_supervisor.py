"""The service supervisor: services live exactly as long as the last launcher, by whatever death."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from affiant.sandbox.processes.home import Home, open_home
from affiant.sandbox.processes.provisioner import SimulatedProvisioner
from affiant.sandbox.processes.service_process import ServiceProcess, start_service
from affiant.sandbox.processes.service_supervisor import service_supervisor_spec
from affiant.sandbox.processes.services import _join


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


def start(home: Home) -> ServiceProcess:
    return start_service(service_supervisor_spec(home, platform=True, gateway=False))


def answers(home: Home) -> bool:
    try:
        return bool(SimulatedProvisioner(home.path).root())
    except Exception:
        return False


def silent_within(home: Home, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not answers(home):
            return True
        time.sleep(0.05)
    return False


def test_services_end_when_the_last_launcher_leaves_and_not_before(home: Home):
    async def run() -> None:
        first, second = await _join(home), await _join(home)
        supervisor = start(home)
        facts = json.loads(await supervisor.ready())
        assert facts == {"platform": {"socket": str(home.platform / "platform.sock")}}
        os.close(first)
        await asyncio.sleep(0.3)
        assert answers(home)
        os.close(second)
        assert await asyncio.wait_for(supervisor.wait(), 5) == 0
        assert not answers(home)

    asyncio.run(run())


def test_services_end_when_the_last_launcher_is_killed(home: Home):
    code = (
        "import asyncio, sys, time; from affiant.sandbox.processes.services import _join\n"
        "from affiant.sandbox.processes.home import open_home\n"
        "from pathlib import Path; asyncio.run(_join(open_home(Path(sys.argv[1]))))\n"
        "print(1, flush=True); time.sleep(60)"
    )
    launcher = subprocess.Popen([sys.executable, "-c", code, str(home.path)], stdout=subprocess.PIPE)
    assert launcher.stdout is not None
    launcher.stdout.readline()

    async def run() -> None:
        supervisor = start(home)
        await supervisor.ready()
        launcher.kill()
        launcher.wait()
        assert await asyncio.wait_for(supervisor.wait(), 5) == 0

    asyncio.run(run())
    launcher.stdout.close()
    assert not answers(home)


def test_services_end_when_their_keeper_is_killed(home: Home):
    async def run() -> None:
        membership = await _join(home)
        supervisor = start(home)
        await supervisor.ready()
        os.kill(supervisor.pid, signal.SIGKILL)
        assert await supervisor.wait() == -signal.SIGKILL
        os.close(membership)

    asyncio.run(run())
    assert silent_within(home, 5)


def test_a_service_that_does_not_start_is_refused_with_its_reason(home: Home):
    (home.platform / "keys.json").write_text("not keys")
    (home.platform / "keys.json").chmod(0o600)

    async def run() -> str:
        supervisor = start(home)
        try:
            return await supervisor.ready()
        finally:
            await supervisor.stop()

    refused = json.loads(asyncio.run(run()))["refused"]
    assert refused["code"] == "service.failed"
    assert "fmt.json" in refused["found"]


def test_a_template_that_cannot_be_started_takes_no_service_down(home: Home):
    (home.path / "template").write_text("in the way")

    async def run() -> str:
        membership = await _join(home)
        spec = service_supervisor_spec(home, platform=True, gateway=False, template=True)
        supervisor = start_service(spec)
        facts = json.loads(await supervisor.ready())
        assert set(facts) == {"platform"}
        assert answers(home)
        os.close(membership)
        assert await asyncio.wait_for(supervisor.wait(), 5) == 0
        return supervisor.last_words

    said = asyncio.run(run())
    assert "cannot start the template process" in said
    assert "Traceback" not in said
