"""An upstream that answers with whatever bytes a test wants, and keeps what it was sent."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

Step = bytes | float | Callable[[socket.socket], None]
"""Bytes to send, seconds to wait, or what to do with the connection; it is closed after the last, unless it is kept."""


@dataclass
class Received:
    head: bytes
    body: bytes

    @property
    def headers(self) -> dict[str, str]:
        lines = self.head.split(b"\r\n")[1:]
        pairs = (line.partition(b":") for line in lines if line)
        return {name.decode().lower(): value.strip().decode() for name, _, value in pairs}

    @property
    def json(self) -> dict:
        return json.loads(self.body)


@dataclass
class ScriptedUpstream:
    port: int
    script: Callable[[Received], Iterable[Step]]
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    keep: bool = True
    ended: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    """Released once for each connection that has ended."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


def whole(body: bytes | dict, *, status: str = "200 OK", **headers: str) -> list[Step]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"content-type": "application/json", "content-length": str(len(data))}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value)
    return [f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + data]


STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def streamed(*events: bytes | float, end: bool = True) -> list[Step]:
    steps: list[Step] = [STREAM_HEAD]
    steps += [event if isinstance(event, float) else chunk(event) for event in events]
    return [*steps, b"0\r\n\r\n"] if end else steps


def completion(content: str = "hi") -> dict:
    message = {"role": "assistant", "content": content}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }


def message(*blocks: dict) -> dict:
    """An answer of Anthropic's messages."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": list(blocks) or [{"type": "text", "text": "hi"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }


@contextmanager
def scripted_upstream(
    script: Callable[[Received], Iterable[Step]], *, context: ssl.SSLContext | None = None
) -> Iterator[ScriptedUpstream]:
    listener = socket.create_server(("127.0.0.1", 0))
    upstream = ScriptedUpstream(listener.getsockname()[1], script)
    stop = threading.Event()
    threads: list[threading.Thread] = []
    open_sockets: list[socket.socket] = []

    def serve() -> None:
        while not stop.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            upstream.connections += 1
            thread = threading.Thread(target=handle, args=(connection,), daemon=True)
            threads.append(thread)
            thread.start()

    def handle(connection: socket.socket) -> None:
        with suppress(OSError, ssl.SSLError):
            if context is not None:
                connection = context.wrap_socket(connection, server_side=True)
            open_sockets.append(connection)
            with connection:
                while (request := read_request(connection)) is not None:
                    upstream.received.append(request)
                    for step in upstream.script(request):
                        if isinstance(step, float):
                            time.sleep(step)
                        elif isinstance(step, bytes):
                            connection.sendall(step)
                        else:
                            step(connection)
                    if not upstream.keep:
                        break
        connection.close()
        upstream.ended.release()

    acceptor = threading.Thread(target=serve, daemon=True)
    acceptor.start()
    try:
        yield upstream
    finally:
        stop.set()
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for connection in open_sockets:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        acceptor.join(5)
        for thread in threads:
            thread.join(5)


def read_request(connection: socket.socket) -> Received | None:
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            return None
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    received = Received(head, body)
    length = int(received.headers.get("content-length", "0"))
    while len(received.body) < length:
        part = connection.recv(65536)
        if not part:
            return None
        received.body += part
    return received
