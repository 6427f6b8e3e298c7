"""What an Azure confidential VM shows, made by hand: runtime data, HCL reports, a metadata service."""

from __future__ import annotations

import base64
import json
import struct
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa


def b64u(number: int) -> str:
    data = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def runtime_data(
    key: rsa.RSAPrivateKey | rsa.RSAPublicKey, *, user_data: str = "00" * 64, **changes: Any
) -> bytes:
    public = key if isinstance(key, rsa.RSAPublicKey) else key.public_key()
    numbers = public.public_numbers()
    jwk = {"kid": "HCLAkPub", "key_ops": ["sign"], "kty": "RSA", "e": b64u(numbers.e), "n": b64u(numbers.n)}
    other = {"kid": "HCLEkPub", "kty": "RSA", "e": "AQAB", "n": "AQAB"}
    return json.dumps({"keys": [jwk | changes, other], "user-data": user_data}).encode()


def hcl_report(
    runtime: bytes, *, report_type: int = 4, hash_type: int = 1, tail: int = 100, td_report: bytes = b""
) -> bytes:
    header = b"HCLA" + struct.pack("<7I", 2, 0, 2, 0, 0, 0, 0)
    request = struct.pack("<5I", 20 + len(runtime), 1, report_type, hash_type, len(runtime))
    return header + td_report.ljust(1184, b"\0") + request + runtime + bytes(tail)


class FakeIMDS:
    """An HTTP server that answers every request with ``answer`` of its path and body."""

    def __init__(self, answer: Callable[[BaseHTTPRequestHandler, bytes], None]) -> None:
        self.answer = answer
        self.asked: list[tuple[str, bytes]] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                fake.asked.append((self.path, body))
                self.close_connection = True
                fake.answer(self, body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()
        self.base = f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def reply(handler: BaseHTTPRequestHandler, body: bytes, *, status: int = 200, **headers: str) -> None:
    """One whole answer."""
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body)))
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)
