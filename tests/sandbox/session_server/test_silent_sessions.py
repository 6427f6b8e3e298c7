"""A session that does not answer: no request waits for it longer than its client, and none for ever."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.raising import raises_code

from affiant.sandbox.session_server.app import session_app
from affiant.sandbox.session_server.callers import TokenCallers
from affiant.sandbox.session_server.guard import Guard, Places
from affiant.sandbox.session_server.held_ports import HeldPorts
from affiant.sandbox.session_server.responding import in_time

TOKEN = "t" * 40
AT = "path=/workspace/x"
REQUESTS = [
    ("GET", "metrics", "", None),
    ("POST", "stop", "", None),
    ("POST", "exec", "", {"argv": ["true"]}),
    ("POST", "commands", "", {"argv": ["true"]}),
    ("GET", "commands/1/output", "", None),
    ("POST", "commands/1/signal", "", {"signal": 9}),
    ("GET", "file", AT, None),
    ("PUT", "file", AT, b"content"),
    ("DELETE", "file", AT, None),
    ("GET", "stat", AT, None),
    ("GET", "files", AT, None),
    ("GET", "tree", AT, None),
    ("PUT", "tree", AT, bytes(1024)),
    ("POST", "ports", "", {"port": 8080}),
]


class Silent:
    """A session, its files and a port of it: each call of it waits for ever."""

    id = "a" * 22

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.ended: list[str] = []

    @property
    def files(self) -> Silent:
        return self

    async def opened(self, owner: str, name: str) -> Silent:
        return self

    def port(self, number: int) -> Silent:
        return self

    async def __aenter__(self) -> None:
        await self._never("port")

    async def __aexit__(self, *_: object) -> None:
        raise AssertionError

    def __getattr__(self, name: str) -> Any:
        return lambda *_args, **_named: self._never(name)

    async def _never(self, name: str) -> None:
        self.asked.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.ended.append(name)


@pytest.mark.parametrize(("verb", "path", "query", "body"), REQUESTS)
def test_no_request_waits_longer_than_its_client(
    verb: str, path: str, query: str, body: Mapping[str, object] | bytes | None
) -> None:
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    scope = {
        "type": "http",
        "method": verb,
        "path": f"/v1/sessions/{Silent.id}/{path}",
        "query_string": query.encode(),
        "headers": [
            (b"authorization", f"Bearer {TOKEN}".encode()),
            (b"content-type", b"application/json"),
        ],
    }

    async def scenario() -> None:
        session, read = Silent(), False
        app = session_app(session, HeldPorts())  # type: ignore[arg-type]
        guard = Guard(app, TokenCallers(TOKEN.encode()), requests=Places(1, 1), trees=Places(1, 1))

        async def receive() -> dict[str, object]:
            nonlocal read
            if not read:
                read = True
                return {"type": "http.request", "body": data, "more_body": False}
            await session.asked.wait()
            return {"type": "http.disconnect"}

        async def send(_: object) -> None:
            pass

        async with asyncio.timeout(20):
            await guard(scope, receive, send)
            while not session.ended:
                await asyncio.sleep(0)

    asyncio.run(scenario())


def test_an_answer_that_does_not_come_in_time_is_an_error_and_is_waited_for_no_more() -> None:
    async def scenario() -> None:
        session = Silent()
        with raises_code("session.silent"):
            await in_time(session.metrics(), 0.01)
        assert session.ended == ["metrics"]

        async def failing() -> None:
            raise TimeoutError("of its own")

        with pytest.raises(TimeoutError, match="of its own"):
            await in_time(failing(), 20)

    asyncio.run(scenario())
