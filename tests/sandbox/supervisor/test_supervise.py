"""What a supervisor finishes before it ends, and for how long."""

from __future__ import annotations

import asyncio

import pytest

from affiant.sandbox.supervisor.supervise import _finishing


async def interrupted(takes_s: float, *, within_s: float) -> list[str]:
    """What becomes of work whose wait is cancelled."""
    became: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(takes_s)
            became.append("ended")
        except asyncio.CancelledError:
            became.append("cancelled")
            raise

    waiting = asyncio.ensure_future(_finishing(work(), within_s=within_s))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(waiting, 10)
    return became


def test_an_admission_that_is_under_way_comes_to_its_end() -> None:
    assert asyncio.run(interrupted(0.05, within_s=30)) == ["ended"]


def test_a_gateway_that_does_not_answer_is_not_waited_for_longer_than_the_bound() -> None:
    assert asyncio.run(interrupted(3600, within_s=0.05)) == ["cancelled"]
