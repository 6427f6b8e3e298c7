"""The authority over HTTP on 127.0.0.1 (RFC 3161, section 3.4), and every way for a server to misbehave."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.timestamp_authority.authority import TimestampAuthority


@dataclass
class Served:
    """Where it is, what it was asked, and how it answers: (status, media type, body) from the request's body."""

    authority: TimestampAuthority
    url: str = ""
    asked: list[bytes] = field(default_factory=list)
    answer: Callable[[bytes], tuple[int, str, bytes]] | None = None

    def reply(self, request: bytes) -> tuple[int, str, bytes]:
        if self.answer is not None:
            return self.answer(request)
        return 200, "application/timestamp-reply", self.authority.answer(request)


@contextmanager
def served(authority: TimestampAuthority) -> Iterator[Served]:
    """The authority until the block ends."""
    where = Served(authority)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            where.asked.append(body)
            if self.headers.get("Content-Type") != "application/timestamp-query":
                status, kind, content = 415, "text/plain", b"not a query"
            else:
                status, kind, content = where.reply(body)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_arguments: object) -> None:
            """Nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_arguments: object) -> None:
            """Clients that hang up are what is tested."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    where.url = f"http://127.0.0.1:{server.server_port}/tsa"
    try:
        yield where
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
