"""Work for a client ends when the client leaves, and not for what the server says of one that has its answer."""

from __future__ import annotations

import asyncio

import pytest

from affiant.errors import AffiantError, StateError
from affiant.gateway.requests.request_run import SessionRequest
from affiant.gateway.sessions.sessions import Session
from affiant.gateway.wire.http_request import ClientGone, ClientResponse

pytestmark = pytest.mark.anyio


class Asked(SessionRequest):
    """A request of which only the client is there."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.steps: list[str] = []
        self._left = False
        self._client = ClientResponse(self.sent, keyset="k", receipt="r")

    async def sent(self, message: object) -> None:
        pass

    async def _receive(self) -> dict[str, object]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def answer(self, session: Session) -> None:
        raise NotImplementedError

    async def work(self) -> None:
        self.gone.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.steps.append("released")


async def test_work_ends_once_the_client_is_gone() -> None:
    asked = Asked()
    with pytest.raises(ClientGone):
        await asked._unless_gone(asked.work())
    assert asked.steps == ["released"]
    assert asyncio.current_task().cancelling() == 0, "what follows is not cancelled"


async def test_work_that_fails_because_it_was_ended_is_abandoned_all_the_same() -> None:
    asked = Asked()

    async def work() -> None:
        try:
            await asked.work()
        except asyncio.CancelledError:
            raise StateError("cut", code="gateway.error") from None

    with pytest.raises(ClientGone):
        await asked._unless_gone(work())


async def test_an_error_of_the_work_stays_its_own() -> None:
    asked = Asked()

    async def work() -> None:
        raise StateError("failed", code="gateway.error")

    with pytest.raises(AffiantError, match="failed"):
        await asked._unless_gone(work())


async def test_a_client_that_has_its_answer_has_not_left() -> None:
    asked = Asked()

    async def work() -> None:
        await asked._client.body(b"all", more=False)
        asked.gone.set()
        for _ in range(5):
            await asyncio.sleep(0)
        asked.steps.append("done")

    await asked._unless_gone(work())
    assert asked.steps == ["done"]


async def test_a_server_that_ends_is_no_client_that_leaves() -> None:
    asked = Asked()

    async def served() -> None:
        await asked._unless_gone(asyncio.Event().wait())  # type: ignore[arg-type]

    task = asyncio.create_task(served())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_both_at_once_end_the_server() -> None:
    asked = Asked()
    task = asyncio.create_task(asked._unless_gone(asked.work()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
