"""The supervisor's client of the runner: it owns each descriptor that comes, whatever happened to who asked."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping

from affiant.sandbox.isolation.plan.protocol import control_pair, receive_frame, send_frame
from affiant.sandbox.isolation.runner.client import RunnerClient


def test_a_connection_that_comes_as_its_caller_is_cancelled_is_closed() -> None:
    async def scenario() -> None:
        ours, theirs = control_pair()
        with theirs:
            async with RunnerClient(ours) as client:
                asking = asyncio.create_task(client.connect(80))
                while (asked := _question(theirs)) is None:
                    await asyncio.sleep(0.01)
                reading, writing = os.pipe()
                send_frame(theirs, {"id": asked["id"], "ok": {}}, (writing,))
                os.close(writing)
                client._read()  # the answer and the cancellation come in one turn of the loop
                asking.cancel()
                await asyncio.wait({asking})
                assert asking.cancelled()
                os.set_blocking(reading, False)
                assert os.read(reading, 1) == b"", "no one holds its other end"
                os.close(reading)

    asyncio.run(scenario())


def _question(theirs: socket.socket) -> Mapping[str, object] | None:
    theirs.setblocking(False)
    try:
        received = receive_frame(theirs)
    except BlockingIOError:
        return None
    assert received is not None
    return received[0]
