"""Decides which host, port, scheme, method and path a request may have.

A proxy asks twice. When the agent opens a connection, only host and port are known (``method`` is None): an
allow matches whatever methods and paths it names, a denial only if it names none, unless the connection will
not be inspected: then every denial of the host matches, because nothing will be judged later. When the
request is seen, all of it is judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from affiant.policy.canonical.errors import TargetRefused
from affiant.policy.canonical.hosts import covering_patterns, is_canonical_host, is_wildcard
from affiant.policy.canonical.targets import METHODS, judged_path, path_pattern
from affiant.policy.decision.decide import Decision, Effect, denied, granted
from affiant.policy.model.profile import Approval, EgressDenial, EgressRule, Policy, Scheme, TLSMode

__all__ = ["EgressPlane"]


@dataclass(frozen=True, slots=True)
class _Paths:
    """The paths of a rule: one lookup for those named, one comparison for the subtrees."""

    exact: frozenset[str]
    subtrees: tuple[str, ...]

    def name(self, path: str) -> bool:
        return path in self.exact or path.startswith(self.subtrees)


@dataclass(frozen=True, slots=True)
class _Allow:
    id: str
    alone: Decision
    """The decision where this rule is the only one that matches; ``asked`` where it needs approval."""
    asked: Decision
    port: int
    scheme: Scheme
    methods: frozenset[str] | None
    paths: _Paths | None
    tls: TLSMode

    def names(self, method: str) -> bool:
        return self.methods is None or method in self.methods

    def names_path(self, path: str) -> bool:
        return self.paths is None or self.paths.name(path)

    def missed(self, port: int, scheme: str, method: str | None, path: str) -> int:
        """The first dimension that does not match, as an index into ``_MISSES``; ``_ALL`` if all do."""
        if self.port != port:
            return 0
        if self.scheme != scheme:
            return 1
        if method is None:
            return _ALL
        if self.methods is not None and method not in self.methods:
            return 2
        if not self.names_path(path):
            return 3
        return _ALL


_MISSES: Final = ("port_not_listed", "scheme_not_listed", "method_not_listed", "target_not_listed")
_ALL: Final = len(_MISSES)


@dataclass(frozen=True, slots=True)
class _Deny:
    id: str
    port: int | None
    methods: frozenset[str] | None
    paths: _Paths | None

    @property
    def whole(self) -> bool:
        """Whether it denies every request to the port."""
        return self.methods is None and self.paths is None

    def names(self, method: str) -> bool:
        return self.methods is None or method in self.methods

    def names_path(self, path: str) -> bool:
        return self.paths is None or self.paths.name(path)

    def at(self, port: int) -> bool:
        return self.port is None or self.port == port


@dataclass(frozen=True, slots=True)
class _Judged:
    """The rules of one host that are left for a port, a scheme and a method: only paths are to be compared."""

    denials: tuple[_Deny, ...]
    allows: tuple[_Allow, ...]
    ask: bool

    def decide(self, path: str) -> Decision | None:
        """The decision; None if no rule allows the path."""
        for rule in self.denials:
            paths = rule.paths
            if paths is None or path in paths.exact or path.startswith(paths.subtrees):
                return denied(
                    "egress_denied", tuple([rule.id for rule in self.denials if rule.names_path(path)])
                )
        if len(self.allows) == 1:
            only = self.allows[0]
            paths = only.paths
            if paths is None or path in paths.exact or path.startswith(paths.subtrees):
                return only.asked if self.ask else only.alone
            return None
        matching = tuple([rule.id for rule in self.allows if rule.names_path(path)])
        return granted(matching, ask=self.ask) if matching else None


@dataclass(frozen=True, slots=True)
class _Found:
    """The rules that cover one host; ``tls``: how it is treated, by port; ``judged``: what was asked for once."""

    allows: tuple[_Allow, ...]
    denials: tuple[_Deny, ...]
    tls: Mapping[int, TLSMode]
    judged: dict[tuple[int, str, str], _Judged]

    @classmethod
    def of(cls, allows: tuple[_Allow, ...], denials: tuple[_Deny, ...]) -> _Found:
        tls: dict[int, TLSMode] = {}
        for rule in allows:
            if rule.scheme is Scheme.HTTPS and tls.get(rule.port) is not TLSMode.INSPECT:
                tls[rule.port] = rule.tls
        return cls(allows, denials, tls, {})

    def for_method(self, port: int, scheme: str, method: str, approval: Approval) -> _Judged:
        """What is left for an endpoint and a method; kept if a rule allows the endpoint: of others there is no end."""
        allows = tuple(rule for rule in self.allows if rule.port == port and rule.scheme == scheme)
        found = _Judged(
            tuple(rule for rule in self.denials if rule.at(port) and rule.names(method)),
            tuple(rule for rule in allows if rule.names(method)),
            approval.everything or method in approval.methods,
        )
        if allows:
            self.judged[port, scheme, method] = found
        return found


class EgressPlane:
    """Compiled egress rules: one lookup for a host named in full, one for each suffix that has a wildcard."""

    __slots__ = ("_approval", "_connections", "_exact", "_rules", "_wild")

    _NOT_LISTED: Final = Decision(Effect.DENY, "host_not_listed")
    _NOT_CANONICAL: Final = Decision(Effect.DENY, "host_not_canonical")
    _METHOD_FORBIDDEN: Final = Decision(Effect.DENY, "method_forbidden")
    _TARGET_NOT_CANONICAL: Final = Decision(Effect.DENY, "target_not_canonical")

    def __init__(self, policy: Policy) -> None:
        self._approval = policy.approval
        self._rules: dict[str, list[_Allow | _Deny]] = {}
        for position, rule in enumerate(policy.egress):
            self._rules.setdefault(rule.host, []).append(_compiled(f"egress/{position}", rule))
        self._exact = {
            host: self._covering(
                tuple(pattern for pattern in covering_patterns(host) if pattern in self._rules)
            )
            for host in self._rules
            if not is_wildcard(host)
        }
        self._wild: dict[tuple[str, ...], _Found] | None = (
            {} if any(is_wildcard(pattern) for pattern in self._rules) else None
        )
        self._connections = {
            (host, rule.port, rule.scheme.value): self._connection(found, rule.port, rule.scheme)
            for host, found in self._exact.items()
            for rule in found.allows
        }

    def _covering(self, patterns: Sequence[str]) -> _Found:
        """The rules of ``patterns``, in the order of the normal form."""
        rules = [rule for pattern in patterns for rule in self._rules[pattern]]
        rules.sort(key=lambda rule: int(rule.id.rpartition("/")[2]))
        allows = tuple(rule for rule in rules if isinstance(rule, _Allow))
        return _Found.of(allows, tuple(rule for rule in rules if isinstance(rule, _Deny)))

    def _covered_by_wildcards(self, host: str) -> _Found | None:
        """The rules that cover a canonical ``host`` that none names in full; None if there is none.

        Any other host must not come here: a suffix alone would match ``evil\\0.example.com``.
        """
        if self._wild is None:
            return None
        patterns = tuple([pattern for pattern in covering_patterns(host) if pattern in self._rules])
        if not patterns:
            return None
        found = self._wild.get(patterns)
        if (
            found is None
        ):  # kept by its patterns, of which there are no more than the rules make, not by hosts
            found = self._wild[patterns] = self._covering(patterns)
        return found

    def tls_mode(self, host: str, port: int) -> TLSMode | None:
        """How TLS to ``host`` is treated; None if no rule allows TLS there."""
        found = self._exact.get(host)
        if found is None and is_canonical_host(host):
            found = self._covered_by_wildcards(host)
        return None if found is None else found.tls.get(port)

    def decide(self, host: str, port: int, scheme: str, method: str | None, target: str | None) -> Decision:
        """Whether a connection (``method`` None) or a request may go out."""
        if method is None:
            known = self._connections.get((host, port, scheme))
            if known is not None:
                return known
        found = self._exact.get(host)
        if found is None:
            if not is_canonical_host(host):
                return self._NOT_CANONICAL
            found = self._covered_by_wildcards(host)
            if found is None:
                return self._NOT_LISTED
        if method is None:
            return self._connection(found, port, scheme)
        judged = found.judged.get((port, scheme, method))
        if judged is None:
            if method not in METHODS:
                return self._METHOD_FORBIDDEN
            judged = found.for_method(port, scheme, method, self._approval)
        try:
            path = judged_path(target or "")
        except TargetRefused:
            return self._TARGET_NOT_CANONICAL
        return judged.decide(path) or _miss(found, (port, scheme, method, path))

    def _connection(self, found: _Found, port: int, scheme: str) -> Decision:
        blind = scheme == Scheme.HTTPS and found.tls.get(port) is TLSMode.PASSTHROUGH
        taken = tuple([rule.id for rule in found.denials if rule.at(port) and (blind or rule.whole)])
        if taken:
            return denied("egress_denied", taken)
        matching = tuple([rule.id for rule in found.allows if rule.port == port and rule.scheme == scheme])
        if matching:
            ask = self._approval.everything or (blind and bool(self._approval.methods))
            return granted(matching, ask=ask)
        return _miss(found, (port, scheme, None, ""))


def _miss(found: _Found, request: tuple[int, str, str | None, str]) -> Decision:
    """The denial that names the allow which came closest, and the dimension that it missed."""
    if not found.allows:
        return denied("host_not_listed")
    misses = [rule.missed(*request) for rule in found.allows]
    furthest = max(misses)
    return denied(_MISSES[furthest], nearest=found.allows[misses.index(furthest)].id)


def _compiled(rule_id: str, rule: EgressRule | EgressDenial) -> _Allow | _Deny:
    methods = None if rule.methods is None else frozenset(rule.methods)
    if isinstance(rule, EgressDenial):
        return _Deny(rule_id, rule.port, methods, None if rule.paths is None else _touched(rule.paths))
    paths = None if rule.paths is None else _covered(rule.paths)
    alone, asked = granted((rule_id,), ask=False), granted((rule_id,), ask=True)
    return _Allow(rule_id, alone, asked, rule.port, rule.scheme, methods, paths, rule.tls)


def _covered(paths: Sequence[str]) -> _Paths:
    """As :meth:`PathPattern.covers`, of any of them."""
    patterns = [path_pattern(path) for path in paths]
    exact = frozenset(pattern.path for pattern in patterns if not pattern.subtree)
    return _Paths(exact, tuple(pattern.path for pattern in patterns if pattern.subtree))


def _touched(paths: Sequence[str]) -> _Paths:
    """As :meth:`PathPattern.touches`, of any of them: canonical paths end with one slash at most."""
    patterns = [path_pattern(path) for path in paths]
    nodes = [pattern.path.rstrip("/") for pattern in patterns]
    exact = frozenset(place for node in nodes for place in (node or "/", f"{node}/"))
    return _Paths(exact, tuple(pattern.path for pattern in patterns if pattern.subtree))
