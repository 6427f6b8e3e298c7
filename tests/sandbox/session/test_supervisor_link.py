"""The launcher's link to its supervisor: an act that is begun after the session's end hears why, and never waits."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.raising import raises_code

from affiant.sandbox.processes.home import open_home
from affiant.sandbox.processes.service_process import ServiceSpec
from affiant.sandbox.session import supervisor_link
from affiant.sandbox.session.supervisor_link import SupervisorLink, start_supervisor
from affiant.sandbox.session_acts.sandbox_files import SandboxFiles
from affiant.sandbox.session_acts.sandbox_ports import open_port
from affiant.sandbox.supervisor.launch.control import ControlChannel


class Ended:
    """The process of a supervisor that has ended."""

    last_words = ""

    async def stop(self, *, grace_s: float) -> int:
        return 1

    async def wait(self) -> int:
        return 1


class Starting(Ended):
    """A supervisor whose template answers late: not before the event loop has done something else."""

    def __init__(self) -> None:
        self.begun, self.loop_ran = threading.Event(), threading.Event()
        self.stopped = False

    def __call__(self, spec: ServiceSpec, **_: object) -> Starting:
        self.begun.set()
        assert self.loop_ran.wait(20), "it was started on the loop's thread"
        assert all(os.fstat(descriptor) for descriptor in spec.fds), (
            "they are open as long as they are needed"
        )
        return self

    async def stop(self, *, grace_s: float) -> int:
        self.stopped = True
        return 1


async def started(folder: Path, membership: int) -> SupervisorLink:
    plan: Any = SimpleNamespace(session="ses_1", request=SimpleNamespace(runtime=None), rootfs=None)
    return await start_supervisor(
        open_home(folder / "home"), plan, lambda *_: None, td=None, membership=membership, echo=False
    )


def test_a_supervisor_that_starts_late_holds_up_no_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_link, "start_service", starting := Starting())

    async def scenario() -> None:
        asyncio.get_running_loop().call_later(0.05, starting.loop_ran.set)
        link = await started(tmp_path, membership=2)
        assert not starting.stopped
        await link.stop()

    asyncio.run(scenario())


def test_a_supervisor_whose_start_is_cancelled_is_stopped_before_anything_else_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_link, "start_service", starting := Starting())

    async def scenario() -> None:
        reading, writing = os.pipe()
        task = asyncio.create_task(started(tmp_path, membership=reading))
        while not starting.begun.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        asyncio.get_running_loop().call_later(0.05, starting.loop_ran.set)
        with pytest.raises(asyncio.CancelledError):
            await task
        os.close(reading)
        os.close(writing)

    asyncio.run(scenario())
    assert starting.stopped


async def asking(link: SupervisorLink) -> None:
    await link.ask({"op": "metrics"})


async def listing(link: SupervisorLink) -> None:
    await SandboxFiles(link.ask).list("/workspace")


async def opening_a_port(link: SupervisorLink) -> None:
    async with open_port(link.act, 8080):
        pytest.fail("it was opened")


BEGUN = pytest.mark.parametrize("begun", [asking, listing, opening_a_port])


def run(scenario: Callable[[SupervisorLink, ControlChannel], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        ours, theirs = socket.socketpair()
        link, supervisor = SupervisorLink(ControlChannel(ours), Ended()), ControlChannel(theirs)  # type: ignore[arg-type]
        try:
            async with asyncio.timeout(10):
                await scenario(link, supervisor)
        finally:
            await link.stop()
            supervisor.close()

    asyncio.run(whole())


@BEGUN
def test_an_act_after_the_supervisor_has_ended_the_session_hears_its_reason(begun) -> None:
    async def scenario(link: SupervisorLink, supervisor: ControlChannel) -> None:
        reason = {"event": "refused", "code": "gateway.lost", "message": "gone", "hint": None}
        await supervisor.send({**reason, "retryable": True})
        supervisor.close()
        with raises_code("gateway.lost"):
            await link.expect(frozenset())
        for _ in range(2):
            with raises_code("gateway.lost") as raised:
                await begun(link)
            assert raised.value.retryable is True

    run(scenario)


@BEGUN
def test_an_act_after_the_supervisor_was_lost_hears_that(begun) -> None:
    async def scenario(link: SupervisorLink, supervisor: ControlChannel) -> None:
        supervisor.close()
        with raises_code("session.supervisor_lost"):
            await link.expect(frozenset())
        with raises_code("session.supervisor_lost"):
            await begun(link)

    run(scenario)


@BEGUN
def test_an_act_after_the_session_was_closed_hears_that(begun) -> None:
    async def scenario(link: SupervisorLink, _: ControlChannel) -> None:
        await link.stop()
        with raises_code("session.not_open"):
            await begun(link)

    run(scenario)


def test_an_act_that_waits_while_the_session_is_closed_hears_that() -> None:
    async def scenario(link: SupervisorLink, supervisor: ControlChannel) -> None:
        waiting = asyncio.create_task(asking(link))
        assert await supervisor.receive() is not None
        await link.stop()
        with raises_code("session.not_open"):
            await waiting

    run(scenario)


def test_a_port_is_left_in_order_after_the_session_was_closed() -> None:
    async def scenario(link: SupervisorLink, supervisor: ControlChannel) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(answer(supervisor))
            async with open_port(link.act, 8080) as port:
                await link.stop()
        assert port.use is None

    async def answer(supervisor: ControlChannel) -> None:
        message = await supervisor.receive()
        assert message is not None
        message.close()
        await supervisor.send({"event": "opened", "id": message.members["id"]})

    run(scenario)


def test_the_callers_own_mistake_is_raised_and_not_awaited() -> None:
    """A descriptor that is closed: nothing was sent, and no answer would come."""

    async def scenario(link: SupervisorLink, _: ControlChannel) -> None:
        read, write = os.pipe()
        os.close(read)
        os.close(write)
        with pytest.raises(OSError, match="Bad file descriptor"):
            await link.ask({"op": "files"}, {"content": read})

    run(scenario)
