"""dstack's guest agent, over a real unix socket: a quote over what was asked, or a named refusal."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.attestation.quote.providers.conftest import REPORT_DATA
from tests.attestation.quote.providers.dstack_agent import Agent, ok, refused

from affiant.attestation.quote.providers.base.errors import (
    ProviderAbsent,
    ProviderBusy,
    ProviderDenied,
    ResponseRefused,
    SettingsInvalid,
)
from affiant.attestation.quote.providers.clouds.dstack import (
    DSTACK_SOCKET,
    TAPPD_SOCKET,
    DstackAgent,
    DstackAPI,
)
from affiant.errors import AffiantError

Quoting = Callable[[bytes], bytes]


@pytest.fixture
def agent(tmp_path: Path, quoting: Quoting) -> Iterator[Agent]:
    running = Agent(tmp_path / "dstack.sock")
    running.answer = lambda body: ok(
        json.dumps(
            {
                "quote": quoting(bytes.fromhex(body["report_data"])).hex(),
                "event_log": '[{"imr":3}]',
                "report_data": body["report_data"],
                "vm_config": "{}",
            }
        ).encode()
    )
    yield running
    running.close()


def refusal(agent: Agent, **options: float) -> AffiantError:
    with pytest.raises(AffiantError) as refused:
        DstackAgent(agent.path, **options).quote(REPORT_DATA)
    return refused.value


def test_a_quote_comes_with_its_event_log(agent: Agent, quoting: Quoting) -> None:
    found = DstackAgent(agent.path).quote_with_log(REPORT_DATA)
    assert found.quote == quoting(REPORT_DATA) == DstackAgent(agent.path).quote(REPORT_DATA)
    assert found.event_log == b'[{"imr":3}]'
    assert agent.asked[0] == ("/GetQuote", {"report_data": REPORT_DATA.hex()})


def test_the_older_agent_is_asked_at_its_own_endpoint(agent: Agent, quoting: Quoting) -> None:
    """And by RawQuote: TdxQuote would hash the report data."""
    assert DstackAgent(agent.path, api=DstackAPI.TAPPD).quote(REPORT_DATA) == quoting(REPORT_DATA)
    assert agent.asked == [("/prpc/Tappd.RawQuote?json", {"report_data": REPORT_DATA.hex()})]


def test_the_newer_socket_goes_before_the_older(agent: Agent, tmp_path: Path) -> None:
    DstackAgent.of_this_machine(agent.path, tmp_path / "none.sock").quote(REPORT_DATA)
    DstackAgent.of_this_machine(tmp_path / "none.sock", agent.path).quote(REPORT_DATA)
    DstackAgent.of_this_machine(agent.path, agent.path).quote(REPORT_DATA)
    assert [target.split("?")[0] for target, _ in agent.asked] == [
        "/GetQuote",
        "/prpc/Tappd.RawQuote",
        "/GetQuote",
    ]
    with pytest.raises(ProviderAbsent, match="guest"):
        DstackAgent.of_this_machine(tmp_path / "guest", tmp_path / "tappd").quote(REPORT_DATA)
    assert (str(DSTACK_SOCKET), str(TAPPD_SOCKET)) == ("/var/run/dstack.sock", "/var/run/tappd.sock")


def test_an_event_is_sent_in_hexadecimal_and_a_refusal_is_one(agent: Agent) -> None:
    agent.answer = lambda _: ok(b"")
    DstackAgent(agent.path).emit_event("name", b"\x00\xff")
    assert agent.asked == [("/EmitEvent", {"event": "name", "payload": "00ff"})]
    agent.answer = lambda _: refused(400)
    with pytest.raises(ResponseRefused, match="400"):
        DstackAgent(agent.path).emit_event("name", b"")


@pytest.mark.parametrize("size", [0, 32, 63, 65])
def test_report_data_of_another_size_is_not_sent(agent: Agent, size: int) -> None:
    with pytest.raises(SettingsInvalid):
        DstackAgent(agent.path).quote(bytes(size))
    assert agent.asked == []


def test_a_quote_over_other_report_data_is_refused(agent: Agent, quoting: Quoting) -> None:
    agent.answer = lambda _: ok(json.dumps({"quote": quoting(bytes(64)).hex()}).encode())
    assert "other report data" in str(refusal(agent))


@pytest.mark.parametrize(
    "answer",
    [
        ok(b""),
        ok(b"[]"),
        ok(b"{}"),
        ok(b'{"quote":7}'),
        ok(b'{"quote":"zz"}'),
        ok(b'{"quote":"04 00"}'),
        ok(b'{"quote":"0400"}'),
        ok(b'{"quote":"00","quote":"01"}'),
        ok(b'{"quote":"00","event_log":[]}'),
        b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b"x" * (5 * 1024 * 1024),
    ],
)
def test_another_answer_is_refused(agent: Agent, answer: bytes) -> None:
    agent.answer = lambda _: answer
    assert isinstance(refusal(agent), ResponseRefused)


@pytest.mark.parametrize(
    "answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{}"]
)
def test_an_agent_that_breaks_off_is_busy(agent: Agent, answer: bytes) -> None:
    agent.answer = lambda _: answer
    assert isinstance(refusal(agent), ProviderBusy)


def test_a_silent_agent_is_given_up(agent: Agent) -> None:
    wait = threading.Event()
    agent.answer = lambda _: (wait.wait(5), b"")[1]
    found = refusal(agent, silence_s=0.2)
    wait.set()
    assert isinstance(found, ProviderBusy)


def test_a_machine_without_an_agent_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProviderAbsent, match="mounted"):
        DstackAgent(tmp_path / "none.sock").quote(REPORT_DATA)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may use every socket")
def test_a_socket_of_somebody_else_is_named(agent: Agent) -> None:
    agent.path.chmod(0)
    assert isinstance(refusal(agent), ProviderDenied)
