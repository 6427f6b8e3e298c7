"""Reads and writes the gateway's configuration document: everything that decides trust in it.

Canonical JSON; its ``sha256:`` name is in the keyset statement as ``policy``, in a session's manifest as part
of the gateway identity, and in the trust file. MRCONFIGID of the gateway's TD = SHA-384 of the same bytes, so
that an operator cannot run the image under another configuration unseen.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric import ec

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import canonical, parse_canonical
from affiant.attestation.encoding.keys import public_jwk, public_key_of, thumbprint
from affiant.attestation.schema.shapes import (
    Array,
    Const,
    Enum,
    Int,
    MapOf,
    Obj,
    Pattern,
    ShapeMismatch,
    Text,
)
from affiant.attestation.signatures.profiles.accepted_signers import (
    AcceptedSigner,
    parse_signers,
    signers_document,
)
from affiant.attestation.signatures.profiles.errors import SignersInvalid
from affiant.attestation.tlog.errors import QuorumMalformed
from affiant.attestation.tlog.quorum import OWN_WITNESS_URL, WitnessPolicy, parse_witness_policy
from affiant.errors import MalformedError

if TYPE_CHECKING:
    from affiant.attestation.tdx.appraise.reference import ReferenceValues

__all__ = [
    "DEV_ECHO",
    "EVENT_MAX",
    "LOCAL_ISSUER",
    "GatewayConfig",
    "MCPServerConfig",
    "UpstreamConfig",
    "is_upstream_url",
    "local_gateway_config",
    "local_log_origin",
    "make_gateway_config",
    "parse_gateway_config",
]


class _Signers:
    """The shape of ``profile_signers``: read by the list's own reader, and in its canonical form."""

    def check(self, value: object, where: str) -> None:
        try:
            signers = parse_signers(value)
        except SignersInvalid as error:
            raise ShapeMismatch(f"not a list of profile signers: {error}", where=where) from error
        if signers_document(signers) != value:
            raise ShapeMismatch("signers in another encoding", expected="keys as JWKs, no null", where=where)

    def describe(self) -> str:
        return "array of profile signers, each with its time"


_URL: Final = re.compile(r"https?://[!-~]{1,500}\Z")
_MCP_SERVER: Final = Obj(
    {
        "id": Pattern("(?!affiant-sessions$)[a-z0-9][a-z0-9-]{0,62}", "a server's id"),
        "timeout_s": Int(1, 600),
        "concurrent": Int(1, 64),
    },
    {
        "url": Pattern(r"https?://[\x21-\x7e]{1,500}", "an http or https address"),
        "roots": Array(Pattern("sha256:[0-9a-f]{64}", "a SHA-256 name"), least=1, most=8),
        "header": Pattern("[A-Za-z][A-Za-z0-9-]{0,62}", "a header's name"),
        "key": Text(128),
        "command": Array(Text(1024), least=1, most=64),
        "env": MapOf("[A-Za-z_][A-Za-z0-9_]{0,63}", Text(128), most=32),
        "folders": Array(
            Pattern(r"(?:/(?!\.\.?(?:/|$))[A-Za-z0-9._@+-]{1,255}){1,16}", "an absolute path"),
            least=1,
            most=8,
        ),
    },
)
_MODEL: Final = Pattern(r"[\x21-\x7e]{1,200}", "a model's name")
_CHAT_MEMBER: Final = Pattern(
    "(?:request|message|part|function|response|choice|response_message|response_part|annotation|reasoning)"
    r"\.[\x21-\x7e]{1,64}",
    "a place of chat completions, a dot and a name",
)
_MEMBER: Final = Pattern(
    r"[a-z][a-z_]{0,39}( [a-z][a-z_]{0,39}){0,3}\.[\x21-\x7e]{1,64}",
    "a place of the dialect, a dot and a name",
)
_DIALECTS: Final = "completions|embeddings|messages|moderations|rerank|responses"
"""Dialects of ``members``; chat completions have ``chat_members``."""
_TIMEOUTS: Final = ("head_s", "idle_s", "total_s")
_UPSTREAM_URL: Final = Pattern(r"https?://[\x21-\x7e]{1,500}", "an http or https address")
_SHAPE: Final = Obj(
    {
        "typ": Const("affiant-gateway-config/1"),
        "iss": Text(),
        "cls": Enum(("hardware", "simulated")),
        "origin": Pattern(r"[!-*,-~]{1,255}", "a log's origin: printable ASCII without spaces and `+`"),
        "reference": Pattern("sha256:[0-9a-f]{64}", "a SHA-256 name"),
        "upstreams": Array(
            Obj(
                {
                    "id": Pattern("[a-z0-9][a-z0-9-]{0,62}", "an upstream's id"),
                    "url": _UPSTREAM_URL,
                    "bind": Enum(("attested", "tls", "none")),
                    "roots": Array(Pattern("sha256:[0-9a-f]{64}", "a SHA-256 name"), most=8),
                },
                {"key": Text(128), "concurrent": Int(1, 4096), **dict.fromkeys(_TIMEOUTS, Int(1, 86_400))},
            ),
            least=1,
            most=16,
        ),
        "epoch_s": Int(1, 3600),
        "session_max_s": Int(1),
        "body_max": Int(1),
    },
    {
        "mcp_servers": Array(_MCP_SERVER, least=1, most=16),
        "model_aliases": MapOf(_MODEL.pattern, Array(_MODEL, least=1, most=16), most=64),
        "chat_members": Array(_CHAT_MEMBER, least=1, most=64),
        "members": MapOf(_DIALECTS, Array(_MEMBER, least=1, most=64), most=6),
        "witnesses": Array(Text(4096), least=1, most=256),
        "erasure_authorities": Array(
            Obj({"crv": Const("P-256"), "kty": Const("EC"), "x": Text(43), "y": Text(43)}), least=1, most=16
        ),
        "profile_signers": _Signers(),
        "floor": Pattern("sha384:[0-9a-f]{96}", "a baseline policy's digest"),
        "event_max": Int(64 << 10, 64 << 20),
    },
)
EVENT_MAX: Final = 4 << 20
"""Bytes of one event of a stream, by default: an event may repeat the request that it answers, or hold an image."""


_NO_ALIASES: Final[Mapping[str, Sequence[str]]] = {}
_AS_THEY_STAND: Final = ("iss", "cls", "origin", "reference", "epoch_s", "session_max_s", "body_max")


@dataclass(frozen=True, slots=True)
class UpstreamConfig:
    """One upstream. ``bind``: how its identity is known before the prompt is sent."""

    id: str
    url: str
    bind: str
    key: str | None
    """The API key as a secret reference (``local:NAME``), never the key."""
    roots: tuple[str, ...]
    """SHA-256 names of DER certificates trusted for it; empty: the system's."""
    concurrent: int | None = None
    """How many requests it is asked at once; None: the gateway's default."""
    head_s: int = 600
    idle_s: int = 300
    total_s: int = 3600
    """Seconds to the head of a response, between two reads of it, and to its end: models think, amid a stream too."""


def is_upstream_url(url: str) -> bool:
    """Whether ``url`` can be an upstream's: ``http(s)://host[:port]/path``.

    Without user, query and fragment: a configuration is measured and shown, and those may hold a key.
    """
    try:
        parts = urlsplit(url)
        whole = bool(parts.hostname) and parts.port != 0 and len(parts.netloc) <= 255
    except ValueError:
        return False
    return whole and re.fullmatch(_UPSTREAM_URL.pattern, url) is not None and not {*"@?#"} & {*url}


@dataclass(frozen=True, slots=True, kw_only=True)
class MCPServerConfig:
    """A server of tools, behind the gateway's tool gate: reached at ``url``, or started as ``command``.

    ``key`` and the values of ``env`` are secret references (``local:NAME``), never secrets.
    """

    id: str
    url: str | None = None
    roots: tuple[str, ...] = ()
    """SHA-256 names of DER certificates that alone are trusted for it; empty: the system's."""
    header: str | None = None
    """The header that carries the key."""
    key: str | None = None
    command: tuple[str, ...] = ()
    """Argument vector; no shell is involved."""
    env: tuple[tuple[str, str], ...] = ()
    folders: tuple[str, ...] = ()
    """Of a command: where the paths in its arguments lead, on the gateway's machine. The gate reads below these, and
    nowhere else, what a call that a person must approve would let the server read."""
    timeout_s: int = 60
    """For one call."""
    concurrent: int = 8
    """Calls of one session under way at once."""

    def to_json(self) -> Mapping[str, object]:
        """Its entry in the document."""
        members = asdict(self) | {"env": dict(self.env)}
        return {name: value for name, value in members.items() if value}


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """A configuration document in its closed form."""

    raw: bytes
    iss: str
    cls: str
    origin: str
    """The transparency log that this gateway writes, and no other gateway at the same time."""
    reference: str
    """``sha256:`` name of the reference values that session quotes are appraised against."""
    upstreams: tuple[UpstreamConfig, ...]
    epoch_s: int
    session_max_s: int
    body_max: int
    """Largest request body, bytes."""
    witness_policy: WitnessPolicy | None
    """Who must have cosigned the log; None: nobody is asked."""
    erasure_authorities: tuple[ec.EllipticCurvePublicKey, ...] = ()
    """Whose orders to erase and to hold are carried out; nobody: nothing is ever erased."""
    profile_signers: tuple[AcceptedSigner, ...] = ()
    """One of whom must have signed a session's profile, or it is not admitted; nobody: it need not be signed."""
    mcp_servers: tuple[MCPServerConfig, ...] = ()
    """Servers of tools; none: there is no tool gate."""
    floor: str | None = None
    """Digest of the baseline policy that each session's profile must contain; None: any profile."""
    model_aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Model that is asked for -> other names under which its upstream answers as that same model."""
    allowed_members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Dialect -> what its requests and responses may hold beyond the gateway's lists, where a profile restricts tools:
    ``PLACE.NAME``."""
    event_max: int = EVENT_MAX
    """Largest event of a stream, bytes."""

    @property
    def digest(self) -> str:
        """``sha256:`` name of the bytes."""
        return sha256_name(self.raw)

    @property
    def asks_own_witness(self) -> bool:
        """Whether one of its witnesses is the one that is started for it."""
        policy = self.witness_policy
        return policy is not None and any(each.url == OWN_WITNESS_URL for each in policy.witnesses.values())

    @property
    def mrconfigid(self) -> bytes:
        """SHA-384 of the bytes: 48 bytes."""
        return hashlib.sha384(self.raw).digest()

    @property
    def unwitnessed(self) -> GatewayConfig:
        """The same, with nobody asked: witnesses add to what a gateway proves, and change nothing that it does."""
        members = json.loads(self.raw)
        members.pop("witnesses", None)
        return parse_gateway_config(canonical(members))


def make_gateway_config(
    *,
    iss: str,
    cls: str,
    origin: str,
    reference: str,
    upstreams: Sequence[UpstreamConfig],
    epoch_s: int = 60,
    session_max_s: int = 90 * 24 * 3600,
    body_max: int = 8 << 20,
    event_max: int = EVENT_MAX,
    witnesses: str | None = None,
    erasure_authorities: Sequence[ec.EllipticCurvePublicKey] = (),
    profile_signers: Sequence[AcceptedSigner] = (),
    mcp_servers: Sequence[MCPServerConfig] = (),
    floor: str | None = None,
    model_aliases: Mapping[str, Sequence[str]] = _NO_ALIASES,
    allowed_members: Mapping[str, Sequence[str]] = _NO_ALIASES,
) -> GatewayConfig:
    """A configuration from its parts, checked like one that was read.

    Args:
        witnesses: a C2SP tlog-policy file's text: each witness with its URL, and a quorum. Comments and
            ``log`` lines are left out: a gateway's witnesses are asked about its own log.
        profile_signers: one of whom must have signed a session's profile; nobody: it need not be signed.
        floor: digest of the baseline policy that each session's profile must contain.
    """
    return parse_gateway_config(
        canonical(
            {
                **({} if witnesses is None else {"witnesses": _policy_lines(witnesses)}),
                **(
                    {"erasure_authorities": [public_jwk(key) for key in erasure_authorities]}
                    if erasure_authorities
                    else {}
                ),
                **({"profile_signers": signers_document(profile_signers)} if profile_signers else {}),
                **({"mcp_servers": [server.to_json() for server in mcp_servers]} if mcp_servers else {}),
                **({} if floor is None else {"floor": floor}),
                **({"model_aliases": _aliases(model_aliases)} if model_aliases else {}),
                **_members_document(allowed_members),
                **({} if event_max == EVENT_MAX else {"event_max": event_max}),
                "typ": "affiant-gateway-config/1",
                "iss": iss,
                "cls": cls,
                "origin": origin,
                "reference": reference,
                "upstreams": [_upstream(upstream) for upstream in upstreams],
                "epoch_s": epoch_s,
                "session_max_s": session_max_s,
                "body_max": body_max,
            }
        )
    )


DEV_ECHO: Final = UpstreamConfig(
    id="affiant-dev-echo", url="http://affiant-dev-echo.internal/v1", bind="none", key=None, roots=()
)
"""The embedded default upstream: a small local process for trying and testing, named as such in receipts."""

LOCAL_ISSUER: Final = "urn:affiant:gateway:local"
"""``iss`` of the gateway that a development machine starts for itself."""


def local_gateway_config(
    reference: ReferenceValues, *, upstreams: Sequence[UpstreamConfig] = (DEV_ECHO,), **parts: Any
) -> GatewayConfig:
    """The configuration of the gateway that ``affiant run`` starts: the same bytes for the same arguments, so
    that a trust file can name its digest before it runs. ``parts`` as of :func:`make_gateway_config`."""
    return make_gateway_config(
        iss=LOCAL_ISSUER,
        cls="simulated",
        origin=local_log_origin(reference.roots),
        reference=reference.digest,
        upstreams=upstreams,
        **parts,
    )


def local_log_origin(roots: Iterable[str]) -> str:
    """The origin of the log on a development machine: one for each simulated platform, whose root its name holds.

    ``.invalid`` (RFC 2606): nobody can be asked there.
    """
    names = "\n".join(sorted(roots)).encode("ascii")
    return f"{hashlib.sha256(names).hexdigest()[:32]}.affiant.invalid"


def _aliases(aliases: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    """As the document has them: one meaning, one digest."""
    return {model: sorted(set(names)) for model, names in aliases.items()}


def _members_document(allowed: Mapping[str, Sequence[str]]) -> Mapping[str, object]:
    named = {dialect: sorted(set(names)) for dialect, names in allowed.items() if names}
    document = {"chat_members": named.pop("chat", None), "members": named}
    return {name: value for name, value in document.items() if value}


def _upstream(upstream: UpstreamConfig) -> Mapping[str, object]:
    default = {name: getattr(DEV_ECHO, name) for name in _TIMEOUTS}
    return {name: value for name, value in asdict(upstream).items() if value not in (None, default.get(name))}


def parse_gateway_config(raw: bytes) -> GatewayConfig:
    """The configuration in ``raw``, closed and canonical.

    Raises:
        JSONError, ShapeMismatch: anything else.
    """
    value = parse_canonical(raw, limit=64 * 1024)
    _SHAPE.check(value, "config")
    assert isinstance(value, dict)
    return GatewayConfig(
        raw=raw,
        **{name: value[name] for name in _AS_THEY_STAND},
        upstreams=tuple(
            UpstreamConfig(**{"key": None, **item, "roots": tuple(item["roots"])})
            for item in value["upstreams"]
        ),
        witness_policy=_witness_policy(value.get("witnesses")),
        erasure_authorities=_authorities(value.get("erasure_authorities", ())),
        profile_signers=parse_signers(value["profile_signers"]) if "profile_signers" in value else (),
        mcp_servers=_mcp_servers(value.get("mcp_servers", ())),
        floor=value.get("floor"),
        event_max=value.get("event_max", EVENT_MAX),
        model_aliases={model: tuple(names) for model, names in value.get("model_aliases", {}).items()},
        allowed_members={
            dialect: tuple(names)
            for dialect, names in {"chat": value.get("chat_members", ()), **value.get("members", {})}.items()
        },
    )


def _members(entry: Mapping[str, Any]) -> dict[str, Any]:
    """One server's members, as the dataclass has them."""
    lists = {name: tuple(entry.get(name, ())) for name in ("roots", "command", "folders")}
    return {**entry, **lists, "env": tuple(sorted(entry.get("env", {}).items()))}


def _mcp_servers(entries: Sequence[Mapping[str, Any]]) -> tuple[MCPServerConfig, ...]:
    where = "config.mcp_servers"
    servers = tuple(MCPServerConfig(**_members(entry)) for entry in entries)
    for server in servers:
        if (server.url is None) == (not server.command):
            raise ShapeMismatch("a server has a url or a command, one of them", where=where, found=server.id)
        if server.command and (server.roots or server.header or server.key):
            raise ShapeMismatch("a command has no roots, header or key", where=where, found=server.id)
        if server.url is not None and (server.env or server.folders):
            raise ShapeMismatch("a url has no environment and no folders", where=where, found=server.id)
        if (server.header is None) != (server.key is None):
            raise ShapeMismatch("a key is in a header, and a header for a key", where=where, found=server.id)
        if server.roots and not (server.url or "").startswith("https:"):
            raise ShapeMismatch("roots are for https", where=where, found=server.id)
        if server.key and not (server.url or "").startswith("https:"):
            raise ShapeMismatch("a key is sent over https only", where=where, found=server.id)
    if len({server.id for server in servers}) != len(servers):
        raise ShapeMismatch("two servers of one id", where=where)
    return servers


def _authorities(jwks: Sequence[object]) -> tuple[ec.EllipticCurvePublicKey, ...]:
    try:
        keys = tuple(public_key_of(jwk) for jwk in jwks)
    except MalformedError as error:
        raise ShapeMismatch(f"not a key: {error}", where="config.erasure_authorities") from error
    if len({thumbprint(key) for key in keys}) != len(keys):
        raise ShapeMismatch("one authority twice", where="config.erasure_authorities")
    return keys


def _policy_lines(text: str) -> Sequence[str]:
    """The lines that say whom to ask, each in one encoding. What the file says of logs is for its other readers."""
    words = (re.split(r"[ \t]+", line.strip(" \t")) for line in text.split("\n"))
    return [" ".join(each) for each in words if each[0] not in ("", "log") and not each[0].startswith("#")]


def _witness_policy(lines: Sequence[str] | None) -> WitnessPolicy | None:
    """Whoever runs the gateway under this configuration asks these witnesses; so each must say where it is asked."""
    if lines is None:
        return None
    try:
        policy = parse_witness_policy("\n".join(lines).encode("utf-8", "surrogateescape"))
    except (QuorumMalformed, UnicodeEncodeError) as error:
        raise ShapeMismatch(f"not a witness policy: {error}", where="config.witnesses") from error
    if policy.logs:
        raise ShapeMismatch(
            "a gateway's witnesses are asked about its own log",
            expected="no `log` line",
            where="config.witnesses",
        )
    if policy.quorum is None:
        raise ShapeMismatch("`quorum none` asks nobody", expected="a quorum", where="config.witnesses")
    for witness in policy.witnesses.values():
        if witness.url is None or not _URL.match(witness.url):
            raise ShapeMismatch(
                "a witness that cannot be asked",
                expected="witness <name> <vkey> http(s)://host[:port]/path",
                found=witness.name,
                where="config.witnesses",
            )
    return policy
