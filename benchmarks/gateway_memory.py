"""Resident memory of a gateway's process after many requests, and what each request adds: in one session and in many.

The gateway is the real process with its embedded echo, the requests are small and come over TLS. After a third of them
everything that is bounded is full, so what the other two thirds add is what each request leaves behind.
``python -m benchmarks.gateway_memory 100000 1`` makes 100,000 requests in one session (minutes).
"""

from __future__ import annotations

import http.client
import itertools
import json
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.gateway.conftest import serving_gateway, serving_platform
from tests.gateway.session_client import SessionClient

from affiant.attestation.records.proof import PROOF_HEADER
from benchmarks.timing import Figure

TARGET = "/v1/chat/completions"
BODY = json.dumps({"model": "affiant-dev-echo", "messages": [{"role": "user", "content": "hello"}]}).encode()
JSON = "application/json"
CONNECTIONS = 4
GOAL_MB = 90


def measure(requests: int = 6000, sessions: tuple[int, ...] = (1, 64)) -> list[Figure]:
    """The rows of the table: two for each number of sessions."""
    return [figure for count in sessions for figure in _figures(requests, count)]


def _figures(requests: int, sessions: int) -> list[Figure]:
    with (
        tempfile.TemporaryDirectory() as folder,
        serving_platform(Path(folder) / "platform") as platform,
        serving_gateway(Path(folder) / "gateway", Path(folder) / "platform") as running,
    ):
        begun = [_Asking(SessionClient.start(running.gateway, platform)) for _ in range(sessions)]
        pid, first = int(running.ready["pid"]), requests // 3
        idle = _resident(pid)
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            _ask(pool, begun, first)
            full = _resident(pid)
            _ask(pool, begun, requests - first)
            end = _resident(pid)
    what = "1 session" if sessions == 1 else f"{sessions} sessions"
    grown = (end - full) / (requests - first)
    return [
        Figure(f"resident after {requests} requests, {what}", end / 1e6, "MB", "idle", idle / 1e6),
        Figure(f"each request adds, {what}", grown, "bytes", "the goal's part of 100,000", GOAL_MB * 10),
    ]


class _Asking:
    """One session and its counters."""

    def __init__(self, session: SessionClient) -> None:
        self._session = session
        self._counters: Iterator[int] = itertools.count()

    def ask(self, connection: http.client.HTTPSConnection) -> None:
        """One request."""
        cseq = next(self._counters)
        proof = self._session.proof("POST", TARGET, BODY, content_type=JSON, cseq=cseq)
        connection.request("POST", TARGET, BODY, {"Content-Type": JSON, PROOF_HEADER: proof})
        with connection.getresponse() as response:
            status, _ = response.status, response.read()
        if status != 200:
            raise RuntimeError(f"HTTP {status}")

    def connected(self) -> http.client.HTTPSConnection:
        """A new connection."""
        return self._session.gateway.connect()


def _ask(pool: ThreadPoolExecutor, sessions: list[_Asking], requests: int) -> None:
    """``requests`` of them, over all sessions in turn, by as many connections as there are workers."""
    turns = itertools.cycle(sessions)
    wanted = list(itertools.islice(turns, requests))

    def part(number: int) -> None:
        connection = sessions[number % len(sessions)].connected()
        for session in wanted[number::CONNECTIONS]:
            session.ask(connection)
        connection.close()

    list(pool.map(part, range(CONNECTIONS)))


def _resident(pid: int) -> int:
    """Bytes of the process that are in memory."""
    fields = Path(f"/proc/{pid}/status").read_text().split("VmRSS:", 1)[1].split(None, 2)
    return int(fields[0]) * 1024


if __name__ == "__main__":
    count, at_once = (int(text) for text in (*sys.argv[1:], *("6000", "1")[len(sys.argv) - 1 :]))
    for figure in measure(count, (at_once,)):
        print(figure)
