"""A supervisor's requests to its launcher: answered once, in any order, in time, or an error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import pytest
from tests.raising import raises_code

from affiant.errors import StateError
from affiant.sandbox.supervisor.launch.control import refusal_members
from affiant.sandbox.supervisor.launch.launcher_requests import LauncherRequests


def run(scenario: Callable[[LauncherRequests, list[Mapping[str, object]]], Awaitable[None]]) -> None:
    async def whole() -> None:
        told: list[Mapping[str, object]] = []

        async def tell(event: Mapping[str, object]) -> None:
            told.append(event)

        async with asyncio.timeout(10):
            await scenario(LauncherRequests(tell), told)

    asyncio.run(whole())


async def begun(requests: LauncherRequests, count: int) -> list[asyncio.Task[Mapping[str, object]]]:
    tasks = [asyncio.create_task(requests.ask({"act": "x"}, within_s=60)) for _ in range(count)]
    for _ in range(count + 2):
        await asyncio.sleep(0)
    return tasks


def test_each_request_gets_its_own_answer() -> None:
    async def scenario(requests: LauncherRequests, told: list[Mapping[str, object]]) -> None:
        one, other = await begun(requests, 2)
        assert told == [{"event": "ask", "call": 0, "act": "x"}, {"event": "ask", "call": 1, "act": "x"}]
        requests.answer({"op": "answer", "call": 1, "result": {"a": 1}})
        requests.answer({"op": "answer", "call": 0, "refused": refusal_members(StateError("no", code="a.b"))})
        assert await other == {"a": 1}
        with raises_code("a.b"):
            await one

    run(scenario)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"call": 7, "result": {}},
        {"call": True, "result": {}},
        {"call": "0", "result": {}},
        {"call": None, "refused": {}},
    ],
)
def test_an_answer_to_nothing_is_dropped(answer: dict[str, object]) -> None:
    async def scenario(requests: LauncherRequests, told: list[Mapping[str, object]]) -> None:
        (task,) = await begun(requests, 1)
        requests.answer(answer)
        await asyncio.sleep(0)
        assert not task.done()
        requests.answer({"call": 0, "result": {"a": 1}})
        requests.answer({"call": 0, "result": {"a": 2}})
        assert await task == {"a": 1}

    run(scenario)


def test_an_answer_of_another_form_is_an_error() -> None:
    async def scenario(requests: LauncherRequests, told: list[Mapping[str, object]]) -> None:
        (task,) = await begun(requests, 1)
        requests.answer({"call": 0, "result": [1]})
        with raises_code("session.control"):
            await task

    run(scenario)


def test_silence_is_an_error_and_the_request_is_taken_back() -> None:
    async def scenario(requests: LauncherRequests, told: list[Mapping[str, object]]) -> None:
        with raises_code("session.launcher_silent"):
            await requests.ask({"act": "x"}, within_s=0.01)
        assert told[-1] == {"event": "ask-cancel", "call": 0}

    run(scenario)


def test_a_cancelled_request_is_taken_back() -> None:
    async def scenario(requests: LauncherRequests, told: list[Mapping[str, object]]) -> None:
        (task,) = await begun(requests, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert told[-1] == {"event": "ask-cancel", "call": 0}

    run(scenario)


def test_requests_at_once_are_bounded() -> None:
    async def scenario(requests: LauncherRequests, told: list[Mapping[str, object]]) -> None:
        tasks = await begun(requests, 64)
        with raises_code("session.busy"):
            await requests.ask({"act": "x"}, within_s=60)
        assert len(told) == 64
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(scenario)
