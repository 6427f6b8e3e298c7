"""What supervisor and broker say to each other, as types; each knows its JSON and reads it strictly.

Bytes of HTTP (targets, header names and values) are Latin-1 text in JSON, so that every byte has one encoding.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from affiant.errors import AffiantError, ConfigurationError, MalformedError
from affiant.policy.model.token_exchange import TokenExchange
from affiant.secrets.broker.client.members import (
    Members,
    as_bool,
    as_bytes,
    as_count,
    as_list,
    as_object,
    as_text,
    as_text_or_none,
    closed_members,
    error_members,
    read_error,
)
from affiant.secrets.injection.body_surface import BodySurface
from affiant.secrets.injection.detection import HeaderField
from affiant.secrets.injection.placeholder import Binding, Endpoint
from affiant.secrets.injection.signing_surface import SigningSurface
from affiant.secrets.injection.surface import AUTHORIZATION, QuerySurface, Surface

__all__ = [
    "BrokerPart",
    "BrokerStatus",
    "Configuration",
    "Grant",
    "KeptGrant",
    "Limits",
    "Resolution",
    "ResponseHead",
    "UpstreamOutcome",
    "UpstreamRequest",
    "VaultSettings",
    "checked_address",
]

_HEADERS_MAX: Final = 1000


class BrokerPart(StrEnum):
    """What a broker loads only where a profile needs it; it is named on the command line."""

    VAULT = "vault"
    LOCAL_STORE = "local-store"
    ASSERTIONS = "assertions"


@dataclass(frozen=True, slots=True)
class Grant:
    """A secret of this session: where its value lives, and where its placeholder may be.

    Args:
        reference: ``local:NAME`` or ``vault:<mount>/<path>#<field>``.
        max_uses: requests of the session into which its value is put; None: any number.
        exchange: how its value becomes a token, which is put there in its place; None: the value itself is.
    """

    binding: Binding
    reference: str
    max_uses: int | None = None
    exchange: TokenExchange | None = None

    def to_json(self) -> Members:
        """As the configuration carries it."""
        return {
            "exchange": None if self.exchange is None else dict(self.exchange.members),
            "hosts": [[place.host, place.port] for place in sorted(self.binding.endpoints)],
            "inject": _surface_members(self.binding.surface),
            "max_uses": self.max_uses,
            "name": self.binding.name,
            "placeholder": self.binding.placeholder,
            "ref": self.reference,
        }

    @classmethod
    def from_json(cls, value: object) -> Grant:
        """Read strictly.

        Raises:
            ``broker.protocol``: members are missing, unknown, or of another type.
            AffiantError: they contradict what a binding may be.
        """
        members = closed_members(
            value, "exchange", "hosts", "inject", "max_uses", "name", "placeholder", "ref"
        )
        return cls(
            Binding(
                as_text(members["name"]),
                as_text(members["placeholder"]),
                _endpoints(members["hosts"]),
                _surface(members["inject"]),
            ),
            as_text(members["ref"]),
            None if members["max_uses"] is None else as_count(members["max_uses"]),
            None if members["exchange"] is None else _token_exchange(members["exchange"]),
        )


@dataclass(frozen=True, slots=True)
class KeptGrant:
    """What is left of a grant once the session's profile is restricted: where its placeholder may still be.

    Args:
        max_uses: as of a grant, counted from the session's start.
    """

    name: str
    endpoints: frozenset[Endpoint]
    max_uses: int | None = None

    def to_json(self) -> Members:
        """As the control channel carries it."""
        return {
            "hosts": [[place.host, place.port] for place in sorted(self.endpoints)],
            "max_uses": self.max_uses,
            "name": self.name,
        }

    @classmethod
    def from_json(cls, value: object) -> KeptGrant:
        """Read strictly; as :meth:`Grant.from_json`."""
        members = closed_members(value, "hosts", "max_uses", "name")
        return cls(
            as_text(members["name"]),
            _endpoints(members["hosts"]),
            None if members["max_uses"] is None else as_count(members["max_uses"]),
        )


@dataclass(frozen=True, slots=True)
class VaultSettings:
    """Where Vault is and how to log in; the token, or the JWT, comes as a descriptor.

    Args:
        role, mount: of a JWT login; both None: the descriptor holds a token.

    Raises:
        ``broker.configuration``: a role without a mount, or a mount without a role.
    """

    address: str
    roots: tuple[str, ...]
    role: str | None = None
    mount: str | None = None

    def __post_init__(self) -> None:
        if (self.role is None) != (self.mount is None):
            raise ConfigurationError(
                "a JWT login needs a role and a mount; a token has neither", code="broker.configuration"
            )

    def to_json(self) -> Members:
        """As the configuration carries it."""
        return {"address": self.address, "mount": self.mount, "role": self.role, "roots": list(self.roots)}

    @classmethod
    def from_json(cls, value: object) -> VaultSettings:
        """Read strictly."""
        members = closed_members(value, "address", "mount", "role", "roots")
        return cls(
            as_text(members["address"]),
            tuple(map(as_text, as_list(members["roots"]))),
            as_text_or_none(members["role"]),
            as_text_or_none(members["mount"]),
        )


@dataclass(frozen=True, slots=True)
class Limits:
    """How long the steps of an exchange may take, in milliseconds.

    Args:
        connect_ms: TCP and TLS together.
        head_ms: without a byte of the answer's head, or of the request still on its way.
        idle_ms: without a byte of the answer's body (or of the request); and for a piece of the request to be taken.
    """

    connect_ms: int = 10_000
    head_ms: int = 300_000
    idle_ms: int = 300_000

    def to_json(self) -> Members:
        """As the configuration carries it."""
        return {"connect_ms": self.connect_ms, "head_ms": self.head_ms, "idle_ms": self.idle_ms}

    @classmethod
    def from_json(cls, value: object) -> Limits:
        """Read strictly."""
        members = closed_members(value, "connect_ms", "head_ms", "idle_ms")
        limits = cls(**{name: as_count(members[name]) for name in members})
        if min(limits.connect_ms, limits.head_ms, limits.idle_ms) < 1:
            raise MalformedError("a time limit that leaves no time", code="broker.protocol")
        return limits


@dataclass(frozen=True, slots=True)
class Configuration:
    """All that a broker gets, once, before its first request.

    Args:
        roots: extra roots of upstream hosts, in PEM.
        system_roots: the machine's own roots count too.
        local: two descriptors come with it: the local store, and its key file (or passphrase).
        vault: one descriptor comes with it (the last): a token or a JWT.
    """

    grants: tuple[Grant, ...]
    roots: tuple[str, ...] = ()
    system_roots: bool = False
    local: bool = False
    vault: VaultSettings | None = None
    limits: Limits = field(default_factory=Limits)

    def to_json(self) -> Members:
        """As the control channel carries it."""
        return {
            "grants": [grant.to_json() for grant in self.grants],
            "limits": self.limits.to_json(),
            "local": self.local,
            "op": "configure",
            "roots": list(self.roots),
            "system_roots": self.system_roots,
            "vault": None if self.vault is None else self.vault.to_json(),
        }

    @classmethod
    def from_json(cls, value: object) -> Configuration:
        """Read strictly."""
        members = closed_members(value, "grants", "limits", "local", "op", "roots", "system_roots", "vault")
        return cls(
            grants=tuple(map(Grant.from_json, as_list(members["grants"]))),
            roots=tuple(map(as_text, as_list(members["roots"]))),
            system_roots=as_bool(members["system_roots"]),
            local=as_bool(members["local"]),
            vault=None if members["vault"] is None else VaultSettings.from_json(members["vault"]),
            limits=Limits.from_json(members["limits"]),
        )


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """How well the broker is protected; reported, not assumed.

    Args:
        dumpable: whether its memory could be dumped or traced by its own user.
        memory_locked: whether its pages stay out of swap.
    """

    pid: int
    uid: int
    dumpable: bool
    memory_locked: bool

    def to_json(self) -> Members:
        """As the answer to a configuration carries it."""
        return {
            "dumpable": self.dumpable,
            "memory_locked": self.memory_locked,
            "pid": self.pid,
            "uid": self.uid,
        }

    @classmethod
    def from_json(cls, value: object) -> BrokerStatus:
        """Read strictly."""
        members = closed_members(value, "dumpable", "memory_locked", "pid", "uid")
        return cls(
            as_count(members["pid"]),
            as_count(members["uid"]),
            as_bool(members["dumpable"]),
            as_bool(members["memory_locked"]),
        )


@dataclass(frozen=True, slots=True)
class Resolution:
    """The answer to a configuration.

    Args:
        resolved: name to version, of the secrets that the broker holds now.
        refused: name to refusal, of the others: they get no placeholder (S16).
    """

    resolved: Mapping[str, str]
    refused: Mapping[str, AffiantError]
    status: BrokerStatus

    def to_json(self) -> Members:
        """As the control channel carries it."""
        return {
            "refused": {name: error_members(error) for name, error in self.refused.items()},
            "resolved": dict(self.resolved),
            "status": self.status.to_json(),
        }

    @classmethod
    def from_json(cls, value: object) -> Resolution:
        """Read strictly."""
        members = closed_members(value, "refused", "resolved", "status")
        return cls(
            {name: as_text(version) for name, version in as_object(members["resolved"]).items()},
            {name: read_error(error) for name, error in as_object(members["refused"]).items()},
            BrokerStatus.from_json(members["status"]),
        )


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """One request that was decided and recorded; its body follows, if there is one.

    Args:
        id: the supervisor's own name for it; 1 to 128 characters.
        host: canonical; what certificate and ``Host`` are checked against.
        address: the checked address to dial, an IP literal. The broker looks no name up.
        target: the request target, exactly as decided and as it will be sent.
        headers: names and values as the agent sent them, with placeholders.
        uses: name and surface of each secret that was decided and recorded.
        has_body: a body follows; without a ``Content-Length`` it is sent in chunks. One in which a secret was decided,
            or that one signs, is held until its end, at most ``MAX_HELD_BODY`` bytes.
    """

    id: str
    scheme: str
    host: str
    port: int
    address: str
    method: str
    target: bytes
    headers: tuple[HeaderField, ...]
    uses: tuple[tuple[str, str], ...] = ()
    has_body: bool = False

    def to_json(self) -> Members:
        """As the head of a stream carries it."""
        return {
            "address": self.address,
            "body": self.has_body,
            "headers": _headers_to_json(self.headers),
            "host": self.host,
            "id": self.id,
            "method": self.method,
            "op": "exchange",
            "port": self.port,
            "scheme": self.scheme,
            "target": self.target.decode("latin-1"),
            "uses": [list(use) for use in self.uses],
        }

    @classmethod
    def from_json(cls, value: object) -> UpstreamRequest:
        """Read strictly."""
        names = (
            "address",
            "body",
            "headers",
            "host",
            "id",
            "method",
            "op",
            "port",
            "scheme",
            "target",
            "uses",
        )
        members = closed_members(value, *names)
        uses = [tuple(map(as_text, as_list(use))) for use in as_list(members["uses"])]
        if any(len(use) != 2 for use in uses):
            raise MalformedError("not a secret and its surface", code="broker.protocol")
        return cls(
            id=as_text(members["id"])[:128],
            scheme=as_text(members["scheme"]),
            host=as_text(members["host"]),
            port=as_count(members["port"]),
            address=checked_address(members["address"]),
            method=as_text(members["method"]),
            target=as_bytes(members["target"]),
            headers=_headers_from_json(members["headers"]),
            uses=tuple((name, surface) for name, surface in uses),
            has_body=as_bool(members["body"]),
        )


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """The head of an answer, redacted: names lower case, without the fields of one hop."""

    status: int
    headers: tuple[HeaderField, ...]

    def to_json(self) -> Members:
        """As the head of a stream carries it."""
        return {"headers": _headers_to_json(self.headers), "status": self.status}

    @classmethod
    def from_json(cls, value: object) -> ResponseHead:
        """Read strictly."""
        members = closed_members(value, "headers", "status")
        return cls(as_count(members["status"]), _headers_from_json(members["headers"]))


@dataclass(frozen=True, slots=True)
class UpstreamOutcome:
    """What came of an exchange, for the record of it. Nothing in it depends on a value but ``secret.partial_echo``.

    Args:
        bytes_out: bytes of the request's head and body, placeholders in the secrets' places.
        bytes_in: bytes of the answer's body as they came.
        sent_digest: SHA-256 (43 characters) of head and body as sent, placeholders in the secrets' places and
            the body without its chunk framing; of what was sent until then, if the exchange broke off; None if
            nothing was.
        request_complete: whether all of the request was sent.
        spki_sha256: SHA-256 (43 characters) of the peer's SubjectPublicKeyInfo; None without TLS.
        redactions: occurrences of secrets that were replaced.
        status: of the answer, if there was one.
        trailers: the answer's, redacted.
        refusal: None if all went well.
    """

    bytes_out: int = 0
    bytes_in: int = 0
    sent_digest: str | None = None
    request_complete: bool = False
    spki_sha256: str | None = None
    redactions: int = 0
    status: int | None = None
    trailers: tuple[HeaderField, ...] = ()
    refusal: AffiantError | None = None

    @property
    def error_code(self) -> str | None:
        """The refusal's code, if there is one."""
        return None if self.refusal is None else self.refusal.code

    def to_json(self) -> Members:
        """As the end of a stream carries it."""
        return {
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "redactions": self.redactions,
            "refusal": None if self.refusal is None else error_members(self.refusal),
            "request_complete": self.request_complete,
            "sent_digest": self.sent_digest,
            "spki_sha256": self.spki_sha256,
            "status": self.status,
            "trailers": _headers_to_json(self.trailers),
        }

    @classmethod
    def from_json(cls, value: object) -> UpstreamOutcome:
        """Read strictly."""
        members = closed_members(
            value, "bytes_in", "bytes_out", "redactions", "refusal", "request_complete", "sent_digest", "spki_sha256",
            "status", "trailers",
        )  # fmt: skip
        return cls(
            bytes_out=as_count(members["bytes_out"]),
            bytes_in=as_count(members["bytes_in"]),
            sent_digest=as_text_or_none(members["sent_digest"]),
            request_complete=as_bool(members["request_complete"]),
            spki_sha256=as_text_or_none(members["spki_sha256"]),
            redactions=as_count(members["redactions"]),
            status=None if members["status"] is None else as_count(members["status"]),
            trailers=_headers_from_json(members["trailers"]),
            refusal=None if members["refusal"] is None else read_error(members["refusal"]),
        )


def _token_exchange(value: object) -> TokenExchange:
    return TokenExchange.of({name: as_text(member) for name, member in as_object(value).items()})


def _endpoints(value: object) -> frozenset[Endpoint]:
    places = [as_list(place) for place in as_list(value)]
    if any(len(place) != 2 for place in places):
        raise MalformedError("not a host and its port", code="broker.protocol")
    return frozenset(Endpoint(as_text(host), as_count(port)) for host, port in places)


def _surface_members(surface: Surface | QuerySurface | BodySurface | SigningSurface) -> Members | None:
    if isinstance(surface, SigningSurface):
        return {"region": surface.region, "service": surface.service}
    if isinstance(surface, BodySurface):
        return {"json": surface.json} if surface.form is None else {"form": surface.form}
    if isinstance(surface, QuerySurface):
        return {"query": surface.name}
    if surface == AUTHORIZATION:
        return None
    return {"format": surface.format, "header": surface.header, "user": surface.user}


def _surface(value: object) -> Surface | QuerySurface | BodySurface | SigningSurface:
    if value is None:
        return AUTHORIZATION
    if isinstance(value, dict) and "region" in value:
        members = closed_members(value, "region", "service")
        return SigningSurface(as_text(members["region"]), as_text(members["service"]))
    if isinstance(value, dict) and "json" in value:
        return BodySurface(json=as_text(closed_members(value, "json")["json"]))
    if isinstance(value, dict) and "form" in value:
        return BodySurface(form=as_text(closed_members(value, "form")["form"]))
    if isinstance(value, dict) and "query" in value:
        return QuerySurface(as_text(closed_members(value, "query")["query"]))
    members = closed_members(value, "format", "header", "user")
    return Surface(
        as_text(members["header"]), as_text_or_none(members["format"]), as_text_or_none(members["user"])
    )


def _headers_to_json(headers: tuple[HeaderField, ...]) -> list[list[str]]:
    return [[name.decode("latin-1"), value.decode("latin-1")] for name, value in headers]


def _headers_from_json(value: object) -> tuple[HeaderField, ...]:
    pairs = [as_list(pair) for pair in as_list(value)]
    if len(pairs) > _HEADERS_MAX or any(len(pair) != 2 for pair in pairs):
        raise MalformedError("not a list of headers", code="broker.protocol")
    return tuple((as_bytes(name), as_bytes(text)) for name, text in pairs)


def checked_address(value: object) -> str:
    """An IP address: the broker looks no name up.

    Raises:
        ``broker.protocol``: anything else.
    """
    text = as_text(value)
    try:
        if "%" in text:
            raise ValueError("a scope")
        return str(ipaddress.ip_address(text))
    except ValueError as error:
        raise MalformedError(
            "not an IP address: the broker looks no name up", code="broker.protocol"
        ) from error
