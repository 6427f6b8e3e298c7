"""Acts of an open session: each under its number, bounded, and an error in one leaves the others alone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

import pytest
from tests.raising import raises_code

from affiant.errors import ConfigurationError
from affiant.sandbox.supervisor.acts import Act, Acts, Ending, act_number
from affiant.sandbox.supervisor.launch.control import Message


class World:
    """A launcher that keeps what it is told, and why the session ended."""

    def __init__(self, *, most: int = 2) -> None:
        self.told: list[Mapping[str, object]] = []
        self.endings: list[Ending] = []
        self.acts = Acts(self.tell, self.endings.append, most=most)

    async def tell(self, event: Mapping[str, object]) -> None:
        self.told.append(event)

    async def over(self) -> None:
        await asyncio.gather(*self.acts.tasks)


def ask(number: object, **descriptors: int) -> Message:
    return Message({"op": "run", "id": number}, descriptors)


@pytest.mark.parametrize("number", [None, "1", -1, True, 1.0, 1 << 31])
def test_an_act_without_a_number_cannot_be_answered(number: object) -> None:
    with raises_code("session.control"):
        act_number({"id": number})


def test_every_event_carries_the_number_of_its_act_and_acts_run_at_once() -> None:
    async def scenario() -> list[Mapping[str, object]]:
        world, both = World(), asyncio.Barrier(2)

        async def handler(act: Act) -> None:
            await both.wait()
            await act.tell("done", {"value": act.number * 10})

        for number in (3, 1):
            world.acts.begin(ask(number), handler)
        await world.over()
        assert world.endings == []
        assert world.acts.tasks == ()
        return world.told

    told = asyncio.run(scenario())
    assert sorted(told, key=str) == [
        {"event": "done", "id": 1, "value": 10},
        {"event": "done", "id": 3, "value": 30},
    ]


def test_an_error_rejects_its_act_alone_and_never_the_session() -> None:
    async def scenario() -> None:
        world = World()

        async def handler(act: Act) -> None:
            raise ConfigurationError("no", hint="Ask otherwise", code="session.environment")

        world.acts.begin(ask(5), handler)
        await world.over()
        assert world.endings == []
        assert world.told == [
            {
                "event": "rejected",
                "id": 5,
                "code": "session.environment",
                "message": "no",
                "hint": "Ask otherwise",
            }
        ]

    asyncio.run(scenario())


def test_what_a_handler_returns_or_a_mistake_of_ours_ends_the_session() -> None:
    async def scenario() -> None:
        world, lost = World(), Ending("killed")

        async def ends(act: Act) -> Ending:
            return lost

        async def mistaken(act: Act) -> None:
            raise KeyError("never shown")

        world.acts.begin(ask(1), ends)
        world.acts.begin(ask(2), mistaken)
        await world.over()
        first, second = world.endings
        assert first is lost
        assert second.refusal is not None
        assert second.refusal.code == "session.act"
        assert "never shown" not in str(second.refusal)

    asyncio.run(scenario())


def test_one_more_than_the_bound_is_rejected_with_its_descriptors_closed() -> None:
    async def scenario() -> None:
        world, go = World(most=1), asyncio.Event()

        async def handler(act: Act) -> None:
            await go.wait()

        world.acts.begin(ask(1), handler)
        reading, writing = os.pipe()
        world.acts.begin(ask(2, stdout=writing), handler)
        while not world.told:
            await asyncio.sleep(0)
        assert (world.told[0]["event"], world.told[0]["id"]) == ("rejected", 2)
        assert (world.told[0]["code"], world.told[0]["retryable"]) == ("session.busy", True)
        assert os.read(reading, 1) == b""
        os.close(reading)
        go.set()
        await world.over()
        world.acts.begin(ask(2), handler)
        await world.over()
        assert len(world.told) == 1

    asyncio.run(scenario())


def test_a_number_of_an_act_under_way_is_an_error_of_the_launchers() -> None:
    async def scenario() -> None:
        world, go = World(), asyncio.Event()

        async def handler(act: Act) -> None:
            await go.wait()

        world.acts.begin(ask(1), handler)
        with raises_code("session.control"):
            world.acts.begin(ask(1), handler)
        go.set()
        await world.over()

    asyncio.run(scenario())
