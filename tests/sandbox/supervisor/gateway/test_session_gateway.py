"""What a session's gateway answers, as the supervisor takes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from tests.raising import raises_code

from affiant.sandbox.supervisor.gateway import session_gateway
from affiant.sandbox.supervisor.gateway.session_gateway import SessionGateway

PIECES = (b"a" * 600, b"b" * 600)


class Answer:
    """A bundle that comes in two pieces."""

    status = 200
    closed = False

    async def chunks(self) -> AsyncIterator[bytes]:
        for piece in PIECES:
            yield piece

    async def body(self, _limit: int) -> bytes:
        return b'{"error":{"code":"session.bundle_too_large","message":"m"}}'

    async def close(self) -> None:
        self.closed = True


def fetched(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> bytes:
    async def send(*_: object, **__: object) -> Answer:
        return answer

    async def all_of_it() -> bytes:
        gateway = SessionGateway(
            cast("Any", None), cast("Any", None), session="S" * 22, keyset_digest="", clock=cast("Any", None)
        )
        return b"".join([piece async for piece in gateway.bundle()])

    monkeypatch.setattr(SessionGateway, "send", send)
    return asyncio.run(all_of_it())


def test_a_bundle_that_is_too_large_names_the_command_that_exports_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_gateway, "_MAX_BUNDLE", 1199)
    answer = Answer()
    with raises_code("session.bundle_too_large") as raised:
        fetched(monkeypatch, answer)
    assert answer.closed
    assert f"affiant bundle export --session {'S' * 22} --openings" in str(raised.value.hint)
    monkeypatch.setattr(session_gateway, "_MAX_BUNDLE", 1200)
    assert fetched(monkeypatch, Answer()) == b"".join(PIECES)


def test_a_bundle_that_the_gateway_finds_too_large_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answer()
    answer.status = 409
    with raises_code("session.bundle_too_large"):
        fetched(monkeypatch, answer)
    assert answer.closed
