"""How many functions of ours one request passes in the gateway: ``POST /v1/chat/completions``, whole, without tools.

Counted, not timed: the distinct Python functions of ``affiant``, comprehensions included, that the event loop's thread
enters from the request's first byte to the response's last, over HTTP/1.1 as served but for TLS. The embedded echo and
the journal's writer are left out.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import uvicorn
from tests.gateway.conftest import serving_platform
from tests.gateway.in_process import InProcess, in_process
from tests.gateway.session_client import SessionClient

from affiant.attestation.records.proof import PROOF_HEADER, MACKey
from affiant.gateway.wire.bounded_http import BoundedHTTP
from benchmarks.timing import Figure

TARGET = "/v1/chat/completions"
BODY = json.dumps({"model": "affiant-dev-echo", "messages": [{"role": "user", "content": "hello"}]}).encode()
BEFORE = 299
"""Functions of the walk before it was made shorter."""
LEFT_OUT = ("dev_echo.py",)


def measure() -> list[Figure]:
    """The rows of the table."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serving_platform(Path(folder) / "platform") as platform,
        in_process(platform, Path(folder) / "store") as gateway,
    ):
        count = len(walked(gateway, SessionClient.start(gateway, platform)))
    return [Figure("functions of one request", count, "functions", "before", BEFORE)]


def walked(gateway: InProcess, session: SessionClient) -> Mapping[str, int]:
    """The functions that one request passes (``module:qualified name``), and how often; one request went before.

    Both connections stay open until the count is taken: when the gateway sees their ends is chance.
    """
    key = session.mac_key()  # as supervisors prove
    with _served(gateway) as (port, until_idle), _asked(session, port, key):
        until_idle()
        with _entered(gateway) as found, _asked(session, port, key):
            until_idle()
            counted = Counter(found)
    return counted


@contextmanager
def _served(gateway: InProcess) -> Iterator[tuple[int, Callable[[], None]]]:
    """The gateway behind a socket, without TLS: its port, and what waits until it serves no request."""
    config = uvicorn.Config(
        gateway.app, port=0, loop="none", http=BoundedHTTP, ws="none", lifespan="off", log_config=None
    )
    server = uvicorn.Server(config)

    async def begin() -> tuple[asyncio.Task[None], int]:
        task = asyncio.create_task(server._serve())  # noqa: SLF001 - the part without signals
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.005)
        return task, server.servers[0].sockets[0].getsockname()[1]

    async def end(task: asyncio.Task[None]) -> None:
        server.should_exit = True
        await task

    async def idle() -> None:
        while server.server_state.tasks:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.005)

    task, port = gateway.run(begin())
    try:
        yield port, lambda: gateway.run(idle())
    finally:
        gateway.run(end(task))


@contextmanager
def _asked(session: SessionClient, port: int, key: MACKey) -> Iterator[None]:
    proof = session.proof("POST", TARGET, BODY, content_type="application/json", counted=True, key=key)
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", TARGET, BODY, {"Content-Type": "application/json", PROOF_HEADER: proof})
    with connection.getresponse() as response:
        status, _ = response.status, response.read()
    if status != 200:
        raise RuntimeError(f"HTTP {status}")
    yield
    connection.close()


@contextmanager
def _entered(gateway: InProcess) -> Iterator[Counter[str]]:
    found: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and _is_ours(frame.f_code):
            found[_name(frame.f_code)] += 1

    async def watch(hook: Callable[[FrameType, str, object], None] | None) -> None:
        sys.setprofile(hook)

    gateway.run(watch(note))
    try:
        yield found
    finally:
        gateway.run(watch(None))


def _is_ours(code: CodeType) -> bool:
    return "/affiant/" in code.co_filename and not code.co_filename.endswith(LEFT_OUT)


def _name(code: CodeType) -> str:
    return f"{code.co_filename.rpartition('/affiant/')[2]}:{code.co_qualname}"
