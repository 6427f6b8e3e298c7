"""A Vault on 127.0.0.1: KV version 2 with versions and deletes, JWT login, tokens, and faults; over TLS.

Answers follow Vault's HTTP API documentation (KV v2: "Read secret version"; JWT: "JWT login"; "HTTP status
codes"). JWTs are checked against what a test registers: who signs them is the gateway's and Vault's business.
"""

from __future__ import annotations

import http.server
import json
import secrets
import ssl
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

STATUS = {
    "sealed": 503,
    "uninitialised": 501,
    "standby": 473,
    "rate-limited": 429,
    "broken": 500,
    "strange": 418,
}
DELETED_AT = "2026-01-02T03:04:05.678901Z"


@dataclass
class Asked:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Version:
    """One version of a secret."""

    data: dict[str, Any]
    deleted: bool = False
    destroyed: bool = False

    def metadata(self, number: int) -> dict[str, object]:
        return {
            "created_time": "2026-01-01T00:00:00.000000Z",
            "custom_metadata": None,
            "deletion_time": DELETED_AT if self.deleted else "",
            "destroyed": self.destroyed,
            "version": number,
        }


@dataclass
class VaultServer:
    """The state, and the server in its thread.

    Args:
        fault: a key of ``STATUS``, or ``redirect``, ``garbage``, ``huge``, ``slow``, ``hang-up``.
        redirect_to: where a redirect leads.
    """

    certificate: Path
    tokens: dict[str, int | None] = field(default_factory=dict)
    jwts: dict[str, str] = field(default_factory=dict)
    secrets: dict[tuple[str, str], list[Version]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    fault: str | None = None
    redirect_to: str = ""
    redirect_status: int = 307

    def __enter__(self) -> Self:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._server.handle_error = lambda *_: None  # clients that hang up are part of the tests
        self.closing = threading.Event()
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    @property
    def address(self) -> str:
        return f"https://127.0.0.1:{self._server.server_address[1]}"

    def put(self, mount: str, path: str, **data: Any) -> None:
        """Add a version."""
        self.secrets.setdefault((mount, path), []).append(Version(data))

    def token(self, *, uses: int | None = None) -> str:
        """A fresh token, good for ``uses`` requests."""
        token = "hvs." + secrets.token_urlsafe(24)
        self.tokens[token] = uses
        return token

    def answer(self, asked: Asked) -> tuple[int, object]:
        """Status and document."""
        match asked.method, asked.path.split("/"):
            case "POST", ["", "v1", "auth", mount, "login"]:
                return self._login(mount, json.loads(asked.body))
            case _ if not self._spend(asked.headers.get("x-vault-token", "")):
                return 403, {"errors": ["permission denied"]}
            case "POST", ["", "v1", "auth", "token", "revoke-self"]:
                del self.tokens[asked.headers["x-vault-token"]]
                return 204, None
            case "GET", ["", "v1", mount, "data", *path]:
                return self._read(mount, "/".join(path))
            case _:
                return 404, {"errors": []}

    def _login(self, mount: str, body: dict[str, str]) -> tuple[int, object]:
        if mount != "jwt" or self.jwts.get(body["jwt"]) != body["role"]:
            return 400, {"errors": [f"error validating token {body['jwt']}"]}
        return 200, {"auth": {"client_token": self.token(), "lease_duration": 60, "renewable": False}}

    def _spend(self, token: str) -> bool:
        if token not in self.tokens:
            return False
        uses = self.tokens[token]
        if uses is not None:
            if uses < 1:
                return False
            self.tokens[token] = uses - 1
        return True

    def _read(self, mount: str, path: str) -> tuple[int, object]:
        versions = self.secrets.get((mount, path))
        if not versions:
            return 404, {"errors": []}
        newest, number = versions[-1], len(versions)
        gone = newest.deleted or newest.destroyed
        data = {"data": None if gone else newest.data, "metadata": newest.metadata(number)}
        return (404 if gone else 200), {"request_id": "r", "data": data}

    def _handler(vault) -> type[http.server.BaseHTTPRequestHandler]:
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.command, self.path, headers, body)
                vault.asked.append(asked)
                if vault.fault is None:
                    status, document = vault.answer(asked)
                    self._send(status, b"" if document is None else json.dumps(document).encode())
                else:
                    self._send_fault(vault.fault)

            def _send_fault(self, fault: str) -> None:
                match fault:
                    case "redirect":
                        self.send_response(vault.redirect_status)
                        self.send_header("Location", vault.redirect_to + self.path)
                        self.send_header("Content-Length", "0")
                        self.end_headers()
                    case "garbage":
                        self._send(200, b"<html>hvs.leaked-token</html>")
                    case "huge":
                        self._send(200, b'{"data": "' + b"x" * (2 << 20) + b'"}')
                    case "slow":
                        vault.closing.wait(3)
                        self._send(200, b"{}")
                    case "hang-up":
                        self.close_connection = True
                        self.connection.close()
                    case _:
                        self._send(
                            STATUS[fault], json.dumps({"errors": ["the server says: " + fault]}).encode()
                        )

            def _send(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_DELETE = _serve

            def log_message(self, *_: object) -> None:
                pass

        return Handler
