"""What supervisor and broker say to each other, as types; each knows its JSON and reads it strictly.

Bytes of HTTP (targets, header names and values) are Latin-1 text in JSON, so that every byte has one spelling.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from affiant.errors import AffiantError
from affiant.secrets.detection import HeaderField
from affiant.secrets.placeholder import Binding, Endpoint
from affiant.secrets.refusals import BrokerConfigurationInvalid, BrokerProtocolError, from_members, to_members
from affiant.secrets.surface import AUTHORIZATION, Surface

__all__ = [
    "BrokerStatus",
    "Configuration",
    "ExchangeOutcome",
    "ExchangeRequest",
    "Grant",
    "Limits",
    "Resolution",
    "ResponseHead",
    "VaultSettings",
]

_Members: TypeAlias = Mapping[str, object]
_HEADERS_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Grant:
    """A secret of this session: where its value lives, and where its placeholder may stand.

    Args:
        reference: ``local:NAME`` or ``vault:<mount>/<path>#<field>``.
    """

    binding: Binding
    reference: str

    def to_json(self) -> _Members:
        """As the configuration carries it."""
        surface = self.binding.surface
        inject = None if surface == AUTHORIZATION else {"format": surface.format, "header": surface.header}
        return {
            "hosts": [[place.host, place.port] for place in sorted(self.binding.endpoints)],
            "inject": inject,
            "name": self.binding.name,
            "placeholder": self.binding.placeholder,
            "ref": self.reference,
        }

    @classmethod
    def from_json(cls, value: object) -> Grant:
        """Read strictly.

        Raises:
            BrokerProtocolError: members are missing, unknown, or of another type.
            AffiantError: they contradict what a binding may be.
        """
        members = _closed(value, "hosts", "inject", "name", "placeholder", "ref")
        places = [_list(place) for place in _list(members["hosts"])]
        if any(len(place) != 2 for place in places):
            raise BrokerProtocolError("not a host and its port")
        return cls(
            Binding(
                _text(members["name"]),
                _text(members["placeholder"]),
                frozenset(Endpoint(_text(host), _int(port)) for host, port in places),
                _surface(members["inject"]),
            ),
            _text(members["ref"]),
        )


@dataclass(frozen=True, slots=True)
class VaultSettings:
    """Where Vault is and how to log in; the token, or the JWT, comes as a descriptor.

    Args:
        role, mount: of a JWT login; both None: the descriptor holds a token.

    Raises:
        BrokerConfigurationInvalid: a role without a mount, or a mount without a role.
    """

    address: str
    roots: tuple[str, ...]
    role: str | None = None
    mount: str | None = None

    def __post_init__(self) -> None:
        if (self.role is None) != (self.mount is None):
            raise BrokerConfigurationInvalid("a JWT login needs a role and a mount; a token has neither")

    def to_json(self) -> _Members:
        """As the configuration carries it."""
        return {"address": self.address, "mount": self.mount, "role": self.role, "roots": list(self.roots)}

    @classmethod
    def from_json(cls, value: object) -> VaultSettings:
        """Read strictly."""
        members = _closed(value, "address", "mount", "role", "roots")
        return cls(
            _text(members["address"]),
            tuple(map(_text, _list(members["roots"]))),
            _text_or_none(members["role"]),
            _text_or_none(members["mount"]),
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

    def to_json(self) -> _Members:
        """As the configuration carries it."""
        return {"connect_ms": self.connect_ms, "head_ms": self.head_ms, "idle_ms": self.idle_ms}

    @classmethod
    def from_json(cls, value: object) -> Limits:
        """Read strictly."""
        members = _closed(value, "connect_ms", "head_ms", "idle_ms")
        limits = cls(**{name: _int(members[name]) for name in members})
        if min(limits.connect_ms, limits.head_ms, limits.idle_ms) < 1:
            raise BrokerProtocolError("a time limit that leaves no time")
        return limits


@dataclass(frozen=True, slots=True)
class Configuration:
    """All that a broker is told, once, before its first exchange.

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

    def to_json(self) -> _Members:
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
        members = _closed(value, "grants", "limits", "local", "op", "roots", "system_roots", "vault")
        return cls(
            grants=tuple(map(Grant.from_json, _list(members["grants"]))),
            roots=tuple(map(_text, _list(members["roots"]))),
            system_roots=_bool(members["system_roots"]),
            local=_bool(members["local"]),
            vault=None if members["vault"] is None else VaultSettings.from_json(members["vault"]),
            limits=Limits.from_json(members["limits"]),
        )


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """How well the broker is protected; told, not assumed.

    Args:
        dumpable: whether its memory could be dumped or traced by its own user.
        memory_locked: whether its pages stay out of swap.
    """

    pid: int
    uid: int
    dumpable: bool
    memory_locked: bool

    def to_json(self) -> _Members:
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
        members = _closed(value, "dumpable", "memory_locked", "pid", "uid")
        return cls(
            _int(members["pid"]),
            _int(members["uid"]),
            _bool(members["dumpable"]),
            _bool(members["memory_locked"]),
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

    def to_json(self) -> _Members:
        """As the control channel carries it."""
        return {
            "refused": {name: to_members(error) for name, error in self.refused.items()},
            "resolved": dict(self.resolved),
            "status": self.status.to_json(),
        }

    @classmethod
    def from_json(cls, value: object) -> Resolution:
        """Read strictly."""
        members = _closed(value, "refused", "resolved", "status")
        refused = {
            name: _closed(error, "code", "message") for name, error in _object(members["refused"]).items()
        }
        return cls(
            {name: _text(version) for name, version in _object(members["resolved"]).items()},
            {
                name: from_members(_text(each["code"]), _text(each["message"]))
                for name, each in refused.items()
            },
            BrokerStatus.from_json(members["status"]),
        )


@dataclass(frozen=True, slots=True)
class ExchangeRequest:
    """One request that was decided and recorded; its body follows, if there is one.

    Args:
        id: the supervisor's own name for it; 1 to 128 characters.
        host: canonical; what certificate and ``Host`` are checked against.
        address: the checked address to dial, an IP literal. The broker looks no name up.
        target: the request target, exactly as decided and as it will be sent.
        headers: names and values as the agent sent them, with placeholders.
        uses: name and surface of each secret that was decided and recorded.
        has_body: a body follows; without a ``Content-Length`` it is sent in chunks.
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

    def to_json(self) -> _Members:
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
    def from_json(cls, value: object) -> ExchangeRequest:
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
        members = _closed(value, *names)
        uses = [tuple(map(_text, _list(use))) for use in _list(members["uses"])]
        if any(len(use) != 2 for use in uses):
            raise BrokerProtocolError("not a secret and its surface")
        return cls(
            id=_text(members["id"])[:128],
            scheme=_text(members["scheme"]),
            host=_text(members["host"]),
            port=_int(members["port"]),
            address=_address(members["address"]),
            method=_text(members["method"]),
            target=_latin(members["target"]),
            headers=_headers_from_json(members["headers"]),
            uses=tuple((name, surface) for name, surface in uses),
            has_body=_bool(members["body"]),
        )


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """The head of an answer, redacted: names lower case, without the fields of one hop."""

    status: int
    headers: tuple[HeaderField, ...]

    def to_json(self) -> _Members:
        """As the head of a stream carries it."""
        return {"headers": _headers_to_json(self.headers), "status": self.status}

    @classmethod
    def from_json(cls, value: object) -> ResponseHead:
        """Read strictly."""
        members = _closed(value, "headers", "status")
        return cls(_int(members["status"]), _headers_from_json(members["headers"]))


@dataclass(frozen=True, slots=True)
class ExchangeOutcome:
    """What came of an exchange, for the record of it. Nothing in it depends on a value.

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

    def to_json(self) -> _Members:
        """As the end of a stream carries it."""
        return {
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "redactions": self.redactions,
            "refusal": None if self.refusal is None else to_members(self.refusal),
            "request_complete": self.request_complete,
            "sent_digest": self.sent_digest,
            "spki_sha256": self.spki_sha256,
            "status": self.status,
            "trailers": _headers_to_json(self.trailers),
        }

    @classmethod
    def from_json(cls, value: object) -> ExchangeOutcome:
        """Read strictly."""
        members = _closed(
            value, "bytes_in", "bytes_out", "redactions", "refusal", "request_complete", "sent_digest", "spki_sha256",
            "status", "trailers",
        )  # fmt: skip
        refusal = None if members["refusal"] is None else _closed(members["refusal"], "code", "message")
        return cls(
            bytes_out=_int(members["bytes_out"]),
            bytes_in=_int(members["bytes_in"]),
            sent_digest=_text_or_none(members["sent_digest"]),
            request_complete=_bool(members["request_complete"]),
            spki_sha256=_text_or_none(members["spki_sha256"]),
            redactions=_int(members["redactions"]),
            status=None if members["status"] is None else _int(members["status"]),
            trailers=_headers_from_json(members["trailers"]),
            refusal=None
            if refusal is None
            else from_members(_text(refusal["code"]), _text(refusal["message"])),
        )


def _surface(value: object) -> Surface:
    if value is None:
        return AUTHORIZATION
    members = _closed(value, "format", "header")
    return Surface(_text(members["header"]), _text_or_none(members["format"]))


def _headers_to_json(headers: tuple[HeaderField, ...]) -> list[list[str]]:
    return [[name.decode("latin-1"), value.decode("latin-1")] for name, value in headers]


def _headers_from_json(value: object) -> tuple[HeaderField, ...]:
    pairs = [_list(pair) for pair in _list(value)]
    if len(pairs) > _HEADERS_MAX or any(len(pair) != 2 for pair in pairs):
        raise BrokerProtocolError("not a list of headers")
    return tuple((_latin(name), _latin(text)) for name, text in pairs)


def _address(value: object) -> str:
    text = _text(value)
    try:
        if "%" in text:
            raise ValueError("a scope")
        return str(ipaddress.ip_address(text))
    except ValueError as error:
        raise BrokerProtocolError("not an IP address: the broker looks no name up") from error


def _closed(value: object, *names: str) -> _Members:
    members = _object(value)
    if set(members) != set(names):
        raise BrokerProtocolError("members are missing or unknown", expected=", ".join(names))
    return members


def _object(value: object) -> _Members:
    if not isinstance(value, dict):
        raise BrokerProtocolError("not an object")
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise BrokerProtocolError("not a list")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise BrokerProtocolError("not text")
    return value


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _latin(value: object) -> bytes:
    try:
        return _text(value).encode("latin-1")
    except UnicodeEncodeError as error:
        raise BrokerProtocolError("not bytes in Latin-1") from error


def _int(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BrokerProtocolError("not a number")
    return value


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise BrokerProtocolError("neither true nor false")
    return value
