"""The egress plane: which host, port, scheme, method and path a request may have.

A proxy asks twice. When the agent opens a connection, only host and port are known (``method`` is None): an
allow matches whatever methods and paths it names, a denial only if it names none, unless the connection will
not be inspected: then every denial of the host matches, because nothing will be judged later. When the
request is seen, all of it is judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from affiant.policy.decide import Decision, Effect, granted
from affiant.policy.hosts import covering_patterns, is_canonical_host, is_wildcard
from affiant.policy.profile import EgressDenial, EgressRule, Policy, Scheme, TLSMode
from affiant.policy.refusals import TargetRefused
from affiant.policy.targets import METHODS, PathPattern, canonical_target, decoded_path, path_pattern

__all__ = ["EgressPlane"]


@dataclass(frozen=True, slots=True)
class _Allow:
    id: str
    alone: Decision
    """The decision where this rule is the only one that matches; ``asked`` where it needs approval."""
    asked: Decision
    port: int
    scheme: Scheme
    methods: frozenset[str] | None
    paths: tuple[PathPattern, ...] | None
    tls: TLSMode

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
        if self.paths is not None and not any(pattern.covers(path) for pattern in self.paths):
            return 3
        return _ALL


_MISSES: Final = ("port_not_listed", "scheme_not_listed", "method_not_listed", "target_not_listed")
_ALL: Final = len(_MISSES)


@dataclass(frozen=True, slots=True)
class _Deny:
    id: str
    port: int | None
    methods: frozenset[str] | None
    paths: tuple[PathPattern, ...] | None

    @property
    def whole(self) -> bool:
        """Whether it denies every request to the port."""
        return self.methods is None and self.paths is None

    def touches(self, port: int, method: str, path: str) -> bool:
        return (
            self.at(port)
            and (self.methods is None or method in self.methods)
            and (self.paths is None or any(pattern.touches(path) for pattern in self.paths))
        )

    def at(self, port: int) -> bool:
        return self.port is None or self.port == port


@dataclass(frozen=True, slots=True)
class _Found:
    """The rules that cover one host."""

    allows: tuple[_Allow, ...]
    denials: tuple[_Deny, ...]

    def tls_mode(self, port: int) -> TLSMode | None:
        modes = {rule.tls for rule in self.allows if rule.port == port and rule.scheme is Scheme.HTTPS}
        return TLSMode.INSPECT if TLSMode.INSPECT in modes else next(iter(modes), None)


class EgressPlane:
    """Compiled egress rules: one lookup for a host named in full, one for each suffix that has a wildcard."""

    __slots__ = ("_approval", "_connections", "_exact", "_rules", "_wild")

    _NOT_LISTED: Final = Decision(Effect.DENY, "host_not_listed")

    def __init__(self, policy: Policy) -> None:
        self._approval = policy.approval
        self._rules: dict[str, list[_Allow | _Deny]] = {}
        for position, rule in enumerate(policy.egress):
            self._rules.setdefault(rule.host, []).append(_compiled(f"egress/{position}", rule))
        self._wild = any(is_wildcard(pattern) for pattern in self._rules)
        self._exact = {host: self._covering(host) for host in self._rules if not is_wildcard(host)}
        self._connections = {
            (host, rule.port, rule.scheme.value): self._connection(found, rule.port, rule.scheme)
            for host, found in self._exact.items()
            for rule in found.allows
        }

    def _covering(self, host: str) -> _Found:
        """The rules that cover a canonical ``host``, in the order of the normal form."""
        rules = [rule for pattern in covering_patterns(host) for rule in self._rules.get(pattern, ())]
        rules.sort(key=lambda rule: int(rule.id.rpartition("/")[2]))
        return _Found(
            tuple(rule for rule in rules if isinstance(rule, _Allow)),
            tuple(rule for rule in rules if isinstance(rule, _Deny)),
        )

    def _find(self, host: str) -> _Found | None:
        """The rules that cover ``host``; None if it is not canonical or none does.

        The check comes before any wildcard is tried: a suffix alone would match ``evil\\0.example.com``.
        """
        found = self._exact.get(host)
        if found is not None or not self._wild or not is_canonical_host(host):
            return found
        found = self._covering(host)
        return found if found.allows or found.denials else None

    def tls_mode(self, host: str, port: int) -> TLSMode | None:
        """How TLS to ``host`` is treated; None if no rule allows TLS there."""
        found = self._find(host)
        return None if found is None else found.tls_mode(port)

    def decide(self, host: str, port: int, scheme: str, method: str | None, target: str | None) -> Decision:
        """Whether a connection (``method`` None) or a request may go out."""
        if method is None:
            known = self._connections.get((host, port, scheme))
            if known is not None:
                return known
        found = self._find(host)
        if found is None:
            if is_canonical_host(host):
                return self._NOT_LISTED
            return Decision(Effect.DENY, "host_not_canonical")
        if method is None:
            return self._connection(found, port, scheme)
        if method not in METHODS:
            return Decision(Effect.DENY, "method_forbidden")
        try:
            path = decoded_path(canonical_target("" if target is None else target))
        except TargetRefused:
            return Decision(Effect.DENY, "target_not_canonical")
        denied = tuple([rule.id for rule in found.denials if rule.touches(port, method, path)])
        ask = self._approval.everything or method in self._approval.methods
        return _result(found, denied, (port, scheme, method, path), ask=ask)

    def _connection(self, found: _Found, port: int, scheme: str) -> Decision:
        blind = scheme == Scheme.HTTPS and found.tls_mode(port) is TLSMode.PASSTHROUGH
        denied = tuple(rule.id for rule in found.denials if rule.at(port) and (blind or rule.whole))
        ask = self._approval.everything or (blind and bool(self._approval.methods))
        return _result(found, denied, (port, scheme, None, ""), ask=ask)


def _result(
    found: _Found, denied: tuple[str, ...], request: tuple[int, str, str | None, str], *, ask: bool
) -> Decision:
    if denied:
        return Decision(Effect.DENY, "egress_denied", denied)
    matching = [rule for rule in found.allows if rule.missed(*request) == _ALL]
    if len(matching) == 1:
        return matching[0].asked if ask else matching[0].alone
    if matching:
        return granted(tuple(rule.id for rule in matching), ask=ask)
    return _miss(found, request)


def _miss(found: _Found, request: tuple[int, str, str | None, str]) -> Decision:
    """The denial that names the allow which came closest, and the dimension that it missed."""
    if not found.allows:
        return Decision(Effect.DENY, "host_not_listed")
    nearest = max(found.allows, key=lambda rule: rule.missed(*request))
    return Decision(Effect.DENY, _MISSES[nearest.missed(*request)], nearest=nearest.id)


def _compiled(rule_id: str, rule: EgressRule | EgressDenial) -> _Allow | _Deny:
    methods = None if rule.methods is None else frozenset(rule.methods)
    paths = None if rule.paths is None else tuple(path_pattern(path) for path in rule.paths)
    if isinstance(rule, EgressDenial):
        return _Deny(rule_id, rule.port, methods, paths)
    alone, asked = granted((rule_id,), ask=False), granted((rule_id,), ask=True)
    return _Allow(rule_id, alone, asked, rule.port, rule.scheme, methods, paths, rule.tls)
