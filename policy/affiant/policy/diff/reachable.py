"""Lists what a policy lets out: each set of hosts, each endpoint there, and the requests that may go to it.

Denials have won: what a rule allows and another denies is not here, and where a denial takes only a part, the part is
named. An endpoint is here exactly if some request to it is answered *allow* or *ask* by
``effective_egress``, and each such request is in one group of it; that is what tests
compare with random requests.

>>> from affiant.policy.model.profile import EgressDenial, EgressRule, Policy
>>> allow, deny = EgressRule("api.example.com", paths=("/v1/**",)), EgressDenial("*.example.com", paths=("/v1/x",))
>>> (reach,) = reachable(Policy(egress=(allow, deny)))
>>> reach.names.pattern, reach.requests[0].paths, reach.requests[0].exceptions
('api.example.com', ('/v1/**',), (PathException(path='/v1/x', rules=('egress/1',)),))
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from affiant.policy.canonical.hosts import covering_patterns, is_wildcard, suffix_of
from affiant.policy.canonical.targets import METHODS
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.questions import EgressQuestion
from affiant.policy.diff.atoms import Atoms
from affiant.policy.diff.request_groups import ANY_PATH, Requests, request_groups
from affiant.policy.model.profile import Approval, EgressDenial, EgressRule, Policy, Scheme, TLSMode

__all__ = ["HostNames", "Labels", "Reach", "reachable"]

_Rules = Mapping[str, EgressRule | EgressDenial]


class Labels(StrEnum):
    """How many labels a host has before the name of its set."""

    NONE = "none"
    ONE = "one"
    TWO_OR_MORE = "two or more"
    ONE_OR_MORE = "one or more"


@dataclass(frozen=True, slots=True)
class HostNames:
    """Hosts that a policy treats alike: ``name`` itself, or those with so many ``labels`` before it.

    ``other_than``: the patterns of rules for some of them, which are sets of their own or denied. ``sample``: one host.
    """

    name: str
    labels: Labels
    other_than: tuple[str, ...]
    sample: str

    @property
    def pattern(self) -> str:
        """As a rule writes it; it may cover more than the set."""
        return {Labels.NONE: "", Labels.ONE: "*."}.get(self.labels, "**.") + self.name

    def covers(self, host: str) -> bool:
        """Whether a canonical ``host`` is one of the set."""
        if self.labels is Labels.NONE:
            return host == self.name
        above = host.removesuffix(f".{self.name}")
        counted = Labels.TWO_OR_MORE if "." in above else Labels.ONE
        if above == host or self.labels not in (counted, Labels.ONE_OR_MORE):
            return False
        return set(covering_patterns(host)).isdisjoint(self.other_than)


@dataclass(frozen=True, slots=True)
class Reach:
    """One endpoint of a set of hosts, and all requests that may go to it: at least one group.

    ``tls`` is None for plain http. ``unrestricted``: a rule narrows neither methods nor paths, so that the agent may do
    anything that the host's API allows, but for what ``denials`` take. ``addresses``: CIDRs; empty: any public address.
    """

    names: HostNames
    port: int
    scheme: Scheme
    tls: TLSMode | None
    addresses: tuple[str, ...]
    unrestricted: bool
    requests: tuple[Requests, ...]
    denials: tuple[str, ...]

    @property
    def effect(self) -> Effect:
        """*Allow* if some request needs no approval."""
        free = any(group.effect is Effect.ALLOW for group in self.requests)
        return Effect.ALLOW if free else Effect.ASK

    @property
    def rules(self) -> tuple[str, ...]:
        """The allows of all groups, once each."""
        return tuple(dict.fromkeys(rule for group in self.requests for rule in group.rules))

    @property
    def text(self) -> str:
        """``https://api.example.com:443``."""
        return f"{self.scheme.value}://{self.names.pattern}:{self.port}"

    def sample(self, group: Requests) -> EgressQuestion:
        """One request of a group."""
        return EgressQuestion(self.names.sample, self.port, self.scheme, *group.sample)

    def covers(self, host: str, port: int, scheme: Scheme) -> bool:
        """Whether a canonical endpoint is this one."""
        return (self.port, self.scheme) == (port, scheme) and self.names.covers(host)


def reachable(policy: Policy) -> tuple[Reach, ...]:
    """Every endpoint that an agent may reach, by the hosts' names.

    Args:
        policy: its rules in the order of the normal form, as a compiled policy holds them.
    """
    by_pattern: dict[str, dict[str, EgressRule | EgressDenial]] = {}
    for position, rule in enumerate(policy.egress):
        by_pattern.setdefault(rule.host, {})[f"egress/{position}"] = rule
    found: list[Reach] = []
    for host in Atoms(Policy(egress=policy.egress)).hosts():
        here = [each for pattern in covering_patterns(host) for each in by_pattern.get(pattern, {}).items()]
        here.sort(key=lambda each: int(each[0].rpartition("/")[2]))
        found += _at_host(_names(host, by_pattern), dict(here), policy.approval)
    return tuple(sorted(_joined(found), key=_order))


def _order(reach: Reach) -> tuple[str, str, int, str]:
    return reach.names.name, reach.names.pattern, reach.port, reach.scheme.value


def _names(sample: str, patterns: Collection[str]) -> HostNames:
    """The set that ``sample``, a host of :class:`Atoms`, stands for: what no pattern names of it is a fresh label."""
    if sample in patterns:
        return HostNames(sample, Labels.NONE, (), sample)
    parent = sample.partition(".")[2]
    one = f"*.{parent}" in patterns or f"**.{parent}" in patterns
    name, labels = (parent, Labels.ONE) if one else (parent.partition(".")[2], Labels.TWO_OR_MORE)
    others = sorted(pattern for pattern in patterns if _is_inside(pattern, name, labels))
    return HostNames(name, labels, tuple(others), sample)


def _is_inside(pattern: str, name: str, labels: Labels) -> bool:
    """Whether a rule's pattern covers some hosts of a set, and not all of them."""
    suffix = suffix_of(pattern)
    above = suffix.removesuffix(f".{name}")
    if above == suffix:
        return False
    if is_wildcard(pattern):
        return labels is Labels.TWO_OR_MORE
    return ("." in above) == (labels is Labels.TWO_OR_MORE)


def _joined(found: Iterable[Reach]) -> Iterator[Reach]:
    """Endpoints below one name that differ in their labels alone are one."""
    alike: dict[tuple[object, ...], Reach] = {}
    for reach in found:
        key = (
            *(reach.names.name, reach.names.labels is Labels.NONE, reach.port, reach.scheme, reach.tls),
            *(reach.addresses, reach.unrestricted, reach.requests, reach.denials),
        )
        other = alike.get(key)
        alike[key] = reach if other is None else replace(reach, names=_both(other.names, reach.names))
    yield from alike.values()


def _both(one: HostNames, other: HostNames) -> HostNames:
    others = sorted({*one.other_than, *other.other_than})
    return HostNames(one.name, Labels.ONE_OR_MORE, tuple(others), min(one.sample, other.sample, key=len))


# -- one host ----------------------------------------------------------------------------------------------------------


def _at_host(names: HostNames, rules: _Rules, approval: Approval) -> Iterator[Reach]:
    every = {rule_id: rule for rule_id, rule in rules.items() if isinstance(rule, EgressRule)}
    addresses = next(
        (rule.address for rule in every.values() if rule.address), ()
    )  # of the host: at any port
    denying = {rule_id: rule for rule_id, rule in rules.items() if isinstance(rule, EgressDenial)}
    for port, scheme in sorted({(rule.port, rule.scheme) for rule in every.values()}):
        allows = {
            rule_id: rule for rule_id, rule in every.items() if (rule.port, rule.scheme) == (port, scheme)
        }
        denials = {rule_id: rule for rule_id, rule in denying.items() if rule.port in (None, port)}
        tls = _tls(allows.values()) if scheme is Scheme.HTTPS else None
        judged = _unseen if tls is TLSMode.PASSTHROUGH else request_groups
        groups = judged(allows, denials, approval)
        if groups:
            yield Reach(
                names,
                port,
                scheme,
                tls,
                addresses=addresses,
                unrestricted=any(_narrows_nothing(rule) for rule in allows.values()),
                requests=groups,
                denials=tuple(denials),
            )


def _tls(rules: Iterable[EgressRule]) -> TLSMode:
    """TLS is inspected if any rule for the host and port says so."""
    passed = all(rule.tls is TLSMode.PASSTHROUGH for rule in rules)
    return TLSMode.PASSTHROUGH if passed else TLSMode.INSPECT


def _narrows_nothing(rule: EgressRule) -> bool:
    every_method = rule.methods is None or METHODS.issubset(rule.methods)
    return every_method and (rule.paths is None or ANY_PATH in rule.paths)


def _unseen(
    allows: Mapping[str, EgressRule], denials: Mapping[str, EgressDenial], approval: Approval
) -> tuple[Requests, ...]:
    """What is passed through: anything may be in it, so any denial of the host denies all of it."""
    if denials:
        return ()
    ask = approval.everything or bool(approval.methods)
    effect = Effect.ASK if ask else Effect.ALLOW
    return (Requests(None, None, (), effect, tuple(allows), ("GET", "/")),)
