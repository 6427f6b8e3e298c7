"""Compares two policies exactly: each difference comes with a request that shows it.

No solver is needed: two policies that answer alike on ``Atoms`` answer alike on every
request. What is no request (how a secret's value is named and placed, at which addresses a host is dialled, how large
the machine is) is compared member by member; where of two such values neither includes the other, the difference
*changes*, and a check against wider policies rejects that too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, collapse_addresses
from typing import TYPE_CHECKING, Final

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.policy.canonical.addresses import CIDR
from affiant.policy.decision.compiled import CompiledPolicy, compile_policy
from affiant.policy.decision.decide import Decision, Effect
from affiant.policy.decision.effective import effective_egress
from affiant.policy.decision.limit_words import limit_words, no_rule_words
from affiant.policy.decision.questions import EgressQuestion, ToolQuestion, question_text
from affiant.policy.diff.atoms import Atoms
from affiant.policy.diff.limit_differences import LimitDifference, limit_differences
from affiant.policy.diff.same_calls import calls_judged_alike
from affiant.policy.model.limits import Bounds
from affiant.policy.model.profile import Approval, Policy, PortRange, Scheme, TLSMode
from affiant.policy.model.token_exchange import TokenExchange

if TYPE_CHECKING:
    from affiant.policy.canonical.strict_yaml import Mark
    from affiant.policy.loading.profile_set import Profile, ProfileSet

__all__ = [
    "Difference",
    "Direction",
    "Side",
    "compare_compiled",
    "compare_profile_sets",
    "compare_profiles",
    "profile_differences",
]

_ORDER: Final[Mapping[Effect, int]] = {Effect.DENY: 0, Effect.ASK: 1, Effect.ALLOW: 2}


class Direction(StrEnum):
    """What a difference means for the agent."""

    WIDENS = "widens"
    NARROWS = "narrows"
    CHANGES = "changes"
    """Neither includes the other: a check against wider policies rejects this too."""

    @property
    def is_wider(self) -> bool:
        """Whether the agent may do something that it could not do before."""
        return self is not Direction.NARROWS


_STEPS: Final = {1: Direction.WIDENS, 0: Direction.CHANGES, -1: Direction.NARROWS}


@dataclass(frozen=True, slots=True)
class Side:
    """What one of the two says: its effect or value, the reason code, and the places of the rules that decided."""

    says: str
    reason: str = ""
    rules: tuple[str, ...] = ()
    places: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """One request, or one setting, about which two policies differ.

    ``request`` is as ``parse_question`` reads it, or the setting's name; ``plane`` is
    ``agent``, ``tool``, ``call``, ``provider_tool``, ``model``, ``path``, ``egress``, ``secret``, ``port``, ``start``,
    ``tls``, ``address``, ``secret_setting``, ``approval``, ``limit``, ``share`` or ``resource``. ``others``: the method
    stands for every method that no rule there names; of ports that differ alike, the request names the first and the
    last (``port:8000-8010``). ``secrets``: what the new policy lets be used in that request.
    """

    agent: str
    plane: str
    direction: Direction
    request: str
    old: Side
    new: Side
    others: bool = False
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Half:
    """One of the two policies, which says *ask* where a person must approve."""

    policy: CompiledPolicy
    absent: bool
    """Whether the agent has no profile: it may do nothing."""
    places: Mapping[str, Mark]
    """Where its rules were written, as far as that is known."""

    @classmethod
    def of(cls, profile: Profile | None) -> _Half:
        if profile is None:
            return cls(compile_policy(Policy(models=()), asks=True), absent=True, places={})
        return cls(compile_policy(profile.policy, asks=True), absent=False, places=profile.places)

    @classmethod
    def bare(cls, policy: CompiledPolicy) -> _Half:
        """A profile of which only the normal form is at hand."""
        return cls(compile_policy(policy.policy, asks=True), absent=False, places={})

    def side(self, decision: Decision) -> Side:
        return Side(decision.effect.value, decision.reason, decision.rules, self.written(decision.rules))

    def written(self, rules: Iterable[str]) -> tuple[str, ...]:
        return tuple(str(self.places[rule]) for rule in rules if rule in self.places)


def compare_profile_sets(old: ProfileSet, new: ProfileSet) -> tuple[Difference, ...]:
    """The differences of every agent of two files, by the agents' names."""
    found: list[Difference] = []
    for name in sorted({*old.profiles, *new.profiles}):
        found += compare_profiles(name, old.profiles.get(name), new.profiles.get(name))
    return tuple(found)


def compare_profiles(agent: str, old: Profile | None, new: Profile | None) -> tuple[Difference, ...]:
    """The differences of two profiles of one agent; None for one that has no profile: it may do nothing."""
    return tuple(profile_differences(agent, old, new))


def profile_differences(agent: str, old: Profile | None, new: Profile | None) -> Iterator[Difference]:
    """:func:`compare_profiles`, one after another as they are found, so that a caller can stop early."""
    if old is None or new is None or old.digest != new.digest:
        yield from _compared(agent, _Half.of(old), _Half.of(new), most=None)


def compare_compiled(
    agent: str, old: CompiledPolicy, new: CompiledPolicy, *, most: int | None = None
) -> tuple[Difference, ...]:
    """As :func:`compare_profiles`, of profiles of which nothing but their meaning is at hand.

    Args:
        most: the requests that are asked of them; None: as many as it takes.

    Raises:
        ComparisonTooLarge: it takes more.
    """
    if old.digest == new.digest:
        return ()
    return tuple(_compared(agent, _Half.bare(old), _Half.bare(new), most=most))


def _compared(agent: str, before: _Half, after: _Half, *, most: int | None) -> Iterator[Difference]:
    atoms = Atoms(before.policy.policy, after.policy.policy, most=most)
    pair = _Pair(agent, before, after, atoms)
    tools = (pair.agents, pair.tools, pair.provider_tools)
    planes = (*tools, pair.models, pair.paths, pair.egress, pair.secrets, pair.ports, pair.starts, pair.tls)
    settings = (pair.addresses, pair.secret_settings, pair.approvals, pair.limits, pair.share, pair.resources)
    for compare in (*planes, *settings):
        yield from compare()


@dataclass(frozen=True, slots=True)
class _Pair:
    agent: str
    old: _Half
    new: _Half
    atoms: Atoms

    @property
    def halves(self) -> tuple[_Half, _Half]:
        return self.old, self.new

    # -- requests ----------------------------------------------------------------------------------------------

    def agents(self) -> Iterator[Difference]:
        if self.old.absent != self.new.absent:
            before, after = ("absent" if half.absent else "present" for half in self.halves)
            direction = Direction.WIDENS if self.old.absent else Direction.NARROWS
            yield Difference(self.agent, "agent", direction, self.agent, Side(before), Side(after))

    def tools(self) -> Iterator[Difference]:
        """By name and origin; and where both allow that, by what it is called with."""
        for question in self.atoms.tools():
            answers = (half.policy.decide_tool(question.name, question.origin) for half in self.halves)
            before, after = answers
            yield from self._decided("tool", question_text(question), before, after)
            if Effect.DENY not in (before.effect, after.effect):
                yield from self._calls(question)

    def _calls(self, tool: ToolQuestion) -> Iterator[Difference]:
        if calls_judged_alike(self.old.policy.policy, self.new.policy.policy, tool):
            return
        calls = self.atoms.calls(tool.name, tool.origin)
        if calls is None:
            said = "too many to compare"
            yield self._setting("call", Direction.CHANGES, f"arguments of {question_text(tool)}", said, said)
        for call in calls or ():
            answers = (
                half.policy.decide_call(call.name, call.arguments or "", call.origin) for half in self.halves
            )
            yield from self._decided("call", question_text(call), *answers)

    def provider_tools(self) -> Iterator[Difference]:
        for question in self.atoms.provider_tools():
            answers = (half.policy.decide_provider_tool(question.name) for half in self.halves)
            yield from self._decided("provider_tool", question_text(question), *answers)

    def ports(self) -> Iterator[Difference]:
        for question, last in self.atoms.ports():
            answers = (half.policy.decide_port(question.number) for half in self.halves)
            ports = PortRange(question.number, last)
            yield from self._decided("port", f"port:{ports.text}", *answers)

    def starts(self) -> Iterator[Difference]:
        for question in self.atoms.starts():
            answers = (half.policy.decide_start(question.name) for half in self.halves)
            yield from self._decided("start", question_text(question), *answers)

    def models(self) -> Iterator[Difference]:
        for question, attested in self.atoms.models():
            answers = (half.policy.decide_model(question.name, attested=attested) for half in self.halves)
            text = question_text(question) + (" at an attested upstream" if attested else "")
            others = self.atoms.stands_for_the_rest(question)
            yield from self._decided("model", text, *answers, others=others)

    def paths(self) -> Iterator[Difference]:
        for question in self.atoms.paths():
            answers = (half.policy.decide_path(question.path, question.mode) for half in self.halves)
            yield from self._decided("path", question_text(question), *answers)

    def egress(self) -> Iterator[Difference]:
        for question in self.atoms.requests():
            answers = (effective_egress(half.policy, question) for half in self.halves)
            others = self.atoms.stands_for_the_rest(question)
            for found in self._decided("egress", question_text(question), *answers, others=others):
                wider = found.direction is Direction.WIDENS
                yield replace(found, secrets=self._usable(question)) if wider else found

    def _usable(self, question: EgressQuestion) -> tuple[str, ...]:
        """The secrets that the new policy lets be used in a request."""
        grants = self.new.policy.secret_grants()
        answers = {
            grant.name: self.new.policy.decide_secret(
                grant.name,
                host=question.host,
                port=question.port,
                scheme=question.scheme.value,
                surface=grant.surface,
            )
            for grant in grants
        }
        return tuple(name for name, decision in answers.items() if decision.effect is not Effect.DENY)

    def secrets(self) -> Iterator[Difference]:
        for question, surface in self.atoms.secrets():
            answers = (
                half.policy.decide_secret(
                    question.name, host=question.host, port=question.port, scheme="https", surface=surface
                )
                for half in self.halves
            )
            yield from self._decided("secret", f"{question_text(question)} in {surface}", *answers)

    def _decided(
        self, plane: str, request: str, before: Decision, after: Decision, *, others: bool = False
    ) -> Iterator[Difference]:
        step = _ORDER[after.effect] - _ORDER[before.effect]
        if step:
            direction = Direction.WIDENS if step > 0 else Direction.NARROWS
            old, new = self.old.side(before), self.new.side(after)
            yield Difference(self.agent, plane, direction, request, old, new, others)

    # -- settings ----------------------------------------------------------------------------------------------

    def tls(self) -> Iterator[Difference]:
        """Endpoints that both allow, seen into by one of them only."""
        for question in self.atoms.connections():
            if question.scheme is not Scheme.HTTPS:
                continue
            allowed = all(
                effective_egress(half.policy, question).effect is not Effect.DENY for half in self.halves
            )
            before, after = (half.policy.tls_mode(question.host, question.port) for half in self.halves)
            if allowed and before is not after:
                direction = Direction.WIDENS if after is TLSMode.PASSTHROUGH else Direction.NARROWS
                yield self._setting("tls", direction, question_text(question), before.value, after.value)

    def addresses(self) -> Iterator[Difference]:
        for host in self.atoms.hosts():
            if any(self._unreachable(half, host) for half in self.halves):
                continue
            before, after = (half.policy.addresses_for(host) for half in self.halves)
            if _addresses_text(before) != _addresses_text(after):
                direction = _addresses_direction(before, after)
                yield self._setting(
                    "address",
                    direction,
                    f"addresses of {host}",
                    _addresses_text(before),
                    _addresses_text(after),
                )

    def _unreachable(self, half: _Half, host: str) -> bool:
        return not any(
            effective_egress(half.policy, question).effect is not Effect.DENY
            for question in self.atoms.connections_to(host)
        )

    def secret_settings(self) -> Iterator[Difference]:
        before, after = ({grant.name: grant for grant in half.policy.secret_grants()} for half in self.halves)
        for name in sorted(before.keys() & after.keys()):
            for setting, old, new in (
                ("reference", before[name].ref, after[name].ref),
                ("format", before[name].inject.format, after[name].inject.format),
                ("Basic user", before[name].inject.user, after[name].inject.user),
                *_exchange_settings(before[name].inject.exchange, after[name].inject.exchange),
                ("shape", before[name].shape, after[name].shape),
            ):
                if old != new:
                    yield self._setting(
                        "secret_setting",
                        Direction.CHANGES,
                        f"{setting} of {name}",
                        old or "default",
                        new or "default",
                    )

    def limits(self) -> Iterator[Difference]:
        """Of an agent that has a profile in both; without one nothing is allowed, and limits say nothing."""
        if self.old.absent or self.new.absent:
            return
        for found in limit_differences(self.old.policy, self.new.policy, self.atoms):
            direction = _STEPS[found.step]
            old = self._limit_side(self.old, found, found.old, found.rules[0])
            new = self._limit_side(self.new, found, found.new, found.rules[1])
            yield Difference(self.agent, "limit", direction, found.subject or "limits", old, new)

    def _limit_side(self, half: _Half, found: LimitDifference, bounds: Bounds | None, rule: str) -> Side:
        says = no_rule_words(found.name) if bounds is None else limit_words(found.name, bounds)
        rules = (rule or f"limits/{found.name}",) if bounds else ()
        known = tuple(each for each in rules if each in half.places)
        return Side(says, "", known, half.written(known))

    def approvals(self) -> Iterator[Difference]:
        """Who may approve, how many must, and for how long it holds: each more of it widens, fewer who must too."""
        before, after = (half.policy.policy.approval for half in self.halves)
        names = [_approver_names(each) for each in (before, after)]
        for name in sorted(names[0] ^ names[1]):
            says = ["may approve" if name in each else "may not approve" for each in names]
            direction = Direction.WIDENS if name in names[1] else Direction.NARROWS
            yield self._setting("approval", direction, f"approver {name}", *says)
        if before.approvers and after.approvers:
            if before.quorum != after.quorum:
                direction = Direction.WIDENS if after.quorum < before.quorum else Direction.NARROWS
                yield self._setting("approval", direction, "quorum", str(before.quorum), str(after.quorum))
            if before.ttl != after.ttl:
                direction = Direction.WIDENS if after.ttl > before.ttl else Direction.NARROWS
                yield self._setting("approval", direction, "ttl", f"{before.ttl}s", f"{after.ttl}s")

    def share(self) -> Iterator[Difference]:
        """Of an agent that has a profile in both, as limits: more of an upstream, or sooner than others, is wider."""
        if self.old.absent or self.new.absent:
            return
        before, after = (half.policy.share for half in self.halves)
        for name, old, new in (
            ("weight", replace(before, priority=after.priority), after),
            ("priority", replace(before, weight=after.weight), after),
        ):
            if old != new:
                direction = Direction.WIDENS if new.includes(old) else Direction.NARROWS
                yield self._setting(
                    "share", direction, name, str(getattr(old, name)), str(getattr(new, name))
                )

    def resources(self) -> Iterator[Difference]:
        for name in ("cpus", "memory", "disk", "pids"):
            old, new = (getattr(half.policy.resources, name) for half in self.halves)
            if old != new:
                direction = Direction.CHANGES
                if old is not None and new is not None:
                    direction = Direction.WIDENS if new > old else Direction.NARROWS
                shown = ("default" if value is None else str(value) for value in (old, new))
                yield self._setting("resource", direction, name, *shown)

    def _setting(self, plane: str, direction: Direction, name: str, old: str, new: str) -> Difference:
        return Difference(self.agent, plane, direction, name, Side(old), Side(new))


def _exchange_settings(
    before: TokenExchange | None, after: TokenExchange | None
) -> Iterator[tuple[str, str | None, str | None]]:
    """Each member of an exchange for a token; of none of them can one be said to allow more than another."""
    old, new = ({} if each is None else each.members for each in (before, after))
    for name in sorted({*old, *new}):
        yield f"exchange's {name}", old.get(name), new.get(name)


def _approver_names(approval: Approval) -> frozenset[str]:
    """Every approver in full: an identity under another trusted root is another one."""
    root = sha256_name(approval.trusted_root.encode("utf-8"))
    return frozenset(each if isinstance(each, str) else f"{each} under {root}" for each in approval.approvers)


def _addresses_text(addresses: tuple[CIDR, ...] | None) -> str:
    return "any public address" if addresses is None else ", ".join(map(str, _collapsed(addresses)))


def _addresses_direction(old: tuple[CIDR, ...] | None, new: tuple[CIDR, ...] | None) -> Direction:
    if old is None or new is None:
        return Direction.CHANGES
    if _collapsed((*old, *new)) == _collapsed(new):
        return Direction.WIDENS
    return Direction.NARROWS if _collapsed((*old, *new)) == _collapsed(old) else Direction.CHANGES


def _collapsed(addresses: Iterable[CIDR]) -> list[CIDR]:
    found = list(addresses)
    four = collapse_addresses(each for each in found if isinstance(each, IPv4Network))
    six = collapse_addresses(each for each in found if isinstance(each, IPv6Network))
    return [*four, *six]
