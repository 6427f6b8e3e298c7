"""The verdict as one page for somebody who has never seen a terminal: open it, read it, print it.

Self-contained: no script at all, one style, and a policy in the page that forbids everything else (``default-src
'none'``), so that nothing in it can load, run or send. Every string that comes from a bundle is escaped, bounded and
marked as such. What is *not* proven stands before what is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final

from affiant.attestation.verdict.actors import People, counted
from affiant.attestation.verdict.verdict import (
    LEVELS,
    MAX_EXCEPTIONS,
    Check,
    Population,
    State,
    Tier,
    Verdict,
)
from affiant.attestation.verifier.combined import CombinedVerdict
from affiant.attestation.verifier.report.html_changed import changed_section
from affiant.attestation.verifier.report.page import hostile, whole_page
from affiant.attestation.verifier.report.timeline_csv import timeline_table

__all__ = [
    "banner",
    "checks_table",
    "facts_list",
    "outcome",
    "population_table",
    "render_html",
    "sections",
]

_LIMITS: Final = (
    "A receipt says what the measured gateway code saw, did and decided; not that a model computed the answer.",
    "No claim is made against whoever holds the machine (physical attacks on TDX are known).",
    "Times are the signers' own clocks until witnesses have cosigned the log.",
)
_MAX_FACT: Final = 2000
"""Characters: the codes of all checks fit."""
_MARKS: Final = {
    State.HELD: ("held", "good"),
    State.REFUSED: ("REFUSED", "bad"),
    State.NOT_MADE: ("not made", "warn"),
    State.NOT_ASKED: ("not asked", "dim"),
}


def render_html(verdict: Verdict) -> str:
    """The whole page."""
    title = "<h1>Receipts of an AI agent's session, checked offline</h1>"
    told = len(verdict.timeline)
    untold = (
        max(0, verdict.population.receipts - told) if told else 0
    )  # of a period bundle only the first are told
    return whole_page(outcome(verdict)[0], [title, *sections(verdict, untold=untold)])


def sections(verdict: Verdict, *, head: str = "h2", untold: int = 0) -> Iterator[str]:
    """Everything that the page says of one verdict.

    Args:
        head: the element of each section's heading.
        untold: records that were taken from its timeline.
    """
    yield from banner(outcome(verdict), verdict)
    if verdict.changed is not None:
        yield f"<{head}>What changed since its own time</{head}>"
        yield from changed_section(verdict.changed)
    for title, rows in (
        ("What was judged", _facts(verdict)),
        ("What is not proven", _not_proven(verdict)),
        ("Who is in it", _population(verdict)),
        ("Exceptions", _exceptions(verdict)),
        ("Who started, signed, approved, erased", _people(verdict.people)),
        ("Levels", _levels(verdict)),
        ("Who did what, under which rule", timeline_table(verdict.timeline, untold=untold)),
        ("Every check", checks_table(verdict.checks)),
    ):
        yield f"<{head}>{title}</{head}>"
        yield from rows


def outcome(verdict: Verdict | CombinedVerdict) -> tuple[str, str, str]:
    """Title, class of the banner, one sentence."""
    if verdict.tier is Tier.CONTRAINDICATED:
        return "refused", "bad", "At least one check was refused. Do not rely on these receipts."
    if verdict.simulated:
        return (
            "SIMULATED",
            "sim",
            "Everything that could be checked holds, on a simulated platform. Nothing here is evidence of hardware.",
        )
    match verdict.tier:
        case Tier.AFFIRMING:
            return "affirming", "good", "Every required check was made and holds, on genuine hardware."
        case Tier.WARNING:
            return "warning", "warn", "Nothing was refused, but something that you require was not affirmed."
        case _:
            return "none", "warn", "Something that you require could not be checked. This affirms nothing."


def banner(said: tuple[str, str, str], verdict: Verdict | CombinedVerdict) -> Iterator[str]:
    """What it comes to, in colour: an :func:`outcome`, tier, level and exit code."""
    title, look, sentence = said
    yield f'<div class="banner {look}" role="status"><p><strong>{title}</strong></p><p>{sentence}</p>'
    level = verdict.level or "none reached"
    yield (
        f"<p>Tier <b>{verdict.tier}</b>, level <b>{level}</b>, exit code <b>{verdict.exit_code}</b>. "
        f"Judged at {escape(verdict.at)}.</p></div>"
    )


def _not_proven(verdict: Verdict) -> Iterator[str]:
    yield "<ul>"
    for check in verdict.checks:
        if check.state is State.REFUSED:
            yield f'<li><b class="bad">{hostile(check.code)}</b>: {hostile(check.detail)}</li>'
    for check in verdict.checks:
        if check.state is State.NOT_MADE:
            yield f"<li><b>{hostile(check.code)}</b> was not checked: {hostile(check.detail)}</li>"
    for check in verdict.checks:
        if check.state is State.NOT_ASKED:
            yield f"<li><b>{hostile(check.code)}</b> was not asked: {hostile(check.detail)}</li>"
    yield from (f"<li>{text}</li>" for text in _LIMITS)
    yield "</ul>"


def _facts(verdict: Verdict) -> Iterator[str]:
    optional = (each for each in verdict.checks if not each.required)
    off = ", ".join(check.code for check in optional) or "none"
    rows = (
        ("Bundle", verdict.bundle),
        ("Judged at", verdict.at),
        ("Time", verdict.whose_time),
        ("Verifier build", verdict.build),
        ("Your trust file", verdict.trust),
        ("Requirements switched off", off),
    )
    yield from facts_list(rows)


def facts_list(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Names, which are our own, with their values."""
    yield "<dl>"
    yield from (
        f"<dt>{name}</dt><dd><code>{hostile(value, limit=_MAX_FACT)}</code></dd>" for name, value in rows
    )
    yield "</dl>"


def population_table(people: Population) -> Iterator[str]:
    """How many of each, and of which kinds."""
    yield "<table><tr><th>Sessions</th><th>Receipts</th><th>By kind</th></tr><tr>"
    yield (
        f"<td>{people.started} started, {people.closed} closed, {people.lost} lost, {people.open} open"
        + (f", {people.foreign} not judged" if people.foreign else "")
        + "</td>"
    )
    counts = f"{people.receipts} in {people.chains} chains, {people.restarts} restarts"
    yield f"<td>{counts}, {people.refusals} refusals</td>"
    kinds = ", ".join(f"{count} {hostile(kind)}" for kind, count in sorted((people.kinds or {}).items()))
    yield f"<td>{kinds or 'nothing'}</td></tr></table>"


def _population(verdict: Verdict) -> Iterator[str]:
    yield from population_table(verdict.population)
    yield f"<p>Longest unwitnessed stretch: <b>{hostile(verdict.stretch)}</b>.</p>"


def _exceptions(verdict: Verdict) -> Iterator[str]:
    those = list(verdict.exceptions())
    if not those:
        yield "<p>None.</p>"
        return
    yield "<table><thead><tr><th>Check</th><th>Tier</th><th>Receipt</th><th>What was found</th></tr></thead>"
    for check, where in those[:MAX_EXCEPTIONS]:
        _, look = _MARKS[check.state] if check.state is State.REFUSED else ("", "warn")
        yield (
            f'<tr><td class="code"><code>{hostile(check.code)}</code></td>'
            f'<td><span class="tag {look}">{check.tier}</span></td>'
            f"<td><code>{hostile(where or '')}</code></td><td>{hostile(check.detail)}</td></tr>"
        )
    yield "</table>"
    if len(those) > MAX_EXCEPTIONS:
        yield f"<p><b>{len(those) - MAX_EXCEPTIONS} exceptions more are not shown.</b></p>"


def _people(people: People) -> Iterator[str]:
    yield (
        '<p class="dim">As authentic records and keysets say it. Texts in typewriter face come from the bundle; '
        "whether an approval's or an order's own signature was judged, the checks say.</p>"
    )
    yield "<table><thead><tr><th>Did</th><th>Who</th><th>How often</th></tr></thead>"
    for did, unit, those, more in people.lists():
        if not those:
            yield f'<tr><td>{did}</td><td class="dim">nobody</td><td></td></tr>'
        for one in those:
            facts = "".join(
                f"<li>{name}: <code>{hostile(value)}</code></li>" for name, value in one.facts.items()
            )
            first = (
                "" if one.receipt is None else f"<li>first receipt: <code>{hostile(one.receipt)}</code></li>"
            )
            yield f'<tr><td>{did}</td><td><ul class="facts">{facts}{first}</ul></td><td>{counted(one, unit)}</td></tr>'
        if more:
            yield f"<tr><td>{did}</td><td><b>{more} more are not shown</b></td><td></td></tr>"
    yield "</table>"


def _levels(verdict: Verdict) -> Iterator[str]:
    yield "<table>"
    for level, meaning in LEVELS.items():
        mark, look = _MARKS[verdict.level_state(level)]
        yield f'<tr><td><b>{level}</b></td><td><span class="tag {look}">{mark}</span></td><td>{meaning}</td></tr>'
    yield "</table>"


def checks_table(checks: Sequence[Check]) -> Iterator[str]:
    """One row for each check."""
    yield "<table><thead><tr><th>Check</th><th>Result</th><th>Tier</th><th>What was found</th></tr></thead>"
    for check in checks:
        mark, look = _MARKS[check.state]
        reason = "" if check.reason is None else f" <code>[{hostile(check.reason)}]</code>"
        where = (
            "" if not check.where else f'<br><span class="dim">{", ".join(map(hostile, check.where))}</span>'
        )
        tier = "" if check.tier is None else str(check.tier)
        required = "" if check.required else ' <span class="dim">(not required)</span>'
        yield (
            f'<tr><td class="code"><code>{hostile(check.code)}</code>{required}</td>'
            f'<td><span class="tag {look}">{mark}</span></td><td>{tier}</td>'
            f"<td>{hostile(check.detail)}{reason}{where}</td></tr>"
        )
    yield "</table>"
