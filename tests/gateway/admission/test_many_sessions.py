"""What a session costs does not depend on how many others are open: work is counted, not time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.gateway.in_process import InProcess, in_process
from tests.gateway.session_client import SessionClient, admission_headers, admission_of, draft

from affiant.attestation.simulated.served.client import PlatformClient
from affiant.gateway.sessions.sessions import SessionState

MORE = 60


@pytest.fixture
def gateway(platform: PlatformClient, tmp_path: Path) -> Iterator[InProcess]:
    with in_process(platform, tmp_path, sessions_max=MORE + 8) as started:
        yield started


def counted(gateway: InProcess, work: Callable[[], int]) -> int:
    """Steps of the interpreter in our own code, on the event loop's thread, while ``work`` is done; it must succeed."""
    steps = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal steps
        if "affiant" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        steps += event == "opcode"
        return trace

    async def watch(hook: Callable[[FrameType, str, object], Any] | None) -> None:
        sys.settrace(hook)

    gateway.run(watch(trace))
    try:
        assert work() in {200, 201}
    finally:
        gateway.run(watch(None))
    return steps


def costs(gateway: InProcess, platform: PlatformClient) -> dict[str, int]:
    """The steps of one admission, one request, one record and one close."""
    made = draft(gateway)
    body = admission_of(made, platform)
    found = {
        "admission": counted(
            gateway,
            lambda: gateway.ask("POST", "/v1/sessions", body, admission_headers(made.nonce)).status,
        )
    }
    client = SessionClient.start(gateway, platform)
    asked: dict[str, Callable[[], int]] = {
        "request": lambda: client.say("hi").status,
        "record": lambda: client.submit(client.exec_record()).status,
        "key": lambda: client.ask_for_mac_key().status,
        "end": lambda: client.submit(client.end_record()).status,
        "close": lambda: client.close().status,
    }
    return found | {name: counted(gateway, work) for name, work in asked.items()}


def test_what_a_session_costs_does_not_grow_with_those_that_are_open(
    gateway: InProcess, platform: PlatformClient
) -> None:
    costs(gateway, platform)  # whatever is made once
    few = costs(gateway, platform)
    for _ in range(MORE):
        SessionClient.start(gateway, platform, boot=False)
    many = costs(gateway, platform)
    grown = {name: many[name] - few[name] for name in few}
    assert all(more < 2 * MORE for more in grown.values()), grown
    assert gateway.service.sessions.population.open == MORE + 3
    states = [session.state for session in gateway.service.sessions]
    assert len([state for state in states if state is not SessionState.CLOSED]) == MORE + 3
