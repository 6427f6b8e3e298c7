"""The launcher's half of a supervisor's life: what is asked once the supervisor is gone."""

from __future__ import annotations

import asyncio
import signal
import socket
from pathlib import Path

from tests.raising import raises_code

from affiant.sandbox.processes.service_process import ServiceSpec, start_service
from affiant.sandbox.session.supervisor_link import SupervisorLink
from affiant.sandbox.supervisor.launch.control import ControlChannel


def test_an_act_that_begins_after_the_supervisor_has_ended_hears_of_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        service = start_service(ServiceSpec(name="supervisor", argv=("asyncio",), home=tmp_path))
        link = SupervisorLink(ControlChannel(ours), service)
        try:
            with link.act() as waiting:
                service.send_signal(signal.SIGKILL)
                theirs.close()
                with raises_code("session.supervisor_lost"):
                    await waiting.next()
            async with asyncio.timeout(20):
                with raises_code("session.supervisor_lost"):
                    await link.ask({"op": "metrics"})
        finally:
            await link.stop()

    asyncio.run(scenario())
