"""Finds every independent mistake of a profile file, for the person who corrects it.

Loading stops at the first; this goes on, and accepts nothing: it returns refusals, never a policy. What it reads, it
reads alone (an agent, a section, an entry of a list), so that no mistake is reported that follows from another. How
rules of one profile fit together, and whether its tests hold, is asked only where all of them were read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from affiant.errors import AffiantError
from affiant.policy.canonical.errors import located
from affiant.policy.canonical.strict_yaml import ListNode, MapNode, Mark, Member, Node
from affiant.policy.loading.approval_reading import read_approval
from affiant.policy.loading.baseline import BaselinePolicy
from affiant.policy.loading.limit_reading import read_limits
from affiant.policy.loading.load import (
    NO_BASELINE,
    agent_members,
    load_baseline,
    load_profiles,
    read_agent,
    read_profile,
    read_sections,
    read_top,
)
from affiant.policy.loading.sections import (
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
from affiant.policy.loading.share_reading import read_priority, read_weight
from affiant.policy.loading.shown_lines import ShownDocument, show_line
from affiant.policy.model.text_pattern import MAX_WORK_OF_FILE, Work

__all__ = ["MOST_REFUSALS", "every_refusal"]

MOST_REFUSALS: Final = 20

_READERS: Final[Mapping[str, Callable[[Node], object]]] = {
    "tools": lambda node: list(read_tools(node)),
    "provider_tools": lambda node: list(read_provider_tools(node)),
    "filesystem_access": lambda node: list(read_filesystem(node)),
    "network_egress": lambda node: list(read_egress(node)),
    "secrets_access": lambda node: list(read_secrets(node, sinks=())),
    "models": lambda node: list(read_models(node)),
    "ports": lambda node: list(read_ports(node)),
    "may_start": lambda node: list(read_starts(node)),
    "limits": read_limits,
    "weight": read_weight,
    "priority": read_priority,
    "resources": read_resources,
}
"""How a section is read alone; the tests of a profile cannot be, and approvals need to know of the baseline policy."""


def every_refusal(
    data: bytes, *, source: str, floor: bytes | None = None, floor_source: str = "floor.yaml"
) -> tuple[AffiantError, ...]:
    """The refusals of a file, at most :data:`MOST_REFUSALS`, in the order of their places; none if it loads.

    The refusal with which ``load_profiles`` refuses the file is always among them.

    Args:
        data, source, floor, floor_source: as there.
    """
    try:
        load_profiles(data, source=source, floor=floor, floor_source=floor_source)
    except AffiantError as error:
        first = error
    else:
        return ()
    try:
        top = read_top(data, source=source)
        members = agent_members(top)
    except AffiantError:
        return (first,)
    try:
        denials = NO_BASELINE if floor is None else load_baseline(floor, source="floor")
    except AffiantError:  # it is the first refusal, and no profile is held against a part of it
        denials = None
    document = ShownDocument(data)
    found = {_identity(first): first}
    work = Work(MAX_WORK_OF_FILE, "the file")
    for other in (refusal for member in members for refusal in _of_agent(member, denials, work)):
        show_line(other, {source: document})
        found.setdefault(_identity(other), other)
        if len(found) == MOST_REFUSALS:
            break
    return tuple(sorted(found.values(), key=_place))


def _of_agent(member: Member, floor: BaselinePolicy | None, work: Work) -> Iterator[AffiantError]:
    """``work``: what is left for all patterns of the file. Once nothing is, no profile is held together any more."""
    named = list(_refused(partial(read_agent, member)))
    yield from named
    node = member.value
    whole = not named
    for part in _members_alone(node):
        for error in _of_section(part, floor):
            whole = False
            yield error
    if whole and floor is not None and not work.is_spent:
        yield from _refused(partial(read_profile, member.key.text, member.key.mark, node, floor, work=work))


def _members_alone(node: Node) -> Iterator[Node]:
    """A mapping as mappings of one member each."""
    if isinstance(node, MapNode) and node.members:
        for member in node.members:
            yield MapNode((member,), node.mark)
    else:
        yield node


def _of_section(profile: Node, floor: BaselinePolicy | None) -> Iterator[AffiantError]:
    """What is refused in a profile that has one section at most."""
    try:
        sections = read_sections(profile)
    except AffiantError as error:
        yield error
        return
    readers: dict[str, Callable[[Node], object]] = dict(_READERS)
    if floor is not None:
        root = floor.policy.approval.trusted_root
        readers["requires_human_approval"] = partial(read_approval, trusted_root=root)
    for name, node in sections.items():
        if name in readers:
            for part in _entries_alone(node):
                yield from _refused(partial(readers[name], part), where=node.mark)


def _entries_alone(node: Node) -> Iterator[Node]:
    """A list as lists of one entry each."""
    if isinstance(node, ListNode) and node.items:
        for item in node.items:
            yield ListNode((item,), node.mark)
    else:
        yield node


def _refused(read: Callable[[], object], *, where: Mark | None = None) -> Iterator[AffiantError]:
    try:
        if where is None:
            read()
        else:
            with located(where):
                read()
    except AffiantError as error:
        yield error


def _identity(error: AffiantError) -> tuple[str, str | None]:
    return error.code, error.where


def _place(error: AffiantError) -> tuple[int, ...]:
    """Line and column; of another file, such as the baseline policy, before all."""
    numbers = (error.where or "").rsplit(":", 2)[1:]
    return tuple(int(number) for number in numbers) if all(number.isdigit() for number in numbers) else ()
