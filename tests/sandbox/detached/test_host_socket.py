"""A session host's socket: what a client hears of an error of the session behind it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.raising import raises_code

from affiant.errors import AffiantError, StateError, UnreachableError
from affiant.sandbox.detached.client import DetachedSession
from affiant.sandbox.detached.host_socket import HostServer
from affiant.sandbox.session_state.session_folder import HOST_SOCKET
from affiant.sandbox.supervisor.launch.control import refusal_members, sent_error


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (UnreachableError("no answer", hint="Ask again", code="service.silent"), True),
        (StateError("closed", code="session.not_open"), False),
    ],
)
def test_a_client_hears_whether_to_try_again_as_the_supervisor_said_it(
    tmp_path: Path, error: AffiantError, *, retryable: bool
) -> None:
    async def ask(*_: object) -> None:
        raise sent_error(refusal_members(error))

    async def scenario() -> None:
        server = HostServer(SimpleNamespace(ask=ask), tmp_path, lambda: 0, {})  # type: ignore[arg-type]
        client = DetachedSession(SimpleNamespace(session=lambda _: tmp_path), "s")  # type: ignore[arg-type]
        async with asyncio.timeout(10), server.listening(tmp_path / HOST_SOCKET):
            with raises_code(error.code) as raised:
                await client.metrics()
            assert raised.value.retryable is retryable
            await server.finish({"event": "stopped"})

    asyncio.run(scenario())
