"""Computes all that one agent may do: denials have won, modes are effective, approvals are shown.

Each entry names the rules that give it and one request of its kind; what is in no entry is denied. The file's rules are
judged as if a person could approve (*ask*), so that what needs approval is seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from affiant.policy.authority.tools import ToolAuthority, tools_of
from affiant.policy.canonical.paths import covers
from affiant.policy.decision.compiled import CompiledPolicy, compile_policy
from affiant.policy.decision.decide import Decision, Effect, granted
from affiant.policy.decision.questions import SecretQuestion
from affiant.policy.diff.atoms import Atoms
from affiant.policy.diff.reachable import Reach, reachable
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model.profile import (
    Endpoint,
    Injection,
    PathMode,
    PortRange,
    Scheme,
    SecretGrant,
    StartGrant,
)

__all__ = [
    "Authority",
    "FileAuthority",
    "ModelAuthority",
    "PortAuthority",
    "ProviderToolAuthority",
    "SecretAuthority",
    "Sink",
    "StartAuthority",
    "Unusable",
    "authority_of",
    "use_of_secret",
]


@dataclass(frozen=True, slots=True)
class ProviderToolAuthority:
    """A tool that the model's provider runs itself; ``effect`` is *deny* for one that a rule denies."""

    name: str
    effect: Effect
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PortAuthority:
    """Ports of the agent's own servers that rules treat alike; ``effect`` is *deny* for those that a rule denies."""

    ports: PortRange
    effect: Effect
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StartAuthority:
    """An agent of which sessions may be started; ``effect`` is *deny* for one that a rule denies.

    ``at_most``: how many in one session; None: any number.
    """

    agent: str
    effect: Effect
    at_most: int | None
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelAuthority:
    """A model that may be called; ``attested``: only at an upstream that was verified before.

    ``max_tokens``: the most that a request may ask for; None: any number.
    """

    name: str
    attested: bool
    rules: tuple[str, ...]
    max_tokens: int | None


@dataclass(frozen=True, slots=True)
class CarveOut:
    """A path below an entry that is out of reach, with its subtree."""

    path: str
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileAuthority:
    """The effective mode of a path and its subtree, down to the next entry or carve-out below it."""

    path: str
    mode: PathMode
    rules: tuple[str, ...]
    except_paths: tuple[CarveOut, ...]


@dataclass(frozen=True, slots=True)
class Sink:
    """A host and port to which a secret can go; ``effect`` is *ask* if every request with it needs approval.

    ``rules``: that of the secret, and those that let requests go there.
    """

    host: str
    port: int
    effect: Effect
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unusable:
    """A host and port to which a secret is bound in vain, and the code of the reason."""

    host: str
    port: int
    decision: Decision


@dataclass(frozen=True, slots=True)
class SecretAuthority:
    """A secret, its one place in a request (:attr:`SecretGrant.inject`), and where it can go: perhaps nowhere."""

    grant: SecretGrant
    rule: str
    sinks: tuple[Sink, ...]
    unusable: tuple[Unusable, ...]


@dataclass(frozen=True, slots=True)
class Authority:
    """All that the agent of one profile may do. ``models`` is None where any that the gateway serves may be called."""

    profile: Profile
    compiled: CompiledPolicy
    tools: tuple[ToolAuthority, ...]
    denied_tools: tuple[ToolAuthority, ...]
    provider_tools: tuple[ProviderToolAuthority, ...]
    models: tuple[ModelAuthority, ...] | None
    files: tuple[FileAuthority, ...]
    hosts: tuple[Reach, ...]
    secrets: tuple[SecretAuthority, ...]
    ports: tuple[PortAuthority, ...]
    may_start: tuple[StartAuthority, ...]

    @property
    def agent(self) -> str:
        """The profile's name."""
        return self.profile.name

    def where(self, rule: str) -> str:
        """``file:line:column`` of a rule."""
        return self.profile.where(rule)

    @property
    def asks(self) -> bool:
        """Whether some of it needs approval."""
        effects: list[Effect] = [tool.effect for tool in self.tools]
        effects += [tool.effect for tool in self.provider_tools]
        effects += [start.effect for start in self.may_start]
        effects += [group.effect for reach in self.hosts for group in reach.requests]
        return Effect.ASK in effects


def authority_of(profile: Profile) -> Authority:
    """What ``profile`` lets its agent do."""
    compiled = compile_policy(profile.policy, asks=True)
    hosts = reachable(compiled.policy)
    tools = tuple(tools_of(compiled))
    return Authority(
        profile,
        compiled,
        tools=tuple(tool for tool in tools if tool.effect is not Effect.DENY),
        denied_tools=tuple(tool for tool in tools if tool.effect is Effect.DENY),
        provider_tools=tuple(_provider_tools(compiled)),
        models=_models(compiled),
        files=tuple(_files(compiled)),
        hosts=hosts,
        secrets=tuple(
            _secret(compiled, f"secrets/{at}", grant, hosts)
            for at, grant in enumerate(compiled.policy.secrets)
        ),
        ports=tuple(_ports(compiled)),
        may_start=tuple(_starts(compiled)),
    )


def _starts(compiled: CompiledPolicy) -> Iterator[StartAuthority]:
    mosts = {rule.agent: rule.at_most for rule in compiled.policy.may_start if isinstance(rule, StartGrant)}
    for agent in sorted({rule.agent for rule in compiled.policy.may_start}):
        decision = compiled.decide_start(agent)
        yield StartAuthority(agent, decision.effect, mosts.get(agent), decision.rules)


def _ports(compiled: CompiledPolicy) -> Iterator[PortAuthority]:
    for question, last in Atoms(compiled.policy).ports():
        decision = compiled.decide_port(question.number)
        if decision.rules:
            yield PortAuthority(PortRange(question.number, last), decision.effect, decision.rules)


def _provider_tools(compiled: CompiledPolicy) -> Iterator[ProviderToolAuthority]:
    for name in sorted({rule.name for rule in compiled.policy.provider_tools}):
        decision = compiled.decide_provider_tool(name)
        yield ProviderToolAuthority(name, decision.effect, decision.rules)


def _models(compiled: CompiledPolicy) -> tuple[ModelAuthority, ...] | None:
    if compiled.policy.models is None:
        return None
    found: list[ModelAuthority] = []
    for name in sorted({rule.name for rule in compiled.policy.models}):
        anywhere = compiled.decide_model(name)
        attested = compiled.decide_model(name, attested=True)
        only = anywhere.effect is Effect.DENY
        found.append(ModelAuthority(name, only, attested.rules, compiled.max_tokens(name, attested=True)))
    return tuple(found)


def _files(compiled: CompiledPolicy) -> Iterator[FileAuthority]:
    mounted = compiled.mounts()
    carved: dict[str, list[CarveOut]] = {}
    for entry in mounted:
        over = [
            other.path for other in mounted if other.path != entry.path and covers(other.path, entry.path)
        ]
        if entry.mode is PathMode.NONE and over:
            out = CarveOut(entry.path, compiled.decide_path(entry.path, PathMode.READ).rules)
            carved.setdefault(max(over, key=len), []).append(out)
    for entry in mounted:
        if entry.mode is not PathMode.NONE:
            rules = compiled.decide_path(entry.path, entry.mode).rules
            yield FileAuthority(entry.path, entry.mode, rules, tuple(carved.get(entry.path, ())))


def _secret(
    compiled: CompiledPolicy, rule: str, grant: SecretGrant, hosts: tuple[Reach, ...]
) -> SecretAuthority:
    uses = [(at, _use(compiled, grant.name, grant.surface, at, hosts)) for at in grant.hosts]
    sinks = [Sink(*at, use.effect, use.rules) for at, use in uses if use.effect is not Effect.DENY]
    unusable = [Unusable(*at, use) for at, use in uses if use.effect is Effect.DENY]
    return SecretAuthority(grant, rule, tuple(sinks), tuple(unusable))


def use_of_secret(compiled: CompiledPolicy, question: SecretQuestion) -> Decision:
    """Whether a secret can go to a host at all: its use there is allowed, and some request that carries it.

    Args:
        compiled: with ``asks``.
        question: of any name, host and port.
    """
    surfaces = (grant.surface for grant in compiled.secret_grants() if grant.name == question.name)
    surface = next(surfaces, Injection().surface)
    at = Endpoint(question.host, question.port)
    return _use(compiled, question.name, surface, at, reachable(compiled.policy))


def _use(
    compiled: CompiledPolicy, name: str, surface: str, at: Endpoint, hosts: tuple[Reach, ...]
) -> Decision:
    use = compiled.decide_secret(name, host=at.host, port=at.port, scheme="https", surface=surface)
    if use.effect is Effect.DENY:
        return use
    reach = next((each for each in hosts if each.covers(at.host, at.port, Scheme.HTTPS)), None)
    if reach is None:
        connection = compiled.decide_egress(host=at.host, port=at.port, scheme="https")
        return Decision(Effect.DENY, "egress_denied", connection.rules, nearest=use.rules[0])
    asks = Effect.ASK in (use.effect, reach.effect)
    return granted((*use.rules, *reach.rules), ask=asks)
