"""A log of 700 leaves in a folder, and a web server that can misbehave."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from log_builder import LogBuilder, chain, log_signer

from affiant.__main__ import cli

VKEY = log_signer().verifier.vkey()
BIG = LogBuilder(Path("unused"), chain("big", 70_000))
"""In memory alone."""


@pytest.fixture
def built(tmp_path: Path) -> LogBuilder:
    """300 leaves of one chain and 400 of another; checkpoints at 300 and 700."""
    builder = LogBuilder(tmp_path / "log", chain("one", 300))
    builder.sign()
    builder.add(chain("two", 400, end=True))
    builder.sign()
    return builder


@pytest.fixture
def run() -> Callable[..., Result]:
    def call(*arguments: object) -> Result:
        return CliRunner().invoke(cli, [str(each) for each in arguments])

    return call


@contextmanager
def served(folder: Path, answer: Callable[[BaseHTTPRequestHandler], bool] | None = None) -> Iterator[str]:
    """The folder over HTTP on loopback; ``answer`` may answer first, and says whether it has."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if answer is not None and answer(self):
                return
            path = folder / self.path.removeprefix("/log/")
            body = path.read_bytes() if path.is_file() else b""
            self.send_response(200 if path.is_file() else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_arguments: object) -> None:
            """Clients that hang up are what is tested."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/log"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def trickle(handler: BaseHTTPRequestHandler) -> bool:
    """Headers, and then a byte now and then."""
    handler.send_response(200)
    handler.send_header("Content-Length", "8192")
    handler.end_headers()
    for _ in range(40):
        try:
            handler.wfile.write(b"x")
            handler.wfile.flush()
        except OSError:
            break
        time.sleep(0.1)
    handler.close_connection = True
    return True
