"""The verdict over several bundles as text: what holds for all of them first, then each one's own report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from affiant.attestation.verdict.lines import quoted, wrapped
from affiant.attestation.verdict.verdict import State
from affiant.attestation.verifier.combined import CombinedVerdict, Judged
from affiant.attestation.verifier.report.banner import banner_rows, is_verified
from affiant.attestation.verifier.report.text import population_lines, render, table_lines

__all__ = ["head_of_several", "render_several"]

_MAX_NAME: Final = 1000


def render_several(verdict: CombinedVerdict) -> str:
    """The whole report, lines of at most 100 columns, with a final newline."""
    return "\n".join(_lines(verdict)) + "\n"


def _lines(verdict: CombinedVerdict) -> Iterator[str]:
    for name, value in head_of_several(verdict):
        yield from wrapped(f"{name:<17}", value)
    yield ""
    yield from population_lines(verdict.population)
    yield ""
    for number, each in enumerate(verdict.judged, start=1):
        yield from _one_line(number, each)
    yield ""
    yield from table_lines(verdict.across)
    for number, each in enumerate(verdict.judged, start=1):
        yield ""
        yield from wrapped(f"== {number} of {len(verdict.judged)}  ", quoted(each.file, limit=_MAX_NAME))
        yield from render(each.verdict).splitlines()
    yield ""
    yield from _end(verdict)


def head_of_several(verdict: CombinedVerdict) -> tuple[tuple[str, str], ...]:
    """The facts that stand first: name and value."""
    rows = [check for each in verdict.judged for check in each.verdict.checks] + list(verdict.across)
    off = {check.code for check in rows if not check.required}
    not_made = {check.code for check in rows if check.state is State.NOT_MADE}
    not_asked = {check.code for check in rows if check.state is State.NOT_ASKED}
    return (
        ("bundles", str(len(verdict.judged))),
        *banner_rows(verdict),
        ("judged at", verdict.at),
        ("verifier", verdict.build),
        ("trust file", verdict.trust),
        ("unwitnessed", _unwitnessed(verdict)),
        ("exceptions", str(sum(1 for each in verdict.judged for _ in each.verdict.exceptions()))),
        ("requirements off", ", ".join(sorted(off)) or "none"),
        ("not made", ", ".join(sorted(not_made)) or "none"),
        ("not asked", ", ".join(sorted(not_asked)) or "none"),
    )


def _unwitnessed(verdict: CombinedVerdict) -> str:
    longest = verdict.unwitnessed
    if longest is None:
        return "not known of any bundle"
    without = sum(1 for each in verdict.judged if each.verdict.unwitnessed is None)
    apart = f"; not known of {without} bundle{'s' * (without != 1)}" if without else ""
    return f"at most {longest.verdict.stretch} in {quoted(longest.file, limit=_MAX_NAME)}{apart}"


def _one_line(number: int, judged: Judged) -> Iterator[str]:
    verdict = judged.verdict
    platform = verdict.platform.upper() if verdict.simulated else verdict.platform
    head = f"{number:>4}  {verdict.outcome:<17}{platform:<20}{verdict.level or '-':<4}"
    yield from wrapped(head, quoted(judged.file, limit=_MAX_NAME))
    refused = next((check for check in verdict.checks if check.state is State.REFUSED), None)
    if refused is not None:
        yield from wrapped(" " * len(head), f"[{refused.reason}] {refused.detail}")


def _end(verdict: CombinedVerdict) -> Iterator[str]:
    level = verdict.level or "none reached"
    for check in verdict.across:
        if check.state is State.REFUSED:
            yield from wrapped("REFUSED  ", f"{check.reason}: {check.detail}")
    reached = f"{len(verdict.judged)} bundles: {verdict.outcome}, tier {verdict.tier}, lowest level {level}"
    if verdict.simulated:
        yield f"SIMULATED  {reached}: no evidence of hardware"
    elif is_verified(verdict):
        yield f"VERIFIED  {reached}"
    else:
        yield reached
