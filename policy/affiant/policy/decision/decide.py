"""Decides what needs only a lookup: tools, models, paths, ports, agents to start; and defines a decision.

The result of a plane is *deny* if any denial matches or no allow matches; else *ask* if any matching allow, or
the profile, requires approval; else *allow*. Order, specificity and place in the file never matter: adding a
denial only shrinks what is allowed, adding an allow only grows it. Nothing here reads a clock, a file or the
network, and every reason has a stable code (:data:`REASONS`).
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from operator import itemgetter
from types import MappingProxyType
from typing import Final, NamedTuple

from affiant.policy.canonical.errors import PathRefused
from affiant.policy.canonical.paths import above, canonical_path, covers
from affiant.policy.canonical.tool_origin import ANY, Origin
from affiant.policy.model.arguments import Argument, Host, Under, missed, places_in
from affiant.policy.model.profile import (
    ModelRule,
    PathGrant,
    PathMode,
    PortDenial,
    PortGrant,
    ProviderTool,
    ProviderToolDenial,
    StartDenial,
    StartGrant,
    ToolDenial,
    ToolRule,
)

__all__ = [
    "REASONS",
    "Decision",
    "Effect",
    "ModelPlane",
    "PathPlane",
    "PortPlane",
    "ProviderToolPlane",
    "StartPlane",
    "ToolPlane",
    "without_approver",
]

REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "allowed": "a rule allows it",
        "approval_required": "a rule allows it once a person has approved it",
        "approval_no_approver": "a person must approve it, and the profile names no approver",
        "tool_not_listed": "the profile does not list this tool",
        "tool_denied": "a rule denies this tool",
        "tool_other_server": "the rule for this tool names another server than the one that serves it",
        "tool_schema_changed": "the tool's name, description and arguments are not those that were agreed to",
        "tool_argument_not_listed": "the rule for this tool does not list one of the arguments",
        "tool_argument_missing": "the rule for this tool demands an argument that is not there",
        "tool_argument_refused": "an argument has a value that the rule for this tool does not allow",
        "tool_arguments_malformed": "the arguments are not one JSON object that every reader reads alike",
        "provider_tool_not_listed": "the profile does not list this tool of the provider",
        "provider_tool_denied": "a rule denies this tool of the provider",
        "provider_tool_unshowable": (
            "the profile demands approval, and no approver can be shown what the provider will do"
        ),
        "model_not_listed": "the profile does not list this model",
        "model_upstream_unattested": "the profile wants this model at an attested upstream only",
        "path_not_listed": "no rule covers this path",
        "path_read_only": "the path may be read, not written",
        "path_carved_out": "a rule with mode none covers this path",
        "path_not_canonical": "the path is not absolute and canonical",
        "host_not_canonical": "the host is not a canonical name",
        "host_not_listed": "no rule covers this host",
        "port_not_listed": "no rule covers this port of the host",
        "scheme_not_listed": "the host may not be reached with this scheme",
        "method_forbidden": "no rule can allow this method",
        "method_not_listed": "no rule covers this method at the host",
        "target_not_canonical": "the request target is not in its canonical form",
        "target_not_listed": "no rule covers this path at the host",
        "egress_denied": "a rule denies this host, or this request to it",
        "fetch_not_counted": "the rule or the profile has limits, and what a model server fetches is not counted",
        "secret_not_listed": "the profile does not list this secret",
        "secret_no_sink": "the profile has no https host at which this secret may be used",
        "secret_not_bound": "the secret is not bound to this host and port",
        "secret_plain_http": "a secret never travels without TLS",
        "secret_passthrough": "a secret is not used inside a connection that is not inspected",
        "secret_surface": "the secret may not stand in this part of the request",
        "server_port_not_listed": "the profile does not list this port of the agent's own servers",
        "start_not_listed": "the profile does not list this agent among those that it may start",
        "start_denied": "a rule denies starting this agent",
        "server_port_denied": "a rule denies this port of the agent's own servers",
    }
)
"""Every reason code and what it says to a person."""


class Effect(StrEnum):
    """What is to be done with a request."""

    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"


_ASK: Final = Effect.ASK  # of an enumeration, Python 3.11 looks up a member as slowly as a method


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to one request.

    ``rules`` are the ids of the rules that decided, in the order of the normal form (``tools/0`` is its member
    ``tools``, entry 0); empty where nothing allows. ``nearest`` is then the allow that came closest, if any.
    """

    effect: Effect
    reason: str
    rules: tuple[str, ...] = ()
    nearest: str | None = None

    @property
    def allowed(self) -> bool:
        """Whether the request may go on."""
        return self.effect is Effect.ALLOW

    @property
    def text(self) -> str:
        """The reason as a person reads it."""
        return REASONS[self.reason]


def without_approver(decision: Decision) -> Decision:
    """``decision`` without an approver: what needs approval is denied."""
    if decision.effect is not _ASK:
        return decision
    return denied("approval_no_approver", decision.rules)


@lru_cache(maxsize=4096)
def granted(rules: tuple[str, ...], *, ask: bool) -> Decision:
    """The decision of allows that match, none of them denied."""
    if ask:
        return Decision(Effect.ASK, "approval_required", rules)
    return Decision(Effect.ALLOW, "allowed", rules)


@lru_cache(maxsize=4096)
def denied(reason: str, rules: tuple[str, ...] = (), nearest: str | None = None) -> Decision:
    """A denial: by ``rules``, or where nothing allows."""
    return Decision(Effect.DENY, reason, rules, nearest)


class ToolPlane:
    """Tools by exact name, by where they come from, and each by its arguments.

    Every decision about a name is made when it is compiled, except where a rule names a server or a definition.
    """

    __slots__ = ("_ask", "_decisions", "_rules", "pins_definitions")

    _NOT_LISTED: Final = Decision(Effect.DENY, "tool_not_listed")

    def __init__(self, rules: tuple[ToolRule | ToolDenial, ...], *, ask: bool) -> None:
        self._ask = ask
        self._rules: dict[str, list[_Allowed]] = {}
        denials: dict[str, list[str]] = {}
        for position, rule in enumerate(rules):
            if isinstance(rule, ToolDenial):
                denials.setdefault(rule.name, []).append(f"tools/{position}")
            else:
                self._rules.setdefault(rule.name, []).append(_allowed(f"tools/{position}", rule))
        self._decisions = {
            name: self._granted(found)
            for name, found in self._rules.items()
            if all(rule.server is None and rule.schema is None for rule in found)
        }
        for name, ids in denials.items():
            self._decisions[name] = Decision(Effect.DENY, "tool_denied", tuple(ids))
        self.pins_definitions = any(
            rule.schema is not None for found in self._rules.values() for rule in found
        )
        """Whether a rule names the digest of a tool's definition."""

    def _granted(self, found: Sequence[_Allowed]) -> Decision:
        return granted(
            tuple(rule.id for rule in found), ask=self._ask or any(rule.approval for rule in found)
        )

    def decide(self, name: str, origin: Origin) -> Decision:
        """Whether the tool of exactly this name, from there, may be called with some arguments."""
        known = self._decisions.get(name)
        if known is not None:
            return known
        rules = self._rules.get(name)
        if rules is None:
            return self._NOT_LISTED
        fitting = [rule for rule in rules if rule.misplaced(origin) is None]
        return self._granted(fitting) if fitting else _elsewhere(rules, origin)

    def servers(self, name: str) -> frozenset[str]:
        """The servers that rules name for the tool of this name."""
        return frozenset(rule.server for rule in self._rules.get(name, ()) if rule.server is not None)

    def decide_call(
        self,
        name: str,
        origin: Origin,
        arguments: Mapping[str, object] | None,
        place: Callable[[Under | Host, str], Decision],
    ) -> Decision:
        """Whether it may be called with these.

        Args:
            arguments: None for text that is no JSON.
            place: what the plane of files, or that of egress, says of a path or host among them.
        """
        by_name = self.decide(name, origin)
        if by_name.effect is Effect.DENY:
            return by_name
        fitting, nearest = [], None
        for rule in self._rules[name]:
            if rule.misplaced(origin) is not None:
                continue
            reason, asks = _misfit(rule, arguments, place)
            if reason is None:
                fitting.append(rule._replace(approval=rule.approval or asks))
            elif nearest is None:
                nearest = Decision(Effect.DENY, reason, nearest=rule.id)
        return self._granted(fitting) if nearest is None or fitting else nearest


class _Allowed(NamedTuple):
    """A rule that allows a tool; ``arguments`` by name, None for any."""

    id: str
    approval: bool
    arguments: Mapping[str, Argument] | None
    server: str | None
    schema: str | None

    def misplaced(self, origin: Origin) -> str | None:
        """Why a tool from ``origin`` is not the one that is meant, as a reason code; None if it is."""
        if self.server is not None and origin.server not in (self.server, ANY):
            return "tool_other_server"
        if self.schema is not None and origin.schema not in (self.schema, ANY):
            return "tool_schema_changed"
        return None


def _allowed(rule_id: str, rule: ToolRule) -> _Allowed:
    known = None if rule.arguments is None else {argument.name: argument for argument in rule.arguments}
    return _Allowed(rule_id, rule.approval, known, rule.server, rule.schema)


def _elsewhere(rules: Sequence[_Allowed], origin: Origin) -> Decision:
    """The denial of a tool that each of ``rules`` wants from elsewhere; a changed one is told before another's."""
    reasons = {rule.misplaced(origin): rule.id for rule in reversed(rules)}
    reason = "tool_schema_changed" if "tool_schema_changed" in reasons else "tool_other_server"
    return Decision(Effect.DENY, reason, nearest=reasons[reason])


def _misfit(
    rule: _Allowed, arguments: Mapping[str, object] | None, place: Callable[[Under | Host, str], Decision]
) -> tuple[str | None, bool]:
    """Why a call does not fit ``rule``, as a reason code, None if it does; and whether a path or host in it asks."""
    if rule.arguments is None:
        return None, False
    if arguments is None:
        return "tool_arguments_malformed", False
    reason = missed(rule.arguments, arguments)
    if reason is not None:
        return reason, False
    judged = [place(constraint, value) for constraint, value in places_in(rule.arguments, arguments)]
    reason = next((decision.reason for decision in judged if decision.effect is Effect.DENY), None)
    return reason, any(decision.effect is Effect.ASK for decision in judged)


class ProviderToolPlane:
    """Tools that the model's provider runs, by exact name; where approval is demanded, none: it has nothing to show."""

    __slots__ = ("_decisions",)

    _NOT_LISTED: Final = Decision(Effect.DENY, "provider_tool_not_listed")

    def __init__(self, rules: tuple[ProviderTool | ProviderToolDenial, ...], *, ask: bool) -> None:
        allows: dict[str, list[str]] = {}
        denials: dict[str, list[str]] = {}
        for position, rule in enumerate(rules):
            found = denials if isinstance(rule, ProviderToolDenial) else allows
            found.setdefault(rule.name, []).append(f"provider_tools/{position}")
        self._decisions = {
            name: denied("provider_tool_unshowable", tuple(ids)) if ask else granted(tuple(ids), ask=False)
            for name, ids in allows.items()
        }
        self._decisions |= {name: denied("provider_tool_denied", tuple(ids)) for name, ids in denials.items()}

    def decide(self, name: str) -> Decision:
        """Whether the provider's tool of exactly this name may be used."""
        return self._decisions.get(name, self._NOT_LISTED)


class PortPlane:
    """Ports of the agent's own servers. The session's owner opens them, so a demand for approval does not apply."""

    __slots__ = ("_allows", "_denials")

    _NOT_LISTED: Final = Decision(Effect.DENY, "server_port_not_listed")

    def __init__(self, rules: tuple[PortGrant | PortDenial, ...]) -> None:
        """Of rules as the normal form has them: ranges of one kind have no port in common."""
        self._allows, self._denials = (
            sorted(
                (rule.first, rule.last, f"ports/{at}")
                for at, rule in enumerate(rules)
                if isinstance(rule, kind)
            )
            for kind in (PortGrant, PortDenial)
        )

    def decide(self, number: int) -> Decision:
        """Whether this port may be reached; a value that is not an integer is denied."""
        if type(number) is not int:
            return self._NOT_LISTED
        denials = _met(self._denials, number)
        if denials:
            return denied("server_port_denied", denials)
        allows = _met(self._allows, number)
        return granted(allows, ask=False) if allows else self._NOT_LISTED


def _met(ranges: Sequence[tuple[int, int, str]], number: int) -> tuple[str, ...]:
    """The id of the range that has this port, if one does."""
    at = bisect(ranges, number, key=itemgetter(0)) - 1
    return (ranges[at][2],) if at >= 0 and number <= ranges[at][1] else ()


class StartPlane:
    """Agents of which this one may start sessions, by exact name."""

    __slots__ = ("_decisions",)

    _NOT_LISTED: Final = Decision(Effect.DENY, "start_not_listed")

    def __init__(self, rules: tuple[StartGrant | StartDenial, ...], *, ask: bool) -> None:
        made = [(rule, (f"may_start/{position}",)) for position, rule in enumerate(rules)]
        self._decisions = {
            rule.agent: granted(ids, ask=ask) for rule, ids in made if isinstance(rule, StartGrant)
        }
        self._decisions |= {
            rule.agent: denied("start_denied", ids) for rule, ids in made if isinstance(rule, StartDenial)
        }

    def decide(self, agent: str) -> Decision:
        """Whether a session of exactly this agent may be started."""
        return self._decisions.get(agent, self._NOT_LISTED)


class ModelPlane:
    """Models by exact name; without rules, any. Every decision is made when it is compiled."""

    __slots__ = ("_decisions", "_most")

    _ANY: Final = Decision(Effect.ALLOW, "allowed")
    _NOT_LISTED: Final = Decision(Effect.DENY, "model_not_listed")

    def __init__(self, rules: tuple[ModelRule, ...] | None) -> None:
        self._decisions: dict[str, tuple[Decision, Decision]] | None = None
        self._most: dict[str, tuple[int | None, int | None]] = {}
        if rules is not None:
            found: dict[str, list[tuple[str, bool]]] = {}
            for position, rule in enumerate(rules):
                found.setdefault(rule.name, []).append((f"models/{position}", rule.attested))
            self._decisions = {
                name: (_model(entries, attested=False), _model(entries, attested=True))
                for name, entries in found.items()
            }
            self._most = {
                name: (
                    _largest([rule for rule in rules if rule.name == name and not rule.attested]),
                    _largest([rule for rule in rules if rule.name == name]),
                )
                for name in {rule.name for rule in rules if rule.max_tokens is not None}
            }

    def decide(self, name: str, *, attested: bool) -> Decision:
        """Whether the model of exactly this name may be called at an upstream that is ``attested`` or not."""
        if self._decisions is None:
            return self._ANY
        found = self._decisions.get(name)
        return self._NOT_LISTED if found is None else found[attested]

    def max_tokens(self, name: str, *, attested: bool) -> int | None:
        """The most that a request may ask for as the answers of a model that may be called; None: any number."""
        return self._most.get(name, (None, None))[attested]


def _model(entries: Sequence[tuple[str, bool]], *, attested: bool) -> Decision:
    ids = tuple(rule for rule, needs in entries if attested or not needs)
    if ids:
        return granted(ids, ask=False)
    return denied("model_upstream_unattested", nearest=entries[0][0])


def _largest(rules: Sequence[ModelRule]) -> int | None:
    """The largest ``max_tokens`` of rules; None where one of them has none."""
    mosts = [rule.max_tokens for rule in rules if rule.max_tokens is not None]
    return max(mosts) if mosts and len(mosts) == len(rules) else None


class PathPlane:
    """Paths: the greatest mode of the entries that cover one, unless a carve-out covers it too.

    A path is decided as the nearest path above it that a rule names, and those are decided when it is compiled.
    """

    __slots__ = ("_decisions",)

    _NOT_CANONICAL: Final = Decision(Effect.DENY, "path_not_canonical")

    def __init__(self, rules: tuple[PathGrant, ...]) -> None:
        modes: dict[str, list[tuple[str, PathMode]]] = {}
        for position, rule in enumerate(rules):
            modes.setdefault(rule.path, []).append((f"filesystem/{position}", rule.mode))
        self._decisions = {
            path: _path_decisions([entry for place in above(path) for entry in modes.get(place, ())])
            for path in {"/", *modes}
        }

    def decide(self, path: str, mode: PathMode) -> Decision:
        """Whether ``path`` may be used with ``mode``; any other spelling than the canonical is denied."""
        try:
            place = canonical_path(path)
        except PathRefused:
            return self._NOT_CANONICAL
        while (found := self._decisions.get(place)) is None:
            place = place[: place.rindex("/")] or "/"
        return found.read if mode is _READ else found.write if mode is _WRITE else found.none


_READ: Final = PathMode.READ
_WRITE: Final = PathMode.READ_WRITE


class _Modes(NamedTuple):
    """What is decided of one path, by mode."""

    read: Decision
    write: Decision
    none: Decision


def _path_decisions(covering: Sequence[tuple[str, PathMode]]) -> _Modes:
    """What the entries that cover a path, nearest first, say of each mode."""
    carved = tuple(rule for rule, mode in covering if mode is PathMode.NONE)
    none = denied("path_carved_out", carved)
    if carved:
        return _Modes(none, none, none)
    if not covering:
        unlisted = denied("path_not_listed")
        return _Modes(unlisted, unlisted, none)
    read, write = (
        _use([rule for rule, given in covering if _includes(given, mode)], nearest=covering[0][0])
        for mode in (_READ, _WRITE)
    )
    return _Modes(read, write, none)


def _use(sufficient: Sequence[str], *, nearest: str) -> Decision:
    return granted(tuple(sufficient), ask=False) if sufficient else denied("path_read_only", nearest=nearest)


def _includes(granted_mode: PathMode, mode: PathMode) -> bool:
    return granted_mode is PathMode.READ_WRITE or granted_mode is mode


def mounts(rules: tuple[PathGrant, ...]) -> tuple[PathGrant, ...]:
    """What a sandbox mounts, parents first: each path once, with its effective mode, and the carve-outs.

    An entry that adds nothing to the nearest entry above it is left out; so is everything below a carve-out.
    """
    result: dict[str, PathMode] = {}
    modes: dict[str, set[PathMode]] = {}
    for rule in rules:
        modes.setdefault(rule.path, set()).add(rule.mode)
    for path in sorted(modes, key=lambda text: text.split("/")):
        over = [mode for place, mode in result.items() if covers(place, path)]
        if PathMode.NONE in over:
            continue
        wanted = next(
            mode for mode in (PathMode.NONE, PathMode.READ_WRITE, PathMode.READ) if mode in modes[path]
        )
        if wanted is PathMode.NONE or not any(_includes(mode, wanted) for mode in over):
            result[path] = wanted
    return tuple(PathGrant(path, mode) for path, mode in result.items())
