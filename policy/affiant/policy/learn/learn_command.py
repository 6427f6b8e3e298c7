"""``affiant policy learn`` drafts the least profile that allows what a decision log says was used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import click

from affiant.command_line import print_json, printable
from affiant.files import write_whole
from affiant.policy.decision_log.log_input import log_name, recorded_in
from affiant.policy.decision_log.reader import RecordedDecision, agents_of
from affiant.policy.editor.completion import complete_agents
from affiant.policy.editor.rule_text import rule_text
from affiant.policy.learn.checked_proposal import Proposal, propose
from affiant.policy.learn.draft import SECTIONS, Draft
from affiant.policy.learn.draft_text import Source, use_text
from affiant.policy.learn.learned import Learned, LearningRefused, Seen, Use, learn
from affiant.policy.loading.policy_file import read_profiles
from affiant.policy.loading.profile_set import ProfileSet
from affiant.policy.rendering.terminal import check_floor_unused, floor_option

__all__ = ["learn_policy"]


@click.command("learn")
@click.option(
    "--log",
    "logs",
    type=click.File("rb"),
    multiple=True,
    required=True,
    help="Decision log to learn from; - is standard input. Repeatable.",
)
@click.option(
    "--from",
    "start",
    type=click.Path(path_type=Path),
    help="Restrict this file: propose nothing that it does not allow.",
)
@click.option("--agent", help="Draft only this agent's profile.", shell_complete=complete_agents("start"))
@click.option(
    "--generalize-paths",
    type=click.IntRange(1, 32),
    metavar="N",
    help="Replace paths of more than N segments by the subtree below the first N. Default: every path is exact.",
)
@click.option(
    "--keep",
    type=click.Choice(SECTIONS),
    multiple=True,
    help="Keep this section of --from unchanged. Repeatable.",
)
@click.option(
    "--include-denied", is_flag=True, help="Also propose what was denied because no rule allowed it."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write. An existing file is never replaced.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document that includes the draft.")
@floor_option
def learn_policy(
    *,
    floor: Path | None,
    logs: tuple[BinaryIO, ...],
    start: Path | None,
    agent: str | None,
    generalize_paths: int | None,
    keep: tuple[str, ...],
    include_denied: bool,
    output: Path | None,
    as_json: bool,
) -> None:
    """Draft the least profile that allows what agents were seen to use.

    Logs come from 'affiant run --decisions FILE' (egress, secrets, files) and 'affiant gateway serve --decisions FILE'
    (models, tools). A gateway's log needs --from, which names the agent of each line. The draft is a proposal: comments
    say why each rule is there, what was denied, and what was never used. An agent may need more in its next run: read
    the draft, and keep what you know is needed.

    Exit codes: 0 drafted; 1 a file or a line of a log is rejected, or nothing can be drafted from it; 2 the
    command line is wrong.

    \b
    Examples:
      affiant policy learn --log run.jsonl --log gateway.jsonl --from profiles.yaml -o proposal.yaml
      affiant policy diff profiles.yaml proposal.yaml
      affiant policy learn --log decisions.jsonl --generalize-paths 2
      affiant policy learn --log monday.jsonl --log tuesday.jsonl --from profiles.yaml --keep models --json
    """
    if keep and start is None:
        raise click.UsageError("--keep needs --from: it names the file whose sections are kept")
    if start is None:
        check_floor_unused(instead="name the profile file by --from")
    if output is not None and output.exists():
        raise click.UsageError(
            f"{printable(str(output))} exists already: choose another file for the proposal"
        )
    profiles = None if start is None else read_profiles(start, floor=floor)
    learned = learn(_recorded(logs, profiles, agent), start=profiles, paths_below=generalize_paths)
    if not learned.agents:
        raise LearningRefused("no log has a decision of this agent", found=agent)
    source = Source(
        tuple(map(log_name, logs)),
        profiles,
        tuple(_options(generalize_paths, keep, include_denied=include_denied)),
    )
    proposal = propose(learned, source, keep=frozenset(keep), include_denied=include_denied)
    if output is not None:
        _write(output, proposal.text)
    if as_json:
        print_json(_document(proposal, learned, source))
    elif output is None:
        click.echo(proposal.text, nl=False)
    else:
        click.echo(_summary(proposal, learned, output))


def _recorded(
    logs: tuple[BinaryIO, ...], profiles: ProfileSet | None, agent: str | None
) -> Iterator[RecordedDecision]:
    agents = {} if profiles is None else agents_of(profiles)
    return (each for each in recorded_in(logs, agents=agents) if agent is None or each.agent == agent)


def _options(paths_below: int | None, keep: tuple[str, ...], *, include_denied: bool) -> Iterator[str]:
    if paths_below is not None:
        yield f"As asked, paths of more than {paths_below} segments stand for all below (--generalize-paths)."
    for section in dict.fromkeys(keep):
        yield f"As asked, {section} is as it was (--keep)."
    if include_denied:
        yield "As asked, what nothing allowed is allowed here, and marked DENIED (--include-denied)."


def _write(path: Path, text: str) -> None:
    try:
        write_whole(path, text.encode(), replace=False)
    except OSError as error:
        raise LearningRefused("the draft cannot be written", where=str(path), found=error.strerror) from error


def _summary(proposal: Proposal, learned: Learned, output: Path) -> str:
    rules = sum(len(entries) for draft in proposal.drafts for entries in draft.sections.values())
    withheld = sum(len(draft.withheld) for draft in proposal.drafts)
    unused = sum(len(draft.unused) for draft in proposal.drafts)
    return printable(
        f"{output}: a proposal of {rules} rules for {len(proposal.profiles.profiles)} agents from "
        f"{learned.seen.count} decisions; {unused} rules are left out as unused, {withheld} requests need a "
        "reviewer's yes"
    )


# -- JSON --------------------------------------------------------------------------------------------------------------


def _document(proposal: Proposal, learned: Learned, source: Source) -> Mapping[str, object]:
    start = source.start
    return {
        "proposal": True,
        "from": None if start is None else {"file": start.source, "digest": start.digest},
        "logs": list(source.logs),
        "digest": proposal.profiles.digest,
        "decisions": learned.seen.count,
        "agents": {draft.agent: _agent(draft, learned) for draft in proposal.drafts},
        "draft": proposal.text,
    }


def _agent(draft: Draft, learned: Learned) -> Mapping[str, object]:
    agent = learned.agents[draft.agent]
    return {
        "decisions": agent.decisions,
        "rules": {
            section: [
                {
                    "rule": rule_text(entry.rule),
                    "note": entry.note,
                    "seen": None if entry.seen is None else _seen(entry.seen),
                }
                for entry in entries
            ]
            for section, entries in draft.sections.items()
        },
        "withheld": [
            {
                **_use(each.use, each.seen),
                "section": each.section,
                "why": each.why,
                "rules": [rule_text(entry.rule) for entry in each.entries],
            }
            for each in draft.withheld
        ],
        "offered": [_use(use, seen) for use, seen in agent.offered.items()],
        "unused": [{"id": name, "rule": rule_text(rule)} for name, rule in draft.unused],
        "not_listed": agent.unlisted,
        "notes": draft.notes,
    }


def _use(use: Use, seen: Seen) -> Mapping[str, object]:
    return {"request": use_text(use), **_seen(seen), "reasons": sorted(seen.reasons)}


def _seen(seen: Seen) -> Mapping[str, object]:
    return {"count": seen.count, "first": seen.first, "last": seen.last}
