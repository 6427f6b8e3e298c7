"""What a session host answers: errors and limits whole, kept output that says what it is, and no phantom commands."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.raising import raises_code

from affiant.errors import AffiantError, ConfigurationError, StateError, UnreachableError
from affiant.sandbox.base.user_socket import connect_user_socket
from affiant.sandbox.detached import host_socket, kept_output
from affiant.sandbox.detached.client import DetachedSession
from affiant.sandbox.detached.host_socket import HostServer
from affiant.sandbox.detached.kept_output import output_folder
from affiant.sandbox.processes.home import Home, open_home
from affiant.sandbox.session.session import Running
from affiant.sandbox.session_acts.private_places import PrivatePlaces
from affiant.sandbox.session_state.session_folder import HOST_SOCKET
from affiant.sandbox.supervisor.launch.control import refusal_members, sent_error

ENDED: Mapping[str, object] = {"event": "exited", "id": 4, "code": 0, "usage": None, "limit": None}


class Act:
    """A command whose end is an event of the test's."""

    def __init__(self, end: asyncio.Future[Mapping[str, object]]) -> None:
        self._end = end
        self.told: list[Mapping[str, object]] = []

    async def tell(self, message: Mapping[str, object], descriptors: object = None) -> None:
        self.told.append(message)

    async def next(self) -> Mapping[str, object]:
        return await asyncio.shield(self._end)


class Held:
    """A session that rejects what is called ``rejected``, and runs the rest until the test ends it."""

    def __init__(self) -> None:
        self.ends: dict[str, asyncio.Future[Mapping[str, object]]] = {}

    @asynccontextmanager
    async def begin(self, argv: tuple[str, ...], streams: object, **more: object) -> AsyncIterator[Running]:
        if argv[0] == "rejected":
            raise ConfigurationError("a variable is set already", where="A", code="session.environment")
        end = self.ends.setdefault(argv[0], asyncio.get_running_loop().create_future())
        yield Running(Act(end), lambda step, detail: None)

    async def private(self) -> PrivatePlaces:
        return PrivatePlaces()

    def end(self, name: str, **more: object) -> None:
        self.ends.setdefault(name, asyncio.get_running_loop().create_future()).set_result({**ENDED, **more})


def served(home: Home, scenario: Callable[[Held, DetachedSession], Coroutine[Any, Any, None]]) -> None:
    async def go() -> None:
        held = Held()
        server = HostServer(held, output_folder(home, "S"), lambda: 7, {"session": "S"})  # type: ignore[arg-type]
        async with server.listening(home.session("S") / HOST_SOCKET):
            async with asyncio.timeout(30):
                await scenario(held, await DetachedSession(home, "S").opened())
        await server.finish({"event": "stopped"})

    asyncio.run(go())


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = open_home(tmp_path / "home")
    made.session("S").mkdir()
    return made


async def until_ended(session: DetachedSession, number: int) -> Any:
    while not (piece := await session.kept(number, wait=True)).ended:
        await asyncio.sleep(0.01)
    return piece


def test_a_limit_and_what_was_used_come_through_a_host(home: Home) -> None:
    limit = {"code": "isolation.limit", "message": "too much memory", "hint": None, "where": "memory"}
    usage = {"wall_us": 5_000_000, "processor_us": 2_000_000, "peak_bytes": 9}

    async def scenario(held: Held, session: DetachedSession) -> None:
        held.end("hog", code=137, limit=limit, usage=usage)
        result = await session.run(["hog"])
        assert (result.exit_code, result.timed_out) == (137, False)
        assert result.limit is not None and result.limit.code == "isolation.limit"
        assert result.usage is not None and (result.usage.wall_s, result.usage.peak_bytes) == (5.0, 9)

    served(home, scenario)


def test_a_detached_command_that_is_rejected_says_so_in_its_log(home: Home) -> None:
    async def scenario(held: Held, session: DetachedSession) -> None:
        piece = await until_ended(session, await session.detach(["rejected"]))
        assert piece.exit_code is None
        assert b"a variable is set already" in piece.stderr and b"[session.environment]" in piece.stderr

    served(home, scenario)


@pytest.mark.parametrize("opened", [0, 1, 2])
def test_a_command_whose_output_cannot_be_kept_is_an_error_and_no_phantom(
    home: Home, monkeypatch: pytest.MonkeyPatch, opened: int
) -> None:
    made: list[int] = []
    pipe2 = os.pipe2

    def full(flags: int) -> tuple[int, int]:
        made.append(1)
        if len(made) > opened:
            raise OSError(24, "Too many open files")
        return pipe2(flags)

    async def scenario(held: Held, session: DetachedSession) -> None:
        await asyncio.sleep(0.05)  # the connection that has ended is closed
        before = len(os.listdir("/proc/self/fd"))
        monkeypatch.setattr(kept_output.os, "pipe2", full)
        if opened == 2:
            monkeypatch.setattr(kept_output.os, "pipe2", pipe2)
            monkeypatch.setattr(kept_output.KeptStream, "__init__", lambda *_, **__: full(0))
            made.extend([1, 1])
        with raises_code("session.no_output"):
            await session.detach(["never"])
        monkeypatch.undo()
        commands = (await session.status())["commands"]
        assert isinstance(commands, list) and [each["ended"] for each in commands] == [7]
        await session.kill(1, 9)
        await asyncio.sleep(0.05)
        assert len(os.listdir("/proc/self/fd")) == before
        assert not list(output_folder(home, "S").iterdir())

    served(home, scenario)


def test_the_output_that_goes_is_that_of_the_first_to_have_ended(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_socket, "MOST_KEPT", 2)

    async def scenario(held: Held, session: DetachedSession) -> None:
        for name in ("one", "two", "three"):
            await session.detach([name])
        for name, number in (("three", 3), ("one", 1), ("two", 2)):
            held.end(name)
            await until_ended(session, number)
        await session.detach(["four"])
        with raises_code("session.no_output"):
            await session.kept(3)
        with raises_code("session.no_output"):
            await session.kept(1)
        assert (await session.kept(2)).ended

    served(home, scenario)


def test_every_command_is_listed_however_long_and_many_they_are(home: Home) -> None:
    async def scenario(held: Held, session: DetachedSession) -> None:
        for word in ("x" * 500_000, "\x01" * 100_000):
            held.end(word)
            for _ in range(160):
                await session.run([word, *[""] * 1000])
        commands = (await session.status())["commands"]
        assert isinstance(commands, list) and len(commands) == 256
        assert all(len(each["command"]) == 1 and len(each["command"][0]) == 401 for each in commands)

    served(home, scenario)


@pytest.mark.parametrize(
    "request_",
    [
        {"op": "run", "argv": ["x"], "env": {}, "cwd": None},
        {"op": "run", "argv": [], "env": {}, "cwd": None, "terminal": None},
        {"op": "detach", "argv": ["x"], "env": {}, "cwd": None, "timeout_ms": 0},
        {"op": "detach", "argv": ["x"], "env": {"A": 1}, "cwd": None, "timeout_ms": None},
        {"op": "finish", "why": "done"},
        {"op": "narrow"},
    ],
)
def test_what_is_no_request_is_an_error_and_the_next_one_is_served(
    home: Home, request_: Mapping[str, object]
) -> None:
    async def scenario(held: Held, session: DetachedSession) -> None:
        with session.act() as act:
            await act.tell(request_)
            with raises_code("session.control"):
                await act.next()
        assert (await session.status())["commands"] == []

    served(home, scenario)


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (UnreachableError("no answer", hint="Ask again", code="service.silent"), True),
        (StateError("closed", code="session.not_open"), False),
    ],
)
def test_a_client_hears_whether_to_try_again_as_the_supervisor_said_it(
    tmp_path: Path, error: AffiantError, *, retryable: bool
) -> None:
    async def ask(*_: object) -> None:
        raise sent_error(refusal_members(error))

    async def scenario() -> None:
        server = HostServer(SimpleNamespace(ask=ask), tmp_path, lambda: 0, {})  # type: ignore[arg-type]
        client = DetachedSession(SimpleNamespace(session=lambda _: tmp_path), "s")  # type: ignore[arg-type]
        async with asyncio.timeout(10), server.listening(tmp_path / HOST_SOCKET):
            with raises_code(error.code) as raised:
                await client.metrics()
            assert raised.value.retryable is retryable
            await server.finish({"event": "stopped"})

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (ValueError("secret"), "ValueError"),
        (OSError(24, "Too many open files"), "OSError: Too many open files"),
    ],
)
def test_a_mistake_of_the_hosts_is_answered_as_one_and_the_session_goes_on(
    home: Home, error: Exception, found: str
) -> None:
    async def ask(*_: object) -> None:
        raise error

    @asynccontextmanager
    async def begin(*_: object, **__: object) -> AsyncIterator[Running]:
        raise error
        yield

    async def scenario(held: Any, session: DetachedSession) -> None:
        held.ask, held.begin = ask, begin
        for call in (session.metrics(), session.run(["true"])):
            with raises_code("session.host_failed", match=found) as raised:
                await call
            assert "secret" not in str(raised.value)
        piece = await until_ended(session, await session.detach(["true"]))
        assert found.encode() in piece.stderr and b"[session.host_failed]" in piece.stderr
        assert b"secret" not in piece.stderr
        assert (await session.status())["session"] == "S"

    served(home, scenario)


def test_a_client_that_is_one_too_many_hears_so_and_can_still_close_the_session(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_socket, "_CONNECTIONS", 2)

    async def scenario() -> None:
        held, place = Held(), home.session("S") / HOST_SOCKET
        server = HostServer(held, output_folder(home, "S"), lambda: 7, {"session": "S"})  # type: ignore[arg-type]
        async with asyncio.timeout(30), server.listening(place):
            session = await DetachedSession(home, "S").opened()
            commands = [asyncio.create_task(session.run([name])) for name in ("one", "two")]
            while len(held.ends) < 2:
                await asyncio.sleep(0.01)
            with raises_code("session.busy") as raised:
                await session.run(["three"])
            assert raised.value.retryable is True
            idle = [await connect_user_socket(place) for _ in range(40)]  # most of them wait in the backlog
            for each in idle:
                each.close()
            assert (await (await DetachedSession(home, "S").opened()).status())["session"] == "S"
            closing = asyncio.create_task(session.close())
            await server.stop_asked.wait()
            await server.finish({"event": "stopped", "bundle": "b"})
            assert await closing == Path("b")
            for command in commands:
                command.cancel()
            await asyncio.gather(*commands, return_exceptions=True)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("asked", "why"), [(("done",), "done"), (("killed", "done"), "killed"), (("done", "killed"), "killed")]
)
def test_a_client_says_how_the_session_is_to_be_closed(home: Home, asked: tuple[Any, ...], why: str) -> None:
    async def scenario() -> None:
        server = HostServer(Held(), output_folder(home, "S"), lambda: 7, {})  # type: ignore[arg-type]
        async with asyncio.timeout(30), server.listening(home.session("S") / HOST_SOCKET):
            session = DetachedSession(home, "S")
            closing = []
            for each in asked:
                closing.append(asyncio.create_task(session.close(each)))
                await server.stop_asked.wait()
                await session.status()
            await session.status()
            assert server.stop_why == why
            with raises_code("session.control"):
                await session.ask({"op": "stop", "why": "lost"})
            await server.finish({"event": "stopped", "bundle": "b"})
            assert await asyncio.gather(*closing) == [Path("b")] * len(asked)

    asyncio.run(scenario())
