"""Drafts the least profile that allows what one agent used, from counts.

Rules are exact: one path, method, target, tool and model for each that was used, and no product of lists that was not
asked for (GET of one path and POST of another are two rules). With a profile to start from, a tool keeps the rule that
allowed it, arguments and all; denials and demands for approval stay as they are; and nothing is proposed that it does
not allow, unless what was denied is to be included. A denial by a rule is never included: a person wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from affiant.errors import AffiantError
from affiant.policy.decision.questions import (
    EgressQuestion,
    ModelQuestion,
    PathQuestion,
    PortQuestion,
    ProviderToolQuestion,
    Question,
    SecretQuestion,
    StartQuestion,
    ToolQuestion,
    plane_of,
)
from affiant.policy.learn.draft_hosts import HostEntry, connections, host_entries
from affiant.policy.learn.draft_rules import (
    Entry,
    demands_beside,
    is_judged_by,
    is_unspeakable,
    limited_rules,
    marked_denied,
    model_entries,
    most_tokens,
    path_entries,
    port_entries,
    provider_tool_entries,
    rules_behind,
    rules_of,
    secret_rule,
    start_entries,
    tool_entries,
    with_host,
)
from affiant.policy.learn.learned import LearnedAgent, Seen, Use
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model.arguments import Host, Under
from affiant.policy.model.limits import NO_LIMITS, Limits
from affiant.policy.model.profile import (
    Approval,
    EgressDenial,
    Endpoint,
    ModelRule,
    PathGrant,
    PathMode,
    PortDenial,
    ProviderToolDenial,
    Resources,
    Rule,
    SecretGrant,
    StartDenial,
    StartGrant,
    ToolDenial,
    ToolRule,
)
from affiant.policy.model.share import NO_SHARE, Share

__all__ = ["SECTIONS", "Draft", "Withheld", "draft_profile"]

SECTIONS: Final = (
    *("tools", "provider_tools", "filesystem_access", "network_egress", "secrets_access", "models"),
    *("ports", "may_start"),
)
_PLANES: Final[Mapping[str, str]] = dict(
    zip(
        SECTIONS, ("tool", "provider_tool", "path", "egress", "secret", "model", "port", "start"), strict=True
    )
)

_WRITTEN: Final = frozenset(
    {
        "tool_denied",
        "provider_tool_denied",
        "egress_denied",
        "path_carved_out",
        "server_port_denied",
        "start_denied",
    }
)
"""Denied because a rule says so."""
_BY_ARGUMENTS: Final = frozenset(
    {
        "tool_argument_not_listed",
        "tool_argument_missing",
        "tool_argument_refused",
        "tool_arguments_malformed",
    }
)

_ALONE: Final[Mapping[type[Question], Callable[[Use, Seen], Iterable[Entry]]]] = {
    ToolQuestion: tool_entries,
    ProviderToolQuestion: provider_tool_entries,
    PathQuestion: path_entries,
    PortQuestion: port_entries,
}
"""The rule for one use, where nothing else of the profile counts."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """Something that was asked for and is not in the draft: ``entries`` would allow it, if any rule could."""

    use: Use
    seen: Seen
    section: str
    entries: tuple[Entry | HostEntry, ...] = ()
    why: str = ""


@dataclass(slots=True)
class Draft:
    """A proposed profile of one agent. ``unused``: rules of the profile to start from that are left out, by id."""

    agent: str
    sections: dict[str, list[Entry | HostEntry]] = field(default_factory=dict)
    any_model: bool = False
    approval: Approval = field(default_factory=Approval)
    resources: Resources = field(default_factory=Resources)
    limits: Limits = NO_LIMITS
    share: Share = NO_SHARE
    withheld: list[Withheld] = field(default_factory=list)
    unused: list[tuple[str, Rule]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def draft_profile(
    agent: str,
    learned: LearnedAgent,
    start: Profile | None,
    *,
    others: frozenset[str] = frozenset(),
    keep: frozenset[str],
    include_denied: bool,
) -> Draft:
    """The draft for ``agent``.

    Args:
        start: its profile to start from; its rules' ids are in ``learned``.
        others: the agents that have a profile in the same draft: a profile may start no others.
        keep: sections of ``start`` that stay as they are.
        include_denied: what was denied because nothing allowed it is in the draft too, and marked.
    """
    return _Drafting(learned, start, keep, include_denied, Draft(agent), others).run()


@dataclass(slots=True)
class _Drafting:
    learned: LearnedAgent
    start: Profile | None
    keep: frozenset[str]
    include_denied: bool
    draft: Draft
    others: frozenset[str]
    used_ids: set[str] = field(default_factory=set)

    def run(self) -> Draft:
        if self.start is not None:
            self.draft.approval, self.draft.resources = (
                self.start.policy.approval,
                self.start.policy.resources,
            )
            self.draft.limits = self.start.policy.limits
            self.draft.share = self.start.compiled.share
        makers: Mapping[str, Callable[[], Iterable[Entry | HostEntry]]] = {
            "tools": self._tools,
            "provider_tools": self._provider_tools,
            "filesystem_access": self._files,
            "network_egress": self._hosts,
            "secrets_access": self._secrets,
            "models": self._models,
            "ports": self._ports,
            "may_start": self._starts,
        }
        for section, make in makers.items():
            kept = self._kept(section)
            self.draft.sections[section] = list(make()) if kept is None else kept
            self._note_silence(section)
        self._withhold()
        self._list_unused()
        return self.draft

    # -- what stays as it is -----------------------------------------------------------------------------------

    def _kept(self, section: str) -> list[Entry | HostEntry] | None:
        """The rules of a section that stays as it is, with the reason; None if it does not."""
        why = "kept as it was" if section in self.keep else self._needed_by_arguments(section)
        if self.start is None or not why:
            return None
        if section == "models" and self.start.policy.models is None:
            self.draft.any_model = True
        rules = rules_of(self.start, section)
        self.used_ids |= rules.keys()
        return [Entry(rule, note=why) for rule in rules.values() if self._can_be_kept(rule)]

    def _can_be_kept(self, rule: object) -> bool:
        if isinstance(rule, SecretGrant):
            return bool(rule.hosts)  # another draft could give it a host
        if isinstance(rule, StartGrant) and rule.agent not in self.others:
            self.draft.notes.append(
                f"may_start: {rule.agent} is left out, because this draft has no such agent"
            )
            return False
        return True

    def _needed_by_arguments(self, section: str) -> str:
        """Paths and hosts among a tool's arguments are judged by the rules for files and hosts too."""
        wanted = {"filesystem_access": Under, "network_egress": Host}.get(section)
        for entry in self.draft.sections.get("tools", ()):
            if wanted is not None and isinstance(entry, Entry) and isinstance(entry.rule, ToolRule):
                for argument in entry.rule.arguments or ():
                    if is_judged_by(argument.constraint, wanted):
                        return f"kept as it was: arguments of {entry.rule.name} are judged by it"
        return ""

    def _note_silence(self, section: str) -> None:
        """A log without any decision of a plane may come from a component that does not decide there."""
        if self.start is None or _PLANES[section] in self.learned.planes or section in self.keep:
            return
        if rules_of(self.start, section) or (section == "models" and self.start.policy.models is None):
            self.draft.notes.append(
                f"the log has no decision about {section}: if nothing there was asked for, that is right; if nobody "
                f"recorded it, --keep {section}"
            )

    # -- what was used -----------------------------------------------------------------------------------------

    def _of(self, kind: type, uses: Mapping[Use, Seen]) -> Iterator[tuple[Use, Seen]]:
        return ((use, seen) for use, seen in uses.items() if isinstance(use.question, kind))

    def _by_rule(self, kind: type) -> dict[str, Seen]:
        """What each rule of the start was used for."""
        found: dict[str, Seen] = {}
        for _, seen in self._of(kind, self.learned.used):
            for rule in seen.rules:
                found.setdefault(rule, Seen()).join(seen)
        self.used_ids.update(found)
        return found

    def _tools(self) -> Iterator[Entry]:
        if self.start is None:
            for use, seen in self._of(ToolQuestion, self.learned.used):
                yield from self._said(use, seen, "tools", tool_entries)
            return
        used = self._by_rule(ToolQuestion)
        rules = rules_of(self.start, "tools")
        allowing = [rule for name, rule in rules.items() if name in used and isinstance(rule, ToolRule)]
        beside = demands_beside(self.start, (*allowing, *self._included_tools()))
        self.used_ids |= beside
        for name, rule in rules.items():
            if isinstance(rule, ToolDenial):
                yield Entry(rule, note="kept: a denial")
            elif name in used:
                yield Entry(rule, used[name])
            elif name in beside:
                yield Entry(rule, note="kept: a demand for approval")

    def _included_tools(self) -> Iterator[ToolRule]:
        """The rules for tools that were denied and are in the draft nevertheless."""
        for use, seen in self._of(ToolQuestion, self.learned.denied if self.include_denied else {}):
            with suppress(AffiantError):  # no rule can name it
                entries, why = self._proposal(use, seen)
                yield from (each.rule for each in entries if not why and isinstance(each.rule, ToolRule))

    def _files(self) -> Iterator[Entry]:
        modes: dict[str, tuple[PathMode, Seen]] = {}
        for use, seen in self._of(PathQuestion, self.learned.used):
            assert isinstance(use.question, PathQuestion)
            path, mode = use.question.path, use.question.mode
            if path in modes:
                mode = PathMode.READ_WRITE if PathMode.READ_WRITE in (mode, modes[path][0]) else mode
                seen.join(modes[path][1])
            modes[path] = mode, seen
            self.used_ids |= seen.rules
        for path, (mode, seen) in modes.items():
            use = Use(PathQuestion(path, mode))
            yield from self._said(use, seen, "filesystem_access", path_entries)
        yield from self._carve_outs()

    def _carve_outs(self) -> Iterator[Entry]:
        if self.start is not None:
            for rule in self.start.policy.filesystem:
                if rule.mode is PathMode.NONE:
                    yield Entry(rule, note="kept: a denial")
            return
        for use, seen in self._of(PathQuestion, self.learned.denied):
            assert isinstance(use.question, PathQuestion)
            if "path_carved_out" in seen.reasons:
                yield Entry(PathGrant(use.question.path, PathMode.NONE), note="kept: the sandbox masks it")

    def _hosts(self) -> Iterator[Entry | HostEntry]:
        found = list(self._of(EgressQuestion, self.learned.used))
        for _, seen in found:
            self.used_ids |= seen.rules
        known = {use for use, _ in found}
        for use, seen in connections(self._of(SecretQuestion, self.learned.used)):
            if use not in known:
                found.append((use, seen))
        for use, seen in found:
            if is_unspeakable(use):
                self._cannot(use, seen, "network_egress", "a rule cannot name a path with *")
        limited = limited_rules(self.start, found)
        for rule_id, seen in limited.items():
            assert self.start is not None
            yield Entry(self.start.policy.rules[rule_id], seen, "kept whole: it counts what it lets through")
        spoken = [
            (use, seen)
            for use, seen in found
            if not is_unspeakable(use) and not set() < rules_behind(use, seen, self.start) <= limited.keys()
        ]
        entries, refused = host_entries(spoken, self.start)
        yield from entries
        for use, seen, why in refused:
            self._cannot(use, seen, "network_egress", why)
        if self.start is not None:
            for rule in self.start.policy.egress:
                if isinstance(rule, EgressDenial):
                    yield Entry(rule, note="kept: a denial")

    def _secrets(self) -> Iterator[Entry]:
        granted = {} if self.start is None else {grant.name: grant for grant in self.start.policy.secrets}
        found: dict[str, tuple[set[Endpoint], str | None, Seen]] = {}
        for use, seen in self._of(SecretQuestion, self.learned.used):
            assert isinstance(use.question, SecretQuestion)
            name, at = use.question.name, Endpoint(use.question.host, use.question.port)
            hosts, surface, total = found.setdefault(name, (set(), use.surface, Seen()))
            if name not in granted and surface != use.surface:
                self._cannot(use, seen, "secrets_access", "a secret has one place in all requests")
                continue
            hosts.add(at)
            total.join(seen)
            self.used_ids |= seen.rules
        for name, (hosts, surface, total) in found.items():
            try:
                rule, note = secret_rule(name, tuple(sorted(hosts)), surface, granted.get(name))
            except AffiantError as error:  # a name that is none, or reads like a value; too many hosts
                for use, seen in self._of(SecretQuestion, self.learned.used):
                    if isinstance(use.question, SecretQuestion) and use.question.name == name:
                        self._cannot(use, seen, "secrets_access", f"no rule can name it: {error.message}")
            else:
                yield Entry(rule, total, note)

    def _provider_tools(self) -> Iterator[Entry]:
        for use, seen in self._of(ProviderToolQuestion, self.learned.used):
            self.used_ids |= seen.rules
            yield from self._said(use, seen, "provider_tools", provider_tool_entries)

    def _ports(self) -> Iterator[Entry]:
        """Drafts each port alone, because a log does not show ranges."""
        for use, seen in self._of(PortQuestion, self.learned.used):
            self.used_ids |= seen.rules
            yield from self._said(use, seen, "ports", port_entries)
        for rule in () if self.start is None else self.start.policy.ports:
            if isinstance(rule, PortDenial):
                yield Entry(rule, note="kept: a denial")

    def _starts(self) -> Iterator[Entry]:
        """A rule of the start stays as it is, with how many it allows."""
        for use, seen in self._of(StartQuestion, self.learned.used):
            self.used_ids |= seen.rules
            if isinstance(use.question, StartQuestion) and use.question.name not in self.others:
                self._cannot(use, seen, "may_start", "this draft has no profile of that agent")
                continue
            rules = {} if self.start is None else self.start.policy.rules
            known = [Entry(rules[rule], seen) for rule in seen.rules if rule in rules]
            yield from known or self._said(use, seen, "may_start", start_entries)
        for rule in () if self.start is None else self.start.policy.may_start:
            if isinstance(rule, StartDenial):
                yield Entry(rule, note="kept: a denial")

    def _models(self) -> Iterator[Entry]:
        names: dict[str, tuple[bool, Seen]] = {}
        for use, seen in self._of(ModelQuestion, self.learned.used):
            assert isinstance(use.question, ModelQuestion)
            attested, total = names.setdefault(use.question.name, (True, Seen()))
            total.join(seen)
            names[use.question.name] = attested and use.attested, total
            self.used_ids |= seen.rules
        for name, (attested, total) in names.items():
            use = Use(ModelQuestion(name), attested=attested)
            for entry in self._said(use, total, "models", model_entries):
                assert isinstance(entry.rule, ModelRule)
                yield replace(
                    entry,
                    rule=replace(entry.rule, max_tokens=most_tokens(name, self.start, attested=attested)),
                )

    # -- what was not ------------------------------------------------------------------------------------------

    def _said(
        self, use: Use, seen: Seen, section: str, make: Callable[[Use, Seen], Iterable[Entry]]
    ) -> Iterator[Entry]:
        try:
            yield from list(make(use, seen))
        except AffiantError as error:
            self._cannot(use, seen, section, f"no rule can name it: {error.message}")

    def _cannot(self, use: Use, seen: Seen, section: str, why: str) -> None:
        self.draft.withheld.append(Withheld(use, seen, section, why=why))

    def _withhold(self) -> None:
        for use, seen in (*self.learned.denied.items(), *self.learned.asked.items()):
            section = next(name for name, plane in _PLANES.items() if plane_of(use.question) == plane)
            if section == "filesystem_access" and seen.reasons == {"path_carved_out"}:
                continue  # the sandbox's own masks, not a request
            try:
                entries, why = self._proposal(use, seen)
            except AffiantError as error:
                entries, why = (), f"no rule can name it: {error.message}"
            if self.include_denied and entries and not why:
                self._include(section, entries, use)
            else:
                self.draft.withheld.append(Withheld(use, seen, section, entries, why))

    def _include(self, section: str, entries: tuple[Entry | HostEntry, ...], use: Use) -> None:
        listed = self.draft.sections[section]
        names = {each.rule.name for each in listed if isinstance(each.rule, SecretGrant)}
        for entry in entries:
            if isinstance(entry.rule, SecretGrant) and entry.rule.name in names:
                listed[:] = [with_host(each, use) for each in listed]
            else:
                listed.append(entry)

    def _proposal(self, use: Use, seen: Seen) -> tuple[tuple[Entry | HostEntry, ...], str]:
        """What would allow a use that was denied, and why that is for a person alone to write; '' if it is not."""
        if seen.reasons & _WRITTEN:
            return (), "a rule denies it"
        if seen.reasons & _BY_ARGUMENTS:
            return (), "a rule for its arguments refused it"
        if use in self.learned.asked:
            return (), "a person must approve it"
        match use.question:
            case StartQuestion():
                return (), "a person must write `may_start` rules"
            case ToolQuestion() | ProviderToolQuestion() | PathQuestion() | PortQuestion():
                entries: Iterable[Entry | HostEntry] = _ALONE[type(use.question)](use, seen)
            case ModelQuestion():
                if self.draft.any_model:
                    return (), "any model is allowed already"
                entries = model_entries(use, seen)
            case SecretQuestion(name, host, port):
                granted = (
                    {} if self.start is None else {grant.name: grant for grant in self.start.policy.secrets}
                )
                rule, note = secret_rule(name, (Endpoint(host, port),), use.surface, granted.get(name))
                entries = (Entry(rule, seen, note),)
            case EgressQuestion():
                if is_unspeakable(use):
                    return (), "a rule cannot name a path with *"
                made, refused = host_entries([(use, seen)], self.start)
                if refused:
                    return (), refused[0][2]
                entries = made
        return tuple(marked_denied(entry, seen) for entry in entries), ""

    def _list_unused(self) -> None:
        if self.start is None:
            return
        for section in SECTIONS:
            for name, rule in rules_of(self.start, section).items():
                denial = isinstance(
                    rule, (ToolDenial, ProviderToolDenial, EgressDenial, PortDenial, StartDenial)
                ) or (isinstance(rule, PathGrant) and rule.mode is PathMode.NONE)
                if name not in self.used_ids and not denial:
                    self.draft.unused.append((name, rule))
