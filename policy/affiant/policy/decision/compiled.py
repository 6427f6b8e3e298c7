"""A policy that is ready to decide, made from a normal form: gateway, supervisor and broker hold it.

>>> from affiant.policy.loading.load import load_profiles
>>> text = b"agent_configs: {dev: {tools: [run_tests], network_egress: 'allowed:api.example.com'}}"
>>> form = load_profiles(text).profile("dev").normal_form
>>> compiled = parse_normal_form(form)
>>> compiled.decide_tool("run_tests").effect.value, compiled.decide_tool("Run_Tests").reason
('allow', 'tool_not_listed')
>>> compiled.decide_egress(host="api.example.com", port=443, scheme="https").rules
('egress/0',)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from affiant.policy.canonical.addresses import CIDR, parse_cidr
from affiant.policy.canonical.errors import ArgumentsRefused
from affiant.policy.canonical.tool_origin import Origin
from affiant.policy.decision.decide import (
    Decision,
    Effect,
    ModelPlane,
    PathPlane,
    PortPlane,
    ProviderToolPlane,
    StartPlane,
    ToolPlane,
    granted,
    mounts,
    without_approver,
)
from affiant.policy.decision.egress import EgressPlane
from affiant.policy.model.arguments import Host, Under, parse_arguments
from affiant.policy.model.limits import NO_EGRESS_LIMITS, Bound, Bounds, EgressLimits, Limits
from affiant.policy.model.profile import (
    EgressRule,
    PathGrant,
    PathMode,
    Policy,
    Resources,
    SecretGrant,
    StartGrant,
    TLSMode,
    ToolRule,
)
from affiant.policy.model.share import Share
from affiant.policy.normal_form.digest import arranged, arranged_form, policy_digest
from affiant.policy.normal_form.reader import read_normal_form

__all__ = ["CompiledPolicy", "compile_policy", "parse_normal_form"]

_UNKNOWN: Final = Origin()
_ASK: Final = Effect.ASK


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CompiledPolicy:
    """Pure decisions about one profile; immutable, and safe to share between threads.

    What needs approval is *ask* where the profile names approvers, and otherwise denied with the reason
    ``approval_no_approver``, unless it was compiled to say *ask* always (``asks``). A caller that cannot have it
    approved goes by :attr:`Decision.allowed`, which *ask* is not. Made by :func:`compile_policy`.
    """

    policy: Policy
    normal_form: bytes
    digest: str
    asks: bool
    _tools: ToolPlane
    _provider_tools: ProviderToolPlane
    _models: ModelPlane
    _paths: PathPlane
    _ports: PortPlane
    _starts: StartPlane
    _egress: EgressPlane
    _secrets: Mapping[str, tuple[str, SecretGrant]]
    _addresses: Mapping[str, tuple[CIDR, ...]]

    def __repr__(self) -> str:
        return f"<CompiledPolicy {self.digest[:19]}>"

    @property
    def resources(self) -> Resources:
        """Bounds of the session's machine."""
        return self.policy.resources

    @property
    def limits(self) -> Limits:
        """What the agent may do in one session."""
        return self.policy.limits

    @property
    def share(self) -> Share:
        """What a session gets of an upstream that others want too."""
        return self.policy.share

    @property
    def restricts_tools(self) -> bool:
        """Whether some tool would be denied: under default deny always, also where none is listed."""
        return self._tools.decide("", Origin()).effect is Effect.DENY

    @property
    def pins_tools(self) -> bool:
        """Whether a decision about a tool can depend on the digest of its definition."""
        return self._tools.pins_definitions

    def _settled(self, decision: Decision) -> Decision:
        if decision.effect is not _ASK or self.asks or self.policy.approval.approvers:
            return decision
        return without_approver(decision)

    def tool_servers(self, name: str) -> frozenset[str]:
        """The servers that rules name for the tool of this name: which is meant where several serve one."""
        return self._tools.servers(name)

    def decide_tool(self, name: str, origin: Origin = _UNKNOWN) -> Decision:
        """Whether the tool of exactly this name may be called with some arguments (:meth:`decide_call`)."""
        return self._settled(self._tools.decide(name, origin))

    def decide_call(self, name: str, arguments: str | None, origin: Origin = _UNKNOWN) -> Decision:
        """Whether the tool of exactly this name may be called with these arguments.

        The paths and hosts among them, as far as a rule says which they are, must pass those planes too.

        Args:
            name: the tool.
            arguments: the JSON text of one object, as the agent will read it, empty for none; None: text of another
                form, which only a rule without ``args`` allows.
            origin: who serves the tool, and as what; where that is not known, no rule that names it allows it.
        """
        by_name = self._tools.decide(name, origin)
        if by_name.effect is Effect.DENY:
            return by_name
        values: Mapping[str, object] | None = None
        if arguments is not None:
            try:
                values = parse_arguments(arguments)
            except ArgumentsRefused:
                return Decision(Effect.DENY, "tool_arguments_malformed", nearest=by_name.rules[0])
        return self._settled(self._tools.decide_call(name, origin, values, self._place))

    def _place(self, constraint: Under | Host, value: str) -> Decision:
        if isinstance(constraint, Under):
            return self._paths.decide(value, PathMode.READ_WRITE if constraint.write else PathMode.READ)
        return self._settled(self._egress.decide(value, 443, "https", None, None))

    def decide_provider_tool(self, name: str) -> Decision:
        """Whether the model's provider may run the tool of exactly this name itself (``web_search``).

        Where the request names a server that the provider is to call, ``decide_fetch`` judges that, with ``POST``.
        """
        return self._settled(self._provider_tools.decide(name))

    def decide_model(self, name: str, *, attested: bool = False) -> Decision:
        """Whether this model may be called.

        Args:
            name: the model, exactly as in the request.
            attested: whether its upstream was verified before the prompt is sent to it.
        """
        return self._models.decide(name, attested=attested)

    def max_tokens(self, name: str, *, attested: bool = False) -> int | None:
        """The most tokens that a request may ask for as the answers of a model; None: any number.

        Args:
            name, attested: of a model that :meth:`decide_model` allows.
        """
        return self._models.max_tokens(name, attested=attested)

    def tool_rates(self) -> Mapping[str, Bounds]:
        """The rules for tools that have a rate, by their ids."""
        return {
            f"tools/{position}": rule.rate
            for position, rule in enumerate(self.policy.tools)
            if isinstance(rule, ToolRule) and rule.rate
        }

    def egress_limits(self) -> Mapping[str, EgressLimits]:
        """The egress rules that have limits, by their ids."""
        return {
            f"egress/{position}": rule.limits
            for position, rule in enumerate(self.policy.egress)
            if isinstance(rule, EgressRule) and rule.limits != NO_EGRESS_LIMITS
        }

    def decide_egress(
        self, *, host: str, port: int, scheme: str, method: str | None = None, target: str | None = None
    ) -> Decision:
        """Whether a connection (``method`` None) or a request may go out.

        Args:
            host: from ``canonical_host``; any other spelling is denied.
            port: 1 to 65535.
            scheme: ``https`` or ``http``; a CONNECT is ``https``.
            method: exactly as in the request line; None while only the connection is known.
            target: from ``canonical_target``; needed with ``method``.
        """
        return self._settled(self._egress.decide(host, port, scheme, method, target))

    def decide_path(self, path: str, mode: PathMode | str) -> Decision:
        """Whether a path inside the sandbox may be used with ``read`` or ``read-write``.

        Raises:
            ValueError: ``mode`` is no mode.
        """
        return self._paths.decide(path, mode if type(mode) is PathMode else PathMode(mode))

    def decide_port(self, number: int) -> Decision:
        """Whether the session's owner may reach this TCP port of the agent's own servers, through the supervisor.

        Args:
            number: 1 to 65535; anything else is denied.
        """
        return self._ports.decide(number)

    def decide_start(self, agent: str) -> Decision:
        """Whether this agent may start a session of another agent of its file, by exactly that name.

        The child's own profile is judged apart: ``require_no_wider``. How many it may start: :meth:`start_limits`.
        """
        return self._settled(self._starts.decide(agent))

    def start_limits(self) -> Mapping[str, Bounds]:
        """The rules of ``may_start`` that have ``at_most``, by their ids, as the bound of one session."""
        return {
            f"may_start/{position}": (Bound(rule.at_most),)
            for position, rule in enumerate(self.policy.may_start)
            if isinstance(rule, StartGrant) and rule.at_most is not None
        }

    def decide_secret(
        self, name: str, *, host: str, port: int, scheme: str, surface: str = "header:authorization"
    ) -> Decision:
        """Whether a secret may be used in a request to ``host``; the request itself is decided apart.

        Args:
            name: the secret's name.
            host: canonical.
            port: 1 to 65535.
            scheme: only ``https`` is ever allowed.
            surface: where the placeholder is, such as ``header:authorization``.
        """
        found = self._secrets.get(name)
        if found is None:
            return Decision(Effect.DENY, "secret_not_listed")
        rule, grant = found
        reason = self._secret_refused(grant, host, port, scheme, surface)
        if reason is not None:
            return Decision(Effect.DENY, reason, nearest=rule)
        return self._settled(granted((rule,), ask=self.policy.approval.everything))

    def _secret_refused(
        self, grant: SecretGrant, host: str, port: int, scheme: str, surface: str
    ) -> str | None:
        if scheme != "https":
            return "secret_plain_http"
        if not grant.hosts:
            return "secret_no_sink"
        mode = self._egress.tls_mode(host, port)
        if (host, port) not in grant.hosts or mode is None:
            return "secret_not_bound"
        if mode is TLSMode.PASSTHROUGH:
            return "secret_passthrough"
        return None if surface == grant.surface else "secret_surface"

    def secret_grants(self) -> tuple[SecretGrant, ...]:
        """The secrets of the profile, in the order of the normal form."""
        return self.policy.secrets

    def mounts(self) -> tuple[PathGrant, ...]:
        """What the sandbox mounts, parents first: effective modes, and carve-outs (mode ``none``)."""
        return mounts(self.policy.filesystem)

    def addresses_for(self, host: str) -> tuple[CIDR, ...] | None:
        """The only addresses at which a canonical ``host`` may be dialled; None: any public one."""
        return self._addresses.get(host)

    def tls_mode(self, host: str, port: int) -> TLSMode:
        """Whether TLS to ``host`` is inspected; it is unless every rule that covers the port says otherwise."""
        return self._egress.tls_mode(host, port) or TLSMode.INSPECT


def compile_policy(policy: Policy, *, asks: bool = False) -> CompiledPolicy:
    """``policy`` in its normal form, ready to decide.

    Args:
        asks: answer *ask* where a person must approve and no approver is named, for comparisons of policies;
            enforcement never does.
    """
    policy = arranged(policy)
    form = arranged_form(policy)
    return CompiledPolicy(
        policy=policy,
        normal_form=form,
        digest=policy_digest(form),
        asks=asks,
        _tools=ToolPlane(policy.tools, ask=policy.approval.everything),
        _provider_tools=ProviderToolPlane(policy.provider_tools, ask=policy.approval.everything),
        _models=ModelPlane(policy.models),
        _paths=PathPlane(policy.filesystem),
        _ports=PortPlane(policy.ports),
        _starts=StartPlane(policy.may_start, ask=policy.approval.everything),
        _egress=EgressPlane(policy),
        _secrets={grant.name: (f"secrets/{at}", grant) for at, grant in enumerate(policy.secrets)},
        _addresses={
            rule.host: tuple(parse_cidr(cidr) for cidr in rule.address)
            for rule in policy.egress
            if isinstance(rule, EgressRule) and rule.address
        },
    )


def parse_normal_form(form: bytes) -> CompiledPolicy:
    """The policy whose normal form is exactly ``form``, ready to decide; ``.digest`` is recomputed from it.

    Raises:
        NormalFormRefused: the bytes are not a normal form.
    """
    return compile_policy(read_normal_form(form))
