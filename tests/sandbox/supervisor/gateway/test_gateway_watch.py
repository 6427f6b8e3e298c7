"""Is the gateway still there: its own end is final and found at once, a short failure of the way to it is not."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.sandbox.supervisor.gateway.test_gateway_client import spki_of
from tests.secrets.certificates import Authority

from affiant.errors import AffiantError
from affiant.gateway.admission import draining
from affiant.sandbox.base.errors import GatewayUnreachable
from affiant.sandbox.supervisor.gateway import gateway_watch
from affiant.sandbox.supervisor.gateway.gateway_watch import GONE_HERE_AFTER_S, until_drained, until_gone
from affiant.sandbox.supervisor.launch.errors import AdmissionError, GatewayLost


@pytest.fixture
def leaf(tmp_path: Path) -> Path:
    return Authority().leaf(tmp_path, "127.0.0.1")


class Listening:
    """Something that accepts TLS connections and says nothing."""

    def __init__(self, leaf: Path, port: int) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(leaf)
        self.port = port
        self.connections: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        async def accepted(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connections.append(writer)

        self._server = await asyncio.start_server(accepted, "127.0.0.1", self.port, ssl=self._context)

    def hang_up(self) -> None:
        while self.connections:
            self.connections.pop().transport.abort()

    async def stop(self) -> None:
        self._server.close()
        self.hang_up()
        await self._server.wait_closed()

    async def until_watched(self) -> None:
        while not self.connections:
            await asyncio.sleep(0.01)


def free_port() -> int:
    with socket.socket() as found:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@asynccontextmanager
async def watched(leaf: Path) -> AsyncIterator[tuple[Listening, asyncio.Task[GatewayLost]]]:
    gateway = Listening(leaf, free_port())
    await gateway.start()
    watching = asyncio.create_task(until_gone(f"https://127.0.0.1:{gateway.port}", spki=spki_of(leaf)))
    try:
        await asyncio.wait_for(gateway.until_watched(), 5)
        yield gateway, watching
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await gateway.stop()


def run(leaf: Path, scenario: Callable[[Listening, asyncio.Task[GatewayLost]], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(20), watched(leaf) as (gateway, watching):
            await scenario(gateway, watching)

    asyncio.run(whole())


def test_an_address_where_nobody_listens_any_more_is_final_at_once(leaf: Path) -> None:
    async def scenario(gateway: Listening, watching: asyncio.Task[GatewayLost]) -> None:
        await asyncio.sleep(1.1)
        began = time.monotonic()
        await gateway.stop()
        lost = await asyncio.wait_for(watching, 2)
        assert time.monotonic() - began < 2
        assert (lost.code, lost.retryable) == ("gateway.lost", False)
        assert "nothing listens" in str(lost)

    run(leaf, scenario)


def test_a_connection_that_breaks_is_not(leaf: Path) -> None:
    async def scenario(gateway: Listening, watching: asyncio.Task[GatewayLost]) -> None:
        for _ in range(2):
            gateway.hang_up()
            await asyncio.wait_for(gateway.until_watched(), 5)
        assert not watching.done()

    run(leaf, scenario)


def test_a_moment_without_a_listener_is_not(leaf: Path) -> None:
    async def scenario(gateway: Listening, watching: asyncio.Task[GatewayLost]) -> None:
        await asyncio.sleep(1.1)
        await gateway.stop()
        await asyncio.sleep(GONE_HERE_AFTER_S / 2)
        await gateway.start()
        await asyncio.wait_for(gateway.until_watched(), 5)
        assert not watching.done()

    run(leaf, scenario)


def test_another_key_at_the_address_is_final(leaf: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Authority().leaf(tmp_path / "other", "127.0.0.1")

    async def scenario(gateway: Listening, watching: asyncio.Task[GatewayLost]) -> None:
        await gateway.stop()
        stranger = Listening(other, gateway.port)
        await stranger.start()
        try:
            lost = await asyncio.wait_for(watching, 5)
            assert "another one answers" in str(lost)
            assert "stopped" not in str(lost)
        finally:
            await stranger.stop()
            await gateway.start()

    run(leaf, scenario)


def test_a_way_that_is_silent_is_not(leaf: Path) -> None:
    """A listener that accepts nothing: connections stand in its queue, and TLS is never answered."""

    async def whole() -> None:
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen(8)
            watching = asyncio.create_task(
                until_gone(f"https://127.0.0.1:{silent.getsockname()[1]}", spki=spki_of(leaf))
            )
            await asyncio.sleep(GONE_HERE_AFTER_S * 2)
            assert not watching.done()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    asyncio.run(whole())


def test_a_supervisor_whose_question_failed_asks_again_before_a_drain_gives_it_up() -> None:
    assert gateway_watch._ASKED_AGAIN_S <= draining._ASKED_AGAIN_S / 2


def test_a_supervisor_asks_on_through_failures_until_its_gateway_is_to_be_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gateway_watch, "_ASKED_AGAIN_S", 0.01)
    unknown = AdmissionError("no such path", gateway_code="not_found")
    said: list[bool | AffiantError] = [False, GatewayUnreachable("gone"), unknown, False, True]

    async def is_to_close() -> bool:
        answer = said.pop(0)
        if isinstance(answer, AffiantError):
            raise answer
        return answer

    drained = asyncio.run(until_drained(is_to_close))
    assert not said and drained.code == "gateway.drained" and drained.retryable is True
