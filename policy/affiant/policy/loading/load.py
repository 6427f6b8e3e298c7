"""Loads the YAML of a profile file into profiles: strictly, as a whole, and without I/O.

Either every profile of the file is read as it was written, or the file is refused, with the code, the line and
the column: there is no fallback to a default. An empty file, or an agent without sections, denies everything.

>>> load_profiles(b"agent_configs: {dev: {tools: [run_tests]}}").profile("dev").policy.tools
(ToolRule(name='run_tests', approval=False),)
>>> load_profiles(b"agent_configs: {dev: {tool: [run_tests]}}")
Traceback (most recent call last):
    ...
affiant.errors.MalformedError: profiles.yaml:1:23: unknown key 'tool' in a profile. Did you mean 'tools'?
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import Final

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.errors import AffiantError, ConfigurationError
from affiant.policy.canonical.errors import (
    DocumentTooLarge,
    NameRefused,
    PolicyConflict,
    ValueRefused,
    WrongType,
    did_you_mean,
    excerpt,
    located,
)
from affiant.policy.canonical.names import check_agent_name
from affiant.policy.canonical.strict_yaml import MAX_BYTES, MapNode, Mark, Member, Node, ScalarNode, compose
from affiant.policy.decision.compiled import CompiledPolicy, compile_policy
from affiant.policy.loading.approval_reading import read_approval
from affiant.policy.loading.baseline import BaselinePolicy, read_baseline
from affiant.policy.loading.inline_tests import check_tests
from affiant.policy.loading.limit_reading import read_limits
from affiant.policy.loading.positioned import Sections, at_approval, entry_mark, limit_places, rule_places
from affiant.policy.loading.profile_set import Profile, ProfileSet
from affiant.policy.loading.sections import (
    https_endpoints,
    read_egress,
    read_filesystem,
    read_models,
    read_ports,
    read_provider_tools,
    read_resources,
    read_secrets,
    read_starts,
    read_tools,
)
from affiant.policy.loading.share_reading import read_share
from affiant.policy.loading.shown_lines import ShownDocument, show_line
from affiant.policy.model.arguments import Pattern
from affiant.policy.model.limits import NO_LIMITS
from affiant.policy.model.profile import Approval, Policy, Resources, StartGrant, ToolDenial, ToolRule
from affiant.policy.model.text_pattern import MAX_WORK_OF_FILE, MAX_WORK_OF_PROFILE, Work
from affiant.policy.normal_form import schema
from affiant.policy.normal_form.argument_reading import pattern_places
from affiant.policy.normal_form.digest import set_digest

__all__ = [
    "NO_BASELINE",
    "HoldTests",
    "agent_members",
    "at_baseline_key",
    "floor_file",
    "load_baseline",
    "load_profiles",
    "read_agent",
    "read_profile",
    "read_sections",
    "read_top",
]

_FLOOR_FILE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z")
_SHOWN_OF_CIRCLE: Final = 8
NO_BASELINE: Final = BaselinePolicy(Policy(), None, {}, None)

HoldTests = Callable[[str, Node, CompiledPolicy], None]
"""What is done with the node of an agent's ``tests``; whatever it raises refuses the file."""


def load_profiles(
    data: bytes,
    *,
    source: str = "profiles.yaml",
    floor: bytes | None = None,
    floor_source: str = "floor.yaml",
    hold_tests: HoldTests = check_tests,
) -> ProfileSet:
    """The profiles of a file.

    Args:
        data: the file's bytes, at most 1 MiB of UTF-8.
        source: the name that places in error messages begin with.
        floor: the bytes of the baseline policy's file: the one that ``floor:`` names (:func:`floor_file`), or one that
            the caller names.
        floor_source: the name that places in it begin with, where the file names none.
        hold_tests: called once for each profile that has tests. Another than the default is for a command that reports
            all that do not hold; what it returns is to be looked at, not enforced.

    Raises:
        MalformedError, ConfigurationError: each with a code ``policy.*``, ``where`` and the line there.
    """
    with _shown(data, source):
        top = read_top(data, source=source)
        named = _floor_name(top, source)
        if named is not None and floor is None:
            raise ConfigurationError(
                f"the file names the baseline policy {named!r}, but none was given",
                code="policy.floor",
                where=str(top["floor"].mark),
            )
    denials = NO_BASELINE
    if floor is not None:
        denials = load_baseline(floor, source=named or floor_source)
    with _shown(data, source):
        profiles, work = {}, Work(MAX_WORK_OF_FILE, "the file")
        for name, mark, node in map(read_agent, agent_members(top)):
            profiles[name] = read_profile(name, mark, node, denials, hold_tests, work=work)
        _check_starts(profiles)
    return ProfileSet(
        profiles=MappingProxyType(profiles),
        digest=set_digest({name: profile.digest for name, profile in profiles.items()}),
        source_digest=sha256_name(data),
        source=source,
    )


def floor_file(data: bytes, *, source: str = "profiles.yaml") -> str | None:
    """The name of the file beside this one that holds the baseline policy; None if there is none.

    Raises:
        MalformedError: the document is not YAML as we read it, or the name is not that of a file beside it.
    """
    with _shown(data, source):
        return _floor_name(read_top(data, source=source), source)


@contextmanager
def at_baseline_key(data: bytes, *, source: str) -> Iterator[None]:
    """Give every error inside, of reading the baseline policy's file, the place where the profile file names it."""
    try:
        yield
    except AffiantError as error:
        error.where = str(read_top(data, source=source)["floor"].mark)
        show_line(error, {source: ShownDocument(data)})
        raise


def load_baseline(data: bytes, *, source: str) -> BaselinePolicy:
    """The denials of the baseline policy's file.

    Raises:
        MalformedError, ConfigurationError: as :func:`load_profiles`.
    """
    with _shown(data, source):
        top = _top(data, source, "a baseline policy")
        return read_baseline(top, source=source)


def read_top(data: bytes, *, source: str) -> Mapping[str, Node]:
    """The top level of a profile file, by key."""
    return _top(data, source, "a profile file")


@contextmanager
def _shown(data: bytes, source: str) -> Iterator[None]:
    """Give every error inside the line of the document at its place."""
    try:
        yield
    except AffiantError as error:
        show_line(error, {source: ShownDocument(data)})
        raise


def _top(data: bytes, source: str, what: str) -> Mapping[str, Node]:
    node = compose(data, source=source)
    if node is None or (isinstance(node, ScalarNode) and node.empty):
        return {}
    top = schema.keys(node, what=what)
    if "version" in top and schema.whole_number(top["version"], what="'version'") != 1:
        raise ValueRefused("another version of the format", expected="1", where=str(top["version"].mark))
    return top


def _floor_name(top: Mapping[str, Node], source: str) -> str | None:
    if "floor" not in top:
        return None
    name = schema.text(top["floor"], what="'floor'")
    if _FLOOR_FILE.match(name) is None or name == source:
        raise NameRefused(
            "not the name of a file beside this one", found=excerpt(name), where=str(top["floor"].mark)
        )
    return name


def agent_members(top: Mapping[str, Node]) -> tuple[Member, ...]:
    """The agents of a profile file, with their profiles, unread."""
    node = top.get("agent_configs")
    if node is None or (isinstance(node, ScalarNode) and node.empty):
        return ()
    if not isinstance(node, MapNode):
        raise WrongType("wrong type", expected="a mapping of agents to profiles", where=str(node.mark))
    return node.members


def read_agent(member: Member) -> tuple[str, Mark, Node]:
    """An agent's name, its place, and its profile, unread."""
    with located(member.key.mark):
        check_agent_name(member.key.text)
    return member.key.text, member.key.mark, member.value


def read_sections(node: Node) -> Mapping[str, Node]:
    """The sections of a profile, by name."""
    if isinstance(node, ScalarNode) and node.empty:
        node = MapNode((), node.mark)
    return schema.keys(node, what="a profile")


def read_profile(
    name: str,
    mark: Mark,
    node: Node,
    floor: BaselinePolicy,
    hold_tests: HoldTests = check_tests,
    *,
    work: Work | None = None,
) -> Profile:
    """One agent's profile, with the baseline policy's denials, held against its own tests.

    Args:
        work: what is left for the patterns of the file; None: as much as for those of a profile.
    """
    sections = Sections(read_sections(node))
    works = (
        Work(MAX_WORK_OF_FILE, "the file") if work is None else work,
        Work(MAX_WORK_OF_PROFILE, "a profile"),
    )
    with located(mark), sections.placed():
        compiled = compile_policy(_with_baseline(_policy(sections, floor, works), floor, sections))
        if len(compiled.normal_form) > MAX_BYTES:
            raise DocumentTooLarge(
                "the profile's normal form is too large", expected=f"at most {MAX_BYTES} bytes"
            )
    if "tests" in sections.found:
        hold_tests(name, sections.found["tests"], compiled)
    places = rule_places(compiled.policy, {**floor.places, **sections.places})
    written = sections.found.get("limits")
    places |= limit_places(compiled.policy.limits, floor.limits_at if written is None else written.mark)
    return Profile(name, compiled, mark, MappingProxyType(places))


def _check_starts(profiles: Mapping[str, Profile]) -> None:
    """Refuse an agent that may start one that the file does not have, or that leads back to itself."""
    started: dict[str, dict[str, str]] = {name: {} for name in profiles}
    for name, profile in profiles.items():
        for position, rule in enumerate(profile.policy.may_start):
            if isinstance(rule, StartGrant):
                started[name][rule.agent] = profile.where(f"may_start/{position}")
                if rule.agent not in profiles:
                    raise ConfigurationError(
                        f"'may_start' names {excerpt(rule.agent)}, which has no profile in this file",
                        code="policy.unknown_agent",
                        where=started[name][rule.agent],
                        hint=did_you_mean(rule.agent, profiles),
                    )
    try:
        TopologicalSorter(started).prepare()
    except CycleError as error:
        starter, child, *others = reversed(error.args[1])
        raise PolicyConflict(
            "`may_start` contains a cycle",
            found=" -> ".join((starter, child, *others[:_SHOWN_OF_CIRCLE])),
            where=started[starter][child],
            hint="Take one of them out of 'may_start'",
        ) from error


def _policy(sections: Sections, floor: BaselinePolicy, works: Sequence[Work]) -> Policy:
    """The policy that the sections of one profile say; ``floor`` says under what it judges identities."""
    found = sections.found
    egress = sections.rules("network_egress", read_egress)
    read = partial(read_approval, trusted_root=floor.policy.approval.trusted_root)
    nothing = Approval(), frozenset[str]()
    approval, tools_to_approve = schema.maybe(found.get("requires_human_approval"), read, nothing)
    return Policy(
        tools=_with_approval(
            sections.rules("tools", partial(_priced_tools, works=works)), tools_to_approve, sections
        ),
        filesystem=sections.rules("filesystem_access", read_filesystem),
        egress=egress,
        secrets=sections.rules("secrets_access", partial(read_secrets, sinks=https_endpoints(egress))),
        models=sections.rules("models", read_models) if "models" in found else None,
        approval=approval,
        resources=schema.maybe(found.get("resources"), read_resources, Resources()),
        limits=schema.maybe(found.get("limits"), read_limits, NO_LIMITS),
        share=read_share(found),
        provider_tools=sections.rules("provider_tools", read_provider_tools),
        ports=sections.rules("ports", read_ports),
        may_start=sections.rules("may_start", read_starts),
    )


def _priced_tools(node: Node, *, works: Sequence[Work]) -> Iterator[tuple[ToolRule | ToolDenial, Mark]]:
    """The tools; a pattern that is too large, or too large with those before it, is refused at its place."""
    for item, (rule, mark) in zip(schema.items(node, what="'tools'"), read_tools(node), strict=True):
        for pattern, place in _patterns(item, rule):
            with located(place):
                for work in works:
                    work.spend(pattern.pattern, partial(getattr, pattern, "automaton"))
        yield rule, mark


def _patterns(item: Node, rule: ToolRule | ToolDenial) -> Iterator[tuple[Pattern, Mark]]:
    if isinstance(rule, ToolRule) and rule.arguments:
        yield from pattern_places(item, rule.arguments)


def _with_approval(
    tools: tuple[ToolRule | ToolDenial, ...], asked: frozenset[str], sections: Sections
) -> tuple[ToolRule | ToolDenial, ...]:
    """``tools`` where those that ``requires_human_approval`` names require it; it may name no others."""
    names = {rule.name for rule in tools if isinstance(rule, ToolRule)}
    for name in sorted(asked - names):
        raise ValueRefused(
            f"'requires_human_approval' names the tool {excerpt(name)}, which the profile does not list",
            where=str(entry_mark(sections.found["requires_human_approval"], "tools", name)),
            hint=did_you_mean(name, names),
        )
    result: list[ToolRule | ToolDenial] = []
    for rule in tools:
        if isinstance(rule, ToolRule) and rule.name in asked:
            result.append(replace(rule, approval=True))
            sections.note(result[-1], sections.places[rule])
        else:
            result.append(rule)
    return tuple(result)


def _with_baseline(policy: Policy, floor: BaselinePolicy, sections: Sections) -> Policy:
    """``policy`` with the denials of ``floor``, and its digest."""
    if floor.digest is None:
        return policy
    with at_approval(sections.found.get("requires_human_approval")):
        policy.approval.merged(floor.policy.approval)
    return policy.merged(floor.policy, floor.digest)
