"""The template process: what a forked program keeps of it (nothing), whom it forks for, and what its death changes."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import hashlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from affiant.attestation.release.boot import Image
from affiant.attestation.release.running_image import image_digest
from affiant.attestation.release.start import MeasuredImage, NotMeasured
from affiant.sandbox.base import template_order
from affiant.sandbox.base.exposure import Need
from affiant.sandbox.base.privileges import BROKER_USER
from affiant.sandbox.base.template_order import (
    STATUS_UNKNOWN,
    ForkedProgram,
    Order,
    forked,
    open_template,
    receive_packet,
    send_packet,
)
from affiant.sandbox.processes import service_process
from affiant.sandbox.processes.home import Home, open_home
from affiant.sandbox.processes.service_process import READY_FD, ServiceProcess, ServiceSpec, start_service
from affiant.sandbox.processes.template import Forking, keep_code
from affiant.sandbox.processes.template_service import start_template, template_socket

BROKER = "affiant.secrets.broker.process"
RUNNER = "affiant.sandbox.isolation.runner.runner"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@contextmanager
def served(home: Home) -> Iterator[ServiceProcess]:
    """A template that listens, until the end of the block."""
    process = start_template(home)
    assert process is not None
    try:
        assert asyncio.run(process.ready(timeout_s=60)) == "template"
        yield process
    finally:
        asyncio.run(process.stop(grace_s=1))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, release: None) -> Iterator[tuple[Home, ServiceProcess]]:
    home = open_home(tmp_path_factory.mktemp("shared") / "home")
    with served(home) as process:
        yield home, process


@pytest.fixture
def home(shared: tuple[Home, ServiceProcess]) -> Home:
    return shared[0]


@pytest.fixture
def template(shared: tuple[Home, ServiceProcess]) -> ServiceProcess:
    return shared[1]


def broker_order(control: int, **changed: object) -> Order:
    user = ("--uid", str(BROKER_USER), "--gid", str(BROKER_USER)) if os.geteuid() == 0 else ()
    order = Order(
        program=BROKER,
        arguments=("--control-fd", str(control), *user),
        environment={},
        descriptors=(2, control),
        image=image_digest(Image.SESSION),
    )
    return dataclasses.replace(order, **changed)


def ordered(home: Home, order: Order, *descriptors: int) -> ForkedProgram | None:
    template = open_template(template_socket(home))
    assert template is not None
    try:
        return forked(template, order, (2, *descriptors))
    finally:
        os.close(template)


@contextmanager
def broker(home: Home, **changed: object) -> Iterator[ForkedProgram]:
    """A forked broker that waits for its configuration; it ends when its control socket closes."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            program = ordered(home, broker_order(theirs.fileno(), **changed), theirs.fileno())
        assert program is not None
        until(lambda: "NoNewPrivs:\t1" in text_of(program.pid, "status"))
        yield program
    try:
        program.wait(10)
    finally:
        program.close()


def until(holds: Callable[[], bool], within_s: float = 20) -> None:
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def text_of(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text()


def limit_of(pid: int, name: str) -> list[str]:
    lines = text_of(pid, "limits").splitlines()
    return next(line for line in lines if line.startswith(name)).removeprefix(name).split()[:2]


def links_of(pid: int) -> dict[int, str]:
    folder = f"/proc/{pid}/fd"
    return {int(name): os.readlink(f"{folder}/{name}") for name in os.listdir(folder)}


@pytest.mark.root
@needs_root
def test_a_forked_program_is_its_own_user_confined_and_unreadable(home: Home) -> None:
    with broker(home) as program:
        status = text_of(program.pid, "status")
        assert [line.split()[1:] for line in status.splitlines() if line[:4] in {"Uid:", "Gid:"}] == [
            [str(BROKER_USER)] * 4
        ] * 2
        assert "Groups:\t \n" in status or "Groups:\t\n" in status
        assert "CapEff:\t0000000000000000" in status
        assert os.stat(f"/proc/{program.pid}/mem").st_uid == 0, "not dumpable"
        assert limit_of(program.pid, "Max core file size") == ["0", "0"]
        assert os.getsid(program.pid) == program.pid
        assert os.readlink(f"/proc/{program.pid}/cwd") == "/"


@pytest.mark.root
@needs_root
def test_a_forked_program_locks_its_memory_as_a_started_one_does(home: Home) -> None:
    if resource.getrlimit(resource.RLIMIT_MEMLOCK)[1] != resource.RLIM_INFINITY:
        pytest.skip("no memory is locked under this limit")
    with broker(home) as program:
        until(lambda: "VmLck:\t       0 kB" not in text_of(program.pid, "status"))


@pytest.mark.root
@needs_root
def test_a_forked_program_holds_no_descriptor_of_the_template_or_of_a_sibling(
    home: Home, template: ServiceProcess
) -> None:
    with broker(home) as first, broker(home) as second:
        until(lambda: any("eventpoll" in each for each in links_of(second.pid).values()))
        held = links_of(second.pid)
        assert {held[0], held[1]} == {"/dev/null"}
        sockets = {each for each in held.values() if each.startswith("socket:")}
        assert sockets.isdisjoint(links_of(template.pid).values())
        assert sockets.isdisjoint(links_of(first.pid).values())
        assert not any("lock" in each or "pidfd" in each or "memfd" in each for each in held.values())


@pytest.mark.root
@needs_root
def test_neither_template_nor_forked_program_has_an_environment(home: Home, template: ServiceProcess) -> None:
    with broker(home) as program:
        assert text_of(template.pid, "environ") == ""
        assert text_of(program.pid, "environ") == ""


def test_a_forked_program_shows_its_own_command_line(home: Home) -> None:
    with broker(home) as program:
        assert BROKER in text_of(program.pid, "cmdline").split("\0")
        assert "template" not in text_of(program.pid, "cmdline")


@pytest.mark.root
@needs_root
def test_a_forked_runner_stays_root_and_is_as_an_interpreter_would_start_it(
    home: Home, tmp_path: Path
) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            control = theirs.fileno()
            order = Order(
                program=RUNNER,
                arguments=(
                    f"--control-fd={control}",
                    f"--session-dir={tmp_path}",
                    "--backend=bwrap-landlock",
                ),
                environment={"PATH": "/usr/bin"},
                descriptors=(2, control),
                image=image_digest(Image.SESSION),
            )
            program = ordered(home, order, control)
        assert program is not None
        until(lambda: int(signal.SIGTERM) in ignored(program.pid))
        status = text_of(program.pid, "status")
        assert "Uid:\t0\t0\t0\t0" in status
        assert "NoNewPrivs:\t0" in status
        assert str(tmp_path) in text_of(program.pid, "cmdline")
    assert program.wait(10) == 0


def ignored(pid: int) -> set[int]:
    line = next(each for each in text_of(pid, "status").splitlines() if each.startswith("SigIgn:"))
    mask = int(line.split()[1], 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


def test_the_template_has_one_thread_and_holds_no_socket_but_its_own(
    home: Home, template: ServiceProcess
) -> None:
    assert len(os.listdir(f"/proc/{template.pid}/task")) == 1
    with broker(home):
        held = [each for each in links_of(template.pid).values() if each.startswith("socket:")]
        assert len(held) == 2, "the listening one, and the connection of the program that runs"


@pytest.mark.parametrize(
    "changed",
    [
        {"program": "affiant.sandbox.processes.template"},
        {"program": "os"},
        {"image": "sha256:" + "0" * 64},
        {"image": image_digest(Image.GATEWAY)},
        {"descriptors": (2,)},
        {"descriptors": (2, 0)},
        {"descriptors": (2, 2)},
        {"td": 2},
        {"image": None},
        {"stage": 77},
        {"arguments": (1,)},
        {"environment": {"A": 1}},
        {"more": 1},
    ],
    ids=str,
)
def test_what_is_not_an_order_of_the_list_starts_nothing(home: Home, changed: dict[str, object]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        order = {**dataclasses.asdict(broker_order(theirs.fileno())), **changed}
        answer = sent(home, json.dumps(order).encode(), (2, theirs.fileno()))
    assert set(answer) == {"refused"}


def test_the_template_says_why_it_refused(home: Home, template: ServiceProcess) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert ordered(home, broker_order(theirs.fileno(), image="sha256:x"), theirs.fileno()) is None
    until(lambda: "found sha256:x" in template.last_words)
    assert "affiant: the template refused an order: the template loaded another image" in template.last_words


DEEP = 10_000
"""More arrays or objects within each other than a parser follows."""


@pytest.mark.parametrize(
    "data",
    [
        b"\xff",
        b"[]",
        b"null",
        b"{" * 60_000,
        b"[" * DEEP + b"]" * DEEP,
        b'{"a":' * DEEP + b"1" + b"}" * DEEP,
        b"1" * 100_000,
    ],
)
def test_garbage_is_refused(home: Home, template: ServiceProcess, data: bytes) -> None:
    assert set(sent(home, data, ())) == {"refused"}
    assert "Traceback" not in template.last_words


def sent(home: Home, data: bytes, descriptors: tuple[int, ...]) -> dict[str, object]:
    with connected(home) as connection:
        socket.send_fds(connection, [data], descriptors)
        answer, received = receive_packet(connection)
        assert not received
        return dict(answer)


@contextmanager
def connected(home: Home) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(20)
        connection.connect(str(template_socket(home)))
        yield connection


def test_a_program_whose_caller_does_not_say_go_never_runs(home: Home) -> None:
    ours, theirs = socket.socketpair()
    with ours, connected(home) as connection:
        with theirs:
            order = dataclasses.asdict(broker_order(theirs.fileno()))
            send_packet(connection, order, (2, theirs.fileno()))
            answer, (pidfd,) = receive_packet(connection)
        assert set(answer) == {"accepted"}
        send_packet(connection, {"go": False})
        assert receive_packet(connection)[0] == {"ended": 0}
        os.close(pidfd)
        ours.settimeout(20)
        assert ours.recv(1) == b"", "the broker would wait for its configuration"


@pytest.mark.root
@needs_root
def test_another_user_is_not_served_even_if_it_reaches_the_socket(home: Home) -> None:
    with connected_as(home, 65534) as connection:
        connection.settimeout(20)
        assert connection.recv(1) == b""


@contextmanager
def connected_as(home: Home, user: int) -> Iterator[socket.socket]:
    """A connection that a process of ``user`` made, through a descriptor that it was given."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        path = template_socket(home)
        place = os.open(path, os.O_PATH)
        path.chmod(0o666)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.setresuid(user, user, user)
                connection.connect(f"/proc/self/fd/{place}")
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        path.chmod(0o600)
        os.close(place)
        assert status == 0
        yield connection


@pytest.mark.root
@needs_root
@pytest.mark.parametrize("namespace", ["--net", "--pid", "--ipc", "--uts"])
def test_a_caller_in_other_namespaces_is_refused(home: Home, namespace: str) -> None:
    assert asked_by("unshare", "--fork", namespace, home=home) == "None"


@pytest.mark.root
@needs_root
@pytest.mark.parametrize(
    "confined",
    [("setpriv", "--no-new-privs"), ("setpriv", "--bounding-set=-net_admin"), ("setpriv", "--groups=1")],
)
def test_a_caller_that_is_confined_further_than_the_template_is_refused(
    home: Home, confined: tuple[str, ...]
) -> None:
    assert asked_by(*confined, home=home) == "None"


@pytest.mark.root
@needs_root
def test_a_forked_program_has_the_limits_and_the_priority_of_its_caller(home: Home) -> None:
    limits = "prlimit --nofile=200:200 --nproc=1000:1000 nice -n 5 ionice -c 3 choom -n 300 --".split()
    found = json.loads(asked_by(*limits, home=home))
    del found["held"]
    assert found == {
        "nofile": "200 200",
        "nproc": "1000 1000",
        "nice": min(19, os.getpriority(os.PRIO_PROCESS, 0) + 5),
        "io": IDLE_CLASS,
        "oom": "300",
    }


@pytest.mark.root
@needs_root
@pytest.mark.parametrize("number", [3, 4, 5, 6, 7, 8, 9, 199])
def test_a_descriptor_comes_under_any_number_that_the_caller_may_use(home: Home, number: int) -> None:
    found = json.loads(asked_by("prlimit", "--nofile=200:200", "--", home=home, number=number))
    assert found["held"] == f"socket {number}"


@pytest.mark.root
@needs_root
def test_a_caller_with_more_descriptors_than_the_template_may_have_keeps_its_limit_or_is_refused(
    tmp_path: Path, release: None
) -> None:
    home, own = open_home(tmp_path / "home"), resource.getrlimit(resource.RLIMIT_NOFILE)
    with served(home) as template:
        resource.prlimit(template.pid, resource.RLIMIT_NOFILE, (64, own[1]))
        found = json.loads(asked_by("prlimit", "--nofile=200:200", "--", home=home, number=199))
        assert (found["held"], found["nofile"]) == ("socket 199", "200 200"), "it raises its soft limit"
        resource.prlimit(template.pid, resource.RLIMIT_NOFILE, (64, 64))
        answer = asked_by("prlimit", "--nofile=200:200", "--", home=home, number=199)
        may_raise = (
            int(text_of(os.getpid(), "status").split("CapEff:")[1].split()[0], 16) >> CAP_SYS_RESOURCE & 1
        )
        if may_raise:
            assert json.loads(answer)["nofile"] == "200 200"
        else:
            assert answer == "None", "the caller starts an interpreter"
        assert not template.ended


CAP_SYS_RESOURCE = 24
IDLE_CLASS = 3
"""Of I/O priorities: the number in the bits from 13 on (ioprio_get(2))."""


def asked_by(*before: str, home: Home, number: int = 0) -> str:
    """What a process that ``before`` starts learns of a broker that it orders, whose socket is to be at ``number``."""
    asked = (str(template_socket(home)), image_digest(Image.SESSION), str(number))
    done = subprocess.run(
        [*before, sys.executable, "-c", CALLER, *asked],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return done.stdout.strip()


CALLER = """
import json, os, socket, sys
from pathlib import Path
from affiant.sandbox.base.template_order import Order, forked, open_template
from affiant.sandbox.isolation.plan.linux import io_priority
ours, theirs = socket.socketpair()
number = int(sys.argv[3]) or theirs.fileno()
order = Order(program="affiant.secrets.broker.process", arguments=("--control-fd", str(number)),
              environment={}, descriptors=(2, number), image=sys.argv[2])
program = forked(open_template(Path(sys.argv[1])), order, (2, theirs.fileno()))
if program is None:
    print(None)
else:
    theirs.close()
    while "NoNewPrivs:\\t1" not in Path(f"/proc/{program.pid}/status").read_text():
        pass
    limits = {line[:26].strip(): " ".join(line[26:].split()[:2])
              for line in Path(f"/proc/{program.pid}/limits").read_text().splitlines()}
    name = os.readlink(f"/proc/{program.pid}/fd/{number}").partition(":")[0]
    print(json.dumps({"held": f"{name} {number}", "nofile": limits["Max open files"], "nproc": limits["Max processes"],
        "io": io_priority(program.pid) >> 13, "nice": os.getpriority(os.PRIO_PROCESS, program.pid),
        "oom": Path(f"/proc/{program.pid}/oom_score_adj").read_text().strip()}))
    ours.close()
    program.wait(10)
"""


@pytest.mark.root
@needs_root
def test_a_forked_program_is_in_the_control_groups_of_its_caller(home: Home) -> None:
    folder = next((each for each in map(Path, CGROUPS) if (each / "cgroup.procs").exists()), None)
    if folder is None:
        pytest.skip("this machine has no control groups to test with")
    group = folder / f"affiant-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(str(os.getpid()))
        try:
            with broker(home) as program:
                assert text_of(program.pid, "cgroup") == text_of(os.getpid(), "cgroup")
                assert group.name in text_of(program.pid, "cgroup")
        finally:
            (folder / "cgroup.procs").write_text(str(os.getpid()))
    finally:
        group.rmdir()


CGROUPS = ("/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/pids", "/sys/fs/cgroup")


def test_the_exit_status_comes_from_the_template(home: Home) -> None:
    with broker(home) as program:
        os.kill(program.pid, signal.SIGKILL)
        assert program.wait(10) == -signal.SIGKILL
        assert program.wait() == -signal.SIGKILL
    with broker(home) as program:
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(0.05)
    assert program.wait() == 0


def test_the_interpreter_seeds_random_anew_in_each_fork() -> None:
    code = (
        "import os, random\nrandom.random()\nr, w = os.pipe()\nfor _ in range(2):\n"
        "    if os.fork() == 0: os.write(w, random.randbytes(8)); os._exit(0)\n    os.wait()\n"
        "print(os.read(r, 8) != os.read(r, 8))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


LISTED = {"affiant/a/__init__.py": b"", "affiant/a/near.py": b"SAYS = 'the measured one'"}


def image_of(now: dict[str, bytes]) -> MeasuredImage:
    """An image of the listed files, read from what they are now."""
    listed = {path: hashlib.sha256(data).hexdigest() for path, data in LISTED.items()}
    return MeasuredImage("session", listed, code=None, read=now.__getitem__, descriptor=None)


def test_code_that_was_kept_is_run_though_its_file_has_changed_since() -> None:
    now = dict(LISTED)
    image = image_of(now)
    keep_code(image)
    now["affiant/a/near.py"] = b"SAYS = 'another one'"
    found: dict[str, object] = {}
    exec(image.get_code("affiant.a.near"), found)
    assert found["SAYS"] == "the measured one"


def test_a_changed_file_is_not_kept() -> None:
    with pytest.raises(NotMeasured, match=r"near\.py"):
        keep_code(image_of({**LISTED, "affiant/a/near.py": b"SAYS = 'another one'"}))


def test_there_is_one_template_for_a_state_folder(home: Home) -> None:
    assert start_template(home) is None


def test_no_caller_waits_for_a_template_that_is_still_loading(tmp_path: Path, release: None) -> None:
    home = open_home(tmp_path / "home")
    process = start_template(home)
    assert process is not None
    try:
        os.kill(process.pid, signal.SIGSTOP)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            assert ordered(home, broker_order(theirs.fileno()), theirs.fileno()) is None
    finally:
        asyncio.run(process.stop(grace_s=0))


def test_a_killed_template_leaves_its_programs_running_and_serves_no_more(
    tmp_path: Path, release: None
) -> None:
    home = open_home(tmp_path / "home")
    with served(home) as template:
        with broker(home) as program:
            os.kill(template.pid, signal.SIGKILL)
            until(lambda: template.ended)
            assert Path(f"/proc/{program.pid}").exists()
            ours, theirs = socket.socketpair()
            with ours, theirs:
                assert ordered(home, broker_order(theirs.fileno()), theirs.fileno()) is None
        assert program.wait(10) == STATUS_UNKNOWN
    with served(home), broker(home):
        pass


def test_a_template_that_stops_answering_costs_time_and_starts_nothing(
    tmp_path: Path, release: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("affiant.sandbox.base.template_order._ACCEPTS_WITHIN_S", 0.2)
    home = open_home(tmp_path / "home")
    with served(home) as template:
        os.kill(template.pid, signal.SIGSTOP)
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                assert ordered(home, broker_order(theirs.fileno()), theirs.fileno()) is None
            os.kill(template.pid, signal.SIGCONT)
            ours.settimeout(20)
            assert ours.recv(1) == b"", "the late fork ends without its go"


def td_order(control: int, td: int) -> Order:
    return Order(
        program="affiant.sandbox.supervisor",
        arguments=("--control-fd", str(control), "--td-fd", str(td)),
        environment={},
        descriptors=(2, control, td),
        td=td,
    )


def test_a_late_fork_asks_nothing_of_a_td_that_another_program_uses_by_then(
    tmp_path: Path, release: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("affiant.sandbox.base.template_order._ACCEPTS_WITHIN_S", 0.2)
    home = open_home(tmp_path / "home")
    platform, td = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with served(home) as template, platform, td:
        os.kill(template.pid, signal.SIGSTOP)
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                order = td_order(theirs.fileno(), td.fileno())
                assert ordered(home, order, theirs.fileno(), td.fileno()) is None
            os.kill(template.pid, signal.SIGCONT)
            ours.settimeout(20)
            assert ours.recv(1) == b"", "it has ended"
        platform.setblocking(False)
        with pytest.raises(BlockingIOError):
            platform.recv(1)


def test_a_program_whose_td_does_not_answer_has_ended_before_its_caller_starts_another(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("affiant.sandbox.base.template_order._STARTS_WITHIN_S", 0.2)
    platform, td = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours, theirs = socket.socketpair()
    with ours, platform, td:
        with theirs:
            order = td_order(theirs.fileno(), td.fileno())
            assert ordered(home, order, theirs.fileno(), td.fileno()) is None
        assert platform.recv(1 << 16), "it was asked"
        ours.setblocking(False)
        assert ours.recv(1) == b""


@pytest.fixture
def forking(tmp_path: Path) -> Iterator[tuple[Forking, Callable[[], socket.socket]]]:
    """What accepts orders, and a way to connect to it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen(8)

        def connect() -> socket.socket:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            connection.settimeout(20)
            connection.connect(str(tmp_path / "socket"))
            return connection

        yield Forking(NO_TEMPLATE, listener), connect


NO_TEMPLATE: Any = None


def test_a_program_that_cannot_read_what_it_needs_says_so_as_a_started_one_does(home: Home) -> None:
    plan = {"death_signal": None, "must_read": ["/nowhere"], "parent": 1, "steps": [], "user": None}
    ours, theirs = socket.socketpair()
    reading, writing = os.pipe()
    stage = os.memfd_create("plan")
    os.write(stage, json.dumps(plan).encode())
    os.lseek(stage, 0, os.SEEK_SET)
    with ours, theirs, open(reading, "rb") as said:
        order = broker_order(theirs.fileno(), descriptors=(2, theirs.fileno(), stage), stage=stage)
        template = open_template(template_socket(home))
        assert template is not None
        program = forked(template, order, (writing, theirs.fileno(), stage))
        for descriptor in (template, stage, writing):
            os.close(descriptor)
        assert program is not None
        assert program.wait(20) == 1
        [line] = said.read().decode().splitlines()
    assert line.startswith("affiant: refused: /nowhere: ")
    assert line.endswith("[service.unreadable]")


@contextmanager
def sleeping(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Programs that a template could have forked; whatever happens to them, none is left."""
    programs = [subprocess.Popen(["sleep", "60"]) for _ in range(count)]
    try:
        yield programs
    finally:
        for program in programs:
            program.kill()
            program.wait()


def test_a_template_without_descriptors_left_ends_the_fork_and_goes_on(
    forking: tuple[Forking, Callable[[], socket.socket]], monkeypatch: pytest.MonkeyPatch
) -> None:
    template, connect = forking
    with sleeping(2) as (first, second):
        forks = iter([first.pid, second.pid])
        monkeypatch.setattr("affiant.sandbox.processes.template.os.fork", lambda: next(forks))
        with connect() as connection, monkeypatch.context() as patched:
            patched.setattr("affiant.sandbox.processes.template.os.pidfd_open", no_descriptor)
            assert template.step() is None
            assert connection.recv(1) == b"", "its caller starts an interpreter"
            assert not Path(f"/proc/{first.pid}").exists()
        with connect() as connection:
            assert template.step() is None
            os.kill(second.pid, signal.SIGKILL)
            assert template.step() is None
            assert receive_packet(connection)[0] == {"ended": -signal.SIGKILL}


def test_the_end_of_a_fork_ends_what_that_fork_ordered_and_nothing_else(
    forking: tuple[Forking, Callable[[], socket.socket]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a fork has the process id that the caller of another had: numbers are used again."""
    template, connect = forking
    caller = os.getpid()
    with sleeping(3) as (elder, fork, ordered_by_it):
        forks = iter([elder.pid, fork.pid, ordered_by_it.pid])
        monkeypatch.setattr("affiant.sandbox.processes.template.os.fork", lambda: next(forks))
        monkeypatch.setattr(
            "affiant.sandbox.processes.template.peer_process", lambda _: (caller, os.geteuid())
        )
        caller = fork.pid
        with connect() as first, connect() as second, connect() as third:
            assert template.step() is None, "the order of another process with that number, before"
            caller = os.getpid()
            assert template.step() is None
            caller = fork.pid
            assert template.step() is None
            os.kill(fork.pid, signal.SIGKILL)
            assert template.step() is None
            assert receive_packet(second)[0] == {"ended": -signal.SIGKILL}
            assert template.step() is None
            assert receive_packet(third)[0] == {"ended": -signal.SIGTERM}
            assert elder.poll() is None
            os.kill(elder.pid, signal.SIGKILL)
            assert template.step() is None
            assert receive_packet(first)[0] == {"ended": -signal.SIGKILL}


def no_descriptor(_: int) -> int:
    raise OSError(errno.EMFILE, "Too many open files")


def test_a_stopped_template_holds_up_neither_the_end_of_a_service_nor_its_event_loop(
    tmp_path: Path, release: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop_ran = threading.Event()

    def readable(end: socket.socket | int, within_s: float | None) -> bool:
        if isinstance(end, socket.socket):
            assert loop_ran.wait(20), "it was asked on the loop's thread"
            assert within_s == 1
            return False
        return real(end, within_s)

    real = template_order._readable
    monkeypatch.setattr(template_order, "_readable", readable)

    async def end_of(program: ForkedProgram, control: socket.socket) -> int:
        reading, writing = os.pipe()
        os.close(writing)
        service = ServiceProcess(
            "broker", program, open(reading, "rb"), os.dup(reading), own_user=False, echo=False, forked=True
        )
        control.close()
        waiting = [asyncio.create_task(service.wait()) for _ in range(2)]
        while not service.ended:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        loop_ran.set()
        async with asyncio.timeout(20):
            one, other = await asyncio.gather(*waiting)
        assert one == other
        return one

    home = open_home(tmp_path / "home")
    with served(home) as template:
        ours, theirs = socket.socketpair()
        with theirs:
            program = ordered(home, broker_order(theirs.fileno()), theirs.fileno())
        assert program is not None
        os.kill(template.pid, signal.SIGSTOP)
        try:
            assert asyncio.run(end_of(program, ours)) == STATUS_UNKNOWN
        finally:
            os.kill(template.pid, signal.SIGCONT)


WITHOUT_ROOT = """
import asyncio, ctypes, json, os, socket, sys
from pathlib import Path
from affiant.attestation.release.boot import Image
from affiant.attestation.release.running_image import image_digest
from affiant.sandbox.base.template_order import Order, forked, open_template
from affiant.sandbox.processes.home import open_home
from affiant.sandbox.processes.template_service import start_template, template_socket
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as a user's own program is
home = open_home(Path(sys.argv[2]))
async def run():
    template = start_template(home)
    await template.ready(timeout_s=60)
    ours, theirs = socket.socketpair()
    order = Order(program="affiant.secrets.broker.process", arguments=("--control-fd", str(theirs.fileno())),
                  environment={}, descriptors=(2, theirs.fileno()), image=image_digest(Image.SESSION))
    program = forked(open_template(template_socket(home)), order, (2, theirs.fileno()))
    theirs.close()
    status = Path(f"/proc/{program.pid}/status")
    owner = lambda: os.stat(f"/proc/{program.pid}/mem").st_uid
    while owner() != 0:
        pass
    found = {"uid": status.read_text().split("Uid:")[1].split()[0], "owner": owner(),
             "template": os.stat(f"/proc/{template.pid}/mem").st_uid}
    ours.close()
    found["ended"] = program.wait(10)
    await template.stop()
    os.write(int(sys.argv[1]), (json.dumps(found) + chr(10)).encode())
asyncio.run(run())
"""


@pytest.mark.root
@needs_root
def test_without_root_a_template_and_its_programs_are_unreadable_for_their_own_user(
    tmp_path: Path, release: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_process, "_python", lambda _: (sys.executable, "-P", "-s", "-m"))
    user, code, state = 12345, tmp_path / "code", tmp_path / "state"
    for folder in (code, state):
        folder.mkdir()
        folder.chmod(0o755)
    (code / "affiant_template_probe.py").write_text(WITHOUT_ROOT)
    os.chown(state, user, user)
    spec = ServiceSpec(
        name="an ordinary user",
        argv=("affiant_template_probe", READY_FD, str(state / "home")),
        home=state,
        user=user,
        needs=(Need(str(code)), Need(str(state), writable=True)),
        environment={"PYTHONPATH": str(code)},
    )

    async def run() -> dict[str, object]:
        service = start_service(spec, echo=True)
        try:
            found: dict[str, object] = json.loads(await service.ready(timeout_s=60))
            return found
        finally:
            await service.stop()

    assert asyncio.run(run()) == {"uid": str(user), "owner": 0, "template": 0, "ended": 0}
