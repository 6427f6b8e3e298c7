"""A token endpoint on 127.0.0.1 that checks what it is sent as RFC 6749, 7523 and 8693 say, over TLS.

What it gives back can be replaced whole by a test. Forms are read by urllib and assertions by PyJWT, not by our code.
"""

from __future__ import annotations

import base64
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, unquote_plus

import jwt
from tests.secrets.upstream_server import Received, UpstreamServer, answer

TOKEN_HOST = "login.example.test"
PATH = "/oauth2/token"
URN = "urn:ietf:params:oauth:"


def json_answer(members: object, *headers: bytes, status: bytes = b"200 OK") -> list[bytes | float]:
    body = members if isinstance(members, bytes) else json.dumps(members).encode()
    return answer(
        body, b"Content-Type: application/json", b"Cache-Control: no-store", *headers, status=status
    )


def refused(error: str, status: bytes = b"400 Bad Request") -> list[bytes | float]:
    return json_answer({"error": error, "error_description": "not to be repeated"}, status=status)


@dataclass
class TokenServer:
    """One client, one key, one subject's token; every token that is given is remembered."""

    certificate: Path
    client_id: str = "acme-agent"
    client_secret: str = ""
    public_key: object = None
    algorithm: str = "ES256"
    audience: str = ""
    subject_token: str = ""
    lifetime: int | None = 3600
    pause: float = 0
    instead: Callable[[Received], Iterable[bytes | float]] | None = None
    tokens: list[str] = field(default_factory=list)
    forms: list[dict[str, str]] = field(default_factory=list)
    claims: list[dict[str, object]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._lock = threading.Lock()
        self._server = UpstreamServer(self._serve, certificate=self.certificate).__enter__()
        self.port = self._server.port
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.__exit__(kind, error, traceback)

    @property
    def url(self) -> str:
        return f"https://{TOKEN_HOST}:{self.port}{PATH}"

    @property
    def connections(self) -> int:
        return self._server.connections

    @property
    def received(self) -> list[Received]:
        return self._server.received

    def _serve(self, received: Received) -> Iterable[bytes | float]:
        if self.pause:
            time.sleep(self.pause)
        if self.instead is not None:
            return self.instead(received)
        if received.line != f"POST {PATH} HTTP/1.1".encode():
            return answer(b"", status=b"404 Not Found")
        if received.header("content-type") != b"application/x-www-form-urlencoded":
            return refused("invalid_request")
        pairs = parse_qsl(received.body.decode("ascii"), strict_parsing=True)
        form = dict(pairs)
        if len(form) != len(pairs):
            return refused("invalid_request")
        self.forms.append(form)
        grants = {
            "client_credentials": self._client,
            f"{URN}grant-type:jwt-bearer": self._assertion,
            f"{URN}grant-type:token-exchange": self._subject,
        }
        if form.get("grant_type") not in grants:
            return refused("unsupported_grant_type")
        return grants[form["grant_type"]](received, form)

    def _client(self, received: Received, form: dict[str, str]) -> Iterable[bytes | float]:
        header = received.header("authorization")
        if header is None:
            shown = form.get("client_id"), form.get("client_secret")
        else:
            pair = base64.b64decode(header.removeprefix(b"Basic "), validate=True).decode("ascii")
            name, _, password = pair.partition(":")
            shown = unquote_plus(name), unquote_plus(password)
        if shown != (self.client_id, self.client_secret):
            return refused("invalid_client", b"401 Unauthorized")
        return self._issued(form)

    def _assertion(self, received: Received, form: dict[str, str]) -> Iterable[bytes | float]:
        try:
            claims = jwt.decode(
                form["assertion"],
                self.public_key,
                algorithms=[self.algorithm],
                audience=self.audience or self.url,
                options={"require": ["iss", "aud", "exp", "iat", "jti"]},
            )
        except jwt.InvalidTokenError:
            return refused("invalid_grant")
        self.claims.append({**claims, "header": jwt.get_unverified_header(form["assertion"])})
        return self._issued(form)

    def _subject(self, received: Received, form: dict[str, str]) -> Iterable[bytes | float]:
        if form.get("subject_token") != self.subject_token:
            return refused("invalid_request")
        return self._issued(form, issued_token_type=f"{URN}token-type:access_token")

    def _issued(self, form: dict[str, str], **more: str) -> Iterable[bytes | float]:
        token = f"at-{secrets.token_urlsafe(24)}"
        with self._lock:
            self.tokens.append(token)
        members: dict[str, object] = {"access_token": token, "token_type": "Bearer", **more}
        if self.lifetime is not None:
            members["expires_in"] = self.lifetime
        return json_answer(members)
