"""Drafts rules for hosts that allow exactly the requests that were seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from affiant.errors import AffiantError
from affiant.policy.canonical.hosts import covering_patterns
from affiant.policy.decision.questions import EgressQuestion, SecretQuestion
from affiant.policy.learn.learned import Seen, Use
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model.profile import EgressRule, Scheme, TLSMode

__all__ = ["HostEntry", "connections", "host_entries"]

_MAX_PATHS: Final = 256
"""Of one rule; more are more rules."""
_LEAST: Final = (("HEAD",), ("/",))
"""What stands for a connection in which no request was seen: nothing is less and still lets it be opened."""


@dataclass(frozen=True, slots=True)
class HostEntry:
    """A rule for a host, with what each of its paths, or all of it (``""``), was seen for."""

    rule: EgressRule
    paths: tuple[tuple[str, Seen], ...]
    note: str = ""

    @property
    def seen(self) -> Seen:
        """All of it."""
        total = Seen()
        for _, seen in self.paths:
            total.join(seen)
        return total


_Refused = tuple[Use, Seen, str]


def connections(secrets: Iterable[tuple[Use, Seen]]) -> Iterator[tuple[Use, Seen]]:
    """The connection that each use of a secret needs."""
    for use, seen in secrets:
        if isinstance(use.question, SecretQuestion):
            yield Use(EgressQuestion(use.question.host, use.question.port, Scheme.HTTPS)), seen


def host_entries(
    uses: Sequence[tuple[Use, Seen]], start: Profile | None
) -> tuple[list[HostEntry], list[_Refused]]:
    """The rules for ``uses``, and those that no rule can say, each with the reason."""
    endpoints: dict[tuple[str, int, Scheme], list[tuple[Use, Seen]]] = {}
    for use, seen in uses:
        question = use.question
        assert isinstance(question, EgressQuestion)
        endpoints.setdefault((question.host, question.port, question.scheme), []).append((use, seen))
    entries: list[HostEntry] = []
    refused: list[_Refused] = []
    for (host, port, scheme), found in sorted(endpoints.items()):
        try:
            entries += _endpoint(host, port, scheme, found, start)
        except AffiantError as error:
            why = f"no rule can name it: {error.message}"
            refused += [(use, seen, why) for use, seen in found]
    return entries, refused


def _endpoint(
    host: str, port: int, scheme: Scheme, uses: Sequence[tuple[Use, Seen]], start: Profile | None
) -> Iterator[HostEntry]:
    """The rules for one endpoint."""
    address = _address(host, start)
    tls = TLSMode.INSPECT
    if start is not None and scheme is Scheme.HTTPS:
        tls = start.compiled.tls_mode(host, port)
    if tls is TLSMode.PASSTHROUGH:
        rule = EgressRule(host, port, scheme, tls=tls, address=address)
        yield HostEntry(rule, (("", _total(uses)),), "connections that are passed through unread")
        return
    by_path: dict[str, tuple[set[str], Seen]] = {}
    for use, seen in uses:
        assert isinstance(use.question, EgressQuestion)
        if use.question.method is not None and use.question.target is not None:
            methods, total = by_path.setdefault(use.question.target, (set(), Seen()))
            methods.add(use.question.method)
            total.join(seen)
    if not by_path:
        methods_alone, paths = _least(host, port, start)
        rule = EgressRule(host, port, scheme, methods_alone, paths, address=address)
        note = "only connections were seen, and no request in them: this lets them be opened"
        yield HostEntry(rule, (("", _total(uses)),), note)
        return
    groups: dict[tuple[str, ...], list[tuple[str, Seen]]] = {}
    for path, (methods, total) in sorted(by_path.items()):
        groups.setdefault(tuple(sorted(methods)), []).append((path, total))
    for methods_of, listed in sorted(groups.items()):
        for first in range(0, len(listed), _MAX_PATHS):
            some = tuple(listed[first : first + _MAX_PATHS])
            paths_of = tuple(path for path, _ in some)
            yield HostEntry(EgressRule(host, port, scheme, methods_of, paths_of, address=address), some)


def _total(uses: Iterable[tuple[Use, Seen]]) -> Seen:
    total = Seen()
    for _, seen in uses:
        total.join(seen)
    return total


def _address(host: str, start: Profile | None) -> tuple[str, ...]:
    for rule in () if start is None else start.policy.egress:
        if isinstance(rule, EgressRule) and rule.host == host:
            return rule.address
    return ()


def _least(
    host: str, port: int, start: Profile | None
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """One method and one path by which the connection may be opened, within a rule that allows it."""
    patterns = set(covering_patterns(host))
    for rule in () if start is None else start.policy.egress:
        if (
            isinstance(rule, EgressRule)
            and rule.host in patterns
            and (rule.port, rule.scheme, rule.tls) == (port, Scheme.HTTPS, TLSMode.INSPECT)
        ):
            return (rule.methods or _LEAST[0])[:1], (rule.paths or _LEAST[1])[:1]
    return _LEAST
