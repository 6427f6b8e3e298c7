"""dstack's guest agent, on a real unix socket: HTTP of which every byte can be made wrong."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path

RUNTIME_EVENT = 0x08000001


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

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        len(body),
        body,
    )


def refused(status: int, body: bytes = b'{"error":"no"}') -> bytes:
    return b"HTTP/1.1 %d No\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


def runtime_event(name: str, payload: bytes) -> dict[str, object]:
    """An entry of RTMR3 as dstack's agent logs it, its digest by dstack's first rule."""
    preimage = RUNTIME_EVENT.to_bytes(4, "little") + b":" + name.encode() + b":" + payload
    return {
        "imr": 3,
        "event_type": RUNTIME_EVENT,
        "digest": hashlib.sha384(preimage).hexdigest(),
        "event": name,
        "event_payload": payload.hex(),
    }
