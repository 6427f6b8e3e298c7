"""The verdict over several bundles as one page: what holds for all, a table of contents, then each verdict."""

from __future__ import annotations

from collections.abc import Iterator

from affiant.attestation.verdict.verdict import State
from affiant.attestation.verifier.combined import CombinedVerdict, Judged
from affiant.attestation.verifier.report.html import (
    banner,
    checks_table,
    facts_list,
    outcome,
    population_table,
    sections,
)
from affiant.attestation.verifier.report.page import hostile, whole_page
from affiant.attestation.verifier.report.text_several import head_of_several

__all__ = ["render_html_several"]


def render_html_several(verdict: CombinedVerdict) -> str:
    """The whole page. Its links lead to places on itself alone."""
    return whole_page(outcome(verdict)[0], _body(verdict))


def _body(verdict: CombinedVerdict) -> Iterator[str]:
    yield "<h1>Receipts of AI agents' sessions, checked offline</h1>"
    yield from banner(outcome(verdict), verdict)
    yield "<h2>The bundles</h2>"
    yield from _contents(verdict)
    yield "<h2>What was judged</h2>"
    yield from facts_list((name.capitalize(), value) for name, value in head_of_several(verdict))
    yield "<h2>Who is in them</h2>"
    yield from population_table(verdict.population)
    yield '<p class="dim">A record that several bundles carry is counted once.</p>'
    yield "<h2>What the bundles say of each other</h2>"
    yield from checks_table(verdict.across)
    for number, each in enumerate(verdict.judged, start=1):
        yield f'<section class="bundle" id="bundle-{number}"><h2>{number}. <code>{hostile(each.file)}</code></h2>'
        yield from sections(each.verdict, head="h3", untold=each.untold)
        yield "</section>"


def _contents(verdict: CombinedVerdict) -> Iterator[str]:
    titles = ("", "Bundle", "Outcome", "Level", "Receipts", "First refusal")
    yield "<table><tr>" + "".join(f"<th>{title}</th>" for title in titles) + "</tr>"
    for number, each in enumerate(verdict.judged, start=1):
        yield _entry(number, each)
    yield "</table>"


def _entry(number: int, judged: Judged) -> str:
    verdict = judged.verdict
    word, look, _ = outcome(verdict)
    refused = next((check for check in verdict.checks if check.state is State.REFUSED), None)
    why = (
        "" if refused is None else f"<code>[{hostile(refused.reason or '')}]</code> {hostile(refused.detail)}"
    )
    return (
        f'<tr><td>{number}</td><td><a href="#bundle-{number}"><code>{hostile(judged.file)}</code></a></td>'
        f'<td><span class="tag {look}">{word}</span></td><td>{verdict.level or "none"}</td>'
        f"<td>{verdict.population.receipts}</td><td>{why}</td></tr>"
    )
