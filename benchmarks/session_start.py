"""``affiant run`` until the agent's first byte, with services running and from nothing, against the sandbox alone."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from affiant.sandbox.isolation.backends.backend import choose, probe
from affiant.sandbox.isolation.plan.isolation_class import BackendName, IsolationClass
from affiant.sandbox.isolation.plan.plan import Access, Command, FileGrant, HostUsr, plan_sandbox
from affiant.sandbox.isolation.runner.client import RunnerClient, spawn_runner
from affiant.sandbox.isolation.runner.runner_settings import Settings
from benchmarks.timing import Figure

ROUNDS = 5
PROFILE = b"agent_configs: {bench: {filesystem_access: 'read-write:/workspace'}}\n"


def measure() -> list[Figure]:
    backend = choose(IsolationClass.NAMESPACE, probe()).backend
    with tempfile.TemporaryDirectory(prefix="affiant-bench-") as folder:
        place = Path(folder)
        (place / "profiles.yaml").write_bytes(PROFILE)
        (place / "work").mkdir()
        folders = [place / f"alone-{n}" for n in range(ROUNDS)]
        for each in folders:
            each.mkdir(mode=0o700)
        alone = statistics.median(asyncio.run(_alone(each, backend)) for each in folders)
        cold = statistics.median(_first_byte(place, place / f"home-{n}") for n in range(3))
        with _served(place / "home"):
            warm = statistics.median(_first_byte(place, place / "home") for _ in range(ROUNDS))
    peer = f"{backend.value} alone"
    return [
        Figure("first byte, services running", warm * 1000, "ms", peer, alone * 1000),
        Figure("first byte, from nothing", cold * 1000, "ms", peer, alone * 1000),
    ]


def _affiant(home: Path, *arguments: str, **more: object) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "AFFIANT_HOME": str(home)}
    return subprocess.Popen([sys.executable, "-m", "affiant", *arguments], env=environment, **more)


def _first_byte(place: Path, home: Path) -> float:
    start = time.perf_counter()
    options = ["--min-isolation", "namespace", "--quiet", "--input", str(place / "work")]
    command = [
        "run",
        "--profile",
        str(place / "profiles.yaml"),
        "--agent",
        "bench",
        *options,
        "--",
        "echo",
        "x",
    ]
    with _affiant(home, *command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = process.stdout.read(1)
        taken = time.perf_counter() - start
        process.communicate(timeout=60)
    if first != b"x" or process.returncode != 0:
        raise RuntimeError(f"affiant run exited with {process.returncode}")
    return taken


@contextmanager
def _served(home: Path) -> Iterator[None]:
    """A platform and a gateway in the background."""
    home.mkdir(mode=0o700)
    services: list[subprocess.Popen[bytes]] = []
    try:
        for name in ("platform", "gateway"):
            reading, writing = os.pipe()
            services.append(
                _affiant(
                    home,
                    name,
                    "serve",
                    "--ready-fd",
                    str(writing),
                    pass_fds=(writing,),
                    stderr=subprocess.DEVNULL,
                )
            )
            os.close(writing)
            with open(reading, "rb") as ready:
                if not ready.readline():
                    raise RuntimeError(f"{name} did not start")
        yield
    finally:
        for service in reversed(services):
            service.terminate()
            service.wait(20)


async def _alone(folder: Path, backend: BackendName) -> float:
    """The isolation runner and the sandbox, without session, gateway or proxy."""
    start = time.perf_counter()
    process, control = spawn_runner(Settings(folder, backend, HostUsr(), None))
    async with RunnerClient(control) as client:
        plan = plan_sandbox("bench", [FileGrant("/workspace", Access.READ_WRITE)])
        proxy = await client.prepare(plan, ca_bundle=b"")
        reading, writing = os.pipe()
        command = Command(("echo", "x"), {"PATH": "/usr/bin:/bin"})
        await client.start(command, stdin=os.open(os.devnull, os.O_RDONLY), stdout=writing, stderr=writing)
        os.close(writing)
        await asyncio.get_running_loop().run_in_executor(None, os.read, reading, 1)
        taken = time.perf_counter() - start
        await client.wait()
        await client.cleanup()
        os.close(reading)
        proxy.listener.close()
    process.wait(10)
    return taken
