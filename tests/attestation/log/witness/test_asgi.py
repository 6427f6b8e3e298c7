"""The application's own bounds: a body that is too large, too slow, or never comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.attestation.log.witness.conftest import NOW, ORIGIN, request

from affiant.attestation.log.witness.asgi import WitnessApp
from affiant.attestation.log.witness.checkpoint_request import MAX_REQUEST_BYTES
from affiant.attestation.log.witness.witness import Witness, origin_hash

Receive = Callable[[], Awaitable[dict[str, Any]]]


def call(
    witness: Witness, receive: Receive, *, method: str = "POST", path: str = "/add-checkpoint"
) -> dict[str, Any]:
    """The answer's messages as one: status, headers, body."""
    sent: dict[str, Any] = {}

    async def send(message: Any) -> None:
        sent.update(message)

    async def scenario() -> None:
        with ThreadPoolExecutor(1) as worker:
            app = WitnessApp(witness, clock=lambda: NOW, worker=worker, body_s=0.2)
            await app({"type": "http", "method": method, "path": path}, receive, send)

    asyncio.run(scenario())
    return sent


def pieces(*bodies: bytes, end: bool = True) -> Receive:
    left = [
        {"type": "http.request", "body": body, "more_body": not end or number + 1 < len(bodies)}
        for number, body in enumerate(bodies)
    ]

    async def receive() -> dict[str, Any]:
        if not left:
            await asyncio.sleep(30)
        return left.pop(0)

    return receive


def test_a_body_in_pieces_is_one_request(witness: Witness) -> None:
    body = request(0, 9)
    assert call(witness, pieces(*(body[at : at + 50] for at in range(0, len(body), 50))))["status"] == 200


def test_a_body_that_never_ends_is_408_and_changes_nothing(witness: Witness) -> None:
    for body in ((), (request(0, 9),)):
        answer = call(witness, pieces(*body, end=False))
        assert answer["status"] == 408 and (b"connection", b"close") in answer["headers"]
    assert witness.state.all() == ()


def test_a_body_that_is_too_large_is_413_before_it_has_ended(witness: Witness) -> None:
    half = bytes(MAX_REQUEST_BYTES // 2 + 1)
    assert call(witness, pieces(half, half, end=False))["status"] == 413


def test_whoever_hangs_up_changes_nothing(witness: Witness) -> None:
    async def gone() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    call(witness, gone)
    assert witness.state.all() == ()


@pytest.mark.parametrize("path", ["/add-checkpoint", f"/{origin_hash(ORIGIN)}/checkpoint"])
def test_a_database_that_cannot_be_read_is_503(witness: Witness, path: str) -> None:
    witness.state._connection.execute("DROP TABLE latest")
    method = "POST" if path == "/add-checkpoint" else "GET"
    answer = call(witness, pieces(request(0, 9)), method=method, path=path)
    assert answer["status"] == 503 and b"witness.state_unavailable" in answer["body"]
