"""The verdict as a table that a person can read.

Strings that come from a bundle are hostile: they are escaped, bounded and quoted, so that none can move the
cursor, colour a line or turn the reading direction (trust rules, 15). The word "verified" stands here only
where hardware evidence was appraised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from affiant.attestation.verdict.actors import Named, counted
from affiant.attestation.verdict.lines import quoted, wrapped
from affiant.attestation.verdict.opening import open_points, sentences
from affiant.attestation.verdict.outcome import LEVELS
from affiant.attestation.verdict.verdict import Check, LevelState, Population, State, Verdict
from affiant.attestation.verifier.report.banner import banner_rows, is_verified
from affiant.attestation.verifier.report.text_changed import changed_lines
from affiant.command_line import printable

__all__ = ["head_lines", "opening_lines", "population_lines", "render", "table_lines"]

_MARKS: Final = {
    State.HELD: "held",
    State.REFUSED: "REFUSED",
    State.NOT_MADE: "not made",
    State.NOT_ASKED: "not asked",
}
_LEVELS: Final = {state: str(state) for state in LevelState} | {LevelState.REFUSED: "REFUSED"}
_MADE: Final = (State.HELD, State.REFUSED)
_MAX_SHOWN: Final = 20
"""Exceptions that the table names."""
_MAX_PEOPLE: Final = 10
_MAX_POINTS: Final = 12
"""Open points before the table, which has all of them."""

_LIMITS: Final = (
    "A receipt says what the measured gateway code saw, did and decided; not that a model computed the answer.",
    "remote-adversary-only: no claim against whoever holds the machine. Time is self-asserted until witnessed.",
)


def render(verdict: Verdict) -> str:
    """The whole report, lines of at most 100 columns, with a final newline."""
    return "\n".join(_lines(verdict)) + "\n"


def _lines(verdict: Verdict) -> Iterator[str]:
    first, *others = verdict.checks
    if first.state is State.REFUSED and (first.reason == "fmt.json" or first.where == ("typ",)):
        yield from wrapped("REFUSED  ", f"no bundle: [{first.reason}] {first.detail} ({verdict.bundle})")
        return
    yield from head_lines(verdict)
    if first.state is State.REFUSED and not any(check.state in _MADE for check in others):
        yield ""
        yield from _end(verdict)  # nothing could be read, so every other row says the same
        return
    yield ""
    yield from opening_lines(verdict)
    yield ""
    yield from population_lines(verdict.population)
    yield from _people(verdict)
    yield ""
    yield from _levels(verdict)
    yield ""
    yield from table_lines(verdict.checks)
    if verdict.changed is not None:
        yield ""
        yield from changed_lines(verdict.changed)
    yield ""
    yield from _end(verdict)


def _codes(checks: Sequence[Check], state: State) -> str:
    return ", ".join(check.code for check in checks if check.state is state) or "none"


def head_lines(verdict: Verdict) -> Iterator[str]:
    """What stands first in every verdict: which bundle, what it comes to, judged when, by whom and for whom; what was
    left out."""
    off = ", ".join(check.code for check in verdict.checks if not check.required)
    rows = (
        ("bundle", verdict.bundle),
        *banner_rows(verdict),
        ("judged at", verdict.at),
        ("time", verdict.whose_time),
        ("verifier", verdict.build),
        ("trust file", verdict.trust),
        ("requirements off", off or "none"),
        ("not made", _codes(verdict.checks, State.NOT_MADE)),
        ("not asked", _codes(verdict.checks, State.NOT_ASKED)),
    )
    for name, value in rows:
        yield from wrapped(f"{name:<17}", value)


def opening_lines(verdict: Verdict) -> Iterator[str]:
    """What happened, then what is not proven, each with what to do about it."""
    yield from wrapped("", " ".join(sentences(verdict.summary, verdict.population, verdict.answers)))
    points = open_points(verdict.checks)
    if not points:
        return
    yield ""
    yield "Not proven, and what to do:"
    for check, means, step in points[:_MAX_POINTS]:
        mark = "REFUSED: it does not hold that " if check.state is State.REFUSED else "that "
        yield from wrapped("  - ", f"{mark}{means}. {step} [{check.code}]")
    if len(points) > _MAX_POINTS:
        yield f"  and {len(points) - _MAX_POINTS} more, in the table"


def population_lines(people: Population) -> Iterator[str]:
    """Two sentences: how many of each, and of which kinds."""
    yield (
        f"{people.receipts} receipts in {people.chains} chains ({people.restarts} restarts); sessions: "
        f"{people.started} started, {people.closed} closed, {people.lost} lost, {people.open} open"
        + (f", {people.foreign} not judged" if people.foreign else "")
    )
    yield f"{people.refusals} refusals"
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted((people.kinds or {}).items()))
    yield from wrapped("of which ", kinds or "nothing")


def _people(verdict: Verdict) -> Iterator[str]:
    yield from wrapped(f"{'unwitnessed':<17}", verdict.stretch)
    yield from _exceptions(verdict)
    for did, unit, those, more in verdict.people.lists():
        head = f"{f'{did} by':<17}"
        if not those:
            yield f"{head}nobody"
        for one in those[:_MAX_PEOPLE]:
            yield from wrapped(head, _named(one, unit))
            head = " " * len(head)
        if (left := max(0, len(those) - _MAX_PEOPLE) + more) > 0:
            yield f"{head}and {left} more"


def _named(one: Named, unit: str) -> str:
    """A person or a key; what a bundle says of them is quoted."""
    said = ", ".join(f"{name} {quoted(value)}" for name, value in one.facts.items())
    first = "" if one.receipt is None else f", first in {quoted(one.receipt)}"
    return f"{said} ({counted(one, unit)}{first})"


def _exceptions(verdict: Verdict) -> Iterator[str]:
    those = list(verdict.exceptions())
    head = f"{'exceptions':<17}"
    if not those:
        yield f"{head}none"
    for check, where in those[:_MAX_SHOWN]:
        what = str(check.tier) if check.reason is None else f"[{check.reason}]"
        yield from wrapped(head, f"{check.code} {what}" + ("" if where is None else f" {quoted(where)}"))
        head = " " * len(head)
    if len(those) > _MAX_SHOWN:
        yield f"{head}and {len(those) - _MAX_SHOWN} more, in --json and --html"


def _levels(verdict: Verdict) -> Iterator[str]:
    for level in LEVELS:
        yield from wrapped(
            f"{level}  {_LEVELS[verdict.level_state(level)]:<10}", verdict.level_meaning(level)
        )


def table_lines(checks: Sequence[Check]) -> Iterator[str]:
    """One row for each check."""
    for check in checks:
        tier = "" if check.tier is None else str(check.tier)
        head = f"{check.code:<20}{_MARKS[check.state]:<10}{tier:<16}"
        detail = check.detail if check.reason is None else f"[{check.reason}] {check.detail}"
        yield from wrapped(head, detail)
        if check.where and check.state is State.HELD:
            yield from wrapped(
                " " * len(head), "receipts: " + ", ".join(repr(printable(jti)) for jti in check.where)
            )


def _end(verdict: Verdict) -> Iterator[str]:
    reached = f"{verdict.outcome}, tier {verdict.tier}, level {verdict.level or 'none reached'}"
    yield from _LIMITS
    refused = next((check for check in verdict.checks if check.state is State.REFUSED), None)
    if refused is not None:
        yield from wrapped("REFUSED  ", f"{refused.reason}: {refused.detail}")
    if verdict.simulated:
        yield "The interpreter and third-party packages were not measured."
        yield f"SIMULATED  {reached}: nothing here is evidence of hardware"
    elif is_verified(verdict):
        yield f"VERIFIED  {reached}"
    else:
        yield f"{reached}, {verdict.platform}"
