"""Settings of the server process: one frozen value, read once from a descriptor, passed down.

The launcher of the gateway's TD writes the document; the server reads it and reads no environment. What decides
trust is the configuration in it, and that is bound: the server refuses a TD that was launched for another one.
API keys are in the document and nowhere else: not in arguments, files or the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.statements.gateway_config import GatewayConfig, parse_gateway_config
from affiant.attestation.tdx.appraise.reference import ReferenceValues, parse_reference_values
from affiant.attestation.tdx.tcb.collateral import Collateral, parse_collateral
from affiant.errors import ConfigurationError
from affiant.gateway.log.transparency_log import LogBounds
from affiant.gateway.log.witnesses import WitnessBounds
from affiant.gateway.upstream.http1 import Timeouts
from affiant.gateway.upstream.openai_upstream import Credentials
from affiant.gateway.upstream.priority_band import QueueBounds
from affiant.gateway.wire.bodies import least_memory
from affiant.policy.model.profile import Policy
from affiant.policy.normal_form.digest import floor_digest, normal_form
from affiant.policy.normal_form.reader import read_normal_form
from affiant.secrets.names.value import SecretValue

__all__ = [
    "BODIES_MAX",
    "MOST_SESSIONS",
    "SESSIONS_MAX",
    "Settings",
    "encode_settings",
    "parse_settings",
    "socket_of",
]

MAX_DOCUMENT = 4 << 20
BODIES_MAX = 256 << 20
SESSIONS_MAX = 256
"""Open sessions at once, where the operator does not say otherwise."""
MOST_SESSIONS = 5000
"""That the operator may allow: as many as were simulated."""
CONNECTIONS_EACH = 8
"""Connections for each session: half of them are for callers that have not proven themselves."""
"""Bytes; 32 of the largest bodies that the default configuration takes."""


def socket_of(store: Path, server: str) -> Path:
    """The socket at which the gateway connects for a process of the tool server ``server``."""
    return store / f"mcp-{server}.sock"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one server process.

    Args:
        store: the folder of journal, index and control socket.
        host, port: where to listen; port 0: any.
        config: the configuration that the TD was launched for.
        reference: what session quotes are appraised against; its digest is in the configuration.
        collateral: in force at start; the launcher renews it in ``store/collateral.json``.
        boot_log: event log of the gateway's own TD, as the platform gives it.
        build: ``sha256:`` name of the release that runs.
        credentials: by upstream id. mcp_credentials: by the id of a tool server.
        mcp_secrets: values that tool servers were given in their environment: none of their answers may hold one.
        path_copies: the folder for copies of what tool servers may read; None: there are none.
        floor: the baseline policy that the configuration names by its digest.
        sessions_max: open sessions at once. connections_max: public connections at once, eight for each session, and
            at most half of the descriptors that the server's process may have.
        bodies_max: bytes that all request bodies together may hold, at least :func:`~.bodies.least_memory`; a
            request under way takes up to three times its body: as received, as rewritten, as sent.
        body_s: seconds until a request's body must be here.
        drain_s: seconds that requests under way get when the gateway is stopped.
        silent_s: seconds without a proof after which an expired session counts as lost.
        refusals_per_s, refusals_burst: records of refusals of unknown callers.
        queue: how many requests may wait for an upstream, and for how long.
        log: how far the transparency log may fall behind.
        witnesses: how long witnesses are waited for.
    """

    store: Path
    host: str
    port: int
    config: GatewayConfig
    reference: ReferenceValues
    collateral: Collateral = field(repr=False)
    boot_log: bytes = field(repr=False)
    build: str
    credentials: Mapping[str, Credentials] = field(default_factory=dict, repr=False)
    mcp_credentials: Mapping[str, Credentials] = field(default_factory=dict, repr=False)
    mcp_secrets: tuple[SecretValue, ...] = field(default=(), repr=False)
    path_copies: Path | None = None
    floor: Policy | None = None
    timeouts: Timeouts = field(default_factory=Timeouts)
    sessions_max: int = SESSIONS_MAX
    connections_max: int = SESSIONS_MAX * CONNECTIONS_EACH
    bodies_max: int = BODIES_MAX
    body_s: float = 60.0
    drain_s: int = 5
    silent_s: int = 120
    refusals_per_s: float = 5.0
    refusals_burst: int = 200
    queue: QueueBounds = field(default_factory=QueueBounds)
    log: LogBounds = field(default_factory=LogBounds)
    witnesses: WitnessBounds = field(default_factory=WitnessBounds)

    def __post_init__(self) -> None:
        if self.reference.digest != self.config.reference:
            raise ConfigurationError(
                "the reference values are not those of the configuration",
                expected=self.config.reference,
                found=self.reference.digest,
                code="gateway.settings",
            )
        if self.reference.cls.value != self.config.cls:
            raise ConfigurationError(
                "the classes of configuration and reference values differ", code="gateway.settings"
            )
        floor = None if self.floor is None else floor_digest(self.floor)
        if floor != self.config.floor:
            raise ConfigurationError(
                "the baseline policy is not that of the configuration",
                expected=self.config.floor,
                found=floor,
                code="gateway.settings",
            )
        if self.bodies_max < least_memory(self.config.body_max):
            raise ConfigurationError(
                "not enough memory for one body",
                expected=f"at least {least_memory(self.config.body_max)} bytes",
                found=self.bodies_max,
                where="bodies_max",
                code="gateway.settings",
            )


class _Upstream(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str | None
    roots: list[str]


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    typ: str
    store: str
    host: str
    port: int
    config: str
    reference: str
    collateral: str
    boot_log: str
    build: str
    upstreams: dict[str, _Upstream]
    mcp_servers: dict[str, _Upstream]
    mcp_secrets: list[str]
    path_copies: str | None
    floor: str | None
    bodies_max: int
    sessions_max: int
    drain_s: int
    silent_s: int


_TYPE = "affiant-gateway-settings/1"


def encode_settings(settings: Settings) -> bytes:
    """The document for a descriptor; it holds API keys."""
    return msgspec.json.encode(
        _Document(
            typ=_TYPE,
            store=str(settings.store),
            host=settings.host,
            port=settings.port,
            config=b64u(settings.config.raw),
            reference=b64u(settings.reference.raw),
            collateral=b64u(settings.collateral.to_bytes()),
            boot_log=b64u(settings.boot_log),
            build=settings.build,
            upstreams={name: _encode(entry) for name, entry in settings.credentials.items()},
            mcp_servers={name: _encode(entry) for name, entry in settings.mcp_credentials.items()},
            mcp_secrets=[b64u(value.reveal()) for value in settings.mcp_secrets],
            path_copies=None if settings.path_copies is None else str(settings.path_copies),
            floor=None if settings.floor is None else b64u(normal_form(settings.floor)),
            bodies_max=settings.bodies_max,
            sessions_max=settings.sessions_max,
            drain_s=settings.drain_s,
            silent_s=settings.silent_s,
        )
    )


def _encode(credentials: Credentials) -> _Upstream:
    key = None if credentials.key is None else b64u(credentials.key.reveal())
    return _Upstream(key, [b64u(root) for root in credentials.roots])


def parse_settings(data: bytes) -> Settings:
    """The settings in ``data``.

    Raises:
        ``gateway.settings``: not such a document. MalformedError: a part of another form.
    """
    try:
        document = msgspec.json.decode(data, type=_Document)
    except msgspec.DecodeError:
        raise ConfigurationError(
            "not a settings document", expected=_TYPE, code="gateway.settings"
        ) from None  # its text may quote a key
    if document.typ != _TYPE:
        raise ConfigurationError("not a settings document", expected=_TYPE, code="gateway.settings")
    return Settings(
        store=Path(document.store),
        host=document.host,
        port=document.port,
        config=parse_gateway_config(from_b64u(document.config)),
        reference=parse_reference_values(from_b64u(document.reference)),
        collateral=parse_collateral(from_b64u(document.collateral)),
        boot_log=from_b64u(document.boot_log),
        build=document.build,
        credentials={name: _decode(entry) for name, entry in document.upstreams.items()},
        mcp_credentials={name: _decode(entry) for name, entry in document.mcp_servers.items()},
        mcp_secrets=tuple(SecretValue(from_b64u(value)) for value in document.mcp_secrets),
        path_copies=None if document.path_copies is None else Path(document.path_copies),
        floor=None if document.floor is None else read_normal_form(from_b64u(document.floor)),
        bodies_max=document.bodies_max,
        sessions_max=document.sessions_max,
        connections_max=document.sessions_max * CONNECTIONS_EACH,
        drain_s=document.drain_s,
        silent_s=document.silent_s,
    )


def _decode(upstream: _Upstream) -> Credentials:
    key = None if upstream.key is None else SecretValue(from_b64u(upstream.key))
    return Credentials(key, tuple(from_b64u(root) for root in upstream.roots))
