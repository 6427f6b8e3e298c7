"""What an agent tries on the kernel that runs it: raise its own limits, write to its interfaces, set its clock."""

import asyncio
import json
import os
import time
from pathlib import Path

from tests.sandbox.isolation.conftest import ENV, begin, communicate, rest_of, sandbox

from affiant.sandbox.isolation.plan.plan import Command, Limits, plan_sandbox

LIMITS = Limits(processes=40, open_files=200, cpus=1)


def in_sandbox(session_dir, backend, scenario):
    """Run ``scenario`` with the client of a prepared sandbox and the runner's pid."""

    async def go():
        plan = plan_sandbox("s", (), limits=LIMITS)
        async with sandbox(session_dir, backend, plan) as (client, _, process):
            found = await scenario(client, process.pid)
            await client.cleanup()
            return found

    return asyncio.run(go())


async def said(client, program):
    code, output = await communicate(client, Command(("python3", "-c", program), ENV))
    assert code == 0, output
    return json.loads(output)


RAISE = """
import errno, json, os, resource, time

def tried(step):
    try:
        step()
    except (OSError, ValueError):
        return "denied"
    return "done"

raised = {}
for name in ("NPROC", "NOFILE", "FSIZE", "CORE"):
    kind = getattr(resource, "RLIMIT_" + name)
    _, hard = resource.getrlimit(kind)
    for more in (hard + 1, resource.RLIM_INFINITY):
        for pid in (0, 1, os.getpid()):
            if more != hard:
                raised[f"{name} {more} {pid}"] = tried(lambda: resource.prlimit(pid, kind, (more, more)))
tried(lambda: os.sched_setaffinity(0, range(os.cpu_count())))
tried(lambda: os.setpriority(os.PRIO_PROCESS, 0, -5))
tried(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
opened = 0
try:
    while opened < 100_000:
        os.open("/dev/null", os.O_RDONLY)
        opened += 1
except OSError as error:
    assert error.errno == errno.EMFILE, error
limits = {name: resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in ("NPROC", "NOFILE")}
print("up\\n" + json.dumps({"raised": raised, "opened": opened, **limits}), flush=True)
os.closerange(10, 200)
time.sleep(60)
"""


def scheduling_of(pid):
    """Of every thread below ``pid`` on this machine: the processors that it may use, its priority, its policy."""
    found, todo = set(), [pid]
    while todo:
        for task in Path(f"/proc/{todo.pop()}/task").iterdir():
            status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines())
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            found.add((status["Cpus_allowed_list"], int(fields[16]), int(fields[38])))
            todo += [int(child) for child in (task / "children").read_text().split()]
    return found


def test_no_limit_can_be_raised_by_the_agent(backend, tmp_path):
    """A kernel of gVisor's own takes an affinity and a priority; on this machine neither may change anything."""

    async def scenario(client, runner):
        read, waiting = await begin(client, Command(("python3", "-c", RAISE), ENV))
        with os.fdopen(os.dup(read), "rb") as lines:
            found = json.loads(await asyncio.to_thread(lines.readline))
        scheduled = scheduling_of(runner)
        await client.kill()
        await waiting
        await rest_of(read)
        return found, scheduled

    found, scheduled = in_sandbox(tmp_path, backend, scenario)
    assert {name for name, how in found["raised"].items() if how == "done"} == set()
    assert len(found["raised"]) >= 12
    assert (found["NPROC"], found["NOFILE"]) == ([40, 40], [200, 200])
    assert 150 < found["opened"] < 200
    own = os.getpriority(os.PRIO_PROCESS, 0)
    ((processors, policy),) = {(processors, policy) for processors, _, policy in scheduled}
    assert processors.isdecimal() and policy == os.SCHED_OTHER
    assert all(nice >= own for _, nice, _ in scheduled), "gVisor gives itself less"


INTERFACES = """
import json, os, stat

OWN = {str(os.getpid()), "self", "thread-self"}
opened, seen = [], 0
for top in ("/proc", "/sys", "/dev", "/run", "/sys/fs/cgroup"):
    for folder, folders, files in os.walk(top):
        depth = folder.count("/")
        if top == "/proc" and depth == 1:
            folders[:] = [name for name in folders if not name.isdecimal() or name == str(os.getpid())]
        folders[:] = folders if depth < 6 else []
        folders[:] = [name for name in folders if name not in {"fd", "fdinfo", "map_files", "cwd", "root", "task"}]
        for name in files:
            path = folder + "/" + name
            seen += 1
            try:
                handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            except OSError:
                continue
            kind = stat.S_IFMT(os.fstat(handle).st_mode)
            written = []
            for data in (b"1", b"+memory", b"b", b"0 0 1"):
                try:
                    written.append(os.write(handle, data))
                except OSError:
                    pass
            os.close(handle)
            if written:
                opened.append(path.replace("/proc/" + str(os.getpid()), "/proc/self"))
        for name in ("made", "made.d"):
            try:
                os.mkdir(folder + "/" + name)
                opened.append(folder + "/" + name)
                os.rmdir(folder + "/" + name)
            except OSError:
                pass
print(json.dumps([seen, sorted(set(opened))]))
"""
"""Opens every file of /proc, /sys, /dev and /run for writing, and writes; what took a write, or a new folder."""

OF_ITSELF = {
    *("autogroup", "clear_refs", "comm", "coredump_filter", "loginuid", "make-it-fail", "mem"),
    *("oom_adj", "oom_score_adj", "sched", "timens_offsets", "timerslack_ns", "attr"),
}
"""Files below /proc/self that change nothing but the process that writes."""
DEVICES = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}
SCRATCH = ("/dev/shm", "/dev/mqueue", "/dev/pts")


def of_this_machine():
    """What an agent would change if a write went through to the machine."""
    names = (
        "kernel/hostname",
        "kernel/core_pattern",
        "vm/overcommit_memory",
        "kernel/sysrq",
        "vm/drop_caches",
    )
    return {
        name: Path("/proc/sys", name).read_text() for name in names if os.access(f"/proc/sys/{name}", os.R_OK)
    }


def test_no_interface_of_the_kernel_takes_a_write_but_those_on_the_process_itself(backend, tmp_path):
    before = of_this_machine()
    seen, opened = in_sandbox(tmp_path, backend, lambda client, _: said(client, INTERFACES))
    assert seen > 50, "a control: there were files to try"
    rest = [path for path in opened if path not in DEVICES and not path.startswith(SCRATCH)]
    beyond = [
        path for path in rest if not (path.startswith("/proc/self/") and path.split("/")[3] in OF_ITSELF)
    ]
    assert beyond == []
    assert of_this_machine() == before


CLOCK = """
import ctypes, json, time

libc = ctypes.CDLL(None, use_errno=True)

class Time(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]

done = []
for clock in (0, 1, 7, 11):
    if libc.clock_settime(clock, ctypes.byref(Time(int(time.time()) + 86400, 0))) == 0:
        done.append(f"clock_settime {clock}")
if libc.settimeofday(ctypes.byref(Time(int(time.time()) + 86400, 0)), None) == 0:
    done.append("settimeofday")
if libc.adjtimex(ctypes.create_string_buffer(b"\\x01\\x01" + bytes(400))) >= 0:
    done.append("adjtimex")
print(json.dumps([done, time.time()]))
"""


def test_the_agent_steps_no_clock(backend, tmp_path):
    before = time.time()
    done, inside = in_sandbox(tmp_path, backend, lambda client, _: said(client, CLOCK))
    assert done == []
    assert before - 1 <= inside <= time.time() + 1
