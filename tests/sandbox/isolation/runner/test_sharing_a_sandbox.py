"""Many commands in one sandbox: at once and in turn, each held as the first process is, and what they leave."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from tests.sandbox.isolation.conftest import (
    BUBBLEWRAP,
    ENV,
    begin,
    communicate,
    processes_in,
    rest_of,
    sandbox,
)

from affiant.sandbox.isolation.plan.errors import CommandNotRun, LimitExceeded
from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.isolation.plan.leftover_record import read_record
from affiant.sandbox.isolation.plan.plan import Access, Command, FileGrant, Limits, plan_sandbox

WRITABLE = (FileGrant("/w", Access.READ_WRITE),)
LIMITS = Limits(processes=40, open_files=200, files_bytes=64 << 20, tmp_bytes=64 << 20)


def shell(script, *words, cwd="/"):
    return Command(("/bin/sh", "-c", script, "sh", *words), ENV, cwd)


def python(program):
    return Command(("python3", "-c", program), ENV)


def in_sandbox(session_dir, backend, scenario, limits=LIMITS, files=WRITABLE):
    """Run ``scenario`` with the client of a prepared sandbox; everything is gone afterwards."""

    async def go():
        async with sandbox(session_dir, backend, plan_sandbox("s", files, limits=limits)) as (client, _, _):
            result = await scenario(client)
            await client.cleanup()
            return result

    return asyncio.run(go())


def test_commands_run_at_once_and_share_the_sandbox(backend, tmp_path):
    async def scenario(client):
        read, first = await begin(client, shell("echo up; until [ -e /tmp/go ]; do sleep 0.02; done; exit 3"))
        second = await communicate(client, shell("echo two > /tmp/of-two; exit 4"))
        third = await communicate(client, shell("cat /tmp/of-two; touch /tmp/go"))
        ended = await asyncio.wait_for(first, 20)
        os.close(read)
        return ended, second, third

    assert in_sandbox(tmp_path, backend, scenario) == (3, (4, ""), (0, "two\n"))


def test_one_that_cannot_be_executed_leaves_the_others_alone(backend, tmp_path):
    async def scenario(client):
        found = []
        for command in (
            shell("true", cwd="/nowhere"),
            Command(("nowhere",), ENV),
            Command(("/etc/passwd",), ENV),
        ):
            with pytest.raises(CommandNotRun) as refused:
                await communicate(client, command)
            found.append(refused.value.exit_code)
        return found, await communicate(client, shell("pwd", cwd="/w"))

    assert in_sandbox(tmp_path, backend, scenario) == ([126, 127, 126], (0, "/w\n"))


CONFINED = """
import ctypes, json, os, resource
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    return libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)), ctypes.get_errno()
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines() if ":" in line)
print(json.dumps({
    "status": {name: status[name].split() for name in
        ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "Seccomp") if name in status},
    "nnp": libc.prctl(39, 0, 0, 0, 0),
    "ids": [os.getuid(), os.getgid(), os.getgroups()],
    "calls": {name: call(*arguments) for name, arguments in {
        "mount": (165, 0, 0, 0, 0, 0), "unshare": (272, 0x10000000), "setns": (308, 0, 0), "ptrace": (101, 0, 0, 0, 0),
        "process_vm_readv": (310, 1, 0, 0, 0, 0, 0), "process_vm_writev": (311, 1, 0, 0, 0, 0, 0),
        "clone": (56, 0x10000000, 0, 0, 0, 0), "clone3": (435, 0, 0), "chroot": (161, 0), "keyctl": (250, 0, 0),
        "bpf": (321, 0, 0, 0), "io_uring_setup": (425, 1, 0), "AF_VSOCK": (41, 40, 1, 0)}.items()},
    "limits": [resource.getrlimit(kind) for kind in
        (resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE)],
    "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1],
    "session": os.getsid(0) == os.getpid(),
}))
"""


def test_every_command_is_held_by_filter_limits_and_no_privilege(backend, tmp_path):
    """runsc of 2024 applies a container's filter to its first process alone: a command must not be free of it."""

    async def scenario(client):
        return [json.loads((await communicate(client, python(CONFINED)))[1]) for _ in range(2)]

    for found in in_sandbox(tmp_path, backend, scenario):
        status = found["status"]
        assert {name: status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd")} == dict.fromkeys(
            ("CapInh", "CapPrm", "CapEff", "CapBnd"), ["0" * 16]
        )
        assert status["Seccomp"] == ["2"]
        assert found["nnp"] == 1
        assert found["ids"][:2] == [1000, 1000]
        errors = {name: number for name, (_, number) in found["calls"].items()}
        assert errors.pop("clone3") == 38
        assert errors.pop("AF_VSOCK") == 97
        assert set(errors.values()) == {1}, errors
        file_bytes = LIMITS.file_bytes
        assert found["limits"] == [[40, 40], [200, 200], [file_bytes, file_bytes], [0, 0]]
        assert found["descriptors"] == [0, 1, 2]
        assert found["session"]


@pytest.mark.parametrize("name", ["ns", "status", "limits", "mountinfo"])
def test_a_command_is_in_the_first_processes_namespaces_with_its_rights(backend, tmp_path, name):
    """Seen from outside, where the kernel cannot be lied to: bubblewrap's processes are this machine's."""
    if backend is not BackendName.BUBBLEWRAP:
        pytest.skip("the machine sees no process of gVisor's")
    if os.geteuid() != 0:
        pytest.skip("another user's processes are looked at")

    def facts(pid):
        if name == "ns":
            return {kind: os.readlink(f"/proc/{pid}/ns/{kind}") for kind in os.listdir(f"/proc/{pid}/ns")}
        lines = Path(f"/proc/{pid}/{name}").read_text().splitlines()
        kept = ("Uid", "Gid", "Groups", "Cap", "NoNewPrivs", "Seccomp")
        return [line for line in lines if name != "status" or line.startswith(kept)]

    async def scenario(client):
        read, running = await begin(client, shell("echo up; sleep 30"))
        inside = processes_in(frozenset([os.readlink(f"/proc/{read_record(tmp_path).init.pid}/ns/net")]))
        inside += processes_in(frozenset(os.readlink(f"/proc/{pid}/ns/pid") for pid in inside))
        named = {Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]: pid for pid in set(inside)}
        found = facts(named[b"/run/affiant/first"]), facts(named[b"/bin/sh"])
        await client.kill()
        await running
        os.close(read)
        return found

    first, command = in_sandbox(tmp_path, backend, scenario)
    assert first == command


ATTACKER = """
import json, os
ENTERING = "/dev/.affiant/", "/proc/self/fd/"  # how the runner's own programs are called
def named(pid):
    return open(f"/proc/{pid}/cmdline", "rb").read().split(b"\\0")[0].decode()
print("up", flush=True)
reached, seen, read = set(), set(), set()
while not os.path.exists("/tmp/enough"):
    for pid in os.listdir("/proc"):
        if not pid.isdecimal() or int(pid) == os.getpid():
            continue
        for name, flags in (("exe", os.O_WRONLY), ("exe", os.O_RDWR | os.O_TRUNC), ("mem", os.O_RDWR)):
            try:
                fd = os.open(f"/proc/{pid}/{name}", flags)
                if name == "exe" or os.write(fd, b"x"):
                    reached.add(f"{name} {flags}")
            except (OSError, ValueError):
                pass
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                link = os.readlink(f"/proc/{pid}/fd/{fd}")
                if "ns:" in link or ":[4026" in link:
                    reached.add(link.split("[")[0])
        except OSError:
            pass
        try:
            name = named(pid)
            if name.startswith(ENTERING) and not name.endswith("/first"):
                seen.add(name)
                open("/tmp/seen", "w").close()
            environ = open(f"/proc/{pid}/environ", "rb").read().decode()
            read.add(name)
            if "AFFIANT" in environ or "LC_ALL=C.UTF-8" in environ:
                reached.add(f"environ of {name}")
            if named(pid).startswith(ENTERING):  # after it was read: still the runner's own program
                words = environ.split("\\0")
                reached.update(word for word in words if word and not word.startswith("HOME="))  # gVisor's own
        except OSError:
            pass
print(json.dumps([sorted(reached), sorted(seen), sorted(read)]))
"""


def test_an_agent_reaches_nothing_of_a_command_that_is_entering(backend, tmp_path):
    """Its executable, memory, the namespaces that it holds, the runner's environment (CVE-2019-5736 and its kin).

    Under gVisor a command's outer process is there as long as the command; under bubblewrap only what enters is seen,
    for a moment. No process at all shows the runner's environment. gVisor of 2024 lets the agent read an environment;
    under bubblewrap no other process's can be opened.
    """

    async def scenario(client):
        read, attacking = await begin(client, python(ATTACKER))
        for _ in range(12):
            assert await communicate(client, shell("exit 0")) == (0, "")
        for _ in range(300):  # under bubblewrap what enters is there for a moment
            if (await communicate(client, shell("test -e /tmp/seen")))[0] == 0:
                break
        await communicate(client, shell("touch /tmp/enough"))
        assert await asyncio.wait_for(attacking, 30) == 0
        return json.loads(await rest_of(read))

    reached, seen, read = in_sandbox(tmp_path, backend, scenario)
    assert reached == []
    assert seen
    assert bool(read) == (backend is BackendName.GVISOR)


def test_what_a_command_leaves_in_the_background_lives_on_and_is_seen(backend, tmp_path):
    async def scenario(client):
        left = "(echo $$ > /tmp/up; until [ -e /tmp/go ]; do sleep 0.02; done; echo done > /tmp/done) >&- 2>&- <&- &"
        await communicate(client, shell(left))
        seen = await communicate(
            client,
            shell("until [ -s /tmp/up ]; do sleep 0.02; done; cat /proc/[0-9]*/cmdline | tr '\\0' ' '"),
        )
        after = "touch /tmp/go; until [ -s /tmp/done ]; do sleep 0.02; done; cat /tmp/done"
        return seen[1].count("/tmp/up"), await communicate(client, shell(after))

    count, after = in_sandbox(tmp_path, backend, scenario)
    assert count >= 1
    assert after == (0, "done\n")


REPLACEABLE = (FileGrant("/tmp/a/b", Access.READ_WRITE),)
"""A directory whose parent the agent can move away. gVisor has no rules about paths, and keeps the parent in place."""


@pytest.mark.parametrize("backend", [BUBBLEWRAP])
def test_a_link_in_place_of_a_writable_directory_gives_a_later_command_no_right(backend, tmp_path):
    async def scenario(client):
        linked = await communicate(client, shell("mv /tmp/a /tmp/z; mkdir /tmp/a; ln -s / /tmp/a/b"))
        with pytest.raises(CommandNotRun, match="landlock"):
            await communicate(client, shell(": > /dev/made"))
        return linked

    assert in_sandbox(tmp_path, backend, scenario, files=REPLACEABLE) == (0, "")


@pytest.mark.parametrize("backend", [BUBBLEWRAP])
def test_a_directory_in_place_of_a_writable_one_gives_what_lies_around_it(backend, tmp_path):
    written = (
        "echo x > /tmp/a/b/here; echo y > /tmp/z/b/there; cat /tmp/a/b/here /tmp/z/b/there; : > /dev/made"
    )

    async def scenario(client):
        await communicate(client, shell("mv /tmp/a /tmp/z; mkdir -p /tmp/a/b"))
        return await communicate(client, shell(written))

    ended, said = in_sandbox(tmp_path, backend, scenario, files=REPLACEABLE)
    assert said.startswith("x\ny\n")
    assert (ended, "Permission denied" in said) == (2, True)


def test_no_command_can_end_the_first_process(backend, tmp_path):
    async def scenario(client):
        await communicate(client, shell("kill -9 1; kill -15 1; kill -1 1; true"))
        await communicate(client, shell("kill -9 -1"))
        return await communicate(client, shell("echo lives"))

    assert in_sandbox(tmp_path, backend, scenario) == (0, "lives\n")


ORPHANS = "n=0; while [ $n -lt 60 ]; do (true &); n=$((n + 1)); done"
"""More than the 40 processes that there may be at once."""


def test_orphans_are_reaped_however_many_there_are(backend, tmp_path):
    async def scenario(client):
        assert (await communicate(client, shell(ORPHANS)))[0] == 0
        count = "grep -s '^State:.Z' /proc/[0-9]*/status | wc -l"
        return await communicate(client, shell(count))

    assert in_sandbox(tmp_path, backend, scenario) == (0, "0\n")


FULL = """
import os, time
made = 0
try:
    while made < 400:
        if os.fork() == 0:
            os.closerange(0, 3)
            time.sleep(60)
            os._exit(0)
        made += 1
        if made == {most}:
            break
except OSError:
    pass
print(made)
"""


def test_processes_of_all_commands_together_are_bounded(backend, tmp_path):
    """Of 40 processes, 20 are left in the background, one waits, and one makes as many as it can.

    Under gVisor each of the two has an outer process that counts; under bubblewrap the sandbox's first process counts.
    """

    async def scenario(client):
        left = await communicate(client, python(FULL.format(most=20)))
        read, waiting = await begin(client, python("print('up', flush=True); import time; time.sleep(60)"))
        made = await communicate(client, python(FULL.format(most=400)))
        await client.kill()
        await waiting
        os.close(read)
        return left, made

    most = {BackendName.GVISOR: 40 - 20 - 2 - 2, BackendName.BUBBLEWRAP: 40 - 20 - 1 - 1 - 1}[backend]
    assert in_sandbox(tmp_path, backend, scenario) == ((0, "20\n"), (0, f"{most}\n"))


def test_memory_of_all_commands_together_is_bounded_and_ends_the_sandbox(backend, tmp_path):
    held = "import os,time\nif os.fork(): os._exit(0)\na=bytearray(b'x')*({0}<<20)\nopen('/tmp/{0}','w')\n"
    held += "time.sleep(60)"

    async def scenario(client):
        await communicate(client, python(held.format(110)))
        await communicate(client, shell("until [ -e /tmp/110 ]; do sleep 0.02; done"))
        with pytest.raises(LimitExceeded) as first:
            await communicate(client, python("a=bytearray(b'x')*(120<<20)\nimport time; time.sleep(60)"))
        with pytest.raises(LimitExceeded) as later:
            await communicate(client, shell("true"))
        return first.value.where, later.value.where

    limits = Limits(memory_bytes=192 << 20)
    assert in_sandbox(tmp_path, backend, scenario, limits) == ("memory", "memory")


def test_files_of_all_commands_together_are_bounded_and_end_the_sandbox(backend, tmp_path):
    async def scenario(client):
        assert (await communicate(client, shell("head -c 20000000 /dev/urandom > /w/a")))[0] == 0
        with pytest.raises(LimitExceeded) as ended:
            await communicate(
                client, shell("for n in 1 2 3; do head -c 20000000 /dev/urandom > /w/$n; done; sleep 60")
            )
        return ended.value.where

    assert in_sandbox(tmp_path, backend, scenario) == "files"


def test_a_signal_reaches_the_command_that_it_names_alone(backend, tmp_path):
    async def scenario(client):
        read, first = await begin(client, shell("echo up; sleep 60"))
        also, second = await begin(client, shell("echo up; until [ -e /tmp/go ]; do sleep 0.02; done"))
        await client.signal(1, 9)
        ended = await asyncio.wait_for(first, 20)
        await communicate(client, shell("touch /tmp/go"))
        for each in (read, also):
            os.close(each)
        return ended, await asyncio.wait_for(second, 20)

    assert in_sandbox(tmp_path, backend, scenario) == (137, 0)


def test_a_later_command_ends_one_left_in_the_background(backend, tmp_path):
    """A server that one command starts is stopped by another: ``server &``, then ``pkill server``."""

    async def scenario(client):
        left = "sleep 60 >&- 2>&- <&- & echo $!"
        _, pid = await communicate(client, shell(left))
        ending = f"kill {pid.strip()} && while [ -e /proc/{pid.strip()} ]; do sleep 0.02; done; echo gone"
        return await communicate(client, shell(ending))

    assert in_sandbox(tmp_path, backend, scenario) == (0, "gone\n")


SERVER = """
import os, socket
if os.fork(): os._exit(0)
server = socket.socket(socket.AF_UNIX)
server.bind("\\0server")
server.listen()
open("/tmp/listens", "w").close()
os.closerange(0, 3)
server.accept()[0].sendall(b"hello")
"""
CALLER = """
import os, socket, time
while not os.path.exists("/tmp/listens"): time.sleep(0.02)
caller = socket.socket(socket.AF_UNIX)
caller.connect("\\0server")
print(caller.recv(9))
"""


@pytest.mark.slow
def test_a_later_command_reaches_an_abstract_socket_of_an_earlier_one(backend, tmp_path):
    async def scenario(client):
        await communicate(client, python(SERVER))
        return await communicate(client, python(CALLER))

    assert in_sandbox(tmp_path, backend, scenario) == (0, "b'hello'\n")


@pytest.mark.parametrize("backend", [BUBBLEWRAP])
def test_no_command_looks_into_another(backend, tmp_path):
    """Each has a Landlock domain of its own; else one could look: both are one user's."""
    look = "for name in environ maps mem; do (: < /proc/$PID/$name) 2>/dev/null && echo $name; done"

    async def scenario(client):
        left = f"echo up; sleep 60 & PID=$!; {look}; echo $PID > /tmp/pid; wait"
        read, first = await begin(client, shell(left))
        later = f"until [ -s /tmp/pid ]; do sleep 0.02; done; PID=$(cat /tmp/pid); {look}; kill $PID"
        found = await communicate(client, shell(later))
        await first
        return await rest_of(read), found

    assert in_sandbox(tmp_path, backend, scenario) == (b"environ\nmaps\nmem\n", (0, ""))


STOPPER = """
import os, signal, sys
if sys.argv[1] == "orphan":
    if os.fork(): os._exit(0)
    os.setsid()
for n in range(1_000_000_000):
    try:
        os.kill(-1, signal.SIGSTOP)
    except OSError:
        pass
    if n == 1:
        print("up", flush=True)
"""


@pytest.mark.parametrize("stopper", ["command", "orphan"])
def test_an_agent_that_stops_every_process_it_can_does_not_keep_a_command_from_its_end(
    backend, tmp_path, stopper
):
    """Neither what sends a signal from inside gVisor nor what reports a command's end stays stopped."""

    async def scenario(client):
        read, first = await begin(client, shell("echo up; sleep 300"))
        also, second = await begin(client, Command(("python3", "-c", STOPPER, stopper), ENV))
        await client.signal(1, signal.SIGKILL)
        codes = [await first]
        if stopper == "command":
            await client.signal(2, signal.SIGTERM)
            codes.append(await second)
            codes.append((await communicate(client, shell("exit 5")))[0])
        measured = await client.measure()
        await client.kill()
        await second
        for each in (read, also):
            os.close(each)
        return codes, measured["memory_bytes"] > 0

    codes = [137, 143, 5] if stopper == "command" else [137]
    assert in_sandbox(tmp_path, backend, scenario) == (codes, True)


def test_what_a_command_used_is_known(backend, tmp_path):
    burn = "a=bytearray(b'x')*(60<<20)\nn=0\nwhile n < 2_000_000: n += 1"

    async def scenario(client):
        found = []
        for command in (shell("exit 0"), python(burn)):
            nothing = os.open(os.devnull, os.O_RDWR)
            number = await client.start(command, stdin=nothing, stdout=nothing, stderr=nothing)
            os.close(nothing)
            found.append(await client.wait(number))
        return found

    little, much = in_sandbox(tmp_path, backend, scenario)
    assert little.code == much.code == 0
    assert much.processor_us > max(little.processor_us, 10_000)
    assert much.peak_bytes > 60 << 20
    assert much.wall_us > 0


ON_A_TERMINAL = """
import os, signal, sys, time
signal.signal(signal.SIGINT, lambda *_: os._exit(42))
print(all(map(os.isatty, range(3))), os.tcgetpgrp(0) == os.getpgrp(), "ready", flush=True)
while True:
    time.sleep(1)
"""


def test_a_command_has_a_terminal_of_its_own_that_controls_it(backend, tmp_path):
    async def scenario(client):
        master, slave = os.openpty()
        command = python(ON_A_TERMINAL)
        number = await client.start(command, stdin=slave, stdout=slave, stderr=slave, terminal=True)
        os.close(slave)
        said = b""
        while b"ready" not in said:
            said += await asyncio.to_thread(os.read, master, 1000)
        os.write(master, b"\x03")
        ended = await asyncio.wait_for(client.wait(number), 20)
        os.close(master)
        return said, ended.code

    said, ended = in_sandbox(tmp_path, backend, scenario)
    assert said == b"True True ready\r\n"
    assert ended == 42
