"""A host that is started from a program with an event loop ends with the request for it."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.sandbox.conftest import Machine, all_gone, family

from affiant.sandbox.detached import host_process
from affiant.sandbox.detached.host import StartingHost
from affiant.sandbox.isolation.plan.isolation_class import IsolationClass
from affiant.sandbox.processes.home import open_home
from affiant.sandbox.session.session_plan import SessionRequest


def test_a_request_that_is_cancelled_while_its_host_is_forked_leaves_none(
    warm: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts: list[StartingHost] = []
    forked, cancelled = threading.Event(), threading.Event()
    real = host_process._spawned

    def spawned(*asked: object) -> StartingHost:
        hosts.append(real(*asked))
        forked.set()
        assert cancelled.wait(30)
        return hosts[0]

    async def scenario() -> None:
        request = SessionRequest(
            profile=warm.folder / "profiles.yaml",
            agent="thinker",
            min_isolation=IsolationClass(warm.isolation),
        )
        asking = asyncio.create_task(host_process.create_detached(open_home(warm.home), request, ttl_s=300))
        assert await asyncio.to_thread(forked.wait, 30)
        asking.cancel()
        await asyncio.sleep(0)
        cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await asking

    monkeypatch.setattr(host_process, "_spawned", spawned)
    asyncio.run(scenario())
    assert all_gone(family(hosts[0].pid), 20)
