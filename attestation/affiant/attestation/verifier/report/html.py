"""The verdict as one page for somebody who has never seen a terminal: open it, read it, print it.

Self-contained: no script at all, one style, and a policy in the page that forbids everything else (``default-src
'none'``), so that nothing in it can load, run or send (trust rules, 15). The templates hold all markup; every value in
them is masked, bounded and escaped. What is *not* proven stands before what is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

from jinja2 import Environment
from markupsafe import Markup

from affiant.attestation.verdict.actors import counted
from affiant.attestation.verdict.opening import open_points, sentences
from affiant.attestation.verdict.outcome import LEVELS
from affiant.attestation.verdict.timeline import Moment
from affiant.attestation.verdict.verdict import MAX_EXCEPTIONS, LevelState, State, Verdict
from affiant.attestation.verifier.combined import CombinedVerdict, Judged
from affiant.attestation.verifier.report.banner import Banner, banner_of
from affiant.attestation.verifier.report.text_changed import (
    advisories_text,
    counted_text,
    since_text,
    worth_text,
)
from affiant.attestation.verifier.report.text_several import head_of_several
from affiant.attestation.verifier.report.timeline_names import MAX_MOMENTS, clock, label
from affiant.html_page import hostile, template_environment, whole_page

__all__ = ["render_html", "render_html_several"]

_TEMPLATES: Final = Path(__file__).parent / "templates"
_FOLDED: Final = 200
"""Records of one session from which on the page shows them only when the reader opens the session."""
_MAX_FACT: Final = 2000
"""Characters: the codes of all checks fit."""


class _Mark(NamedTuple):
    word: str
    look: str


_MARKS: Final[Mapping[State | LevelState, _Mark]] = {
    State.HELD: _Mark("held", "good"),
    State.REFUSED: _Mark("REFUSED", "bad"),
    State.NOT_MADE: _Mark("not made", "warn"),
    State.NOT_ASKED: _Mark("not asked", "dim"),
    LevelState.OPEN: _Mark("open", "warn"),
    LevelState.LOST: _Mark("lost", "warn"),
}
"""Members with one value are one key: the states of a check are states of a level too."""


def render_html(verdict: Verdict) -> str:
    """The page of one verdict."""
    told = len(verdict.timeline)
    # Of a period bundle only the first records are told.
    untold = max(0, verdict.population.receipts - told) if told else 0
    return _page("one.html.j2", banner_of(verdict), {"view": _view(verdict, untold=untold)})


def render_html_several(verdict: CombinedVerdict) -> str:
    """The page of several: what holds for all, a table of contents, then each verdict. Its links lead nowhere else."""
    views: Mapping[str, object] = {
        "verdict": verdict,
        "banner": banner_of(verdict),
        "facts": [(name.capitalize(), value) for name, value in head_of_several(verdict)],
        "judged": list(_views(verdict.judged)),
    }
    return _page("several.html.j2", banner_of(verdict), views)


def _views(judged: Sequence[Judged]) -> Iterator[Mapping[str, object]]:
    """One for each bundle. A page shows as many records of all bundles together as of one."""
    room = MAX_MOMENTS
    for each in judged:
        told = len(each.verdict.timeline)
        # Of a period bundle only the first records are told.
        untold = max(0, each.verdict.population.receipts - told) if told or each.untold else 0
        yield {
            "file": each.file,
            "view": _view(each.verdict, untold=untold, room=room),
            "refused": next((row for row in each.verdict.checks if row.state is State.REFUSED), None),
        }
        room = max(0, room - told)


def _page(template: str, banner: Banner, views: Mapping[str, object]) -> str:
    style = "\n" + (_TEMPLATES / "style.css").read_text("utf-8")
    body = _environment().get_template(template).render(views)
    return whole_page(f"affiant: {banner.title}", style=style, body=body)


@cache
def _environment() -> Environment:
    found = template_environment(_TEMPLATES)
    found.filters["long"] = lambda text: Markup(hostile(text, limit=_MAX_FACT))  # noqa: S704 - escaped by hostile()
    found.globals |= {
        "advisories_text": advisories_text,
        "clock": clock,
        "folded": _FOLDED,
        "counted": counted,
        "counted_text": counted_text,
        "label": label,
        "levels": LEVELS,
        "marks": _MARKS,
        "since_text": since_text,
        "worth_text": worth_text,
    }
    return found


def _view(verdict: Verdict, *, untold: int, room: int = MAX_MOMENTS) -> Mapping[str, Any]:
    """What the templates say of one verdict, and ``room`` records of it. ``untold``: those taken from its timeline."""
    exceptions = list(verdict.exceptions())
    return {
        "verdict": verdict,
        "banner": banner_of(verdict),
        "facts": list(_facts(verdict)),
        "exceptions": exceptions[:MAX_EXCEPTIONS],
        "more_exceptions": max(0, len(exceptions) - MAX_EXCEPTIONS),
        "sentences": list(sentences(verdict.summary, verdict.population, verdict.answers)),
        "points": open_points(verdict.checks),
        "sessions": _by_session(verdict.timeline[:room]),
        "untold": untold + max(0, len(verdict.timeline) - room),
    }


def _by_session(moments: Sequence[Moment]) -> Sequence[tuple[str, Sequence[Moment]]]:
    """The timeline's groups: each session, or empty for the gateway's own records, and its records in order."""
    return [(name, list(those)) for name, those in groupby(moments, key=lambda each: each.session)]


def _facts(verdict: Verdict) -> Iterator[tuple[str, str]]:
    off = ", ".join(each.code for each in verdict.checks if not each.required)
    yield "Bundle", verdict.bundle
    yield "Judged at", verdict.at
    yield "Time", verdict.whose_time
    yield "Verifier build", verdict.build
    yield "Your trust file", verdict.trust
    yield "Requirements switched off", off or "none"
