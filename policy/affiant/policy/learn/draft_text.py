"""Writes a draft as a YAML profile file that begins with the word PROPOSAL and gives the reason of every rule.

Text of a log is in it as a rule that was checked, or escaped on one line of a comment: text of an agent can
be neither a rule nor the end of a comment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from affiant.policy.canonical.errors import excerpt
from affiant.policy.decision.questions import question_text
from affiant.policy.editor.rule_text import (
    approval_text,
    egress_members,
    flow,
    limits_text,
    resources_text,
    rule_text,
)
from affiant.policy.learn.draft import SECTIONS, Draft, Withheld
from affiant.policy.learn.draft_hosts import HostEntry
from affiant.policy.learn.draft_rules import Entry
from affiant.policy.learn.learned import Learned, Seen, Use
from affiant.policy.loading.profile_set import ProfileSet
from affiant.policy.model.limits import NO_LIMITS
from affiant.policy.model.profile import Approval, Resources
from affiant.policy.model.share import share_members

__all__ = ["Source", "draft_text", "seen_text", "use_text"]

_MAX_COMMENT: Final = 300


@dataclass(frozen=True, slots=True)
class Source:
    """What a draft was made from, as its first lines say it.

    Args:
        logs: names of files. options: those that let it be wider than what was used.
    """

    logs: tuple[str, ...]
    start: ProfileSet | None
    options: tuple[str, ...] = ()


def draft_text(drafts: Sequence[Draft], learned: Learned, source: Source) -> str:
    """The file. It loads as it is."""
    lines = [*_header(learned, source), "version: 1", "agent_configs:"]
    written = [draft for draft in drafts if _is_written(draft, source)]
    if not written:
        lines[-1] += " {}"
    for draft in written:
        lines += _agent(draft)
        lines += _withheld(draft)
        lines += _offered(learned, draft.agent)
        lines += _unused(draft, source)
    for draft in drafts:
        if draft not in written:
            lines.append(
                f"  # {draft.agent} has no profile in {_said(source.start)}: nothing is proposed for it."
            )
            lines += _withheld(draft)
    lines += _unheard(drafts, source)
    return "\n".join(lines) + "\n"


def seen_text(seen: Seen) -> str:
    """How often, and when."""
    times = "once" if seen.count == 1 else f"{seen.count} times"
    if seen.first is None or seen.last is None:
        return times
    if seen.first == seen.last:
        return f"{times}, {_when(seen.first)}"
    return f"{times}, first {_when(seen.first)}, last {_when(seen.last)}"


def use_text(use: Use) -> str:
    """The request as ``parse_question`` reads it."""
    return question_text(use.question)


# -- the file ----------------------------------------------------------------------------------------------------------


def _header(learned: Learned, source: Source) -> Iterator[str]:
    logs = ", ".join(excerpt(name)[1:-1] for name in source.logs)
    count = learned.seen.count
    yield f"# PROPOSAL, drafted by 'affiant policy learn' from {logs}. Nobody has reviewed it."
    yield f"# {'1 decision' if count == 1 else f'{count} decisions'}{_between(learned.seen)}."
    if source.start is not None:
        yield f"# Narrowed from {_said(source.start)}, {source.start.digest}; its tests are not repeated."
    yield "# Allowed is what was used, exactly; what was denied is in comments, and needs a reviewer's yes."
    for option in source.options:
        yield f"# {option}"
    yield "# What a log does not show is not here: compare it with 'affiant policy diff', replay with 'simulate'."


def _between(seen: Seen) -> str:
    if seen.first is None or seen.last is None:
        return ""
    return f", from {_when(seen.first)} to {_when(seen.last)}"


def _is_written(draft: Draft, source: Source) -> bool:
    """Whether the draft may name the agent: one without a profile to start from may do nothing."""
    known = source.start is None or draft.agent in source.start.profiles
    return known or any(draft.sections[section] for section in SECTIONS)


def _agent(draft: Draft) -> Iterator[str]:
    yield f"  {flow(draft.agent)}:"
    for note in draft.notes:
        yield f"    # {note}"
    for section in SECTIONS:
        entries = draft.sections[section]
        if (section == "models" and draft.any_model) or (
            section in ("provider_tools", "ports", "may_start") and not entries
        ):
            continue
        if not entries:
            yield f"    {section}: {'denied' if section == 'network_egress' else '[]'}"
            continue
        yield f"    {section}:"
        for entry in entries:
            yield from _host(entry) if isinstance(entry, HostEntry) else _entry(entry)
    if draft.approval != Approval():
        yield f"    requires_human_approval: {approval_text(draft.approval)}  # kept as it was"
    if draft.limits != NO_LIMITS:
        yield f"    limits: {limits_text(draft.limits)}  # kept as they were"
    for name, value in sorted(share_members(draft.share).items(), reverse=True):
        yield f"    {name}: {value}  # kept as it was"
    if draft.resources != Resources():
        yield f"    resources: {resources_text(draft.resources)}  # kept as it was"


def _entry(entry: Entry) -> Iterator[str]:
    said = [part for part in (entry.note, None if entry.seen is None else seen_text(entry.seen)) if part]
    yield f"      - {rule_text(entry.rule)}  # {'; '.join(said)}"


def _host(entry: HostEntry) -> Iterator[str]:
    if len(entry.paths) == 1:
        note = f"{entry.note}; " if entry.note else ""
        yield f"      - {rule_text(entry.rule)}  # {note}{_path_said(*entry.paths[0])}"
        return
    members = egress_members(replace(entry.rule, paths=None))
    if entry.note:
        yield f"      # {entry.note}"
    for at, (name, value) in enumerate(members.items()):
        yield f"      {'- ' if at == 0 else '  '}{name}: {flow(value)}"
    yield "        paths:"
    for path, seen in entry.paths:
        yield f"          - {flow(path)}  # {_path_said(path, seen)}"


def _path_said(path: str, seen: Seen) -> str:
    return f"{seen_text(seen)}{'; all below: as asked' if path.endswith('/**') else ''}"


# -- comments ----------------------------------------------------------------------------------------------------------


def _withheld(draft: Draft) -> Iterator[str]:
    if not draft.withheld:
        return
    yield "    # Asked for, and not in this draft. What has a rule here needs a reviewer's yes."
    for section in SECTIONS:
        found = [each for each in draft.withheld if each.section == section]
        if found:
            yield f"    # {section}:"
        for each in found:
            yield from _withheld_lines(each)


def _withheld_lines(each: Withheld) -> Iterator[str]:
    reasons = f" [{', '.join(sorted(each.seen.reasons))}]" if each.seen.reasons else ""
    why = f": {each.why}" if each.why else ""
    request = excerpt(use_text(each.use), limit=_MAX_COMMENT)[1:-1]
    yield f"    #   {request}  {seen_text(each.seen)}{reasons}{why}"
    for entry in () if each.why else each.entries:
        yield f"    #     - {rule_text(entry.rule)}"


def _offered(learned: Learned, agent: str) -> Iterator[str]:
    found = learned.agents[agent]
    called = {use.question for use in (*found.used, *found.denied, *found.asked)}
    names = [(use, seen) for use, seen in found.offered.items() if use.question not in called]
    if names:
        yield "    # Offered to a model, and never called:"
    for use, seen in names:
        reasons = f" [{', '.join(sorted(seen.reasons))}]" if seen.reasons else ""
        yield f"    #   {excerpt(use_text(use), limit=_MAX_COMMENT)[1:-1]}  {seen_text(seen)}{reasons}"
    if found.unlisted:
        yield f"    # {found.unlisted} more decisions about other requests, denied or only offered, are not listed."


def _unused(draft: Draft, source: Source) -> Iterator[str]:
    if draft.unused and source.start is not None:
        yield "    # Never used, and left out:"
        places = source.start.profile(draft.agent).places
        for name, rule in draft.unused:
            yield f"    #   {name} at {excerpt(str(places[name]))[1:-1]}: {rule_text(rule)}"


def _unheard(drafts: Iterable[Draft], source: Source) -> Iterator[str]:
    heard = {draft.agent for draft in drafts}
    for name in sorted(() if source.start is None else source.start.profiles.keys() - heard):
        yield f"  # {name}: the log has no decision of it, so it is left out."


def _said(start: ProfileSet | None) -> str:
    return "" if start is None else excerpt(start.source)[1:-1]


def _when(ts: int) -> str:
    try:
        return f"{datetime.fromtimestamp(ts, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return f"second {ts}"
