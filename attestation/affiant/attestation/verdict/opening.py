"""A verdict's opening: what happened, in sentences, and what is not proven, each with what to do about it.

Names come from the bundle; they are escaped and visibly quoted here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from affiant.attestation.verdict.lines import quoted
from affiant.attestation.verdict.summary import TASK_LABEL, Answers, Summary
from affiant.attestation.verdict.verdict import Check, Population, State, Tier
from affiant.attestation.verdict.words import words
from affiant.printable import shown_time

__all__ = ["OpenPoint", "open_points", "sentences"]

_SHOWN: Final = 5


class OpenPoint(NamedTuple):
    """What a check does not prove. ``means``: what would be proven; ``step``: what the reader can do."""

    check: Check
    means: str
    step: str


def sentences(summary: Summary, population: Population, answers: Answers | None = None) -> Iterator[str]:
    """Who ran which agent under which profile and when, what was used and refused, which other model answered, how it
    ended."""
    if summary.began is None or summary.ended is None:
        yield "No record is authentic, so nothing is known of what happened."
        return
    users = _names(summary, "user") or f"known by {_names(summary, 'known_by') or 'nothing'}"
    agents = _names(summary, "agent") or "of an undisclosed name"
    between = f"from {shown_time(summary.began)} to {shown_time(summary.ended)} by the signers' clocks"
    if not population.started:
        yield f"The gateway's own records, {between}: no session is in this bundle."
    elif population.started == 1:
        profile = _names(summary, "profile") or "that is not named here"
        yield f"User {users} ran agent {agents} under profile {profile}, {between}."
    else:
        yield (
            f"{population.started} sessions {between}: users {users}; agents {agents}; "
            f"profiles {_names(summary, 'profile') or 'unknown'}."
        )
    label = [f"{what} {_names(summary, what)}" for what in TASK_LABEL if summary.uses.get(what)]
    if label:
        yield f"Task label: {', '.join(label)}."
    used = [
        f"{one if len(summary.uses[what]) == 1 else several} {_names(summary, what, counted=True)}"
        for what, (one, several) in words("uses").items()
        if summary.uses.get(what)
    ]
    yield f"Used: {'; '.join(used)}." if used else "No use of a model, host, secret or tool is recorded."
    if answers is not None and answers.others:
        yield _answered(answers)
    refused = _names(summary, "refused", counted=True)
    yield f"Refused: {refused}." if refused else "Nothing was refused."
    yield from _endings(summary, population)


def _answered(answers: Answers) -> str:
    """What no alias of the measured configuration explains."""
    pairs = [
        f"asked for {quoted(asked)}, answered by {quoted(named)} ({count})"
        for (asked, named), count in answers.pairs.items()
    ]
    told = "; ".join(pairs) + (f"; others ({answers.left})" if answers.left else "")
    return (
        f"Warning: {answers.others} of {answers.named} answers name another model than was asked for: {told}."
    )


def _endings(summary: Summary, population: Population) -> Iterator[str]:
    if population.started == population.closed == 1:
        for why in summary.uses.get("end", {}):
            said = words("ends").get(why, quoted(why))
            yield f"The session {said}."
    elif population.started == population.lost == 1:
        yield f"The session {words('ends')['lost']}."
    elif population.started:
        counts = [(population.closed, "closed"), (population.lost, "lost"), (population.open, "open")]
        yield f"Sessions: {', '.join(f'{count} {state}' for count, state in counts if count)}."
    if population.open:
        yield "An open session has no close: it may still run, or its last records are missing."


def open_points(checks: Sequence[Check]) -> list[OpenPoint]:
    """What is not proven, refused checks first; checks that nobody asked for are left out."""
    found = [
        OpenPoint(check, *words("checks").get(check.code, (check.detail, "")))
        for check in checks
        if check.state in (State.REFUSED, State.NOT_MADE)
        or (check.state is State.HELD and check.tier is not Tier.AFFIRMING)
    ]
    order = (State.REFUSED, State.NOT_MADE, State.HELD)
    return sorted(found, key=lambda point: order.index(point.check.state))


def _names(summary: Summary, what: str, *, counted: bool = False) -> str:
    """The names, the most frequent first, visibly quoted; empty if there is none."""
    counts = sorted(summary.uses.get(what, {}).items(), key=lambda each: (-each[1], each[0]))
    shown = [quoted(_short(name)) + (f" ({count})" if counted else "") for name, count in counts[:_SHOWN]]
    left = len(counts) - len(shown) + (what in summary.more)
    return ", ".join(shown) + (f" and {left} more" if left > 0 else "")


def _short(name: str) -> str:
    """A digest by its first 48 bits; the result document has it whole."""
    return f"{name[:19]}..." if name.startswith("sha384:") else name
