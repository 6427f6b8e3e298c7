"""An upstream over HTTP that speaks OpenAI's APIs, Anthropic's, or both: which headers it is sent, what it serves.

Only a fixed set of headers goes out. Of what a client sent, a valid ``traceparent`` and the forwarded headers alone
are passed on, so no header of fairness, priority or credentials can be smuggled through; the one credential is this
gateway's own.

Where Anthropic's API is asked, the key is in ``x-api-key``, and in ``Authorization`` as everywhere: Anthropic's servers
take the first, vLLM's the second alone. The list of models is asked for in both APIs at once.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.schema.trace_context import TRACEPARENT, TraceContext
from affiant.attestation.statements.gateway_config import DEV_ECHO, UpstreamConfig, is_upstream_url
from affiant.errors import ConfigurationError, MalformedError
from affiant.gateway.dialects.forwarded_headers import VERSIONS
from affiant.gateway.dialects.strict_json import parse_json
from affiant.gateway.upstream.dev_echo import EchoConnector
from affiant.gateway.upstream.http1 import Connector, HTTPClient, TCPConnector, Timeouts, request_head
from affiant.gateway.upstream.http1_connection import HTTPResponse
from affiant.gateway.upstream.priority_band import CONCURRENT
from affiant.gateway.upstream.response_checks import UpstreamKeyRedaction, require_plain
from affiant.gateway.upstream.upstream import Attempt, Upstream, UpstreamResponse
from affiant.gateway.wire.errors import RequestMalformed
from affiant.secrets.names.value import SecretValue

__all__ = ["Credentials", "OpenAIUpstream", "make_upstream", "pinned_context", "read_whole"]

_NO_HEADERS: Final[Mapping[str, str]] = {}
MAX_ANSWER: Final = 32 << 20
"""Bytes of a whole answer."""
_JSON: Final = "application/json"
_LISTED_WITHIN_S: Final = 30.0
"""For a list of models: requests wait for it."""
_MODELS: Final = "/models"
_ANTHROPIC: Final = ("/messages", _MODELS)
"""Where the paths of Anthropic's API begin, below a base."""
_VERSION: Final = {"anthropic-version": VERSIONS[0]}
"""Anthropic's API lists no models without it; other servers do not know it."""
_NO_LIST: Final = (404, 405, 501)
"""An upstream that has no list of models says so; it may serve some all the same."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What an upstream is reached with.

    Args:
        key: its API key.
        roots: certificates, DER, that alone are trusted for it; empty: the system's.
    """

    key: SecretValue | None = None
    roots: tuple[bytes, ...] = ()


class OpenAIUpstream:
    """One upstream of the configuration."""

    def __init__(
        self,
        config: UpstreamConfig,
        connector: Connector,
        *,
        key: SecretValue | None,
        timeouts: Timeouts,
    ) -> None:
        parts = urlsplit(config.url)
        self.id = config.id
        self.bind = config.bind
        self.concurrent = config.concurrent or CONCURRENT
        self._key = key
        self.guard = UpstreamKeyRedaction(key)
        """Looks for its key in its answers."""
        self._authority = parts.netloc
        self._base = parts.path.rstrip("/")
        self._client = HTTPClient(connector, timeouts=timeouts.of(config))

    async def request(
        self,
        method: str,
        path: str,
        body: bytes,
        *,
        attempts: list[Attempt],
        accept: bytes,
        trace: TraceContext | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        within_s: float = math.inf,
    ) -> HTTPResponse:
        """As :meth:`~.upstream.Upstream.request`; ``within_s`` as :meth:`~.http1.HTTPClient.request`."""

        def tried(result: str, spki: bytes | None) -> None:
            name = None if spki is None else f"sha256:{spki.hex()}"
            attempts.append(Attempt(self.id, self._authority, self.bind, result, name))

        fields = self._headers(method, path, len(body), accept)
        for name, value in headers.items():
            fields.append((name.encode("ascii"), value.encode("ascii")))
        if trace is not None:
            fields.append((TRACEPARENT, trace.header))
        head = request_head(method, self._base + path, fields)
        return await self._client.request(head + body, tried=tried, within_s=within_s)

    async def models(self) -> Sequence[str]:
        """As :meth:`~.upstream.Upstream.models`."""
        entries, more = await self._listed(_MODELS)
        if more:  # Anthropic's servers have pages, of at most so many
            entries, _ = await self._listed(f"{_MODELS}?limit=1000")
        ids = (entry.get("id") for entry in entries if isinstance(entry, dict))
        return tuple(name for name in ids if isinstance(name, str))

    async def _listed(self, target: str) -> tuple[Sequence[object], bool]:
        """The entries of its list of models, none if it has no such list; and whether there are more."""
        answer = await self.request(
            "GET",
            target,
            b"",
            attempts=[],
            accept=_JSON.encode(),
            headers=_VERSION,
            within_s=_LISTED_WITHIN_S,
        )
        try:
            body = await read_whole(answer)
        finally:
            answer.abort()
        if answer.status in _NO_LIST:
            return (), False
        require_plain(answer, _JSON)
        self.guard.require_absent(body)
        try:
            value = parse_json(body)
        except RequestMalformed as error:
            raise MalformedError(
                "the upstream's list of models is not JSON", code="upstream.answer"
            ) from error
        data = value.get("data") if isinstance(value, dict) else None
        if answer.status != 200 or not isinstance(value, dict) or not isinstance(data, list):
            raise MalformedError(
                "the upstream does not list its models", found=answer.status, code="upstream.answer"
            )
        return data, value.get("has_more") is True

    async def close(self) -> None:
        """Close what is open."""
        await self._client.close()

    def _headers(self, method: str, path: str, size: int, accept: bytes) -> list[tuple[bytes, bytes]]:
        headers = [
            (b"host", self._authority.encode("ascii")),
            (b"accept", accept),
            (b"accept-encoding", b"identity"),
            (b"user-agent", b"affiant-gateway"),
        ]
        if method != "GET":
            headers += [
                (b"content-type", b"application/json"),
                (b"content-length", str(size).encode("ascii")),
            ]
        if self._key is not None:
            headers.append((b"authorization", b"Bearer " + self._key.reveal()))
            if path.startswith(_ANTHROPIC):
                headers.append((b"x-api-key", self._key.reveal()))
        return headers


async def read_whole(answer: UpstreamResponse, *, limit: int = MAX_ANSWER) -> bytes:
    """The whole body.

    Raises:
        ``upstream.answer``: more than ``limit`` bytes.
    """
    parts, size = [], 0
    while part := await answer.read():
        parts.append(part)
        size += len(part)
        if size > limit:
            answer.abort()
            raise MalformedError(
                "the answer is too large", expected=f"at most {limit} bytes", code="upstream.answer"
            )
    return b"".join(parts)


def make_upstream(config: UpstreamConfig, credentials: Credentials, *, timeouts: Timeouts) -> Upstream:
    """The upstream that ``config`` describes.

    Raises:
        ``gateway.settings``: its binding, roots or address do not fit together.
    """
    if config == DEV_ECHO:
        return OpenAIUpstream(config, EchoConnector(), key=None, timeouts=timeouts)
    parts = urlsplit(config.url)
    expected = "tls" if parts.scheme == "https" else "none"
    if config.bind != expected:
        raise ConfigurationError(
            "this upstream cannot be bound as configured",
            expected=expected,
            found=config.bind,
            where=config.id,
            code="gateway.settings",
        )
    if parts.hostname is None or not is_upstream_url(config.url):
        raise ConfigurationError(
            "not an upstream's address",
            expected="scheme://host[:port]/path",
            where=config.id,
            code="gateway.settings",
        )
    context = pinned_context(config.id, config.roots, credentials) if expected == "tls" else None
    port = parts.port or (443 if expected == "tls" else 80)
    connector = TCPConnector(parts.hostname, port, context)
    return OpenAIUpstream(config, connector, key=credentials.key, timeouts=timeouts)


def pinned_context(name: str, roots: Sequence[str], credentials: Credentials) -> ssl.SSLContext:
    """TLS to the upstream or server ``name``, whose certificates the configuration names as ``roots``.

    Raises:
        ``gateway.settings``: the certificates that are at hand are others.
    """
    if {sha256_name(root) for root in credentials.roots} != set(roots):
        raise ConfigurationError(
            "the roots are not those of the configuration", where=name, code="gateway.settings"
        )
    if not credentials.roots:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for root in credentials.roots:
        pem = x509.load_der_x509_certificate(root).public_bytes(Encoding.PEM)
        context.load_verify_locations(cadata=pem.decode("ascii"))
    return context
