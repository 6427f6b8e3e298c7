"""The runner over its control socket: results, streams, signals, limits, and what is left when things die."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.raising import raises_code
from tests.sandbox.isolation.conftest import (
    ENV,
    Held,
    begin,
    code_of,
    communicate,
    greeting,
    no_memory_cgroup,
    once,
    processes_in,
    rest_of,
    run,
    sandbox,
)

from affiant.sandbox.isolation.plan.errors import (
    CommandNotRun,
    FrameError,
    LimitExceeded,
    SandboxFailed,
    StepError,
)
from affiant.sandbox.isolation.plan.leftover_record import read_record
from affiant.sandbox.isolation.plan.plan import (
    Access,
    Command,
    DirectoryRoot,
    FileGrant,
    HostUsr,
    Limits,
    plan_sandbox,
)
from affiant.sandbox.isolation.plan.protocol import receive_frame
from affiant.sandbox.isolation.runner.client import RunnerClient, spawn_runner
from affiant.sandbox.isolation.runner.reconcile import reap_leftovers
from affiant.sandbox.isolation.runner.runner_settings import Settings

SHELL = "/bin/sh"


def machine_state():
    """What a sandbox must not change: named namespaces, interfaces, mounts."""
    names = sorted(os.listdir("/run/netns")) if Path("/run/netns").is_dir() else []
    links = [line for line in Path("/proc/net/dev").read_text().splitlines() if ":" in line]
    mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if "affiant" in line]
    return names, sorted(line.split(":")[0].strip() for line in links), mounts


@once
@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 7", 7),
        ("kill -9 $$", 137),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in (("exit 0", 0), ("exit 128", 128), ("kill -15 $$", 143), ("exit 255", 255))
        ),
    ],
)
def test_the_exit_code_is_the_commands_own(backend, tmp_path, script, code):
    assert run(tmp_path, backend, SHELL, "-c", script).ended == code


@once
@pytest.mark.parametrize(
    ("program", "code"),
    [("/etc/passwd", 126), ("nowhere", 127), pytest.param("/nowhere", 127, marks=pytest.mark.slow)],
)
def test_a_command_that_cannot_be_run_is_told_apart_from_one_that_failed(backend, tmp_path, program, code):
    with pytest.raises(CommandNotRun) as refused:
        run(tmp_path, backend, program)
    assert refused.value.exit_code == code


def test_input_arguments_and_directory_arrive_unchanged(backend, tmp_path):
    hostile = "a b'\"$(id)`id`\n\\ \u00e4"
    program = "import os,sys; print(ascii([sys.argv[1:], os.environ['X'], os.getcwd(), sys.stdin.read()]))"
    result = run(
        tmp_path,
        backend,
        *("python3", "-c", program, hostile, ""),
        env={"PATH": "/usr/bin", "X": hostile, "LC_ALL": "C.UTF-8"},
        files=[("/workspace", "read-write")],
        cwd="/workspace",
        stdin=b"given",
    )
    assert result.output == ascii([[hostile, ""], hostile, "/workspace", "given"]) + "\n"


@once
def test_output_streams_while_the_command_runs_and_a_signal_reaches_it(backend, tmp_path):
    async def go():
        async with sandbox(tmp_path, backend, plan_sandbox("s", ())) as (client, _, _):
            program = (
                "import signal,sys,time; signal.signal(15, lambda *a: sys.exit(42));"
                "print('up', flush=True); time.sleep(30)"
            )
            read, waiting = await begin(client, Command(("python3", "-c", program), ENV))
            assert not waiting.done()
            await client.signal(1, signal.SIGTERM)
            ended = await asyncio.wait_for(waiting, 10)
            os.close(read)
            return ended

    assert asyncio.run(go()) == 42


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        *(pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGINT, signal.SIGHUP)),
    ],
)
def test_an_ending_signal_reaches_every_process_of_the_command_as_from_a_terminal(backend, tmp_path, number):
    """A shell that waits for a program handles its own signal only when that program has ended."""

    async def go():
        async with sandbox(tmp_path, backend, plan_sandbox("s", ())) as (client, _, _):
            child = "import time; print('up', flush=True); time.sleep(30)"
            script = f"trap 'exit 5' {int(number)}; python3 -c \"$1\"; exit 6"
            _, waiting = await begin(client, Command((SHELL, "-c", script, "sh", child), ENV))
            await client.signal(1, number)
            return await asyncio.wait_for(waiting, 10)

    assert asyncio.run(go()) == 5


@once
def test_a_stopped_command_stands_still_with_all_its_processes_until_it_is_continued(backend, tmp_path):
    async def go():
        async with sandbox(tmp_path, backend, plan_sandbox("s", ())) as (client, _, _):
            script = "echo up; (while :; do echo tick; sleep 0.05; done) & wait"
            read, waiting = await begin(client, Command((SHELL, "-c", script), ENV))
            os.set_blocking(read, False)

            async def seen(seconds):
                await asyncio.sleep(seconds)
                try:
                    return os.read(read, 1 << 16)
                except BlockingIOError:
                    return b""

            running = await seen(0.4)
            await client.signal(1, signal.SIGSTOP)
            await seen(0.2)
            stopped = await seen(0.4)
            await client.signal(1, signal.SIGCONT)
            continued = await seen(0.4)
            await client.kill()
            await asyncio.wait_for(waiting, 5)
            os.close(read)
            return b"tick" in running, stopped, b"tick" in continued

    assert asyncio.run(go()) == (True, b"", True)


def test_any_other_signal_reaches_the_commands_first_process_only(backend, tmp_path):
    """The subshell has no trap: the signal would end it."""

    async def go():
        async with sandbox(tmp_path, backend, plan_sandbox("s", ())) as (client, _, _):
            waits = "(echo up; until [ -e /tmp/go ]; do sleep 0.02; done; echo child) & wait $!; wait $!"
            script = f"trap 'echo told' USR1; {waits}; exit 4"
            read, waiting = await begin(client, Command((SHELL, "-c", script), ENV))
            await client.signal(1, signal.SIGUSR1)
            told = await asyncio.to_thread(os.read, read, 5)
            await communicate(client, Command((SHELL, "-c", "touch /tmp/go"), ENV))
            ended = await asyncio.wait_for(waiting, 10)
            return ended, told + await rest_of(read)

    assert asyncio.run(go()) == (4, b"told\nchild\n")


@once
def test_kill_ends_a_command_that_ignores_every_signal(backend, tmp_path):
    async def go():
        async with sandbox(tmp_path, backend, plan_sandbox("s", ())) as (client, _, _):
            trapped = "trap '' 15 1 2 3; echo up; while true; do sleep 100; done"
            read, waiting = await begin(client, Command((SHELL, "-c", trapped), ENV))
            await client.signal(1, signal.SIGTERM)
            for number in (0, 64, -1, signal.SIGSEGV):
                with pytest.raises(FrameError):
                    await client.signal(1, number)
            assert not waiting.done()
            await client.kill()
            ended = await asyncio.wait_for(waiting, 5)
            assert await rest_of(read) == b""
            assert await code_of(client, 1) == ended
            await client.kill()
            return ended

    assert asyncio.run(go()) == 137


def test_two_sandboxes_at_once_have_their_own_proxies_and_files(backend, tmp_path):
    async def one(name):
        plan = plan_sandbox(name, [FileGrant("/w", Access.READ_WRITE)])
        (tmp_path / name).mkdir()
        async with sandbox(tmp_path / name, backend, plan) as (client, proxy, _):
            with greeting(proxy.listeners.proxy) as greeted:
                program = (
                    "import socket,sys,time,os; open('/w/'+sys.argv[1],'w').close(); time.sleep(0.3);"
                    f"print(socket.create_connection(('{proxy.endpoint.host}', 3128)).recv(99), os.listdir('/w'))"
                )
                ended, output = await communicate(client, Command(("python3", "-c", program, name), ENV))
                await client.cleanup()
                return ended, output, greeted[0]

    async def both():
        return await asyncio.gather(one("first"), one("second"))

    first, second = asyncio.run(both())
    assert first == (0, "b'hello from the proxy\\n' ['first']\n", 1)
    assert second == (0, "b'hello from the proxy\\n' ['second']\n", 1)


@once
def test_an_output_stream_that_is_a_regular_file_is_refused(backend, tmp_path):
    async def go():
        async with sandbox(tmp_path, backend, plan_sandbox("s", ())) as (client, _, _):
            with open(tmp_path / "log", "wb") as log, open("/dev/null", "rb") as nothing:
                await client.start(
                    Command((SHELL, "-c", "true")),
                    stdin=nothing.fileno(),
                    stdout=log.fileno(),
                    stderr=log.fileno(),
                )

    with raises_code("isolation.plan", match="regular file"):
        asyncio.run(go())


@once
def test_steps_out_of_turn_are_refused_and_change_nothing(backend, tmp_path):
    async def go():
        async with sandbox(tmp_path, backend, plan_sandbox("s", ())) as (client, _, _):
            for step in (
                client.signal(1, 15),
                client.prepare(plan_sandbox("s", ()), ca_bundle=b""),
            ):
                with pytest.raises(StepError):
                    await step
            ended, output = await communicate(client, Command((SHELL, "-c", "echo fine"), ENV))
            for step in (client.signal(1, 15), client.wait(2)):
                with pytest.raises(StepError):
                    await step
            await client.kill()
            await client.wait(1)
            with pytest.raises(StepError):
                await communicate(client, Command((SHELL, "-c", "echo again"), ENV))
            await client.cleanup()
            with raises_code("isolation.runner_lost"):
                await client.wait(1)
            return ended, output

    assert asyncio.run(go()) == (0, "fine\n")


@once
def test_more_memory_than_allowed_ends_in_a_typed_refusal(backend, tmp_path):
    limits = Limits(memory_bytes=192 << 20)
    with pytest.raises(LimitExceeded, match="memory"):
        run(
            tmp_path,
            backend,
            "python3",
            "-c",
            "import time; a=bytearray(b'x')*(400<<20); time.sleep(20)",
            limits=limits,
        )


@once
@pytest.mark.parametrize(
    ("what", "program"),
    [
        ("wrote more", "f = open('/w/x', 'wb')\nfor _ in range(16): f.write(b'x' * (1 << 20)); f.flush()"),
        ("levels", "import os\nos.chdir('/w')\nfor _ in range(200): os.mkdir('d'); os.chdir('d')"),
    ],
)
def test_files_beyond_the_limit_end_in_a_typed_refusal(backend, tmp_path, what, program):
    limits, files = Limits(files_bytes=8 << 20), [("/w", "read-write")]
    with pytest.raises(LimitExceeded, match=what):
        run(
            tmp_path,
            backend,
            "python3",
            "-c",
            f"{program}\nimport time; time.sleep(30)",
            limits=limits,
            files=files,
        )


@once
def test_a_fork_bomb_meets_a_full_table_and_the_runner_lives(backend, tmp_path):
    bomb = (
        "import os,time\nmade=0\ntry:\n"
        " while made < 400:\n  if os.fork() == 0: time.sleep(20); os._exit(0)\n  made += 1\n"
        "except OSError: print('full', made, flush=True)\nos.kill(os.getpid(), 9)"
    )
    result = run(tmp_path, backend, "python3", "-c", bomb, limits=Limits(processes=40))
    assert re.match(r"full 3\d\n", result.output)
    assert result.ended == 137


def test_the_sandbox_keeps_to_its_processors(backend, tmp_path):
    program = "import os; print(len(os.sched_getaffinity(0)))"
    assert run(tmp_path, backend, "python3", "-c", program, limits=Limits(cpus=1)).output == "1\n"


def test_tmp_has_its_size(backend, tmp_path):
    limits = Limits(tmp_bytes=4 << 20)
    result = run(
        tmp_path, backend, SHELL, "-c", "head -c 9000000 /dev/zero > /tmp/x; stat -c %s /tmp/x", limits=limits
    )
    assert "No space left" in result.output
    assert int(result.output.split()[-1]) <= 4 << 20


def test_nothing_is_left_after_cleanup(backend, tmp_path):
    before = machine_state()

    async def go():
        async with sandbox(tmp_path, backend, plan_sandbox("s", ())) as (client, _, _):
            record = read_record(tmp_path)
            namespaces = Held(record.init.pid)
            await communicate(client, Command((SHELL, "-c", "sleep 100 & exit 0"), ENV))
            await client.cleanup()
            return namespaces, record.memory

    namespaces, memory = asyncio.run(go())
    assert memory is not None or no_memory_cgroup()
    assert memory is None or not Path(memory).exists()
    assert processes_in(namespaces) == []
    assert read_record(tmp_path) is None
    assert machine_state() == before


def test_killing_the_runner_kills_the_sandbox(backend, tmp_path):
    before = machine_state()
    plan = plan_sandbox("s", [FileGrant("/w", Access.READ_WRITE)])

    async def go():
        async with sandbox(tmp_path, backend, plan) as (client, _, process):
            namespaces = Held(read_record(tmp_path).init.pid)
            read, waiting = await begin(client, Command((SHELL, "-c", "echo up; sleep 100"), ENV))
            inside = processes_in(namespaces)
            assert len(inside) >= 3
            scores = [Path(f"/proc/{pid}/oom_score_adj").read_text() for pid in inside if pid != process.pid]
            assert scores.count("500\n") >= 2
            process.kill()
            with raises_code("isolation.runner_lost"):
                await waiting
            assert await rest_of(read) == b""
            return namespaces

    namespaces = asyncio.run(go())
    assert gone_within(5, namespaces)
    assert reap_leftovers(tmp_path.parent) == (tmp_path.name,)
    assert reap_leftovers(tmp_path.parent) == ()
    assert machine_state() == before
    assert list((tmp_path / "isolation").iterdir()) == []


@once
def test_a_start_that_fails_halfway_leaves_nothing(backend, tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "1").symlink_to("/etc")
    grants = [FileGrant("/v", Access.READ_WRITE), FileGrant("/w", Access.READ_WRITE)]

    async def go():
        async with sandbox(tmp_path, backend, plan_sandbox("s", grants)):
            pytest.fail("the machine's /etc was mounted")

    with pytest.raises(SandboxFailed, match="no link on the way"):
        asyncio.run(go())
    assert read_record(tmp_path) is None
    assert list((tmp_path / "isolation").iterdir()) == []


@once
def test_a_closed_control_socket_ends_everything_within_five_seconds(backend, tmp_path):
    async def go():
        async with sandbox(tmp_path, backend, plan_sandbox("s", ())) as (client, _, process):
            namespaces = Held(read_record(tmp_path).init.pid)
            trapped = "trap '' 15 1 2; echo up; sleep 100"
            read, waiting = await begin(client, Command((SHELL, "-c", trapped), ENV))
            client.close()
            with raises_code("isolation.runner_lost"):
                await waiting
            assert await rest_of(read) == b""
            process.wait(5)
            return namespaces

    assert processes_in(asyncio.run(go())) == []
    assert read_record(tmp_path) is None


LAUNCHER = """
import os, sys, time
sys.path[:0] = {path!r}
from pathlib import Path
from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.isolation.runner.client import spawn_runner
from affiant.sandbox.isolation.runner.runner_settings import Settings
from affiant.sandbox.isolation.plan.plan import HostUsr, plan_sandbox
from affiant.sandbox.isolation.plan.protocol import plan_to_json
from affiant.sandbox.isolation.plan.protocol import receive_frame, send_frame
process, control = spawn_runner(Settings(Path(sys.argv[1]), BackendName(sys.argv[2]), HostUsr(), None))
bundle = os.memfd_create("b")
send_frame(control, {{"id": 1, "do": "prepare", "plan": plan_to_json(plan_sandbox("s", ()))}}, (bundle,))
receive_frame(control)
if os.fork() == 0:
    os.close(1)
    time.sleep(60)  # keeps the control socket open: the runner does not notice that its launcher is gone
    os._exit(0)
print("ready", flush=True)
time.sleep(60)
"""


@once
def test_the_next_command_reaps_what_a_killed_launcher_left(backend, tmp_path):
    session_dir = tmp_path / "sessions" / "one"
    session_dir.mkdir(parents=True)
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER.format(path=sys.path), str(session_dir), backend.value],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with launcher:
        try:
            assert launcher.stdout.readline() == b"ready\n"
            record = read_record(session_dir)
            namespaces = Held(record.init.pid)
            assert record.memory is not None or no_memory_cgroup()
            assert record.memory is None or Path(record.memory).is_dir()
            assert reap_leftovers(session_dir.parent) == ()  # it lives, so it is left alone
            launcher.kill()
            launcher.wait()
            assert record.runner.alive()
            assert reap_leftovers(session_dir.parent) == ("one",)
            assert not record.runner.alive()
            assert gone_within(5, namespaces)
            assert record.memory is None or not Path(record.memory).exists()
        finally:
            os.killpg(launcher.pid, signal.SIGKILL)


def gone_within(seconds, namespaces):
    """The kernel needs a moment to take a process namespace down."""
    deadline = time.monotonic() + seconds
    while processes_in(namespaces) and time.monotonic() < deadline:
        time.sleep(0.02)
    return processes_in(namespaces) == []


@once
def test_the_plan_must_name_the_root_that_the_launcher_fixed(backend, tmp_path):
    async def go(**plan_arguments):
        async with sandbox(tmp_path, backend, plan_sandbox("s", (), **plan_arguments)):
            pytest.fail("the runner took another root than its launcher's")

    for arguments in ({"rootfs": DirectoryRoot("/")}, {"runtime": "/root"}):
        with raises_code("isolation.plan", match="another root or runtime"):
            asyncio.run(go(**arguments))


def test_a_link_in_place_of_a_sessions_directory_is_refused(backend, tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "0").symlink_to("/etc")

    async def go():
        async with sandbox(tmp_path, backend, plan_sandbox("s", [FileGrant("/w", Access.READ_WRITE)])):
            pytest.fail("the machine's /etc was mounted")

    with pytest.raises(SandboxFailed, match="no link on the way"):
        asyncio.run(go())


def test_a_link_of_the_input_in_place_of_a_carve_outs_parent_is_refused(backend, tmp_path):
    (tmp_path / "files" / "0").mkdir(parents=True)
    (tmp_path / "files" / "0" / "a").symlink_to("/etc")
    grants = [FileGrant("/w", Access.READ_WRITE), FileGrant("/w/a/b", Access.NONE)]

    async def go():
        async with sandbox(tmp_path, backend, plan_sandbox("s", grants)):
            pytest.fail("the carve-out was made in /etc")

    with pytest.raises(SandboxFailed):
        asyncio.run(go())
    assert not Path("/etc/b").exists()


def test_a_prepared_runtime_is_there_read_only(backend, tmp_path):
    runtime = tmp_path / "runtime"
    (runtime / "bin").mkdir(parents=True)
    packages = runtime / "lib" / "python3" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "prepared.py").write_text("name = 'prepared'\n")
    session = tmp_path / "session"
    session.mkdir()
    result = run(
        session,
        backend,
        *("python3", "-c", "import prepared; print(prepared.name); open('/opt/runtime/x', 'w')"),
        env={"PATH": "/opt/runtime/bin:/usr/bin", "PYTHONPATH": "/opt/runtime/lib/python3/site-packages"},
        runtime=str(runtime),
    )
    assert "prepared\n" in result.output
    assert "Read-only" in result.output or "Permission denied" in result.output


def small_image(at):
    """An unpacked image of our own: a shell and the libraries that it is linked with."""
    (at / "usr" / "bin").mkdir(parents=True)
    linked = subprocess.run(["ldd", "/bin/dash"], capture_output=True, text=True, check=False).stdout
    for name in ("/bin/dash", *re.findall(r"(/\S+)", linked)):
        place = at / "usr" / name.lstrip("/").removeprefix("usr/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(name, place)
    (at / "usr" / "bin" / "dash").rename(at / "usr" / "bin" / "sh")
    for name in ("bin", "lib", "lib64"):
        (at / name).symlink_to(f"usr/{name}")
    for name in ("opt/tool", "var/cache", "etc", "proc"):
        (at / name).mkdir(parents=True)
    (at / "etc" / "marker").write_text("of the image")
    (at / "opt" / "tool" / "readme").write_text("of the image\n")
    return at


@pytest.mark.skipif(not Path("/bin/dash").exists(), reason="the test's image is made of dash")
def test_an_image_is_the_root_and_is_never_written(backend, tmp_path):
    image, session = small_image(tmp_path / "image"), tmp_path / "session"
    session.mkdir()
    before = sorted(path.relative_to(image) for path in image.rglob("*"))
    files = [("/var/log", "read-write"), ("/opt/tool/data", "read-only")]
    script = (
        "while read -r line; do echo $line; done < /opt/tool/readme;"
        "echo x > /var/log/x; echo x > /opt/y; echo /usr/bin/*"
    )
    arguments = {"rootfs": DirectoryRoot(str(image)), "files": files}
    output = run(session, backend, SHELL, "-c", script, **arguments).output
    assert output.startswith("of the image\n")
    assert "Read-only" in output or "Permission denied" in output
    assert output.endswith("/usr/bin/sh\n")
    assert (session / "files" / "1" / "x").exists() or (session / "files" / "0" / "x").exists()
    assert sorted(path.relative_to(image) for path in image.rglob("*")) == before


@once
def test_frames_that_are_not_the_protocols_are_answered_and_survived(backend, tmp_path):
    process, control = spawn_runner(Settings(tmp_path, backend, HostUsr(), None))
    with process, control:
        for frame in (
            b"{",
            b"[]",
            b'{"a":1,"a":2}',
            b'{"id":true}',
            b'{"do":"dance","id":7}',
            b'{"do":"start","id":8}',
        ):
            control.send(frame)
            answer, _ = receive_frame(control)
            assert answer["refused"]["code"] == "isolation.frame", frame
        control.send(json.dumps({"do": "prepare", "id": 9}, separators=(",", ":")).encode())
        assert receive_frame(control)[0]["refused"]["code"] == "isolation.frame"
        control.shutdown(2)
        assert process.wait(5) == 0


@once
def test_a_client_whose_runner_is_gone_says_so(backend, tmp_path):
    async def go():
        process, control = spawn_runner(Settings(tmp_path, backend, HostUsr(), None))
        async with RunnerClient(control) as client:
            process.kill()
            process.wait()
            await client.wait(1)

    with raises_code("isolation.runner_lost"):
        asyncio.run(go())
