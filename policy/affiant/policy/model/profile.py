"""Rules and settings of a profile as values; every constructor checks its value, so one that exists is legal.

Both readers, of the YAML and of the normal form, build these same types, so that neither can be laxer than
the other. :class:`Policy` is the meaning of one profile, without its name and place; rules are immutable and
hashable, and their order carries no meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple, TypeVar

from affiant.attestation.encoding.canonical import JSONError, canonical, parse_object
from affiant.attestation.signatures.approvers.identities import (
    NO_IDENTITIES,
    ApproverIdentity,
    NamedIdentities,
)
from affiant.errors import MalformedError
from affiant.policy.canonical.addresses import parse_cidr
from affiant.policy.canonical.errors import EmptyList, PolicyConflict, ValueRefused, excerpt
from affiant.policy.canonical.hosts import covering_patterns, host_pattern, is_wildcard
from affiant.policy.canonical.names import (
    check_agent_name,
    check_approver,
    check_basic_user,
    check_format,
    check_header,
    check_identity,
    check_methods,
    check_model_name,
    check_parameter,
    check_port,
    check_reference,
    check_schema_pin,
    check_secret_name,
    check_server,
    check_shape,
    check_tool_name,
)
from affiant.policy.canonical.paths import grantable_path, rule_path
from affiant.policy.canonical.request_names import check_pointer
from affiant.policy.canonical.targets import decoded_path, path_pattern
from affiant.policy.model.arguments import Argument, patterns_in
from affiant.policy.model.limits import (
    NO_EGRESS_LIMITS,
    NO_LIMITS,
    Bounds,
    EgressLimits,
    Limits,
    check_bounds,
    check_most,
)
from affiant.policy.model.share import NO_SHARE, Share
from affiant.policy.model.sigv4 import CLIENT_SETTING, SigV4, signing_variables
from affiant.policy.model.text_pattern import MAX_WORK_OF_PROFILE, Work
from affiant.policy.model.token_exchange import BEARER, TokenExchange

__all__ = [
    "APPROVAL_TTL",
    "APPROVAL_TTL_BOUNDS",
    "MAX_APPROVERS",
    "SECTIONS",
    "Approval",
    "Approver",
    "EgressDenial",
    "EgressRule",
    "Endpoint",
    "Injection",
    "ModelRule",
    "PathGrant",
    "PathMode",
    "Policy",
    "PortDenial",
    "PortGrant",
    "PortRange",
    "ProviderTool",
    "ProviderToolDenial",
    "Resources",
    "Scheme",
    "SecretGrant",
    "StartDenial",
    "StartGrant",
    "TLSMode",
    "ToolDenial",
    "ToolRule",
    "check_entries",
    "check_sink",
    "joined_ports",
    "make_patterns",
    "trusted_root_text",
]

SECTIONS: Final = (
    "tools",
    "provider_tools",
    "filesystem",
    "egress",
    "secrets",
    "models",
    "ports",
    "may_start",
)
"""The members of :class:`Policy` that are lists of rules: ids of rules begin with them."""
_DIGEST: Final = re.compile(r"sha384:[0-9a-f]{96}\Z")

_MAX_ENTRIES: Final = 1024
"""In each list; a profile that needs more is not one that a person reviewed."""
_MAX_TOOL_ARGUMENTS: Final = 64
MAX_APPROVERS: Final = 16
"""As many as the record of what was approved can name."""
APPROVAL_TTL: Final = 600
"""Seconds for which a request waits for approval, where the profile says nothing else."""
APPROVAL_TTL_BOUNDS: Final = (30, 86_400)
"""Seconds: a shorter time is too short to read, after a longer one approvers forget what they agreed to."""
_MAX_TRUSTED_ROOT: Final = 64 << 10
"""Bytes; that of sigstore's public deployment has some 5,000."""
_TRUSTED_ROOT_TYPE: Final = "application/vnd.dev.sigstore.trustedroot"
_MAX_SECRET_HOSTS: Final = 64
"""Without ``hosts`` a secret goes to every https host of the profile; very many are a mistake."""


class PathMode(StrEnum):
    """What may be done below a path."""

    NONE = "none"
    READ = "read"
    READ_WRITE = "read-write"


class Scheme(StrEnum):
    """How a host is reached."""

    HTTP = "http"
    HTTPS = "https"


class TLSMode(StrEnum):
    """Whether the proxy sees the requests inside a connection."""

    INSPECT = "inspect"
    PASSTHROUGH = "passthrough"


class Endpoint(NamedTuple):
    """A host and a port, exactly."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ToolRule:
    """A tool that may be called; ``arguments`` are all that it may be called with, None: any.

    ``server`` is the only one that may serve it, ``schema`` the only definition that it may have
    (``tool_digest``); None: any. ``rate`` bounds the calls that this rule lets through.
    """

    name: str
    approval: bool = False
    arguments: tuple[Argument, ...] | None = None
    server: str | None = None
    schema: str | None = None
    rate: Bounds = ()

    def __post_init__(self) -> None:
        check_tool_name(self.name)
        if self.server is not None:
            check_server(self.server)
        if self.schema is not None:
            check_schema_pin(self.schema)
        check_bounds(self.rate, what="'rate'")
        if self.arguments is not None:
            if len(self.arguments) > _MAX_TOOL_ARGUMENTS:
                raise ValueRefused(
                    "too many arguments of one tool", expected=f"at most {_MAX_TOOL_ARGUMENTS}"
                )
            if len({argument.name for argument in self.arguments}) != len(self.arguments):
                raise PolicyConflict("one argument of a tool appears twice", found=self.name)


@dataclass(frozen=True, slots=True)
class ToolDenial:
    """A tool that may not be called, whatever else allows it."""

    name: str

    def __post_init__(self) -> None:
        check_tool_name(self.name)


@dataclass(frozen=True, slots=True)
class ProviderTool:
    """A tool that the model's provider runs itself (``web_search``), by the name of its kind.

    No rule sees what the provider does for it: it may fetch anything.
    """

    name: str

    def __post_init__(self) -> None:
        check_tool_name(self.name)


@dataclass(frozen=True, slots=True)
class ProviderToolDenial:
    """A tool of the provider that may not be used, whatever else allows it."""

    name: str

    def __post_init__(self) -> None:
        check_tool_name(self.name)


@dataclass(frozen=True, slots=True)
class PathGrant:
    """A mode for a path and its subtree; ``none`` is a carve-out, which wins whatever its depth."""

    path: str
    mode: PathMode

    def __post_init__(self) -> None:
        (rule_path if self.mode is PathMode.NONE else grantable_path)(self.path)


@dataclass(frozen=True, slots=True)
class EgressRule:
    """A host pattern that may be reached on one port.

    ``methods`` and ``paths`` are None for any; ``address`` is a tuple of CIDRs, empty for any public address.
    ``limits`` bounds what this rule lets through.
    """

    host: str
    port: int = 443
    scheme: Scheme = Scheme.HTTPS
    methods: tuple[str, ...] | None = None
    paths: tuple[str, ...] | None = None
    tls: TLSMode = TLSMode.INSPECT
    address: tuple[str, ...] = ()
    limits: EgressLimits = NO_EGRESS_LIMITS

    def __post_init__(self) -> None:
        _canonical_pattern(self.host, single_label=bool(self.address))
        check_port(self.port)
        _request_lists(self.methods, self.paths)
        check_entries(self.address)
        for cidr in self.address:
            if str(parse_cidr(cidr)) != cidr:
                raise ValueRefused("CIDR is not canonical", found=excerpt(cidr))
        if self.address and is_wildcard(self.host):
            raise PolicyConflict(
                "'address' belongs to one host, not to a wildcard", found=self.host, key="address"
            )
        if self.tls is TLSMode.PASSTHROUGH:
            self._check_passthrough()

    def _check_passthrough(self) -> None:
        if self.scheme is Scheme.HTTP:
            raise PolicyConflict("'tls: passthrough' needs https", found=self.host, key="tls")
        if self.methods is not None or self.paths is not None:
            raise PolicyConflict(
                "'tls: passthrough' hides methods and paths, so they cannot be listed",
                found=self.host,
                hint="Drop 'tls: passthrough', or drop 'methods' and 'paths'",
                key="tls",
            )
        if self.limits.requests:
            raise PolicyConflict(
                "'tls: passthrough' hides requests, so they cannot be counted",
                found=self.host,
                hint="Drop 'tls: passthrough', or bound 'bytes_out' instead",
                key="tls",
            )


@dataclass(frozen=True, slots=True)
class EgressDenial:
    """A host pattern that may not be reached; None for any port, method or path."""

    host: str
    port: int | None = None
    methods: tuple[str, ...] | None = None
    paths: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _canonical_pattern(self.host, single_label=True)
        if self.port is not None:
            check_port(self.port)
        _request_lists(self.methods, self.paths)


@dataclass(frozen=True, slots=True)
class Injection:
    """Where a secret's placeholder may be: the whole value of one header, of one parameter of the query, of one
    place of a JSON object in the body (``json``, a pointer), or of one field of a form in it (``form``); or what the
    requests are that it signs (``sigv4``), in which it stands nowhere.

    ``format`` has one ``{}`` for the placeholder. For ``authorization`` it may be None: the whole credential,
    as Bearer, Basic or token; or with ``user`` as the password of Basic credentials of that user, and nothing else.

    With ``exchange`` it stands there for a token that the secret is exchanged for, as Bearer credentials.
    """

    header: str | None = "authorization"
    format: str | None = None
    user: str | None = None
    query: str | None = None
    json: str | None = None
    form: str | None = None
    exchange: TokenExchange | None = None
    sigv4: SigV4 | None = None

    def __post_init__(self) -> None:
        places = (self.header, self.query, self.json, self.form, self.sigv4)
        if sum(place is not None for place in places) != 1:
            expected = "a header, a parameter of the query, a place of the body, or a signature"
            raise ValueRefused("a secret has exactly one place in a request", expected=expected)
        if self.query is not None or self.form is not None:
            check_parameter(self.query or self.form or "")
        if self.json is not None:
            check_pointer(self.json)
        if self.header is not None:
            self._check_header(self.header)
        elif (self.format, self.user) != (None, None):
            raise ValueRefused("only a header has a format, and a user")
        if self.exchange is not None and (self.header, self.format) != ("authorization", BEARER):
            raise ValueRefused("a token from an exchange can only be sent as Bearer credentials")

    @classmethod
    def of_token(cls, exchange: TokenExchange) -> Injection:
        """The place of a token that the secret is exchanged for."""
        return cls("authorization", BEARER, exchange=exchange)

    def _check_header(self, header: str) -> None:
        check_header(header)
        if self.user is not None:
            check_basic_user(self.user)
            if (header, self.format) != ("authorization", None):
                raise ValueRefused("Basic credentials have a fixed form in Authorization")
        if self.format is not None:
            check_format(self.format)
        elif header != "authorization":
            raise ValueRefused("a header other than Authorization needs a format", found=header)

    @property
    def surface(self) -> str:
        """The name of the place: ``header:authorization``, ``query:key``, ``body:json:/token``, ``body:form:token``,
        ``sigv4:eu-central-1/s3``."""
        if self.header is not None:
            return f"header:{self.header}"
        if self.query is not None:
            return f"query:{self.query}"
        if self.sigv4 is not None:
            return self.sigv4.surface
        return f"body:form:{self.form}" if self.json is None else f"body:json:{self.json}"


def check_sink(at: Endpoint) -> None:
    """Return if a secret may be bound to it.

    Raises:
        HostRefused, ValueRefused, PolicyConflict: no such host or port, or a wildcard.
    """
    _canonical_pattern(at.host, single_label=True)
    check_port(at.port)
    if is_wildcard(at.host):
        raise PolicyConflict("a secret is bound to hosts by name, not by wildcard", found=at.host)


@dataclass(frozen=True, slots=True)
class SecretGrant:
    """A secret by name, and the https endpoints at which its placeholder stands for it.

    ``ref`` is where the value is kept (``local:NAME``, ``vault:mount/path#field``); None: where the
    deployment keeps this name. ``hosts`` may be empty: the secret then exists, and cannot be used. ``max_uses``
    is the number of requests into which it is put in one session; None: any.
    """

    name: str
    hosts: tuple[Endpoint, ...]
    ref: str | None = None
    inject: Injection = Injection()
    shape: str | None = None
    max_uses: int | None = None

    def __post_init__(self) -> None:
        check_secret_name(self.name)
        if self.max_uses is not None:
            check_most(self.max_uses, what="'max_uses'")
        if len(self.hosts) > _MAX_SECRET_HOSTS:
            raise ValueRefused(
                f"the secret {self.name} is bound to too many hosts",
                expected=f"at most {_MAX_SECRET_HOSTS}",
                found=len(self.hosts),
                hint="Name the hosts that need it: {name: ..., hosts: [...]}",
            )
        for host in self.hosts:
            check_sink(host)
        if self.ref is not None:
            check_reference(self.ref)
        if self.shape is not None:
            check_shape(self.shape)
            if self.inject.sigv4 is not None:
                raise ValueRefused("the placeholder of a key that signs has a shape of its own")

    @property
    def surface(self) -> str:
        """The name of the place where the placeholder may stand."""
        return self.inject.surface

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of the agent's environment that tell of it."""
        return (self.name, *(() if self.inject.sigv4 is None else signing_variables(self.name)))


@dataclass(frozen=True, slots=True)
class ModelRule:
    """A model that may be called; ``attested``: only at an upstream that was verified before.

    ``max_tokens`` is the most that one request may ask for as its answers; None: any number.
    """

    name: str
    attested: bool = False
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        check_model_name(self.name)
        if self.max_tokens is not None:
            check_most(self.max_tokens, what="'max_tokens'")


Approver = str | ApproverIdentity
"""A key, by its thumbprint; or an identity, by issuer and subject."""


def trusted_root_text(text: str) -> str:
    """The canonical text (RFC 8785) of a sigstore trusted root. Its keys are read where something is verified under it.

    Raises:
        ValueRefused: not strict JSON, another kind of document, or too large.
    """
    try:
        document = parse_object(text.encode("utf-8"), limit=4 * _MAX_TRUSTED_ROOT, strict_form=False)
        found = canonical(document).decode("utf-8")
    except (JSONError, UnicodeEncodeError) as error:
        raise ValueRefused(f"'trusted_root' is not strict JSON: {error}") from error
    media_type = document.get("mediaType")
    if not isinstance(media_type, str) or not media_type.startswith(_TRUSTED_ROOT_TYPE):
        raise ValueRefused(
            "'trusted_root' is not a sigstore trusted root",
            expected=f'the text of a trusted_root.json, with "mediaType": "{_TRUSTED_ROOT_TYPE}..."',
        )
    if len(found.encode("utf-8")) > _MAX_TRUSTED_ROOT:
        raise ValueRefused("'trusted_root' is too large", expected=f"at most {_MAX_TRUSTED_ROOT} bytes")
    return found


@dataclass(frozen=True, slots=True)
class Approval:
    """What a person must approve first: everything, or the requests with these methods; and who may.

    The tools that need it say so themselves (:attr:`ToolRule.approval`). ``approvers`` are keys and identities; without
    any, what needs approval is denied, and ``quorum`` (how many different ones must agree) and ``ttl`` (seconds for
    which a request waits, and an approval of it holds) mean nothing. ``trusted_root`` is the canonical text of the
    sigstore trusted root under which signatures of identities are judged; empty exactly where there are none.
    """

    everything: bool = False
    methods: tuple[str, ...] = ()
    approvers: tuple[Approver, ...] = ()
    quorum: int = 1
    ttl: int = APPROVAL_TTL
    trusted_root: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.methods:
            _request_lists(self.methods, None)
        if len(self.approvers) > MAX_APPROVERS:
            raise ValueRefused("too many approvers", expected=f"at most {MAX_APPROVERS}")
        for approver in self.approvers:
            if isinstance(approver, ApproverIdentity):
                check_identity(approver.issuer, approver.subject)
            else:
                check_approver(approver)
        self._check_trusted_root()
        least, most = APPROVAL_TTL_BOUNDS
        if not least <= self.ttl <= most:
            raise ValueRefused("'ttl' out of range", expected=f"{least}s to {most // 3600}h", found=self.ttl)
        if self.quorum < 1:
            raise ValueRefused("'quorum' out of range", expected="at least 1", found=self.quorum)
        if self.approvers and self.quorum > len(set(self.approvers)):
            raise PolicyConflict(
                "'quorum' demands more approvers than are named, so nothing could be approved",
                expected=f"at most {len(set(self.approvers))}",
                found=self.quorum,
                key="quorum",
            )

    @property
    def identities(self) -> NamedIdentities:
        """Those of the approvers that are no keys, and the trusted root that says whose word they are."""
        who = frozenset(each for each in self.approvers if isinstance(each, ApproverIdentity))
        return NamedIdentities(who, self.trusted_root.encode("utf-8")) if who else NO_IDENTITIES

    @property
    def kids(self) -> frozenset[str]:
        """Every approver as statements and records name them: 43 characters."""
        keys = frozenset(each for each in self.approvers if isinstance(each, str))
        return keys | self.identities.names

    def merged(self, floor: Approval) -> Approval:
        """What holds with a baseline policy that demands ``floor``: all that either demands, and the approvers of both.

        If the baseline policy names approvers, a profile may name only some of those. Without any of its own, all of
        them may approve. An identity under another trusted root is another approver.

        Raises:
            PolicyConflict: the profile names another approver, or too few of them for the baseline policy's quorum.
        """
        others = sorted(map(str, set(self.approvers) - set(floor.approvers))) if floor.approvers else []
        if others:
            raise PolicyConflict(
                "'requires_human_approval' names an approver who is not in the baseline policy",
                found=others[0],
                hint="Leave 'approvers' out to accept those of the baseline policy, or name some of them",
                key="approvers",
            )
        if floor.approvers and self.trusted_root not in ("", floor.trusted_root):
            raise PolicyConflict(
                "'trusted_root' differs from the one in the baseline policy",
                hint="Leave 'trusted_root' out: the one in the baseline policy is used",
                key="trusted_root",
            )
        named = [each for each in (self, floor) if each.approvers]
        return Approval(
            everything=self.everything or floor.everything,
            methods=(*self.methods, *floor.methods),
            approvers=named[0].approvers if named else (),
            quorum=max((each.quorum for each in named), default=1),
            ttl=min((each.ttl for each in named), default=APPROVAL_TTL),
            trusted_root=named[0].trusted_root if named else "",
        )

    def _check_trusted_root(self) -> None:
        by_identity = any(isinstance(each, ApproverIdentity) for each in self.approvers)
        if by_identity and not self.trusted_root:
            raise MalformedError(
                "an approver by issuer and subject needs 'trusted_root' beside 'approvers'",
                code="policy.missing_key",
                hint="It says which certificate authority and which log are believed about identities",
            )
        if not by_identity and self.trusted_root:
            raise PolicyConflict(
                "'trusted_root' is given, but no approver is an identity",
                hint="Leave it out: nothing is judged under it",
                key="trusted_root",
            )
        if self.trusted_root and trusted_root_text(self.trusted_root) != self.trusted_root:
            raise ValueRefused("'trusted_root' is not in its canonical form")


@dataclass(frozen=True, slots=True)
class Resources:
    """Bounds of the sandbox, in bytes and counts; None: the deployment's default.

    ``disk`` bounds the scratch space, and the session's own files with their input, each.
    """

    cpus: int | None = None
    memory: int | None = None
    disk: int | None = None
    pids: int | None = None

    def __post_init__(self) -> None:
        for name, most in (("cpus", 1024), ("memory", 2**50), ("disk", 2**50), ("pids", 2**22)):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= most:
                raise ValueRefused(f"{name} out of range", expected=f"1 to {most}", found=value)


@dataclass(frozen=True, slots=True)
class PortRange:
    """TCP ports from ``first`` to ``last``, both included."""

    first: int
    last: int

    def __post_init__(self) -> None:
        for port in (self.first, self.last):
            if type(port) is not int:  # a bool is no port
                raise ValueRefused("not a port", expected="1 to 65535", found=type(port).__name__)
            check_port(port)
        if self.first > self.last:
            raise ValueRefused(
                "a range of ports ends before it begins", expected="FIRST-LAST", found=self.text
            )

    @property
    def text(self) -> str:
        """``8080``, or ``8000-8010``."""
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class PortGrant(PortRange):
    """Ports of the agent's own servers that the session's owner may reach through the supervisor."""


@dataclass(frozen=True, slots=True)
class PortDenial(PortRange):
    """Ports of the agent's own servers that are denied even if another rule allows them."""


def joined_ports(rules: Sequence[PortGrant | PortDenial]) -> tuple[PortGrant | PortDenial, ...]:
    """The same ports in the fewest ranges: those that overlap or follow each other are one."""
    found: list[PortGrant | PortDenial] = []
    for rule in sorted(rules, key=lambda rule: (isinstance(rule, PortDenial), rule.first)):
        before = found[-1] if found else None
        if before is not None and type(before) is type(rule) and rule.first <= before.last + 1:
            found[-1] = replace(before, last=max(before.last, rule.last))
        else:
            found.append(rule)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class StartGrant:
    """An agent of the same file of which this one may start sessions.

    ``at_most`` is how many one session may start; None: any number.
    """

    agent: str
    at_most: int | None = None

    def __post_init__(self) -> None:
        check_agent_name(self.agent)
        if self.at_most is not None:
            if type(self.at_most) is not int:  # a bool is no number
                raise ValueRefused("'at_most' is not a whole number", found=type(self.at_most).__name__)
            check_most(self.at_most, what="'at_most'")


@dataclass(frozen=True, slots=True)
class StartDenial:
    """An agent of which no session may be started, whatever else allows it."""

    agent: str

    def __post_init__(self) -> None:
        check_agent_name(self.agent)


Rule = (
    ToolRule
    | ToolDenial
    | ProviderTool
    | ProviderToolDenial
    | PathGrant
    | EgressRule
    | EgressDenial
    | SecretGrant
    | ModelRule
    | PortGrant
    | PortDenial
    | StartGrant
    | StartDenial
)
_R = TypeVar("_R", bound=Rule)


@dataclass(frozen=True, slots=True)
class Policy:
    """The meaning of one profile. Everything that is not allowed here is denied.

    ``models`` is None where any model that the gateway serves may be called: the one plane in which absence
    is not denial, because every call is judged and receipted there. ``floor`` is the digest of the
    organisation's denials that are already merged in; its ``limits`` are, too.
    """

    tools: tuple[ToolRule | ToolDenial, ...] = ()
    filesystem: tuple[PathGrant, ...] = ()
    egress: tuple[EgressRule | EgressDenial, ...] = ()
    secrets: tuple[SecretGrant, ...] = ()
    models: tuple[ModelRule, ...] | None = None
    approval: Approval = Approval()
    resources: Resources = Resources()
    floor: str | None = None
    limits: Limits = NO_LIMITS
    share: Share = NO_SHARE
    provider_tools: tuple[ProviderTool | ProviderToolDenial, ...] = ()
    ports: tuple[PortGrant | PortDenial, ...] = ()
    may_start: tuple[StartGrant | StartDenial, ...] = ()

    def __post_init__(self) -> None:
        if self.floor is not None and _DIGEST.match(self.floor) is None:
            raise ValueRefused("not a digest", expected="sha384:<96 hex>", found=excerpt(self.floor))
        lists = (self.tools, self.filesystem, self.egress, self.secrets, self.models or ())
        for section in (*lists, self.provider_tools, self.ports, self.may_start):
            check_entries(section)
        _one_address_for_each_host([rule for rule in self.egress if isinstance(rule, EgressRule)])
        _one_grant_for_each_secret(self.secrets)
        _one_grant_for_each_start(self.may_start)
        self._refuse_secrets_in_passthrough()
        _refuse_denied_token_endpoints(self)
        self.make_patterns(Work(MAX_WORK_OF_PROFILE, "a profile"))

    @property
    def rules(self) -> Mapping[str, Rule]:
        """The rules by their ids (``tools/0``), which those of an arranged policy have."""
        found: dict[str, Rule] = {}
        for section in SECTIONS:
            found |= {f"{section}/{at}": rule for at, rule in enumerate(getattr(self, section) or ())}
        return found

    def merged(self, floor: Policy, digest: str) -> Policy:
        """With the denials, limits, approvers and demands for approval of a baseline policy; again: the same.

        Args:
            floor: the baseline policy, which allows nothing. digest: its digest.

        Raises:
            PolicyConflict: as :meth:`Approval.merged`, or two rules contradict each other.
        """
        return replace(
            self,
            tools=_union(self.tools, floor.tools),
            provider_tools=_union(self.provider_tools, floor.provider_tools),
            ports=_union(self.ports, floor.ports),
            may_start=_union(self.may_start, floor.may_start),
            filesystem=_union(self.filesystem, floor.filesystem),
            egress=_union(self.egress, floor.egress),
            approval=self.approval.merged(floor.approval),
            limits=self.limits.merged(floor.limits),
            floor=digest,
        )

    def make_patterns(self, work: Work) -> None:
        """Make what judges each pattern, and count in ``work`` what that costs.

        Raises:
            ValueRefused: a pattern is too large, or all of ``work`` are together.
        """
        for rule in self.tools:
            make_patterns(rule, work)

    def _refuse_secrets_in_passthrough(self) -> None:
        modes: dict[tuple[str, int], set[TLSMode]] = {}
        for rule in self.egress:
            if isinstance(rule, EgressRule) and rule.scheme is Scheme.HTTPS:
                modes.setdefault((rule.host, rule.port), set()).add(rule.tls)
        for host, port in sorted({endpoint for secret in self.secrets for endpoint in secret.hosts}):
            found = set[TLSMode]().union(
                *(modes.get((pattern, port), ()) for pattern in covering_patterns(host))
            )
            if found == {TLSMode.PASSTHROUGH}:
                raise PolicyConflict(
                    "a secret is bound to a host that is only passed through",
                    found=f"{host}:{port}",
                    hint="A secret needs 'tls: inspect' at its hosts",
                    rule=next(secret for secret in self.secrets if (host, port) in secret.hosts),
                )


def _union(own: tuple[_R, ...], floor: tuple[_R, ...]) -> tuple[_R, ...]:
    """Each rule once, in order: a list that holds the floor's already does not grow."""
    return tuple(dict.fromkeys((*own, *floor)))


def make_patterns(rule: ToolRule | ToolDenial, work: Work) -> None:
    """:meth:`Policy.make_patterns` for the patterns of one rule."""
    if isinstance(rule, ToolRule):
        for each in patterns_in(rule.arguments or ()):
            work.spend(each.pattern, partial(getattr, each, "automaton"))


def _request_lists(methods: tuple[str, ...] | None, paths: tuple[str, ...] | None) -> None:
    if methods is not None:
        check_entries(methods)
        check_methods(methods)
    if paths is not None:
        if not paths:
            raise EmptyList("an empty list of paths", hint="Leave 'paths' out to allow any, or name some")
        check_entries(paths)
        for path in paths:
            path_pattern(path)


def check_entries(entries: Sequence[object]) -> None:
    """Return if a list has no more entries than a person reviews.

    Raises:
        ValueRefused: it has more.
    """
    if len(entries) > _MAX_ENTRIES:
        raise ValueRefused("too many entries in one list", expected=f"at most {_MAX_ENTRIES}")


def _canonical_pattern(text: str, *, single_label: bool) -> None:
    canonical = host_pattern(text, single_label=single_label)
    if canonical != text:
        raise ValueRefused("host is not canonical", expected=canonical, found=excerpt(text))


def _one_address_for_each_host(rules: Sequence[EgressRule]) -> None:
    addresses: dict[str, tuple[str, ...]] = {}
    for rule in rules:
        if addresses.setdefault(rule.host, rule.address) != rule.address:
            raise PolicyConflict("two rules give one host different addresses", found=rule.host, rule=rule)


def _refuse_denied_token_endpoints(policy: Policy) -> None:
    """A token endpoint needs no allow, because no agent gets there; but what is denied is denied to the broker too."""
    denials = [rule for rule in policy.egress if isinstance(rule, EgressDenial)]
    for secret in policy.secrets:
        exchange = secret.inject.exchange
        if exchange is not None and any(_denies_token_endpoint(rule, exchange) for rule in denials):
            raise PolicyConflict(
                f"the profile, or its baseline policy, denies the token endpoint of the secret {secret.name}",
                found=f"{exchange.host}:{exchange.port}",
                rule=secret,
            )


def _denies_token_endpoint(rule: EgressDenial, exchange: TokenExchange) -> bool:
    return (
        rule.host in covering_patterns(exchange.host)
        and rule.port in (None, exchange.port)
        and (rule.methods is None or "POST" in rule.methods)
        and (
            rule.paths is None
            or any(path_pattern(path).touches(decoded_path(exchange.path)) for path in rule.paths)
        )
    )


def _one_grant_for_each_start(rules: Sequence[StartGrant | StartDenial]) -> None:
    first: dict[str, StartGrant] = {}
    for rule in rules:
        if isinstance(rule, StartGrant) and first.setdefault(rule.agent, rule) != rule:
            raise PolicyConflict("'may_start' bounds one agent in two ways", found=rule.agent, rule=rule)


def _one_grant_for_each_secret(grants: Sequence[SecretGrant]) -> None:
    first: dict[str, SecretGrant] = {}
    variables: dict[str, SecretGrant] = {}
    for grant in grants:
        if first.setdefault(grant.name, grant) != grant:
            raise PolicyConflict("one secret is granted in two ways", found=grant.name, rule=grant)
        for variable in grant.variables:
            if variables.setdefault(variable, grant) != grant:
                raise PolicyConflict(
                    "two secrets have one variable of the environment", found=variable, rule=grant
                )
    taken = first.get(CLIENT_SETTING)
    if taken is not None and any(grant.inject.sigv4 is not None for grant in grants):
        raise PolicyConflict(
            "a secret has the name of a variable that a key that signs sets", found=CLIENT_SETTING, rule=taken
        )
