"""A sandbox that a session host holds: the whole interface from any process, and a life of its own."""

from __future__ import annotations

import asyncio
import inspect
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tests.raising import raises_code
from tests.sandbox.api.test_sandbox import PROFILE, isolation

from affiant.attestation.bundle.bundle import parse_bundle
from affiant.attestation.records.receipt import parse_receipt
from affiant.errors import AffiantError
from affiant.sandbox import Exited, Output, Sandbox, SandboxSync, SessionRequest
from affiant.sandbox.processes.home import open_home
from affiant.sandbox.processes.session_note import SessionState
from affiant.sandbox.session_state.bundle_out import close_in
from affiant.sandbox.session_state.session_listing import find_session

SERVE = "import http.server as h; print('up', flush=True); h.test(h.SimpleHTTPRequestHandler, port=8080)"


@pytest.fixture
def given(warm: Any) -> Iterator[dict[str, Any]]:
    """What to create a sandbox called ``hosted`` with; it is closed after the test."""
    yield {
        "profile": PROFILE + "    ports: [8080]\n",
        "agent": "dev",
        "name": "hosted",
        "ttl": 300,
        "home": warm.home,
        **isolation(warm),
    }

    async def close() -> None:
        try:
            await (await Sandbox.connect("hosted", home=warm.home)).close()
        except AffiantError:
            return

    asyncio.run(close())


def kinds(bundle: Path) -> list[str]:
    receipts = parse_bundle(bundle.read_bytes()).receipts
    return [str(json.loads(parse_receipt(text).split.payload)["kind"]) for text in receipts]


@pytest.mark.slow
def test_a_rejected_command_on_a_terminal_is_the_supervisors_error(given: dict[str, Any]) -> None:
    async def go() -> list[int]:
        async with Sandbox.create(**given) as sandbox:
            with raises_code("session.environment"):
                async with asyncio.timeout(30), sandbox.pty(["true"], env={"HTTP_PROXY": "x"}) as terminal:
                    await terminal.wait()
            async with sandbox.pty(["sh", "-c", "exit 4"]) as terminal:
                return [(await terminal.wait(30)).exit_code for _ in range(2)]

    assert asyncio.run(go()) == [4, 4]


def test_a_connected_sandbox_has_the_whole_interface(given: dict[str, Any], tmp_path: Path) -> None:
    async def acts(sandbox: Sandbox) -> None:
        done = await sandbox.run(["sh", "-c", "cat; echo err >&2; exit 3"], stdin="given", env={"A": "b"})
        assert (done.exit_code, done.stdout, done.stderr) == (3, "given", "err\n")
        assert done.usage is not None and done.usage.wall_s > 0
        events = [event async for event in sandbox.stream(["sh", "-c", "echo piece; exit 4"])]
        assert events[0] == Output("stdout", b"piece\n")
        assert isinstance(events[1], Exited) and events[1].result.exit_code == 4
        async with sandbox.pty(
            ["sh", "-c", "read line; stty size; echo got $line"], rows=7, columns=33
        ) as terminal:
            await terminal.resize(9, 44)
            await terminal.write(b"typed\n")
            shown = b""
            while piece := await terminal.read():
                shown += piece
        assert b"9 44" in shown and b"got typed" in shown
        await sandbox.files.write("/workspace/in.txt", "hello")
        assert await sandbox.files.read_text("/workspace/in.txt") == "hello"
        assert [found.path for found in await sandbox.files.list("/workspace")] == ["in.txt"]
        await sandbox.files.download("/workspace", tmp_path / "out")
        assert (tmp_path / "out" / "in.txt").read_bytes() == b"hello"
        with raises_code("session.control"):
            await sandbox.run(["echo", "x" * (1 << 20)])
        number = await sandbox.detach(["python3", "-c", SERVE], cwd="/workspace")
        async with sandbox.port(8080) as port:
            while True:
                try:
                    body = await asyncio.to_thread(lambda: urlopen(f"{port.url}/in.txt").read())
                    break
                except OSError:  # the server is still starting
                    await asyncio.sleep(0.1)
        assert body == b"hello"
        assert port.use is not None and port.use.why == "asked" and port.use.bytes_out > 5
        assert (await sandbox.kept(number)).stdout.startswith(b"up\n")
        await sandbox.signal(number, signal.SIGKILL)
        assert (await sandbox.metrics()).files_bytes >= 5
        commands = (await sandbox.status())["commands"]
        assert isinstance(commands, list) and len(commands) == 4

    async def scenario() -> Sandbox:
        created = await Sandbox.create(**given)
        async with Sandbox.connect("hosted", home=given["home"]) as connected:
            assert connected.info() == created.info()
            assert connected.info()["name"] == "hosted" and "memory" in dict(connected.info()["limits"])  # type: ignore[call-overload]
            await acts(connected)
            with raises_code("session.holder"):
                _ = connected.session
        assert (await created.run(["cat", "/workspace/in.txt"])).stdout == "hello", "leaving it left it open"
        await created.close()
        with raises_code("session.not_open"):
            await created.run(["true"])
        return created

    sandbox = asyncio.run(scenario())
    found = kinds(sandbox.bundle_path)
    assert (found.count("exec"), found.count("file"), found.count("port")) == (10, 3, 2)


def test_a_named_sandbox_survives_its_creator(given: dict[str, Any], warm: Any) -> None:
    code = (
        "import asyncio, os, sys, threading\n"
        "from pathlib import Path\n"
        "from affiant.sandbox import IsolationClass, Sandbox\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "async def main():\n"
        "    sandbox = await Sandbox.create(profile=sys.argv[1], agent='dev', name='hosted', ttl=300,\n"
        "        home=Path(sys.argv[2]), min_isolation=IsolationClass(sys.argv[3]))\n"
        "    await sandbox.files.write('/workspace/a', 'left')\n"
        "    print(sandbox.id, flush=True)\n"
        "    os._exit(9)\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", code, PROFILE, str(warm.home), warm.isolation]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False, cwd="/")
    assert done.returncode == 9, done.stderr

    with SandboxSync.connect("hosted", home=warm.home) as sandbox:
        assert sandbox.id == done.stdout.decode().strip()
        assert sandbox.run(["cat", "/workspace/a"]).stdout == "left"
        with sandbox.pty(["sh", "-c", "read line; echo got $line"]) as terminal:
            terminal.write(b"it\n")
            assert terminal.wait(20).exit_code == 0
        sandbox.close()
    assert sandbox.bundle_path.exists()


@pytest.mark.slow
def test_a_repeated_request_gives_the_same_sandbox_also_while_the_first_is_starting(
    given: dict[str, Any],
) -> None:
    async def scenario() -> None:
        opening = [Sandbox.create(**{**given, "idempotency_key": "k"}) for _ in range(2)]
        first, second = await asyncio.gather(*(_opened(each) for each in opening))
        assert first.id == second.id
        await second.files.write("/workspace/a", "there")
        assert await first.files.read_text("/workspace/a") == "there"
        for other in ({}, {"idempotency_key": "other"}):
            with raises_code("session.name_taken"):
                await Sandbox.create(**given, **other)
        unnamed = {**given, "name": None, "idempotency_key": "k"}
        assert (await Sandbox.create(**unnamed)).id == first.id, "a key alone finds it too"

    asyncio.run(scenario())


async def _opened(opening: Any) -> Sandbox:
    sandbox: Sandbox = await opening
    return sandbox


@pytest.mark.slow
def test_what_is_wrong_is_the_creators_error_and_leaves_no_session(given: dict[str, Any], warm: Any) -> None:
    async def scenario() -> None:
        with raises_code("session.input"):
            await Sandbox.create(**{**given, "input": Path("/nowhere")})
        with raises_code("session.name"):
            await Sandbox.create(**{**given, "name": "not a name"})
        with raises_code("session.not_open"):
            await Sandbox.connect("hosted", home=warm.home)

    asyncio.run(scenario())


@pytest.mark.slow
def test_leaving_the_block_of_create_closes_a_named_sandbox(given: dict[str, Any], warm: Any) -> None:
    async def scenario() -> None:
        async with Sandbox.create(**given) as sandbox:
            assert (await sandbox.run(["true"])).exit_code == 0
        assert sandbox.bundle_path.exists()
        with raises_code("session.not_open"):
            await Sandbox.connect("hosted", home=warm.home)

    asyncio.run(scenario())


def test_create_names_each_thing_that_a_session_can_be_asked_for() -> None:
    given = inspect.signature(Sandbox.create).parameters
    named_otherwise = {"input_at", "input_commit", "lease_s", "key"}
    of_hosts = {"owner", "hosted"}
    assert {*inspect.signature(SessionRequest).parameters} - given.keys() == named_otherwise | of_hosts
    assert all(each.kind is inspect.Parameter.KEYWORD_ONLY for each in given.values())
    assert inspect.signature(SandboxSync.create).parameters == given


def test_calls_that_need_a_session_host_say_so(given: dict[str, Any]) -> None:
    sandbox = Sandbox(None, None)  # type: ignore[arg-type]
    with raises_code("session.holder"):
        asyncio.run(sandbox.detach(["true"]))


def close_of(bundle: Path, session: str) -> str | None:
    found = parse_bundle(bundle.read_bytes()).receipts
    return next(filter(None, (close_in(text, session) for text in found)), None)


@pytest.mark.slow
def test_a_named_sandbox_closes_as_one_without_a_name_does(given: dict[str, Any]) -> None:
    """Its time to live ends it in order, an exception of the block as killed; leaving it afterwards is no error."""

    async def expires() -> Sandbox:
        async with Sandbox.create(**{**given, "ttl": 2}) as sandbox:
            with suppress(AffiantError):
                await sandbox.run(["sleep", "300"])
        return sandbox

    async def fails() -> Sandbox:
        with pytest.raises(ValueError, match="of the block"):
            async with Sandbox.create(**given) as sandbox:
                raise ValueError("of the block")
        return sandbox

    async def is_closed_by_another() -> Sandbox:
        async with Sandbox.create(**given) as sandbox:
            await (await Sandbox.connect("hosted", home=given["home"])).close()
        return sandbox

    home = open_home(given["home"])
    for scenario, why, code in (
        (expires, "done", "session.expired"),
        (fails, "killed", None),
        (is_closed_by_another, "done", None),
    ):
        sandbox = asyncio.run(scenario())
        entry = find_session(home, sandbox.id)
        assert (close_of(sandbox.bundle_path, sandbox.id), entry.note.code) == (why, code)
        assert entry.note.state is SessionState.CLOSED
