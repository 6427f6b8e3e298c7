"""One command's outputs: what the supervisor does while nothing is to be read."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from affiant.sandbox.supervisor.command_execution import RunServices, _Output
from affiant.sandbox.supervisor.launch.user_streams import UserOutput


class Plain:
    """A broker that knows no secret."""

    @asynccontextmanager
    async def redactor(self, *, live: bool) -> AsyncIterator[Any]:
        async def unchanged(data: bytes) -> bytes:
            return data

        async def rest() -> tuple[bytes, int]:
            return b"", 0

        async def nothing() -> bytes:
            return b""

        yield SimpleNamespace(feed=unchanged, settle=nothing, flush=rest)


def test_an_output_is_watched_only_while_it_is_waited_for() -> None:
    """At its end a pipe is ready for ever: watched on, it would take a processor until the command's end is known."""

    async def scenario() -> tuple[list[bool], bytes]:
        reading, writing = os.pipe()
        unused: Any = None
        services = RunServices(unused, Plain(), unused, "gvisor", ThreadPoolExecutor(2))  # type: ignore[arg-type]
        output = _Output(services, UserOutput(writing), threading.Event())
        loop = asyncio.get_running_loop()
        watched = [loop.remove_reader(output._reading)]
        copying = asyncio.create_task(output.copy())
        os.write(output.write_end, b"one")
        while await asyncio.to_thread(os.read, reading, 3) != b"one":
            pass
        await asyncio.sleep(0.01)
        os.write(output.write_end, b"two")
        output.close_write_end()
        await copying
        watched.append(loop.remove_reader(output._reading))
        output.close()
        output._user.close()
        with open(reading, "rb") as left:
            return watched, left.read()

    assert asyncio.run(scenario()) == ([False, False], b"two")
