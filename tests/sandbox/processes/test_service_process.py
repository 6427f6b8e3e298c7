"""Services with a user of their own, for real: what they can see, and how they start and end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.attestation.simulated.served.confinement import PLATFORM_USER
from affiant.sandbox.base.exposure import Need
from affiant.sandbox.base.privileges import GATEWAY_USER
from affiant.sandbox.processes import service_process
from affiant.sandbox.processes.service_process import (
    READY_FD,
    ServiceProcess,
    ServiceSpec,
    clean_environment,
    start_service,
)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a service's own user and mounts")

PROBE = """
import json, os, sys, signal, time
out = int(sys.argv[1]); what = sys.argv[2]
def say(**members):
    os.write(out, json.dumps(members).encode() + b"\\n")
def attempt(action):
    try:
        action()
    except OSError as error:
        return error.strerror
    return "allowed"
if what == "facts":
    import affiant.errors
    status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
    import ctypes, resource
    say(ids=os.getresuid() + os.getresgid(), groups=os.getgroups(), env=dict(os.environ), cwd=os.getcwd(),
        nnp=status["NoNewPrivs"], caps=status["CapEff"], dumpable=ctypes.CDLL(None).prctl(3, 0, 0, 0, 0),
        core=resource.getrlimit(resource.RLIMIT_CORE), fds=sorted(map(int, os.listdir("/proc/self/fd"))),
        session=os.getsid(0) == os.getpid(), umask=os.umask(0))
elif what == "paths":
    say(**{path: attempt(lambda: os.listdir(path)) for path in sys.argv[3:]})
elif what == "write":
    say(**{path: attempt(lambda: open(path + "/new", "w").close()) for path in sys.argv[3:]})
elif what == "inspect":
    pid = sys.argv[3]
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    say(mem=attempt(lambda: open(f"/proc/{pid}/mem", "rb").close()), fd=attempt(lambda: os.listdir(f"/proc/{pid}/fd")),
        environ=attempt(lambda: open(f"/proc/{pid}/environ", "rb").read()),
        ptrace=libc.ptrace(16, int(pid), 0, 0), signal=attempt(lambda: os.kill(int(pid), 0)))
elif what == "fail":
    sys.stderr.write("cannot go on: \\x1b[31mred\\n"); sys.exit(3)
elif what == "silent":
    sys.stderr.write("thinking\\n"); sys.stderr.flush(); time.sleep(60)
elif what == "child":
    import subprocess
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    say(child=child.pid); time.sleep(60)
elif what == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN); say(pid=os.getpid()); time.sleep(60)
elif what == "wait":
    say(pid=os.getpid()); time.sleep(60)
"""


@pytest.fixture
def probe(not_isolated: object, tmp_path: Path):
    return probe_in(tmp_path)


@pytest.fixture
def not_isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the probe, which no installation has, be found by the environment's path."""
    monkeypatch.setattr(service_process, "_python", lambda _: (sys.executable, "-P", "-s", "-m"))


def probe_in(tmp_path: Path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code").chmod(0o755)  # whatever umask an earlier test has left
    (tmp_path / "code" / "affiant_test_probe.py").write_text(PROBE)
    tmp_path.chmod(0o700)

    def spec(*arguments: str, **members) -> ServiceSpec:
        return ServiceSpec(
            **{
                "name": "probe",
                "argv": ("affiant_test_probe", READY_FD, *arguments),
                "home": tmp_path,
                "needs": (Need(str(tmp_path / "code")), *members.pop("more", ())),
                "environment": {"PYTHONPATH": str(tmp_path / "code")},
                "death_signal": signal.SIGKILL,
                **members,
            }
        )

    return spec


def ask(spec: ServiceSpec) -> dict:
    async def run() -> dict:
        service = start_service(spec)
        try:
            return json.loads(await service.ready())
        finally:
            await service.stop()

    return asyncio.run(run())


def gone(pid: int, within: float = 5.0) -> bool:
    until = time.monotonic() + within
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


def test_a_service_keeps_nothing_of_the_callers_environment(probe, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", "not-for-services")
    monkeypatch.setenv("SSL_CERT_FILE", "/tmp/other-roots.pem")
    monkeypatch.setenv("AFFIANT_INSTALL", "no")
    found = ask(probe("facts"))["env"]
    assert {"GITHUB_TOKEN", "SSL_CERT_FILE", "HTTP_PROXY"}.isdisjoint(found)
    assert found["AFFIANT_INSTALL"] == "no"


def test_the_clean_environment_is_a_list_not_a_filter():
    given = {
        "PATH": "/bin",
        "LD_PRELOAD": "x",
        "PYTHONSTARTUP": "x",
        "LANG": "C",
        "AFFIANT_HOME": "/h",
        "HOME": "/r",
    }
    assert clean_environment(given, home=Path("/s")) == {
        "PATH": "/bin", "LANG": "C", "AFFIANT_HOME": "/h", "HOME": "/s",
    }  # fmt: skip


def test_a_service_is_confined_with_or_without_root(probe):
    found = ask(probe("facts", user=GATEWAY_USER))
    assert found["nnp"].strip() == "1"
    assert found["dumpable"] == 0
    assert found["core"] == [0, 0]
    assert found["session"]
    assert found["cwd"] == "/"
    assert found["umask"] == 0o077


def test_a_service_inherits_no_descriptor_that_was_not_named(probe, tmp_path):
    with open(tmp_path / "secret", "w") as secret:
        os.set_inheritable(secret.fileno(), True)
        found = ask(probe("facts"))["fds"]
    assert len(found) == 5, "standard input, output, error, the ready descriptor, and the listing itself"


@pytest.mark.root
@needs_root
def test_a_service_under_its_own_user_has_no_privilege_left(probe):
    found = ask(probe("facts", user=GATEWAY_USER))
    assert found["ids"] == [GATEWAY_USER] * 6
    assert found["groups"] == []
    assert int(found["caps"].strip(), 16) == 0


@pytest.mark.root
@needs_root
def test_a_service_reaches_its_code_below_a_closed_folder_and_nothing_else_there(probe, tmp_path):
    (tmp_path / "platform").mkdir(mode=0o755)
    (tmp_path / "platform" / "key").write_text("x")
    found = ask(
        probe("paths", str(tmp_path / "code"), str(tmp_path / "platform"), str(tmp_path), user=GATEWAY_USER)
    )
    assert found[str(tmp_path / "code")] == "allowed"
    assert found[str(tmp_path / "platform")] == "No such file or directory"


@pytest.mark.root
@needs_root
def test_a_service_writes_to_its_own_folder_only(probe, tmp_path):
    mine, others = tmp_path / "mine", tmp_path / "others"
    for folder in (mine, others):
        folder.mkdir(mode=0o700)
        os.chown(folder, GATEWAY_USER, GATEWAY_USER)
    needs = (Need(str(mine), writable=True), Need(str(others)))
    found = ask(
        probe(
            "write",
            str(mine),
            str(others),
            str(tmp_path),
            str(tmp_path / "code"),
            user=GATEWAY_USER,
            more=needs,
        )
    )
    assert found[str(mine)] == "allowed"
    assert found[str(others)] == "Read-only file system"
    assert found[str(tmp_path)] != "allowed"
    assert found[str(tmp_path / "code")] != "allowed"


@pytest.mark.root
@needs_root
def test_the_machines_own_view_stays_as_it_was(probe, tmp_path):
    before = Path("/proc/self/mountinfo").read_text()
    ask(probe("facts", user=GATEWAY_USER))
    assert Path("/proc/self/mountinfo").read_text() == before
    assert (tmp_path / "code" / "affiant_test_probe.py").exists()


@pytest.mark.root
@needs_root
def test_one_service_cannot_inspect_another(probe):
    async def run() -> dict:
        victim = start_service(probe("wait", user=PLATFORM_USER))
        try:
            await victim.ready()
            attacker = start_service(probe("inspect", str(victim.pid), user=GATEWAY_USER))
            try:
                return json.loads(await attacker.ready())
            finally:
                await attacker.stop()
        finally:
            await victim.stop()

    found = asyncio.run(run())
    assert found == {
        "mem": "Permission denied", "fd": "Permission denied", "environ": "Permission denied",
        "ptrace": -1, "signal": "Operation not permitted",
    }  # fmt: skip


@pytest.mark.root
@needs_root
def test_two_services_of_one_user_cannot_inspect_each_other(probe):
    async def run() -> dict:
        victim = start_service(probe("wait", user=GATEWAY_USER))
        try:
            await victim.ready()
            attacker = start_service(probe("inspect", str(victim.pid), user=GATEWAY_USER))
            try:
                return json.loads(await attacker.ready())
            finally:
                await attacker.stop()
        finally:
            await victim.stop()

    found = asyncio.run(run())
    assert found["mem"] == "Permission denied"
    assert found["ptrace"] == -1


@pytest.mark.root
@needs_root
def test_code_that_the_services_user_cannot_read_is_refused_by_name(probe, tmp_path):
    (tmp_path / "code").chmod(0o700)

    async def run() -> None:
        service = start_service(probe("facts", user=GATEWAY_USER))
        try:
            await service.ready()
        finally:
            await service.stop()

    with raises_code("service.failed", match=r"service\.unreadable") as refused:
        asyncio.run(run())
    assert str(tmp_path / "code") in str(refused.value)


def test_a_service_that_fails_is_reported_with_its_last_words(probe):
    with raises_code("service.failed", match=r"exit status 3: cannot go on: \\u001b\[31mred"):
        ask(probe("fail"))


def test_a_service_that_stays_silent_is_killed(probe):
    started: list[ServiceProcess] = []

    async def run() -> None:
        started.append(start_service(probe("silent")))
        await started[0].ready(timeout_s=0.5)

    with raises_code("service.silent"):
        asyncio.run(run())
    assert gone(started[0].pid)


def test_stopping_a_service_takes_its_children_along(probe):
    async def run() -> tuple[int, int]:
        service = start_service(probe("child"))
        child = json.loads(await service.ready())["child"]
        return child, await service.stop()

    child, code = asyncio.run(run())
    assert code == -signal.SIGTERM
    assert gone(child)


def test_a_service_that_ignores_sigterm_is_killed(probe):
    async def run() -> int:
        service = start_service(probe("stubborn"))
        await service.ready()
        return await service.stop(grace_s=0.3)

    assert asyncio.run(run()) == -signal.SIGKILL


def test_stopping_twice_and_waiting_after_is_harmless(probe):
    async def run() -> list[int]:
        service = start_service(probe("wait"))
        await service.ready()
        return [await service.stop(), await service.stop(), await service.wait()]

    assert asyncio.run(run()) == [-signal.SIGTERM] * 3


def test_two_may_wait_for_the_same_service(probe):
    async def run() -> list[int]:
        service = start_service(probe("wait"))
        await service.ready()
        waiting = [asyncio.create_task(service.wait()) for _ in range(2)]
        await asyncio.sleep(0.1)
        service.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(asyncio.gather(*waiting), 5)

    assert asyncio.run(run()) == [-signal.SIGTERM] * 2


@pytest.mark.parametrize("user", [None, GATEWAY_USER])
def test_a_service_dies_with_the_launcher(probe, tmp_path, user):
    """kill -9 of the launcher: the service gets its death signal, whatever user it runs as."""
    read, write = os.pipe()
    launcher = os.fork()
    if launcher == 0:
        os.close(read)

        async def run() -> None:
            service = start_service(probe("wait", user=user))
            os.write(write, (await service.ready()).encode() + b"\n")
            await asyncio.sleep(60)

        try:
            asyncio.run(run())
        finally:
            os._exit(1)
    os.close(write)
    with open(read) as answers:
        pid = json.loads(answers.readline())["pid"]
    os.kill(launcher, signal.SIGKILL)
    os.waitpid(launcher, 0)
    assert gone(pid)


def test_a_service_finds_no_code_in_the_environments_path(tmp_path: Path) -> None:
    """All programs start isolated: neither ``PYTHONPATH`` nor the folder that they start in is searched."""
    with raises_code("service.failed", match="No module named"):
        ask(probe_in(tmp_path)("facts"))
