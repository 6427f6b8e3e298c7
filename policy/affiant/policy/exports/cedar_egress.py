"""Writes egress rules as Cedar conditions, for connections and for requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from affiant.policy.canonical.hosts import is_wildcard, suffix_of
from affiant.policy.canonical.targets import METHODS, path_pattern
from affiant.policy.exports.cedar_text import all_of, any_of, cedar_set, cedar_string, like, negated
from affiant.policy.model.profile import Approval, EgressDenial, EgressRule, Scheme, TLSMode

__all__ = ["EgressPolicy", "egress_policies", "inspected"]

_BOTH = ("connect", "request")


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """The parts of one policy; ``rule`` is the id of the rule that it comes from."""

    effect: str
    rule: str
    actions: tuple[str, ...]
    when: str
    unless: str = "false"


def egress_policies(rules: Sequence[EgressRule | EgressDenial], approval: Approval) -> Iterator[EgressPolicy]:
    """What the rules and the demands for approval say, in the order of the normal form."""
    allows = [rule for rule in rules if isinstance(rule, EgressRule)]
    for position, rule in enumerate(rules):
        rule_id = f"egress/{position}"
        if isinstance(rule, EgressRule):
            yield from _allowed(rule_id, rule)
        else:
            yield from _denied(rule_id, rule, allows)
    if allows:
        unknown = negated(f"{cedar_set(sorted(METHODS))}.contains(context.method)")
        yield EgressPolicy("forbid", "profile", ("request",), unknown)
    if approval.methods:
        named = f"{cedar_set(approval.methods)}.contains(context.method)"
        yield EgressPolicy("forbid", "approval", ("request",), named, "context.approved")
        if any(rule.tls is TLSMode.PASSTHROUGH for rule in allows):
            yield EgressPolicy("forbid", "approval", ("connect",), _unseen(allows), "context.approved")


def inspected(allows: Sequence[EgressRule]) -> str:
    """Whether some rule inspects TLS at the endpoint; one such rule is enough."""
    return any_of(
        [
            all_of([_host(rule.host), f"context.port == {rule.port}"])
            for rule in allows
            if rule.scheme is Scheme.HTTPS and rule.tls is TLSMode.INSPECT
        ]
    )


def _unseen(allows: Sequence[EgressRule]) -> str:
    """Whether requests inside a connection that some rule allows are not seen."""
    return all_of(['context.scheme == "https"', negated(inspected(allows))])


def _allowed(rule_id: str, rule: EgressRule) -> Iterator[EgressPolicy]:
    """A connection is allowed whatever the methods and paths; they are judged when the request is seen."""
    endpoint = [
        _host(rule.host),
        f"context.port == {rule.port}",
        f"context.scheme == {cedar_string(rule.scheme.value)}",
    ]
    narrower = _methods(rule.methods)
    if rule.paths is not None:
        narrower.append(any_of([_covers(path) for path in rule.paths]))
    if not narrower:
        yield EgressPolicy("permit", rule_id, _BOTH, all_of(endpoint))
        return
    yield EgressPolicy("permit", rule_id, ("connect",), all_of(endpoint))
    yield EgressPolicy("permit", rule_id, ("request",), all_of([*endpoint, *narrower]))


def _denied(rule_id: str, rule: EgressDenial, allows: Sequence[EgressRule]) -> Iterator[EgressPolicy]:
    """A denial of a part denies the connection too where nothing will be judged inside it."""
    endpoint = [_host(rule.host), *([] if rule.port is None else [f"context.port == {rule.port}"])]
    if rule.methods is None and rule.paths is None:
        yield EgressPolicy("forbid", rule_id, _BOTH, all_of(endpoint))
        return
    narrower = _methods(rule.methods)
    if rule.paths is not None:
        narrower.append(any_of([_touches(path) for path in rule.paths]))
    yield EgressPolicy("forbid", rule_id, ("request",), all_of([*endpoint, *narrower]))
    if any(allow.tls is TLSMode.PASSTHROUGH for allow in allows):
        yield EgressPolicy("forbid", rule_id, ("connect",), all_of([*endpoint, _unseen(allows)]))


def _methods(methods: tuple[str, ...] | None) -> list[str]:
    return [] if methods is None else [f"{cedar_set(methods)}.contains(context.method)"]


def _host(pattern: str) -> str:
    """Of canonical hosts: one label more than the name, any number more, or the name itself."""
    name = suffix_of(pattern)
    if not is_wildcard(pattern):
        return f"context.host == {cedar_string(name)}"
    below = like("context.host", "*.", name)
    return below if pattern.startswith("**") else all_of([below, negated(like("context.host", "*.*.", name))])


def _covers(path: str) -> str:
    """As :meth:`PathPattern.covers`, of the decoded path."""
    pattern = path_pattern(path)
    if pattern.subtree:
        return like("context.path", "", pattern.path, "*")
    return f"context.path == {cedar_string(pattern.path)}"


def _touches(path: str) -> str:
    """As :meth:`PathPattern.touches`: the node too, with or without a slash at its end."""
    pattern = path_pattern(path)
    node = pattern.path.rstrip("/")
    places = sorted({node or "/", f"{node}/"})
    found = [f"context.path == {cedar_string(place)}" for place in places]
    return any_of([*found, *([like("context.path", "", pattern.path, "*")] if pattern.subtree else [])])
