"""Commands that go on between calls: how many there are, how they fail, how long a call takes. Sandboxes are stubs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("agents.sandbox", reason="needs affiant[openai-agents]")

from agents.sandbox.errors import ExecTransportError  # noqa: E402 - the SDK may be missing
from agents.sandbox.session.pty_types import PTY_PROCESSES_MAX, PtyExecUpdate  # noqa: E402

from affiant.errors import StateError  # noqa: E402
from affiant.sandbox.openai_agents.terminals import Terminals  # noqa: E402


async def start(terminals: Terminals, sandbox: Any, *, tty: bool = False, wait_s: float = 0) -> PtyExecUpdate:
    return await terminals.start(sandbox, ["x"], env={}, cwd="/", tty=tty, wait_s=wait_s, max_tokens=None)


class Failing:
    """A sandbox in which this process finds no descriptor left."""

    @asynccontextmanager
    async def pty(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise OSError(24, "Too many open files")
        yield

    async def stream(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise OSError(24, "Too many open files")
        yield


@pytest.mark.parametrize("tty", [True, False])
def test_whatever_ends_a_command_on_this_side_is_an_error_and_no_exit(tty: bool) -> None:  # noqa: FBT001
    with pytest.raises(ExecTransportError, match="Too many open files") as caught:
        asyncio.run(start(Terminals(), Failing(), tty=tty, wait_s=1))
    assert isinstance(caught.value.cause, OSError)


class Endless:
    """A sandbox whose commands run until they are ended, which takes a moment. ``most``: how many ran at once."""

    def __init__(self) -> None:
        self.running = self.most = 0

    async def stream(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.running -= 1
        yield


def test_starts_at_once_make_no_more_commands_than_there_may_be() -> None:
    async def go() -> tuple[int, int]:
        terminals, sandbox = Terminals(), Endless()
        for _ in range(2):
            await asyncio.gather(*(start(terminals, sandbox) for _ in range(PTY_PROCESSES_MAX)))
        await terminals.end_all()
        return sandbox.most, sandbox.running

    assert asyncio.run(go()) == (PTY_PROCESSES_MAX, 0)


class Typed:
    """A sandbox with a terminal on which typing fails as ``code``."""

    def __init__(self, code: str) -> None:
        self.code, self.ended, self.timeout = code, asyncio.Event(), 0.0

    async def write(self, _: bytes, *, timeout: float) -> None:
        self.timeout = timeout
        self.ended.set()
        raise StateError("typing failed", code=self.code)

    async def read(self) -> bytes:
        if self.code == "session.terminal_full":
            await asyncio.Event().wait()
        await self.ended.wait()
        return b""

    async def wait(self) -> Any:
        return SimpleNamespace(limit=None, exit_code=7)

    @asynccontextmanager
    async def pty(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        with suppress(asyncio.CancelledError):
            yield self


def typed(code: str) -> tuple[PtyExecUpdate, float]:
    async def go() -> tuple[PtyExecUpdate, float]:
        terminals, sandbox = Terminals(), Typed(code)
        begun = await start(terminals, sandbox, tty=True)
        assert begun.process_id is not None
        try:
            update = await terminals.type(begun.process_id, "x" * 600_000, wait_s=2, max_tokens=None)
        finally:
            await terminals.end_all()
        return update, sandbox.timeout

    return asyncio.run(go())


def test_typing_to_a_command_that_has_ended_gives_its_end() -> None:
    update, timeout = typed("session.terminal_ended")
    assert (update.process_id, update.exit_code) == (None, 7)
    assert timeout == 2


def test_typing_that_the_command_does_not_read_is_an_error_within_the_calls_time() -> None:
    with pytest.raises(ExecTransportError) as caught:
        typed("session.terminal_full")
    assert caught.value.context["affiant"]["code"] == "session.terminal_full"
