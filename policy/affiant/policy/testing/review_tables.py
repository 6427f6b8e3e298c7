"""Tests tried and decisions replayed, as tables for a review's comment (Markdown): no name in them is markup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from affiant.policy.decision_log.simulation import Simulation
from affiant.policy.diff.markup import markdown_text
from affiant.policy.testing.trial_report import TrialReport, decided, limit_line, limits_text, measured

__all__ = ["simulation_markdown", "trial_markdown"]

_MAX_ROWS: Final = 50
"""Of one table: forges refuse comments of more than some 60,000 characters."""
_MAX_CELL: Final = 300


def simulation_markdown(found: Simulation, *, source: str, several: bool = False) -> str:
    """What a change of profiles does to recorded decisions: a row for each group of them, the wider ones first."""
    changed = found.wider + found.narrower
    words = f"{found.decisions} decisions, {changed} change: {found.wider} wider, {found.narrower} narrower"
    groups = sorted(found.groups.values(), key=lambda group: (not group.is_wider, group.agent, -group.count))
    rows = [
        (
            "wider" if group.is_wider else "narrower",
            group.agent,
            f"{group.kind} {group.name}",
            f"{group.before.value} becomes {group.after.value}",
            str(group.count),
            f"{sample.place(several=several)}: {sample.request}",
            ", ".join(place for _, place in sample.rules) or sample.reason,
        )
        for group in groups
        for sample in group.samples[:1]
    ]
    head = ("", "agent", "what", "decision", "times", "first", "rule or reason")
    notes = []
    if found.ungrouped:
        notes.append(f"{found.ungrouped} more changes are counted, and not listed.")
    if found.untold:
        notes.append(
            f"{found.untold} calls are taken to be decided as before: arguments decide, and the log has none."
        )
    return _page(f"{source}: {words}", _table(head, rows), notes)


def trial_markdown(report: TrialReport) -> str:
    """Tests that do not hold, and what was asked to be measured with all that is missing."""
    count = (
        f"{report.count} tests, {len(report.failed)} failed"
        if report.count
        else "no tests: nothing was tried"
    )
    parts = [
        _table(
            ("place", "agent", "wants", "decided"),
            [
                (
                    str(trial.test.mark),
                    tried.profile.name,
                    f"{trial.test.wanted.value} for {trial.test.request}",
                    decided(tried, trial),
                )
                for tried, trial in report.failed
            ],
        )
    ]
    for measure in report.measures:
        parts.append([f"**{measure.name}**: {markdown_text(measure.text)}", ""])
        parts.append(_table(("missing",), [(line,) for line in measured(report, measure)]))
    if report.limits:
        parts.append([f"**limits**: {limits_text(report.limits)}", ""])
        parts.append(_table(("limit",), [(limit_line(each),) for each in report.limits]))
    return _page(f"{report.source}: {count}", [line for part in parts for line in part], [])


def _page(title: str, lines: Sequence[str], notes: Sequence[str]) -> str:
    return "\n".join([f"### {_cell(title)}", "", *lines, *notes]).rstrip("\n") + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [*_rows(head, rows), ""] if rows else []


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for row in rows[:_MAX_ROWS]:
        yield f"| {' | '.join(map(_cell, row))} |"
    if len(rows) > _MAX_ROWS:
        yield f"| and {len(rows) - _MAX_ROWS} more; --json lists all |" + " |" * (len(head) - 1)


def _cell(text: str) -> str:
    return markdown_text(text if len(text) <= _MAX_CELL else f"{text[:_MAX_CELL]}...")
