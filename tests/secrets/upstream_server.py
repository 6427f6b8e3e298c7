"""An upstream on 127.0.0.1 that answers exactly the bytes that a test scripts, over TLS or not."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self


@dataclass
class Received:
    """A request as it came."""

    head: bytes
    body: bytes

    @property
    def line(self) -> bytes:
        return self.head.split(b"\r\n")[0]

    def header(self, name: str) -> bytes | None:
        values = self.headers(name)
        return values[0] if values else None

    def headers(self, name: str) -> list[bytes]:
        fields = [line.partition(b": ") for line in self.head.split(b"\r\n")[1:]]
        return [value for field, _, value in fields if field.lower() == name.encode()]


Script = Callable[[Received], Iterable[bytes | float]]
"""What to send: bytes, or seconds to wait."""


def answer(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> list[bytes | float]:
    lines = [b"HTTP/1.1 " + status, *headers, b"Content-Length: %d" % len(body)]
    return [b"\r\n".join(lines) + b"\r\n\r\n" + body]


def chunked(
    chunks: Iterable[bytes], *headers: bytes, trailers: bytes = b"", pause: float = 0
) -> list[bytes | float]:
    head = b"\r\n".join([b"HTTP/1.1 200 OK", b"Transfer-Encoding: chunked", *headers]) + b"\r\n\r\n"
    pieces: list[bytes | float] = [head]
    for chunk in chunks:
        pieces += [b"%x\r\n%s\r\n" % (len(chunk), chunk), pause]
    return [*pieces, b"0\r\n" + trailers + b"\r\n"]


class UpstreamServer:
    """Serves one script on every connection, each in its thread.

    Args:
        tls_after: no connection goes on before this is set.
    """

    def __init__(
        self,
        script: Script,
        *,
        certificate: Path | None,
        read_body: bool | None = True,
        tls_after: threading.Event | None = None,
    ) -> None:
        self._script = script
        self._tls_after = tls_after
        self._read_body = read_body  # None: not even the head is waited for
        self._closing = threading.Event()
        self._context: ssl.SSLContext | None = None
        if certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(certificate)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.received: list[Received] = []
        self.connections = 0
        self.hung_up = threading.Event()
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closing.set()
        if self._tls_after is not None:
            self._tls_after.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self._threads:
            thread.join(10)
        for connection in self._open:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self._tls_after is not None:
                self._tls_after.wait(60)
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
            self._open.append(connection)
            with connection:
                received = self._receive(connection)
                self.received.append(received)
                for piece in self._script(received):
                    if isinstance(piece, bytes):
                        connection.sendall(piece)
                    else:
                        self._closing.wait(piece)
        except OSError:
            self.hung_up.set()
            connection.close()

    def _receive(self, connection: socket.socket) -> Received:
        data = b"" if self._read_body is not None else b"\r\n\r\n"
        while b"\r\n\r\n" not in data:
            if not (more := connection.recv(65536)):
                raise ConnectionError
            data += more
        head, _, rest = data.partition(b"\r\n\r\n")
        received = Received(head, rest)
        if not self._read_body:
            return received
        if (length := received.header("content-length")) is not None:
            while len(received.body) < int(length):
                received.body += self._more(connection)
        elif received.header("transfer-encoding") is not None:
            raw = received.body
            while not raw.endswith(b"0\r\n\r\n"):
                raw += self._more(connection)
            received.body = _unchunked(raw)
        return received

    def _more(self, connection: socket.socket) -> bytes:
        if not (more := connection.recv(65536)):
            raise ConnectionError
        return more


def _unchunked(raw: bytes) -> bytes:
    body = b""
    while True:
        size, _, raw = raw.partition(b"\r\n")
        if int(size, 16) == 0:
            return body
        body += raw[: int(size, 16)]
        raw = raw[int(size, 16) + 2 :]
