"""Real sandboxes for the tests: every test here starts the real runner and the real backend."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import select
import socket
import subprocess
import threading
import weakref
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Self

import pytest

from affiant.sandbox.isolation.backends.backend import probe
from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.isolation.plan.plan import Access, Command, FileGrant, HostUsr, SandboxPlan, plan_sandbox
from affiant.sandbox.isolation.runner.client import RunnerClient, spawn_runner
from affiant.sandbox.isolation.runner.runner_settings import Settings

FOUND = probe() if platform.system() == "Linux" else {}
ENV = {"PATH": "/usr/bin:/bin"}


def backend_parameters():
    """Every backend, skipped with its own reason where this machine cannot have it."""
    for name in BackendName:
        reasons = FOUND[name].reasons if name in FOUND else ("not Linux",)
        marks = [pytest.mark.skipif(bool(reasons), reason=f"{name.value}: {'; '.join(reasons)}")]
        if name is BackendName.GVISOR:
            marks += [pytest.mark.gvisor, pytest.mark.root]
        yield pytest.param(name, id=name.value, marks=marks)


@pytest.fixture(scope="module", params=list(backend_parameters()))
def backend(request) -> BackendName:
    return request.param


GVISOR, BUBBLEWRAP = backend_parameters()

ONCE = (pytest.param(*GVISOR.values, id=GVISOR.id, marks=[*GVISOR.marks, pytest.mark.slow]), BUBBLEWRAP)
"""For what the same code does under both backends: the quick run takes bubblewrap alone, the whole one both.

Attacks on a backend's own code (signals, limits, ends, leftovers, what is mounted) run quickly on both.
"""

once = pytest.mark.parametrize("backend", ONCE, scope="module")


@cache
def no_memory_cgroup() -> str | None:
    """Why this machine gives no memory cgroup of version 1; None: it does. Nothing of ours is asked."""
    for line in Path("/proc/self/cgroup").read_text().splitlines() if platform.system() == "Linux" else ():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            place = Path(f"/sys/fs/cgroup/memory{path}", f"tests-{os.getpid()}")
            try:
                place.mkdir()
                (place / "memory.limit_in_bytes").write_text("67108864")
                place.rmdir()
            except OSError as error:
                return f"no memory cgroup can be made at {place.parent}: {error.strerror}"
            return None
    return "no hierarchy of cgroups version 1 has the memory controller"


def skip_without_upper_layer(folder: Path) -> None:
    """Skip where no overlay can write to ``folder``: the kernel takes no overlay as the upper layer of another."""
    asked = ["stat", "--file-system", "--format=%T", str(folder)]
    kind = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    if kind == "overlayfs":
        pytest.skip(f"{folder} lies on an overlay, which cannot be the upper layer of another")


@dataclass
class Run:
    """What came out of one command."""

    ended: int
    output: str
    greeted: int
    session_dir: Path
    facts: dict = field(default_factory=dict)


@asynccontextmanager
async def sandbox(session_dir: Path, backend: BackendName, plan: SandboxPlan, **settings):
    """A prepared sandbox: its client and its proxy's socket. Cleaned up at the end."""
    rootfs = settings.get("rootfs", HostUsr())
    process, control = spawn_runner(Settings(session_dir, backend, rootfs, settings.get("runtime")))
    client = RunnerClient(control)
    proxy = None
    try:
        proxy = await client.prepare(plan, ca_bundle=b"-----TEST BUNDLE-----\n")
        yield client, proxy, process
    finally:
        client.close()
        if proxy is not None:
            proxy.listeners.proxy.close()
            proxy.listeners.own_hosts.close()
        process.wait(10)


@contextmanager
def greeting(listener: socket.socket) -> Iterator[list[int]]:
    """A stand-in for the proxy: says hello to whoever connects, and counts them."""
    greeted = [0]
    done, stop = os.pipe()

    def serve() -> None:
        while True:
            ready, _, _ = select.select([listener, done], [], [])
            if done in ready:
                return
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"hello from the proxy\n")
            greeted[0] += 1

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield greeted
    finally:
        os.write(stop, b"x")
        thread.join()
        os.close(done)
        os.close(stop)


async def communicate(client: RunnerClient, command: Command, stdin: bytes = b"") -> tuple[int, str]:
    """Run ``command`` with pipes, as the supervisor does; its output, both streams together."""
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    os.write(in_write, stdin)
    os.close(in_write)
    try:
        number = await client.start(command, stdin=in_read, stdout=out_write, stderr=out_write)
    except BaseException:
        os.close(out_read)
        raise
    finally:
        os.close(in_read)
        os.close(out_write)

    output = bytearray()
    loop = asyncio.get_running_loop()
    os.set_blocking(out_read, False)
    loop.add_reader(out_read, lambda: output.extend(at_hand(out_read)))
    try:
        ended = await client.wait(number)
    finally:
        loop.remove_reader(out_read)
        output += at_hand(
            out_read
        )  # what the command left in the background may write on: nobody waits for that
        os.close(out_read)
    return ended.code, output.decode("utf-8", "replace")


def at_hand(read: int) -> bytes:
    """What a pipe holds at this moment; its reading end does not block."""
    found = b""
    while True:
        try:
            more = os.read(read, 1 << 16)
        except BlockingIOError:
            return found
        if not more:
            return found
        found += more


async def code_of(client: RunnerClient, number: int) -> int:
    """The exit code of a command."""
    return (await client.wait(number)).code


async def begin(client: RunnerClient, command: Command) -> tuple[int, asyncio.Task[int]]:
    """Start ``command`` and return once it has said its first words; the rest of its output, and its end."""
    read, write = os.pipe()
    nothing = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    try:
        number = await client.start(command, stdin=nothing, stdout=write, stderr=write)
    finally:
        os.close(write)
        os.close(nothing)
    waiting = asyncio.create_task(code_of(client, number))
    assert await asyncio.to_thread(os.read, read, 3) == b"up\n"  # whatever it has said since stays to be read
    return read, waiting


async def rest_of(read: int) -> bytes:
    """What is still to come of a command's output, up to its end."""

    def read_all() -> bytes:
        with os.fdopen(read, "rb") as stream:
            return stream.read()

    return await asyncio.to_thread(read_all)


def run(
    session_dir: Path, backend: BackendName, *argv: str, files=(), env=ENV, cwd="/", stdin=b"", **more
) -> Run:
    """One command in one sandbox with a greeting proxy."""
    grants = [FileGrant(path, Access(access)) for path, access in files]
    plan_arguments = {name: more[name] for name in ("rootfs", "runtime", "limits") if name in more}
    plan = plan_sandbox(more.get("session", "session1"), grants, **plan_arguments)

    async def go() -> Run:
        async with sandbox(session_dir, backend, plan, **more) as (client, proxy, _):
            with greeting(proxy.listeners.proxy) as greeted, greeting(proxy.listeners.own_hosts):
                ended, output = await communicate(client, Command(argv, env, cwd), stdin)
                await client.cleanup()
                return Run(ended, output, greeted[0], session_dir)

    return asyncio.run(go())


def probe_inside(session_dir: Path, backend: BackendName, script: Path, request: dict, **more) -> Run:
    """Run a Python script inside with a JSON request on its input; its JSON answer becomes ``facts``."""
    program = (
        "import sys; exec(compile(sys.stdin.readline().encode().decode('unicode_escape'), 'probe', 'exec'))"
    )
    source = script.read_text().encode("unicode_escape")
    stdin = source + b"\n" + json.dumps(request).encode()
    result = run(session_dir, backend, "python3", "-c", program, stdin=stdin, **more)
    assert result.ended == 0, result.output
    result.facts = json.loads(result.output.splitlines()[-1])
    return result


NAMESPACES = ("net", "pid", "mnt")


class Held(frozenset[str]):
    """Namespaces that live on while this does: else the kernel gives their numbers to the next sandbox made."""

    def __new__(cls, pid: int) -> Self:
        kept = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in NAMESPACES]
        held = super().__new__(cls, (os.readlink(f"/proc/self/fd/{each}") for each in kept))
        for each in kept:
            weakref.finalize(held, os.close, each)
        return held


def processes_in(namespaces: Held) -> list[int]:
    """Processes of this machine that stand in one of the namespaces."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if any(os.readlink(entry / "ns" / kind) in namespaces for kind in NAMESPACES):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
