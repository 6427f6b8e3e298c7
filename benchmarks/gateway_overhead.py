"""A request through the gateway, signed and durable before its last byte, against the same upstream directly.

Outside in: what a client waits for, over TLS with a proof per request on the one side, over plain HTTP on the
other; and the processor time that the server process takes, which does not depend on what else the machine does.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.gateway.conftest import serving_gateway, serving_platform
from tests.gateway.session_client import SessionClient

from affiant.attestation.records.proof import PROOF_HEADER
from benchmarks.timing import Figure

PROMPT = "word " * 700
WHOLE = json.dumps({"model": "affiant-dev-echo", "messages": [{"role": "user", "content": PROMPT}]}).encode()
STREAM = json.dumps(
    {"model": "affiant-dev-echo", "stream": True, "messages": [{"role": "user", "content": "word " * 62}]}
).encode()
_PARAMETERS = {
    "type": "object",
    "properties": {
        name: {"type": "string", "description": "One of the tool's arguments, in a sentence of usual length."}
        for name in ("path", "pattern", "replacement", "encoding")
    },
    "required": ["path"],
}
TOOLS = json.dumps(
    {
        "model": "affiant-dev-echo",
        "messages": [{"role": "user", "content": "word " * 180}],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": f"tool_{number}",
                    "description": "Edits files.",
                    "parameters": _PARAMETERS,
                },
            }
            for number in range(20)
        ],
    }
).encode()
TARGET = "/v1/chat/completions"
ROUNDS = 7
COUNT = 60


class Direct:
    """Straight to the upstream, on one kept connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        self._connection.connect()
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, body: bytes) -> float:
        """Seconds until the first byte of the answer's body; it is read to its end."""
        begun = time.perf_counter()
        self._connection.request("POST", TARGET, body, self._headers(body))
        with self._connection.getresponse() as response:
            response.read1(1)
            first = time.perf_counter() - begun
            response.read()
        if response.status != 200:
            raise RuntimeError(f"HTTP {response.status}")
        return first

    def _headers(self, body: bytes) -> dict[str, str]:  # noqa: ARG002 - a proof covers the body, this has none
        return {"Content-Type": "application/json"}


class Through(Direct):
    """Through the gateway; the proof is made as a supervisor makes it, and its cost is the client's."""

    def __init__(self, session: SessionClient) -> None:
        self._connection = session.gateway.connect()
        self._connection.connect()
        self._session = session

    def _headers(self, body: bytes) -> dict[str, str]:
        proof = self._session.proof("POST", TARGET, body, content_type="application/json", counted=True)
        return {"Content-Type": "application/json", PROOF_HEADER: proof}


def measure() -> list[Figure]:
    """The rows of the table."""
    with _surroundings() as (port, echo, session, gateway):
        direct, through = Direct(port), Through(session)
        rows = [
            _latency("gateway: whole answer", direct, through, WHOLE),
            _latency("gateway: first event of a stream", direct, through, STREAM, first=True),
            _latency("gateway: stream of 64 events", direct, through, STREAM),
        ]
        rows.append(_processor_time("gateway: processor time, whole", direct, through, WHOLE, echo, gateway))
        rows.append(
            _processor_time("gateway: processor time, 20 tools", direct, through, TOOLS, echo, gateway)
        )
        rows.append(
            _processor_time("gateway: processor time, stream", direct, through, STREAM, echo, gateway)
        )
        rows.append(_throughput(port, session))
    return rows


@contextmanager
def _surroundings() -> Iterator[tuple[int, int, SessionClient, int]]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        echo = subprocess.Popen(
            [sys.executable, "-m", "affiant.gateway.upstream.dev_echo", "--port", str(port)]
        )
        try:
            asyncio.run(_until_open(port))
            upstream = f"http://127.0.0.1:{port}/v1"
            with (
                serving_platform(Path(folder) / "platform") as platform,
                serving_gateway(
                    Path(folder) / "gateway", Path(folder) / "platform", "--upstream", upstream
                ) as running,
            ):
                yield port, echo.pid, SessionClient.start(running.gateway, platform), running.ready["pid"]
        finally:
            echo.terminate()
            echo.wait(10)


async def _until_open(port: int) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            return


def _latency(name: str, direct: Direct, through: Direct, body: bytes, *, first: bool = False) -> Figure:
    def median(client: Direct) -> float:
        values = []
        for _ in range(COUNT):
            begun = time.perf_counter()
            to_first = client.ask(body)
            values.append(to_first if first else time.perf_counter() - begun)
        return statistics.median(values)

    median(direct), median(through)
    pairs = [(median(through), median(direct)) for _ in range(ROUNDS)]
    ours, peer = (statistics.median(side) * 1e3 for side in zip(*pairs, strict=True))
    return Figure(name, ours, "ms", "direct", peer)


def _processor_time(
    name: str, direct: Direct, through: Direct, body: bytes, echo: int, gateway: int
) -> Figure:
    """Microseconds per request: the gateway's own, against the upstream's."""

    def spent(client: Direct, process: int) -> float:
        before = _ticks(process)
        for _ in range(COUNT * ROUNDS):
            client.ask(body)
        return (_ticks(process) - before) / os.sysconf("SC_CLK_TCK") / (COUNT * ROUNDS) * 1e6

    return Figure(name, spent(through, gateway), "us", "the upstream's", max(spent(direct, echo), 1.0))


def _ticks(process: int) -> int:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _throughput(port: int, session: SessionClient) -> Figure:
    """Requests per second with 16 clients, which share this machine's processors with all servers."""

    def rate(clients: list[Direct]) -> float:
        begun = time.perf_counter()
        with ThreadPoolExecutor(len(clients)) as pool:
            list(pool.map(lambda client: [client.ask(WHOLE) for _ in range(COUNT)], clients))
        return len(clients) * COUNT / (time.perf_counter() - begun)

    ours = rate([Through(session) for _ in range(16)])
    return Figure(
        "gateway: 16 clients", ours, "requests/s", "direct", rate([Direct(port) for _ in range(16)])
    )
