"""Groups the requests that rules allow to one endpoint: which methods, to which paths, with which exceptions.

Methods are a finite set and paths are exact or subtrees, so that what denials leave can be named: a denied method is in
no group, a path that denials take whole is in no list, and a part of a subtree that they take is an exception.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, count
from string import ascii_lowercase
from typing import Final
from urllib.parse import quote

from affiant.policy.canonical.errors import TargetRefused
from affiant.policy.canonical.targets import METHODS, PathPattern, canonical_target, path_pattern
from affiant.policy.decision.decide import Effect
from affiant.policy.model.profile import Approval, EgressDenial, EgressRule

__all__ = ["ANY_PATH", "PathException", "Requests", "request_groups"]

ANY_PATH: Final = "/**"
"""The pattern that narrows nothing: every target begins with a slash."""
_UNESCAPED: Final = "/~!$&'()*+,=:@-._"
"""What a canonical target holds without an escape, beside letters and digits."""


@dataclass(frozen=True, slots=True)
class PathException:
    """A path that denials take out of a group: as in a denial, with its node and with or without a slash."""

    path: str
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests with any of the methods, to any of the paths but the exceptions; None for any.

    ``rules`` are the allows that give them; ``sample`` is the method and the target of one of them.
    """

    methods: tuple[str, ...] | None
    paths: tuple[str, ...] | None
    exceptions: tuple[PathException, ...]
    effect: Effect
    rules: tuple[str, ...]
    sample: tuple[str, str]


def request_groups(
    allows: Mapping[str, EgressRule], denials: Mapping[str, EgressDenial], approval: Approval
) -> tuple[Requests, ...]:
    """What the allows give and the denials leave; empty if nothing is left.

    Args:
        allows: the rules for one endpoint, by their ids in the order of the normal form.
        denials: those that touch it, likewise.
    """
    alike: dict[tuple[tuple[str, ...], tuple[str, ...], bool], list[str]] = {}
    for method in sorted(METHODS):
        ask = approval.everything or method in approval.methods
        alike.setdefault((_naming(method, allows), _naming(method, denials), ask), []).append(method)
    groups: dict[tuple[object, ...], Requests] = {}
    for (given, taken, ask), methods in alike.items():
        left = _Left({rule: denials[rule] for rule in taken})
        group = left.of({rule: allows[rule] for rule in given}, methods, Effect.ASK if ask else Effect.ALLOW)
        if group is not None:
            key = (group.paths, group.exceptions, group.effect)
            groups[key] = _merged(groups[key], group) if key in groups else group
    return tuple(map(_any_method, groups.values()))


def _naming(method: str, rules: Mapping[str, EgressRule | EgressDenial]) -> tuple[str, ...]:
    return tuple(rule_id for rule_id, rule in rules.items() if rule.methods is None or method in rule.methods)


def _merged(one: Requests, other: Requests) -> Requests:
    methods = sorted({*(one.methods or ()), *(other.methods or ())})
    rules = sorted({*one.rules, *other.rules}, key=lambda rule: int(rule.rpartition("/")[2]))
    return replace(one, methods=tuple(methods), rules=tuple(rules))


def _any_method(group: Requests) -> Requests:
    return replace(group, methods=None) if METHODS.issubset(group.methods or ()) else group


class _Left:
    """What denials that name a method, or none, leave of paths. The cost is that of the paths' segments."""

    def __init__(self, denials: Mapping[str, EgressDenial]) -> None:
        self._by_path: dict[str, list[str]] = {}
        for rule_id, rule in denials.items():
            for path in rule.paths or (ANY_PATH,):
                self._by_path.setdefault(path, []).append(rule_id)
        patterns = [path_pattern(path) for path in self._by_path]
        self._nodes = {pattern.path.rstrip("/") for pattern in patterns}
        self._subtrees = {pattern.path for pattern in patterns if pattern.subtree}

    def of(self, allows: Mapping[str, EgressRule], methods: list[str], effect: Effect) -> Requests | None:
        """The group of what is left of ``allows``; None if that is nothing."""
        samples: dict[str, str] = {}
        rules: list[str] = []
        for rule_id, rule in allows.items():
            found = {path: self._sample(path_pattern(path)) for path in rule.paths or (ANY_PATH,)}
            left = {path: sample for path, sample in found.items() if sample is not None}
            samples |= left
            rules += [rule_id] if left else []
        if not samples:
            return None
        paths = None if ANY_PATH in samples else tuple(sorted(samples))
        path = ANY_PATH if paths is None else paths[0]
        sample = (methods[0], samples[path])
        return Requests(
            tuple(methods), paths, self._exceptions(paths or (ANY_PATH,)), effect, tuple(rules), sample
        )

    def _sample(self, allowed: PathPattern) -> str | None:
        """A target that an allow's path covers and no denial touches, if there is one."""
        below = [allowed.path + self._fresh(allowed)] if allowed.subtree else []
        for path in (*below, allowed.path):
            if not self._touches(path) and (target := _target(path)) is not None:
                return target
        return None

    def _fresh(self, allowed: PathPattern) -> str:
        """A segment below ``allowed`` that no denial names: denials of other subtrees then do not touch it."""
        names = chain(ascii_lowercase, (f"x{number}" for number in count()))
        return next(name for name in names if allowed.path + name not in self._nodes)

    def _touches(self, path: str) -> bool:
        """As :meth:`PathPattern.touches` of any denial."""
        return path.rstrip("/") in self._nodes or not self._subtrees.isdisjoint(_folders(path))

    def _exceptions(self, allowed: tuple[str, ...]) -> tuple[PathException, ...]:
        """The denied paths that lie in one of the subtrees of a group; its exact paths are left whole or not at all."""
        subtrees = {pattern.path for pattern in map(path_pattern, allowed) if pattern.subtree}
        return tuple(
            PathException(path, tuple(rules))
            for path, rules in sorted(self._by_path.items())
            if not subtrees.isdisjoint(_folders(path_pattern(path).path.rstrip("/") + "/"))
        )


def _folders(path: str) -> Iterator[str]:
    """Every beginning of ``path`` that ends with a slash."""
    for position, char in enumerate(path):
        if char == "/":
            yield path[: position + 1]


def _target(path: str) -> str | None:
    """A decoded path as a canonical target; None where it is longer than any target may be."""
    try:
        return canonical_target(quote(path, safe=_UNESCAPED))
    except TargetRefused:
        return None
