"""The Python interface: many commands in one sandbox, with what each wrote and used, and what is rejected."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar
from urllib.request import urlopen

import pytest
from tests.raising import raises_code

from affiant.attestation.records.receipt import parse_receipt
from affiant.errors import StateError
from affiant.sandbox import Exited, IsolationClass, Output, Resources, Sandbox, SandboxSync
from affiant.sandbox.api.sandbox import Opening

T = TypeVar("T")
PROFILE = """
agent_configs:
  dev:
    filesystem_access: [read-write:/workspace]
    resources: {memory: 512MiB, pids: 100}
"""


def in_sandbox(
    warm: Any, scenario: Callable[[Sandbox], Coroutine[Any, Any, T]], **more: Any
) -> tuple[T, Sandbox]:
    """Run ``scenario`` in a sandbox of its own; what it returned, and the closed sandbox."""

    async def go() -> tuple[T, Sandbox]:
        given = {"profile": PROFILE, "agent": "dev", "home": warm.home, **isolation(warm), **more}
        async with Sandbox.create(**given) as sandbox:
            return await scenario(sandbox), sandbox

    return asyncio.run(go())


def isolation(warm: Any) -> dict[str, object]:
    return {"min_isolation": IsolationClass(warm.isolation)}


def kinds(sandbox: Sandbox) -> list[tuple[str, str]]:
    found = [json.loads(parse_receipt(text).split.payload) for text in sandbox.session.bundle().receipts]
    return [(str(each["kind"]), str(each["ph"])) for each in found if each["kind"] == "exec"]


def test_three_commands_at_once_and_in_turn_with_a_record_of_each(warm: Any) -> None:
    async def scenario(sandbox: Sandbox) -> list[Any]:
        first, second = await asyncio.gather(
            sandbox.run(
                ["sh", "-c", "until [ -e /tmp/go ]; do sleep 0.02; done; cat; exit 3"], stdin="given"
            ),
            sandbox.run(["sh", "-c", "touch /tmp/go; echo err >&2; printf '\\377'"]),
        )
        third = await sandbox.run(["pwd"], env={"A": "b"}, cwd="/workspace")
        return [first, second, third]

    (first, second, third), sandbox = in_sandbox(warm, scenario)
    assert (first.exit_code, first.stdout, first.stderr) == (3, "given", "")
    assert (second.stdout, second.stdout_bytes, second.stderr) == ("\ufffd", b"\xff", "err\n")
    assert third.stdout == "/workspace\n"
    assert all(each.usage is not None and each.usage.wall_s > 0 for each in (first, second, third))
    assert not third.truncated
    assert sorted(kinds(sandbox)) == [("exec", "intent")] * 3 + [("exec", "outcome")] * 3
    assert sandbox.bundle_path.exists()


@pytest.mark.slow
def test_a_stream_gives_pieces_as_they_come_and_the_end_last(warm: Any) -> None:
    async def scenario(sandbox: Sandbox) -> list[Any]:
        script = "echo one; until [ -e /tmp/go ]; do sleep 0.02; done; echo two >&2; exit 4"
        events: list[Any] = []
        async for event in sandbox.stream(["sh", "-c", script]):
            events.append(event)
            if event == Output("stdout", b"one\n"):
                await sandbox.run(["touch", "/tmp/go"])
        return events

    events, _ = in_sandbox(warm, scenario)
    assert events[:2] == [Output("stdout", b"one\n"), Output("stderr", b"two\n")]
    assert isinstance(events[2], Exited)
    assert events[2].result.exit_code == 4


@pytest.mark.slow
def test_a_reader_that_leaves_a_stream_ends_its_command_and_no_other(warm: Any) -> None:
    async def scenario(sandbox: Sandbox) -> str:
        events = sandbox.stream(["sh", "-c", "echo $$; sleep 300"])
        async for event in events:
            assert isinstance(event, Output)
            break
        await events.aclose()  # type: ignore[attr-defined]
        seen = "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -q 'sleep 30[0]'"
        script = f"until ! {seen}; do sleep 0.05; done; echo gone"
        return (await sandbox.run(["sh", "-c", script], timeout=20)).stdout

    assert in_sandbox(warm, scenario)[0] == "gone\n"


@pytest.mark.slow
def test_a_timeout_ends_a_command_and_the_next_one_runs(warm: Any) -> None:
    async def scenario(sandbox: Sandbox) -> tuple[Any, Any]:
        slow = await sandbox.run(["sh", "-c", "echo begun; sleep 300"], timeout=1)
        return slow, await sandbox.run(["echo", "next"])

    (slow, following), _ = in_sandbox(warm, scenario)
    assert (slow.timed_out, slow.exit_code, slow.stdout) == (True, 143, "begun\n")
    assert (following.timed_out, following.stdout) == (False, "next\n")


@pytest.mark.slow
def test_a_command_that_is_rejected_or_not_found_leaves_the_sandbox_open(warm: Any) -> None:
    async def scenario(sandbox: Sandbox) -> tuple[Any, Any, Any]:
        with raises_code("session.environment"):
            await sandbox.run(["true"], env={"HTTP_PROXY": "http://elsewhere"})
        missing = await sandbox.run(["nowhere"])
        astray = await sandbox.run(["true"], cwd="/nowhere")
        return missing, astray, await sandbox.run(["echo", "fine"])

    (missing, astray, fine), sandbox = in_sandbox(warm, scenario)
    assert (missing.exit_code, missing.usage) == (127, None)
    assert "was not found" in missing.stderr
    assert astray.exit_code == 126
    assert fine.stdout == "fine\n"
    assert len(kinds(sandbox)) == 6


def test_a_limit_is_a_typed_error_and_the_session_still_closes_with_its_records(warm: Any) -> None:
    async def scenario(sandbox: Sandbox) -> None:
        with raises_code("isolation.limit", match="memory"):
            await sandbox.run(["python3", "-c", "a=bytearray(b'x')*(900<<20)\nimport time; time.sleep(60)"])
        with raises_code("isolation.limit"):
            await sandbox.run(["true"])

    _, sandbox = in_sandbox(warm, scenario)
    assert len(kinds(sandbox)) == 4


@pytest.mark.slow
def test_a_terminal_of_its_own_takes_keys_sizes_and_ends_with_its_block(warm: Any) -> None:
    async def scenario(sandbox: Sandbox) -> tuple[bytes, bytes, int]:
        async with sandbox.pty(["/bin/sh"], rows=30, columns=100) as terminal:

            async def until(text: bytes) -> bytes:
                seen = b""
                while text not in seen:
                    piece = await terminal.read()
                    assert piece, seen
                    seen += piece
                return seen

            await terminal.write(b"stty size; echo fir''st\n")
            before = await until(b"first\r\n")
            await terminal.resize(40, 120)
            await terminal.write(
                b"until [ \"$(stty size)\" = '40 120' ]; do sleep 0.05; done; echo res''ized\n"
            )
            after = await until(b"resized\r\n")
            await terminal.write(b"exit 5\n")
            return before, after, (await terminal.wait()).exit_code

    (before, after, code), _ = in_sandbox(warm, scenario)
    assert b"30 100\r\n" in before
    assert b"resized" in after
    assert code == 5


@pytest.mark.slow
def test_a_command_on_a_terminal_that_is_rejected_is_an_error_and_its_end_can_be_asked_for_again(
    warm: Any,
) -> None:
    async def scenario(sandbox: Sandbox) -> tuple[bytes, list[int]]:
        with raises_code("session.environment"):
            async with asyncio.timeout(30), sandbox.pty(["true"], env={"HTTP_PROXY": "x"}) as terminal:
                rejected = await terminal.read()
        async with sandbox.pty(["sh", "-c", "exit 4"]) as terminal:
            codes = [(await terminal.wait(30)).exit_code for _ in range(2)]
        return rejected, codes

    assert in_sandbox(warm, scenario)[0] == (b"", [4, 4])


@pytest.mark.slow
def test_terminals_that_show_nothing_hold_no_thread(warm: Any) -> None:
    async def scenario(sandbox: Sandbox) -> str:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        async with AsyncExitStack() as stack:
            for _ in range(2):
                terminal = await stack.enter_async_context(sandbox.pty(["sleep", "300"]))
                reading = asyncio.create_task(terminal.read())
                stack.callback(reading.cancel)
            return (await sandbox.run(["echo", "free"], timeout=30)).stdout

    assert in_sandbox(warm, scenario)[0] == "free\n"


@pytest.mark.slow
def test_resources_are_never_above_the_profiles(warm: Any) -> None:
    async def scenario(sandbox: Sandbox) -> Any:
        limits = sandbox.info()["limits"]
        return limits, (await sandbox.run(["sh", "-c", "ulimit -u || ulimit -p"])).stdout

    (limits, told), _ = in_sandbox(warm, scenario, resources=Resources(pids=50))
    assert (limits["processes"]["value"], told) == (50, "50\n")
    assert limits["memory"]["value"] == 512 << 20
    assert all(each["enforced_by"] for each in limits.values())
    for more in (Resources(pids=101), Resources(memory=513 << 20)):
        with raises_code("session.resources"):
            in_sandbox(warm, scenario, resources=more)


@pytest.mark.slow
def test_metrics_count_memory_files_and_commands(warm: Any) -> None:
    async def scenario(sandbox: Sandbox) -> Any:
        before = await sandbox.metrics()
        await sandbox.run(["sh", "-c", "head -c 3000000 /dev/urandom > /workspace/x"])
        running = asyncio.create_task(
            sandbox.run(["sh", "-c", "touch /tmp/up; until [ -e /tmp/go ]; do sleep 0.02; done"])
        )
        await sandbox.run(["sh", "-c", "until [ -e /tmp/up ]; do sleep 0.02; done"])
        during = await sandbox.metrics()
        await sandbox.run(["touch", "/tmp/go"])
        await running
        return before, during

    (before, during), sandbox = in_sandbox(warm, scenario)
    assert (before.commands_running, before.commands_ended, before.processor_s) == (0, 0, 0)
    assert (during.commands_running, during.commands_ended) == (1, 2)
    assert during.files_bytes - before.files_bytes >= 3_000_000
    assert during.memory_bytes > 0
    assert during.processor_s > 0
    with raises_code("session.not_open"):
        asyncio.run(sandbox.metrics())


@pytest.mark.slow
def test_the_time_to_live_ends_the_session_in_order_whatever_runs(warm: Any) -> None:
    async def scenario(sandbox: Sandbox) -> int:
        ended = asyncio.create_task(sandbox.run(["sleep", "300"]))
        await asyncio.wait({ended})
        await sandbox.close()
        with raises_code("session.not_open"):
            await sandbox.run(["true"])
        return 1 if ended.exception() is not None or ended.result().exit_code else 0

    ended, sandbox = in_sandbox(warm, scenario, ttl=3)
    assert ended == 1
    assert sandbox.bundle_path.exists()


@pytest.mark.slow
def test_a_profile_may_be_a_path_a_text_or_an_object(warm: Any, tmp_path: Path) -> None:
    async def scenario(sandbox: Sandbox) -> str:
        return (await sandbox.run(["pwd"])).stdout

    path = tmp_path / "profiles.yaml"
    path.write_text(PROFILE)
    path.chmod(0o600)
    members = {"filesystem_access": ["read-write:/workspace"], "resources": {"pids": 64}}
    for profile in (path, str(path), members):
        assert in_sandbox(warm, scenario, profile=profile)[0] == "/workspace\n"


@pytest.mark.slow
def test_without_asyncio_the_same_calls_are_there(warm: Any) -> None:
    given = {"profile": PROFILE, "agent": "dev", "home": warm.home, **isolation(warm)}
    with SandboxSync.create(**given) as sandbox:
        assert sandbox.run(["echo", "hi"]).stdout == "hi\n"
        *pieces, end = sandbox.stream(["sh", "-c", "echo piece; exit 2"])
        assert pieces == [Output("stdout", b"piece\n")]
        assert isinstance(end, Exited)
        assert end.result.exit_code == 2
        assert sandbox.info()["session"] == sandbox.id
    assert sandbox.bundle_path.exists()


def test_files_and_a_port_beside_commands(warm: Any, tmp_path: Path) -> None:
    serve = "import http.server as h; print('up', flush=True); h.test(h.SimpleHTTPRequestHandler, port=8080)"

    async def scenario(sandbox: Sandbox) -> bytes:
        await sandbox.files.write("/workspace/in.txt", "hello")
        assert (await sandbox.run(["cat", "in.txt"], cwd="/workspace")).stdout == "hello"
        serving = asyncio.create_task(sandbox.run(["python3", "-c", serve], cwd="/workspace"))
        async with sandbox.port(8080) as port:
            while True:
                try:
                    body = await asyncio.to_thread(lambda: urlopen(f"{port.url}/in.txt").read())
                    break
                except OSError:  # the server is still starting
                    await asyncio.sleep(0.1)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await sandbox.files.download("/workspace", tmp_path / "out")
        return body

    body, sandbox = in_sandbox(warm, scenario, profile=PROFILE + "    ports: [8080]\n")
    assert body == (tmp_path / "out/in.txt").read_bytes() == b"hello"
    found = [json.loads(parse_receipt(text).split.payload) for text in sandbox.session.bundle().receipts]
    assert sorted(each["kind"] for each in found if each["kind"] in {"file", "port"}) == [
        "file",
        "file",
        "port",
        "port",
    ]


@pytest.mark.slow
def test_files_without_asyncio(warm: Any, tmp_path: Path) -> None:
    with SandboxSync.create(profile=PROFILE, agent="dev", home=warm.home, **isolation(warm)) as sandbox:
        sandbox.files.write("/workspace/a", b"1")
        assert sandbox.files.read_text("/workspace/a") == "1"
        assert [found.path for found in sandbox.files.list("/workspace")] == ["a"]
        assert sandbox.files.stat("/workspace/a").size == 1
        assert sandbox.files.download("/workspace", tmp_path / "out").files == 1
        assert sandbox.files.upload(tmp_path / "out", "/workspace/up").files == 1
        assert sandbox.files.remove("/workspace/up").files == 1
        with raises_code("ports.denied"), sandbox.port(8080):
            pass


def test_an_error_of_the_close_at_the_end_of_its_time_is_raised_by_leaving() -> None:
    async def scenario() -> list[str]:
        reported: list[str] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: reported.append(context["message"])
        )
        sandbox = Sandbox(Held(), stack(full), ttl=0.01)  # type: ignore[arg-type]
        while sandbox._closing is None or not sandbox._closing.done():
            await asyncio.sleep(0.01)
        for leave in (sandbox.leave(None, None, None), sandbox.close()):
            with raises_code("workspace.unwritable"):
                await leave
        del sandbox
        gc.collect()
        await asyncio.sleep(0)
        return reported

    async def full(*_: object) -> None:
        raise StateError("the output cannot be written", code="workspace.unwritable")

    assert asyncio.run(scenario()) == []


def test_an_error_of_the_close_that_no_caller_waits_for_is_reported_once() -> None:
    async def scenario() -> list[str]:
        reported: list[str] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: reported.append(context["message"])
        )
        sandbox = Sandbox(Held(), stack(full), ttl=0.01)  # type: ignore[arg-type]
        while sandbox._closing is None or not sandbox._closing.done():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)
        del sandbox
        gc.collect()
        await asyncio.sleep(0)
        return reported

    async def full(*_: object) -> None:
        raise StateError("the output cannot be written", code="workspace.unwritable")

    assert len(asyncio.run(scenario())) == 1


def test_a_second_caller_of_close_waits_until_the_session_is_closed() -> None:
    async def scenario() -> None:
        begun, end, order = asyncio.Event(), asyncio.Event(), list[str]()

        async def slow(*_: object) -> None:
            begun.set()
            await end.wait()
            order.append("closed")

        async def closing(sandbox: Sandbox, name: str) -> None:
            await sandbox.close()
            order.append(name)

        sandbox = Sandbox(Held(), stack(slow))  # type: ignore[arg-type]
        leaving = asyncio.create_task(sandbox.leave(None, None, None))
        await begun.wait()
        others = [asyncio.create_task(closing(sandbox, name)) for name in ("one", "two")]
        await asyncio.sleep(0)
        others[1].cancel()  # one that no longer waits stops nothing
        end.set()
        await asyncio.gather(leaving, *others, return_exceptions=True)
        assert order == ["closed", "one"]

    asyncio.run(scenario())


def test_what_went_wrong_in_the_block_comes_before_what_went_wrong_after_it() -> None:
    async def full(*_: object) -> None:
        raise StateError("the output cannot be written", code="workspace.unwritable")

    async def scenario() -> None:
        async def made() -> Sandbox:
            return Sandbox(Held(), stack(full))  # type: ignore[arg-type]

        async with Opening(made):
            raise StateError("first", code="session.not_open")

    with raises_code("session.not_open"):
        asyncio.run(scenario())


class Held:
    """A session that does nothing."""


def stack(closed: Callable[..., Coroutine[Any, Any, None]]) -> AsyncExitStack:
    made = AsyncExitStack()
    made.push_async_exit(closed)
    return made
