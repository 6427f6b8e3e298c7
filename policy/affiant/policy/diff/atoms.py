"""Builds the finite set of requests on which two policies are compared; it stands for all requests.

Patterns are exact, a suffix of labels, or a prefix of segments, so a policy cannot tell two requests apart that match
the same patterns of it. One request for each set of patterns that any request can match is therefore enough: every
literal of either policy, one fresh child below each prefix, one and two fresh labels below each wildcard, one method
that no rule names, one name that no rule lists. For any request there is a method that gives the one that stands for
it; that both policies answer the two alike is what tests hold against random requests.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count, product
from typing import Final
from urllib.parse import quote

from affiant.policy.canonical.errors import ComparisonTooLarge, TargetRefused
from affiant.policy.canonical.hosts import covering_patterns, is_canonical_host, is_wildcard, suffix_of
from affiant.policy.canonical.paths import above
from affiant.policy.canonical.targets import (
    METHODS,
    PathPattern,
    canonical_target,
    decoded_path,
    path_pattern,
)
from affiant.policy.canonical.tool_origin import ANY, ANYWHERE, Origin
from affiant.policy.decision.questions import (
    EgressQuestion,
    ModelQuestion,
    PathQuestion,
    PortQuestion,
    ProviderToolQuestion,
    SecretQuestion,
    StartQuestion,
    ToolQuestion,
)
from affiant.policy.diff.argument_atoms import calls_of
from affiant.policy.model.arguments import Constraint, Each, Host, OneOf
from affiant.policy.model.profile import (
    EgressDenial,
    EgressRule,
    PathMode,
    Policy,
    PortRange,
    Scheme,
    ToolRule,
)

__all__ = ["Atoms"]

_UNESCAPED: Final = "/~!$&'()*+,=:@-._"
"""What a canonical target holds without an escape, beside letters and digits."""
_ANY_METHOD: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
"""Tried in this order for the method that stands for all that no rule names."""
_LETTERS: Final = "xyzabcdefghijklmnopqrstuvw"
_RULES_AT_ONCE: Final = 50
_MAX_PORT: Final = 65535
_MODES: Final = (PathMode.READ, PathMode.READ_WRITE)

_Rule = EgressRule | EgressDenial


@dataclass(frozen=True, slots=True)
class _Site:
    """The rules that cover one host, and the requests there that they can tell apart."""

    host: str
    endpoints: tuple[tuple[int, Scheme], ...]
    methods: tuple[str, ...]
    other: str | None
    """The method that stands for those that no rule here names; None where all are named."""
    patterns: tuple[PathPattern, ...]
    targets: tuple[str, ...]
    beside: str
    """The path that stands for all that lie below no subtree."""
    weight: int
    """What a request to it costs: rules of one host are compared one by one."""


class Atoms:
    """The requests on which ``policies`` can differ.

    Args:
        policies: two, as a rule; their order does not matter.
        most: how many are given out, each as often as it is asked for and a request to a host with many rules for
            more than one; None: all.

    Raises:
        ComparisonTooLarge: while they are given out: there are more.
    """

    def __init__(self, *policies: Policy, most: int | None = None) -> None:
        self._policies = policies
        self._most = most
        self._given = 0
        self._tools = {rule.name for policy in policies for rule in policy.tools}
        self._provider_tools = {rule.name for policy in policies for rule in policy.provider_tools}
        self._models = {rule.name for policy in policies for rule in policy.models or ()}
        self._paths = {rule.path for policy in policies for rule in policy.filesystem}
        self._starts = {rule.agent for policy in policies for rule in policy.may_start}
        self._start = _fresh("other_agent", self._starts)
        self._ports = _beginnings(rule for policy in policies for rule in policy.ports)
        self._rules: dict[str, list[_Rule]] = {}
        for policy in policies:
            for rule in policy.egress:
                self._rules.setdefault(rule.host, []).append(rule)
        self._patterns = {*self._rules, *self._argument_hosts()}
        self._asked = {method for policy in policies for method in policy.approval.methods}
        self._tool = _fresh("other_tool", self._tools)
        rules = [rule for policy in policies for rule in policy.tools if isinstance(rule, ToolRule)]
        self._server = _fresh("other-server", {rule.server for rule in rules if rule.server is not None})
        pins = {rule.schema for rule in rules}
        self._schema = next(pin for pin in map("sha256:{:064x}".format, count()) if pin not in pins)
        self._provider_tool = _fresh("other_tool", self._provider_tools)
        self._model = _fresh("other-model", self._models)
        self._path = "/" + _fresh("other", {path.split("/")[1] for path in self._paths})
        self._label = _fresh_label({*self._patterns, *self._argument_texts()})
        self._sites: dict[str, _Site] = {}

    # -- all of them -------------------------------------------------------------------------------------------

    def tools(self) -> Iterator[ToolQuestion]:
        """Each name that a rule lists, from wherever the rules can tell, and one that none does."""
        for name in (*sorted(self._tools), self._tool):
            for origin in product(*self._origins(name)):
                self._count()
                yield ToolQuestion(name, None, Origin(*origin))

    def _origins(self, name: str) -> tuple[Sequence[str], Sequence[str]]:
        """The servers and definitions that rules name for a tool, each with one for all others; any, if none does."""
        rules = [rule for policy in self._policies for rule in _rules_for(policy, name)]
        servers = {rule.server for rule in rules if rule.server is not None}
        schemas = {rule.schema for rule in rules if rule.schema is not None}
        return (
            (*sorted(servers), self._server) if servers else (ANY,),
            (*sorted(schemas), self._schema) if schemas else (ANY,),
        )

    def calls(self, name: str, origin: Origin = ANYWHERE) -> Iterator[ToolQuestion] | None:
        """Each call of a tool whose arguments some rule names; None where they cannot be listed."""
        rules = [[rule.arguments for rule in _rules_for(policy, name)] for policy in self._policies]
        if all(arguments is None for policy in rules for arguments in policy):
            return iter(())
        found = calls_of(rules, paths=sorted(self._paths), hosts=self.hosts())
        return None if found is None else self._calls(name, found, origin)

    def _calls(self, name: str, found: Iterable[str], origin: Origin) -> Iterator[ToolQuestion]:
        for arguments in found:
            self._count()
            yield ToolQuestion(name, arguments, origin)

    def provider_tools(self) -> Iterator[ProviderToolQuestion]:
        """Each name that a rule lists, and one that none does."""
        for name in (*sorted(self._provider_tools), self._provider_tool):
            self._count()
            yield ProviderToolQuestion(name)

    def models(self) -> Iterator[tuple[ModelQuestion, bool]]:
        """Each name, and whether its upstream is attested."""
        for name, attested in product((*sorted(self._models), self._model), (False, True)):
            self._count()
            yield ModelQuestion(name), attested

    def starts(self) -> Iterator[StartQuestion]:
        """Each agent that a rule lists, and one that none does."""
        for agent in (*sorted(self._starts), self._start):
            self._count()
            yield StartQuestion(agent)

    def ports(self) -> Iterator[tuple[PortQuestion, int]]:
        """The first and the last port of each range of ports that no rule tells apart."""
        for first, after in zip(self._ports, (*self._ports[1:], _MAX_PORT + 1), strict=True):
            self._count()
            yield PortQuestion(first), after - 1

    def paths(self) -> Iterator[PathQuestion]:
        """Each path of a rule, which stands for its subtree up to the next one, and one that none covers."""
        for path, mode in product((*sorted(self._paths), self._path), _MODES):
            self._count()
            yield PathQuestion(path, mode)

    def requests(self) -> Iterator[EgressQuestion]:
        """Each request to each host."""
        for host in self.hosts():
            site = self._site(host)
            methods = (*site.methods, *(() if site.other is None else (site.other,)))
            for (port, scheme), target, method in product(site.endpoints, site.targets, methods):
                self._count(site.weight)
                yield EgressQuestion(host, port, scheme, method, target)

    def connections(self) -> Iterator[EgressQuestion]:
        """Each endpoint that a rule allows, before anything is known of a request."""
        return (connection for host in self.hosts() for connection in self.connections_to(host))

    def connections_to(self, host: str) -> Iterator[EgressQuestion]:
        """The same of one of :meth:`hosts`."""
        site = self._site(host)
        for port, scheme in site.endpoints:
            self._count(site.weight)
            yield EgressQuestion(host, port, scheme)

    def secrets(self) -> Iterator[tuple[SecretQuestion, str]]:
        """Each secret at each endpoint that either policy binds it to, and the surface."""
        grants: dict[str, tuple[set[tuple[str, int]], set[str]]] = {}
        for policy in self._policies:
            for grant in policy.secrets:
                hosts, surfaces = grants.setdefault(grant.name, (set(), set()))
                hosts.update(grant.hosts)
                surfaces.add(grant.surface)
        for name, (hosts, surfaces) in sorted(grants.items()):
            for (host, port), surface in product(sorted(hosts), sorted(surfaces)):
                self._count()
                yield SecretQuestion(name, host, port), surface

    def _count(self, weight: int = 1) -> None:
        self._given += weight
        if self._most is not None and self._given > self._most:
            raise ComparisonTooLarge(
                "the profiles can differ on too many requests to be compared here",
                expected=f"at most {self._most}",
            )

    def hosts(self) -> Sequence[str]:
        """Hosts by the patterns that cover them: no two that match the same ones."""
        found = {
            host for pattern in self._patterns for host in self._hosts_of(pattern) if is_canonical_host(host)
        }
        return sorted(found)

    def _hosts_of(self, pattern: str) -> Iterator[str]:
        if not is_wildcard(pattern):
            yield pattern
            return
        child = f"{self._label}.{suffix_of(pattern)}"
        yield child
        if pattern.startswith("**"):
            yield f"{self._label}.{child}"

    def _argument_hosts(self) -> Iterator[str]:
        return (each.pattern for each in self._constraints() if isinstance(each, Host))

    def _argument_texts(self) -> Iterator[str]:
        """Texts that rules name beside hosts: what stands for all other hosts is none of them."""
        values = (value for each in self._constraints() if isinstance(each, OneOf) for value in each.values)
        return (value for value in values if isinstance(value, str))

    def _constraints(self) -> Iterator[Constraint]:
        for policy in self._policies:
            for rule in policy.tools:
                for argument in (isinstance(rule, ToolRule) and rule.arguments) or ():
                    constraint = argument.constraint
                    yield constraint.item if isinstance(constraint, Each) else constraint

    def stands_for_the_rest(self, question: EgressQuestion | ModelQuestion) -> bool:
        """Whether its method, or its model, is the one that stands for all that no rule there names."""
        if isinstance(question, ModelQuestion):
            return question.name == self._model
        return question.method is not None and question.method == self._site(question.host).other

    # -- the one that stands for a request ---------------------------------------------------------------------

    def tool(self, question: ToolQuestion) -> ToolQuestion:
        """The one that stands for ``question``; so are those below."""
        if question.name not in self._tools:
            return ToolQuestion(self._tool)
        pairs = zip(question.origin, self._origins(question.name), strict=True)
        origin = Origin(*(found if found in known else known[-1] for found, known in pairs))
        return ToolQuestion(question.name, None, origin)

    def provider_tool(self, question: ProviderToolQuestion) -> ProviderToolQuestion:
        """As :meth:`tool`."""
        listed = question.name in self._provider_tools
        return question if listed else ProviderToolQuestion(self._provider_tool)

    def model(self, question: ModelQuestion) -> ModelQuestion:
        """As :meth:`tool`."""
        return question if question.name in self._models else ModelQuestion(self._model)

    def start(self, question: StartQuestion) -> StartQuestion:
        """As :meth:`tool`."""
        return question if question.name in self._starts else StartQuestion(self._start)

    def port(self, question: PortQuestion) -> PortQuestion:
        """As :meth:`tool`, for a port of 1 to 65535."""
        return PortQuestion(self._ports[bisect(self._ports, question.number) - 1])

    def path(self, question: PathQuestion) -> PathQuestion:
        """As :meth:`tool`, for a canonical path."""
        covering = next((place for place in above(question.path) if place in self._paths), self._path)
        return PathQuestion(covering, question.mode)

    def request(self, question: EgressQuestion) -> EgressQuestion | None:
        """As :meth:`tool`, for a canonical host and target; None where no rule of either policy allows anything."""
        host = self._host(question.host)
        if host is None:
            return None
        site = self._site(host)
        if (question.port, question.scheme) not in site.endpoints:
            return None
        if question.method is None:
            return EgressQuestion(host, question.port, question.scheme)
        method = question.method if question.method in site.methods else site.other
        target = _target_for(decoded_path(question.target or "/"), site)
        return EgressQuestion(host, question.port, question.scheme, method, target)

    def _host(self, host: str) -> str | None:
        if host in self._patterns:
            return host
        covering = [pattern for pattern in covering_patterns(host) if pattern in self._patterns]
        if not covering:
            return None
        nearest = covering[0]
        child = f"{self._label}.{suffix_of(nearest)}"
        single = host.partition(".")[2] == suffix_of(nearest)
        return child if single else f"{self._label}.{child}"

    # -- one host ----------------------------------------------------------------------------------------------

    def _site(self, host: str) -> _Site:
        if host not in self._sites:
            rules = [rule for pattern in covering_patterns(host) for rule in self._rules.get(pattern, ())]
            self._sites[host] = _site(host, rules, self._asked)
        return self._sites[host]


def _beginnings(rules: Iterable[PortRange]) -> Sequence[int]:
    """Where ranges of ports begin that no rule tells apart: together they are all ports."""
    edges = {edge for rule in rules for edge in (rule.first, rule.last + 1)}
    return sorted({1, *(edge for edge in edges if edge <= _MAX_PORT)})


def _rules_for(policy: Policy, name: str) -> list[ToolRule]:
    return [rule for rule in policy.tools if isinstance(rule, ToolRule) and rule.name == name]


def _site(host: str, rules: Sequence[_Rule], asked: Iterable[str]) -> _Site:
    allows = [rule for rule in rules if isinstance(rule, EgressRule)]
    named = {method for rule in rules for method in rule.methods or ()}.union(asked)
    unnamed = [method for method in (*_ANY_METHOD, *sorted(METHODS)) if method not in named]
    patterns = {path_pattern(path) for rule in rules for path in rule.paths or ()}
    fresh = _fresh_segment(patterns)
    targets = {f"/{fresh}", *(path for pattern in patterns for path in _paths_of(pattern, fresh))}
    return _Site(
        host,
        tuple(sorted({(rule.port, rule.scheme) for rule in allows})),
        tuple(sorted(named)),
        unnamed[0] if unnamed else None,
        tuple(sorted(patterns, key=lambda pattern: len(pattern.path), reverse=True)),
        tuple(sorted(filter(_is_target, map(_escaped, targets)))),
        f"/{fresh}",
        1 + len(rules) // _RULES_AT_ONCE,
    )


def _paths_of(pattern: PathPattern, fresh: str) -> Iterator[str]:
    """Its node with and without a slash at the end, and what lies below."""
    node = pattern.path.rstrip("/")
    yield f"{node}/"
    if node:
        yield node
    if pattern.subtree:
        yield pattern.path + fresh


def _target_for(path: str, site: _Site) -> str:
    for pattern in site.patterns:
        if path.rstrip("/") == pattern.path.rstrip("/"):
            return _escaped(path)
    below = next((each for each in site.patterns if each.subtree and each.covers(path)), None)
    return _escaped(site.beside if below is None else below.path + site.beside.removeprefix("/"))


def _escaped(path: str) -> str:
    return quote(path, safe=_UNESCAPED)


def _is_target(text: str) -> bool:
    try:
        return canonical_target(text) == text
    except TargetRefused:  # longer than any target may be: then no request is of its kind
        return False


# -- fresh names -------------------------------------------------------------------------------------------------------


def _fresh(word: str, taken: Iterable[str]) -> str:
    names = set(taken)
    numbered = (f"{word}{number}" for number in count(2))
    return next(name for name in chain((word,), numbered) if name not in names)


def _fresh_segment(patterns: Iterable[PathPattern]) -> str:
    return _short({segment for pattern in patterns for segment in pattern.path.split("/")})


def _fresh_label(patterns: Iterable[str]) -> str:
    return _short({label for pattern in patterns for label in suffix_of(pattern).split(".")})


def _short(taken: set[str]) -> str:
    """One letter where one is left: a name or target that is nearly as long as they can be still has room for it."""
    letter = next((letter for letter in _LETTERS if letter not in taken), None)
    return letter or _fresh("x", taken)
