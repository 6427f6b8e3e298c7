"""A session host, as a user meets it: sessions that outlive their creator, and any number of clients."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from tests.sandbox.conftest import Machine, made_machine

from affiant.attestation.bundle.bundle import parse_bundle
from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.encoding.canonical import parse_object
from affiant.errors import StateError
from affiant.sandbox.detached.client import DetachedSession
from affiant.socket_address import reachable_address


@pytest.fixture(scope="module")
def place(isolation: str, release: None) -> Iterator[Machine]:
    """A state folder whose services run for all tests of this module."""
    with made_machine(isolation) as made:
        made.keep_services()
        yield made


def argv(machine: Machine, verb: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "affiant", "session", verb, "--home", str(machine.home), *arguments]


def affiant(
    machine: Machine, verb: str, *arguments: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        argv(machine, verb, *arguments), input=stdin, capture_output=True, timeout=60, check=False, cwd="/"
    )


def create(machine: Machine, *options: str) -> subprocess.CompletedProcess[bytes]:
    given = ("--profile", str(machine.folder / "profiles.yaml"), "--agent", "writer")
    return affiant(machine, "create", *given, "--min-isolation", machine.isolation, *options)


@pytest.fixture
def named(place: Machine, request: pytest.FixtureRequest) -> Iterator[str]:
    """A session of the test's own, which no process of the test holds."""
    name = f"t{abs(hash(request.node.name)) % 10**9}"
    done = create(place, "--name", name, "--ttl", "300")
    assert (done.returncode, done.stdout.decode().strip()) == (0, name), done.stderr
    yield name
    affiant(place, "stop", name)
    assert until(lambda: not runs(place, name))


def runs(machine: Machine, name: str) -> bool:
    try:
        DetachedSession.connect(name, home=machine.home)
    except StateError:
        return False
    return True


def entry(machine: Machine, name: str) -> dict:
    sessions = json.loads(affiant(machine, "ls", "--json").stdout)["sessions"]
    (found,) = [each for each in sessions if each["name"] == name]
    return {**found, "running": found["state"] == "running"}


def until(holds: Callable[[], bool], within_s: float = 20) -> bool:
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def kinds(machine: Machine, session: str) -> list[str]:
    bundle = machine.home / "sessions" / session / "bundle.affiant.json"
    return [
        str(parse_object(from_b64u(text.split(".")[1]))["kind"])
        for text in parse_bundle(bundle.read_bytes()).receipts
    ]


def test_commands_run_in_one_session_with_their_own_streams_and_exit_codes(
    place: Machine, named: str
) -> None:
    first = affiant(
        place, "exec", named, "sh", "-c", "cat > note; echo out; echo err >&2; exit 7", stdin=b"in"
    )
    assert (first.returncode, first.stdout, first.stderr) == (7, b"out\n", b"err\n")
    second = affiant(place, "exec", "--env", "A=b c", named, "sh", "-c", 'cat note; printf " $A"')
    assert (second.returncode, second.stdout) == (0, b"in b c")
    assert affiant(place, "exec", named, "/nothing").returncode == 127
    session = entry(place, named)["session"]
    stopped = affiant(place, "stop", named)
    assert stopped.returncode == 0 and b"receipts in" in stopped.stdout, stopped.stderr
    assert kinds(place, session).count("exec") == 6
    assert "1 closed" in place.verdict(place.home / "sessions" / session / "bundle.affiant.json")
    assert not (place.home / "sessions" / session / "session.sock").exists()
    late = affiant(place, "exec", named, "true")
    assert late.returncode == 125 and b"[session.not_open]" in late.stderr


@pytest.mark.slow
def test_a_name_is_one_sessions_and_a_repeated_request_gives_the_same(place: Machine) -> None:
    key = ("--idempotency-key", "k1")
    made = [create(place, "--name", "same", "--ttl", "300", *key, "--json") for _ in range(2)]
    try:
        first, again = (json.loads(done.stdout) for done in made)
        assert first["session"] == again["session"]
        assert (first["created"], again["created"]) == (True, False)
        for other in ((), ("--idempotency-key", "k2")):
            refused = create(place, "--name", "same", *other)
            assert refused.returncode == 1 and b"[session.name_taken]" in refused.stderr
        assert create(place, "--name", "not a name").returncode == 1
    finally:
        assert affiant(place, "stop", "same").returncode == 0
    assert affiant(place, "show", "same", "--json").returncode == 0, "found by its name when it has ended too"


@pytest.mark.slow
def test_many_creators_of_one_name_make_one_session(place: Machine) -> None:
    given = ("--profile", str(place.folder / "profiles.yaml"), "--agent", "writer", "--name", "raced")
    command = argv(place, "create", *given, "--min-isolation", place.isolation, "--ttl", "300")
    makers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/") for _ in range(3)
    ]
    place.started.extend(makers)
    codes = []
    for maker in makers:
        _, error = maker.communicate(timeout=60)
        codes.append(maker.returncode)
        assert maker.returncode == 0 or b"[session.name_taken]" in error
    try:
        assert sorted(codes) == [0, 1, 1]
    finally:
        affiant(place, "stop", "raced")


@pytest.mark.slow
def test_the_session_outlives_its_creator_and_its_terminal(place: Machine) -> None:
    """The creator has a terminal, which is hung up when it is gone, and a descriptor of its parent's."""
    master, slave = pty.openpty()
    inherited, given_on = os.pipe()
    given = ("--profile", str(place.folder / "profiles.yaml"), "--agent", "writer", "--name", "outlives")
    command = argv(place, "create", *given, "--min-isolation", place.isolation, "--ttl", "300")
    creator = subprocess.Popen(
        command,
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=slave,
        pass_fds=(given_on,),
        start_new_session=True,
        cwd="/",
    )
    os.close(given_on)
    place.started.append(creator)
    os.close(slave)
    assert creator.stdout is not None and creator.stdout.read() == b"outlives\n", "its streams are closed"
    assert creator.wait(10) == 0
    os.close(master)
    assert os.read(inherited, 1) == b"", "the session holds nothing that its creator inherited"
    os.close(inherited)
    try:
        assert affiant(place, "exec", "outlives", "echo", "there").stdout == b"there\n"
        pid = asyncio.run(DetachedSession.connect("outlives", home=place.home).status())["pid"]
        assert os.getsid(int(str(pid))) == pid
        assert {os.readlink(f"/proc/{pid}/fd/{each}") for each in range(3)} == {"/dev/null"}
    finally:
        assert affiant(place, "stop", "outlives").returncode == 0


@pytest.mark.slow
def test_a_detached_command_outlives_its_client_and_its_output_can_be_followed(
    place: Machine, named: str
) -> None:
    script = "echo one; read line < fifo; echo two; echo err >&2; exit 3"
    affiant(place, "exec", named, "mkfifo", "fifo")
    number = affiant(place, "exec", "--detach", named, "sh", "-c", script).stdout.decode().strip()
    assert until(lambda: affiant(place, "logs", named, number).stdout == b"one\n")
    following = subprocess.Popen(
        argv(place, "logs", "-f", named, number), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/"
    )
    place.started.append(following)
    assert following.stdout is not None
    assert following.stdout.readline() == b"one\n"
    affiant(place, "exec", named, "sh", "-c", "echo > fifo")
    out, err = following.communicate(timeout=30)
    assert (following.returncode, out, err) == (3, b"two\n", b"err\n")
    session = entry(place, named)["session"]
    affiant(place, "stop", named)
    after = affiant(place, "logs", "-f", session, number)
    assert (after.returncode, after.stdout, after.stderr) == (3, b"one\ntwo\n", b"err\n")
    assert affiant(place, "logs", session, "99").returncode == 1


@pytest.mark.slow
def test_a_client_that_leaves_amid_output_ends_its_command_and_no_other(place: Machine, named: str) -> None:
    stays = subprocess.Popen(
        argv(place, "exec", named, "sh", "-c", "echo up; read line; echo $line"),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/",
    )  # fmt: skip
    leaves = subprocess.Popen(argv(place, "exec", named, "yes"), stdout=subprocess.PIPE, cwd="/")
    place.started += [stays, leaves]
    assert stays.stdout is not None and leaves.stdout is not None
    assert stays.stdout.readline() == b"up\n"
    assert leaves.stdout.readline() == b"y\n"
    session = DetachedSession.connect(named, home=place.home)

    def running() -> list[list[str]]:
        commands = asyncio.run(session.status())["commands"]
        assert isinstance(commands, list)
        return [each["command"][:1] for each in commands if each["ended"] is None]

    assert sorted(running()) == [["sh"], ["yes"]]
    leaves.kill()
    assert until(lambda: running() == [["sh"]])
    assert stays.communicate(b"still\n", timeout=20)[0] == b"still\n"


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_a_signal_is_the_commands_and_a_second_one_kills_it(place: Machine, named: str, count: int) -> None:
    trap = "trap 'echo caught; exit 9' INT" if count == 1 else "trap '' INT"
    client = subprocess.Popen(
        argv(place, "exec", named, "sh", "-c", f"{trap}; echo up; while :; do sleep 0.1; done"),
        stdout=subprocess.PIPE, cwd="/",
    )  # fmt: skip
    place.started.append(client)
    assert client.stdout is not None and client.stdout.readline() == b"up\n"
    for _ in range(count):
        client.send_signal(signal.SIGINT)
        time.sleep(0.2)
    out, _ = client.communicate(timeout=30)
    assert (client.returncode, out) == ((9, b"caught\n") if count == 1 else (128 + signal.SIGKILL, b""))


@pytest.mark.slow
def test_the_time_to_live_ends_the_session_and_everything_of_it(place: Machine) -> None:
    assert create(place, "--name", "short", "--ttl", "3").returncode == 0
    client = subprocess.run(
        argv(place, "exec", "short", "sleep", "600"), capture_output=True, timeout=60, check=False, cwd="/"
    )
    assert client.returncode == 125 and b"Traceback" not in client.stderr
    assert until(lambda: not entry(place, "short")["running"])
    ended = entry(place, "short")
    assert (ended["state"], ended["code"]) == ("closed", "session.expired")
    assert place.quiet_within(10)


@pytest.mark.slow
def test_a_killed_host_leaves_nothing_and_the_next_command_says_so(place: Machine) -> None:
    assert create(place, "--name", "killed", "--ttl", "300").returncode == 0
    session = DetachedSession.connect("killed", home=place.home)
    assert asyncio.run(session.detach(["sleep", "600"])) == 1
    os.kill(int(str(asyncio.run(session.status())["pid"])), signal.SIGKILL)
    done = affiant(place, "ls", "--json")
    assert f"session {session.id}".encode() in done.stderr
    found = entry(place, "killed")
    assert (found["state"], found["steps"][-1]["state"]) == ("interrupted", "terminated"), (
        "its supervisor closed it"
    )
    assert place.quiet_within(10)
    assert not (place.home / "sessions" / session.id / "session.sock").exists()
    assert create(place, "--name", "killed", "--ttl", "300").returncode == 0, "the name is free again"
    assert affiant(place, "stop", "killed").returncode == 0


@pytest.mark.slow
def test_an_interrupted_creation_leaves_no_session(place: Machine) -> None:
    given = ("--profile", str(place.folder / "profiles.yaml"), "--agent", "writer", "--name", "never")
    creator = subprocess.Popen(
        argv(place, "create", *given, "--min-isolation", place.isolation),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
    )  # fmt: skip
    place.started.append(creator)
    assert until(lambda: any((place.home / "launches").glob("*.json")))
    creator.send_signal(signal.SIGINT)
    out, error = creator.communicate(timeout=30)
    assert creator.returncode == 130 and not out and b"Traceback" not in error
    assert place.quiet_within(10)
    with pytest.raises(StateError):
        DetachedSession.connect("never", home=place.home)


@pytest.mark.slow
def test_an_api_client_runs_commands_and_closes_the_session(place: Machine, named: str) -> None:
    session = DetachedSession.connect(named, home=place.home)

    async def scenario() -> None:
        results = await asyncio.gather(*(session.run(["sh", "-c", f"echo {n}; exit {n}"]) for n in range(4)))
        assert [(each.exit_code, each.stdout) for each in results] == [(n, f"{n}\n") for n in range(4)]
        assert (await session.run(["sleep", "600"], timeout_s=0.5)).timed_out
        assert (await session.close()).name == "bundle.affiant.json"
        with pytest.raises(StateError):
            await session.status()

    asyncio.run(scenario())


@pytest.mark.slow
def test_two_clients_that_close_one_session_both_hear_of_it(place: Machine, named: str) -> None:
    session = DetachedSession.connect(named, home=place.home)

    async def both() -> None:
        first, second = await asyncio.gather(session.close(), session.close())
        assert first == second and first.is_file()

    asyncio.run(both())


@pytest.mark.slow
def test_garbage_at_the_socket_harms_no_one(place: Machine, named: str) -> None:
    path = place.home / "sessions" / DetachedSession.connect(named, home=place.home).id / "session.sock"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for data in (b"\xff" * 64, b"\x00\x00\x00\x02{}", b"\x00\x00\x00\x0d" + b'{"op":"exec"}', b""):
        with socket.socket(socket.AF_UNIX) as garbage, reachable_address(path) as address:
            garbage.connect(address)
            garbage.sendall(data)
            garbage.shutdown(socket.SHUT_WR)
            garbage.settimeout(10)
            while garbage.recv(4096):
                pass
    assert affiant(place, "exec", named, "echo", "well").stdout == b"well\n"


@pytest.mark.slow
@pytest.mark.root
def test_another_user_cannot_reach_a_session(place: Machine, named: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: becomes another user")
    path = place.home / "sessions" / DetachedSession.connect(named, home=place.home).id / "session.sock"
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        try:
            socket.socket(socket.AF_UNIX).connect(str(path))
        except PermissionError:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.slow
def test_what_is_removed_is_never_the_only_copy(place: Machine, named: str) -> None:
    session = DetachedSession.connect(named, home=place.home).id
    folder, copy = place.home / "sessions" / session, place.folder / f"{named}.json"
    assert b"[session.running]" in affiant(place, "rm", named, "--bundle", str(copy)).stderr
    number = affiant(place, "exec", "--detach", named, "echo", "kept").stdout.decode().strip()
    assert affiant(place, "logs", "-f", named, number).stdout == b"kept\n"
    affiant(place, "stop", named)
    receipts = (folder / "bundle.affiant.json").read_bytes()
    assert affiant(place, "prune", "--older-than", "1").returncode == 0
    assert (folder / "bundle.json").exists(), "it ended today"
    assert b"would free" in affiant(place, "prune", "--older-than", "0", "--dry-run").stdout
    assert (folder / "bundle.json").exists()
    assert affiant(place, "prune", "--older-than", "0").returncode == 0
    assert not (folder / "bundle.json").exists() and not (place.home / "output" / session).exists()
    assert (folder / "bundle.affiant.json").read_bytes() == receipts
    assert (folder / "records.ndjson").exists()
    for refused in (folder / "copy.json", place.folder / "profiles.yaml"):
        done = affiant(place, "rm", session, "--bundle", str(refused))
        assert done.returncode == 1 and b"[session.only_copy]" in done.stderr
        assert folder.is_dir()
    assert affiant(place, "rm", session, "--bundle", str(copy)).returncode == 0
    assert copy.read_bytes() == receipts and not folder.exists()


@pytest.mark.slow
def test_a_session_without_a_close_is_not_removed(place: Machine) -> None:
    session = "L" * 22
    folder = place.home / "sessions" / session
    folder.mkdir()
    (folder / "records.ndjson").write_text("")
    try:
        done = affiant(place, "rm", session, "--bundle", str(place.folder / "lost.json"))
        assert done.returncode == 1 and b"[session.only_copy]" in done.stderr
        assert b"affiant session recover" in done.stderr and folder.is_dir()
    finally:
        (folder / "records.ndjson").unlink()
        folder.rmdir()


@pytest.mark.slow
def test_files_go_in_and_out_and_the_use_of_a_session_is_shown(place: Machine, named: str) -> None:
    sent, back = place.folder / "sent", place.folder / "back"
    (sent / "deep").mkdir(parents=True)
    (sent / "deep" / "a.txt").write_text("from here")
    done = affiant(place, "cp", str(sent), f"{named}:/workspace/in", "--json")
    moved = json.loads(done.stdout)
    assert (done.returncode, moved["files"], moved["length"], moved["left_out"]) == (0, 1, 9, 0), done.stderr
    made = affiant(place, "exec", named, "sh", "-c", "tr a-z A-Z < /workspace/in/deep/a.txt > /workspace/out")
    assert made.returncode == 0, made.stderr
    done = affiant(place, "cp", f"{named}:/workspace/out", str(back))
    assert (done.returncode, back.read_text()) == (0, "FROM HERE"), done.stderr
    (used,) = [
        each
        for each in json.loads(affiant(place, "top", "--json").stdout)["sessions"]
        if each["name"] == named
    ]
    assert (used["commands_ended"], used["commands_running"]) == (1, 0) and used["files_bytes"] > 0
    assert named in affiant(place, "top").stdout.decode()
    for wrong, code in (
        ((named, "b"), 2),
        ((f"{named}:/a", "none:/b"), 2),
        ((f"{named}:/etc/passwd", "b"), 1),
    ):
        refused = affiant(place, "cp", *wrong)
        assert refused.returncode == code, refused.stderr
    session = entry(place, named)["session"]
    affiant(place, "stop", named)
    assert kinds(place, session).count("file") == 2
