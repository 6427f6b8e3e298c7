"""dstack's guest agent, over a real unix socket: a quote over what was asked, or a named refusal."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from affiant.attestation.sources.dstack import DstackAgent
from affiant.attestation.sources.errors import (
    ResponseRefused,
    SettingsInvalid,
    SourceAbsent,
    SourceBusy,
    SourceDenied,
)
from affiant.errors import AffiantError

from .conftest import REPORT_DATA

Quoting = Callable[[bytes], bytes]


class Agent:
    """Answers every request with ``answer`` of its JSON body, and keeps what it was asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.answer: Callable[[dict[str, str]], bytes] = lambda _: b""
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(path))
        self.listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as reader:
                line = reader.readline().decode()
                size = 0
                while (header := reader.readline().strip().lower()) != b"":
                    if header.startswith(b"content-length:"):
                        size = int(header.split(b":")[1])
                body = json.loads(reader.read(size))
                self.asked.append((line.split(" ")[1], body))
                try:
                    connection.sendall(self.answer(body))
                except OSError:
                    continue


def ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        len(body),
        body,
    )


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
    running.listener.shutdown(socket.SHUT_RDWR)
    running.listener.close()


def refusal(agent: Agent, **options: float) -> AffiantError:
    with pytest.raises(AffiantError) as refused:
        DstackAgent(agent.path, **options).quote(REPORT_DATA)
    return refused.value


def test_a_quote_comes_with_its_event_log(agent: Agent, quoting: Quoting) -> None:
    found = DstackAgent(agent.path).quote_with_log(REPORT_DATA)
    assert found.quote == quoting(REPORT_DATA) == DstackAgent(agent.path).quote(REPORT_DATA)
    assert found.event_log == b'[{"imr":3}]'
    assert agent.asked[0] == ("/GetQuote", {"report_data": REPORT_DATA.hex()})


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
    assert isinstance(refusal(agent), SourceBusy)


def test_a_silent_agent_is_given_up(agent: Agent) -> None:
    wait = threading.Event()
    agent.answer = lambda _: (wait.wait(5), b"")[1]
    found = refusal(agent, silence_s=0.2)
    wait.set()
    assert isinstance(found, SourceBusy)


def test_a_machine_without_an_agent_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsent, match="mounted"):
        DstackAgent(tmp_path / "none.sock").quote(REPORT_DATA)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may use every socket")
def test_a_socket_of_somebody_else_is_named(agent: Agent) -> None:
    agent.path.chmod(0)
    assert isinstance(refusal(agent), SourceDenied)
