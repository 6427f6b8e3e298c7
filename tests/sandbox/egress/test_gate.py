"""The gate: whoever passes is judged and recorded before it is empty, whoever waits is judged after it opens."""

from __future__ import annotations

import asyncio

import pytest

from affiant.sandbox.egress.gate import Gate


def run(scenario) -> object:
    async def whole() -> object:
        async with asyncio.timeout(10):
            return await scenario

    return asyncio.run(whole())


def test_what_comes_while_it_is_held_waits_and_what_passed_ends_first() -> None:
    async def scenario() -> list[str]:
        gate, told, leave = Gate(), [], asyncio.Event()

        async def first() -> None:
            async with gate.passing():
                await leave.wait()
                told.append("first")

        async def second() -> None:
            async with gate.passing():
                told.append("second")

        tasks = [asyncio.create_task(first())]
        await asyncio.sleep(0)
        gate.hold()
        tasks.append(asyncio.create_task(second()))
        assert not await gate.empty(within_s=0.05)
        leave.set()
        assert await gate.empty(within_s=1)
        told.append("changed")
        gate.release()
        await asyncio.gather(*tasks)
        return told

    assert run(scenario()) == ["first", "changed", "second"]


def test_a_gate_that_is_held_again_before_a_waiter_runs_holds_it_too() -> None:
    async def scenario() -> bool:
        gate, passed = Gate(), asyncio.Event()

        async def waiter() -> None:
            async with gate.passing():
                passed.set()

        gate.hold()
        task = asyncio.create_task(waiter())
        await asyncio.sleep(0)
        gate.release()
        gate.hold()
        await asyncio.sleep(0.05)
        held = not passed.is_set()
        gate.release()
        await task
        return held

    assert run(scenario())


def test_what_is_cut_ends_by_itself_and_only_then_is_it_empty() -> None:
    async def scenario() -> list[str]:
        gate, told = Gate(), []

        async def request() -> None:
            async with gate.passing():
                try:
                    await asyncio.sleep(60)
                finally:
                    await asyncio.sleep(0.05)  # its record
                    told.append("recorded")

        task = asyncio.create_task(request())
        await asyncio.sleep(0)
        gate.hold()
        gate.cut()
        assert await gate.empty(within_s=1)
        told.append("empty")
        with pytest.raises(asyncio.CancelledError):
            await task
        return told

    assert run(scenario()) == ["recorded", "empty"]


def test_whoever_passes_again_inside_does_not_wait_for_itself() -> None:
    async def scenario() -> None:
        gate = Gate()
        async with gate.passing():
            gate.hold()
            async with gate.passing():
                pass
            assert not await gate.empty(within_s=0.01)  # the outer one is still there
        assert await gate.empty(within_s=0.01)

    run(scenario())
