"""Ports that callers have opened: an error is heard, whatever it is, and nothing is left of a port that is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any

import pytest
from tests.raising import raises_code

from affiant.errors import StateError
from affiant.sandbox.session_acts.sandbox_ports import OpenPort, open_port
from affiant.sandbox.session_server.held_ports import HeldPorts

ID = "x" * 22


class Supervisor:
    """Opens each port, and closes it when it is asked to or when the test says so."""

    def __init__(self) -> None:
        self.ends = asyncio.Event()
        self.why = "asked"
        self.opened = False

    @contextmanager
    def begin(self) -> Iterator[Supervisor]:
        yield self

    async def tell(self, message: Mapping[str, object], _: Mapping[str, int] | None = None) -> None:
        if message["op"] == "port-close":
            self.ends.set()

    async def next(self) -> Mapping[str, object]:
        if not self.opened:
            self.opened = True
            return {"event": "opened"}
        await self.ends.wait()
        return {"event": "closed", "why": self.why, "in": 1, "out": 2, "connections": 3, "refused": 0}


class Session:
    """A session whose supervisor a test plays."""

    id = ID

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.supervisors: list[Supervisor] = []

    def port(self, number: int) -> AbstractAsyncContextManager[OpenPort]:
        return self._port(number)

    @asynccontextmanager
    async def _port(self, number: int) -> AsyncIterator[OpenPort]:
        if self.error is not None:
            raise self.error
        self.supervisors.append(Supervisor())
        async with open_port(self.supervisors[-1].begin, number) as port:
            yield port


def run(work: Callable[[HeldPorts], Any]) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(20):
            held = HeldPorts()
            await work(held)
            await held.close_all()
            assert held._held == {}
            assert asyncio.all_tasks() == {asyncio.current_task()}, "no task is left"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "error",
    [OSError(24, "Too many open files"), ConnectionResetError(), ValueError(), StateError("no", code="x")],
)
def test_an_error_of_any_kind_is_raised_to_the_opener(error: Exception) -> None:
    async def work(held: HeldPorts) -> None:
        with pytest.raises(type(error)):
            await held.open(Session(error), 8080)  # type: ignore[arg-type]

    run(work)


def test_a_port_is_open_until_it_is_closed_and_says_what_it_was_used_for() -> None:
    async def work(held: HeldPorts) -> None:
        session: Any = Session()
        port = await held.open(session, 8080)
        assert port.use is None
        closed = await held.close(ID, 8080)
        assert closed is port and closed.use is not None
        assert (closed.use.why, closed.use.bytes_in, closed.use.bytes_out) == ("asked", 1, 2)
        with raises_code("ports.open"):
            await held.close(ID, 8080)

    run(work)


def test_nothing_is_left_of_a_port_that_ends_by_itself() -> None:
    async def work(held: HeldPorts) -> None:
        session: Any = Session()
        first = await held.open(session, 8080)
        session.supervisors[0].why = "bytes"
        session.supervisors[0].ends.set()
        await first.until_closed()
        while held._held:
            await asyncio.sleep(0)
        assert first.use is not None and first.use.why == "bytes"
        second = await held.open(session, 8080)
        assert await held.close(ID, 8080) is second

    run(work)


def test_a_port_that_is_opened_again_before_its_end_was_seen_is_the_later_one() -> None:
    async def work(held: HeldPorts) -> None:
        session: Any = Session()
        await held.open(session, 8080)
        later = await held.open(session, 8080)
        session.supervisors[0].ends.set()
        for _ in range(20):
            await asyncio.sleep(0)
        assert await held.close(ID, 8080) is later

    run(work)


def test_an_opener_that_leaves_while_it_is_opened_leaves_none() -> None:
    async def work(held: HeldPorts) -> None:
        begun = asyncio.Event()

        class Slow(Session):
            @asynccontextmanager
            async def _port(self, number: int) -> AsyncIterator[OpenPort]:
                begun.set()
                await asyncio.sleep(100)
                yield OpenPort(number, ("127.0.0.1", 1))

        opening = asyncio.create_task(held.open(Slow(), 8080))  # type: ignore[arg-type]
        await begun.wait()
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)

    run(work)


def test_all_ports_of_one_session_are_closed_with_it() -> None:
    async def work(held: HeldPorts) -> None:
        session: Any = Session()
        for number in (1, 2, 3):
            await held.open(session, number)
        await held.close_session("y" * 22)
        assert len(held._held) == 3
        await held.close_session(ID)
        assert held._held == {}

    run(work)
