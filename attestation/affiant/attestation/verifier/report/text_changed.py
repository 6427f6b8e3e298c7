"""What changed since a bundle's own time, as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from affiant.attestation.verdict.lines import quoted, wrapped
from affiant.attestation.verdict.since_archived import Changed, QuoteChanged, QuotesCounted, Worth

__all__ = ["advisories_text", "changed_lines", "counted_text", "since_text", "worth_text"]

_MAX_SHOWN: Final = 12
"""Advisories in a line."""
_MAX_QUOTES: Final = 20
"""Of a period bundle."""


def changed_lines(changed: Changed) -> Iterator[str]:
    """Rows, quotes and entries of the trust file, one after the other."""
    yield from wrapped("CHANGED SINCE    ", since_text(changed))
    if not changed.checks:
        yield "no check came out otherwise"
    for row in changed.checks:
        reason = "" if row.reason is None else f" [{row.reason}]"
        before, after = _said(row.state_before, row.tier_before), _said(row.state_after, row.tier_after)
        yield from wrapped(f"{row.code:<20}", f"{before} -> {after}{reason}: {row.detail}")
    if changed.counted is not None:
        yield from _counted(changed.counted)
    for quote in changed.quotes[: None if changed.counted is None else _MAX_QUOTES]:
        yield from wrapped(f"{f'quote, {quote.role}':<20}", _quote(quote))
    if changed.counted is not None and (more := changed.counted.changed - _MAX_QUOTES) > 0:
        yield f"{'':<20}and {more} quotes more that changed, the first of them in --json and --html"
    for ended in changed.ended:
        what = "ended" if ended.why == "until" else "was revoked"
        yield from wrapped(f"{'trust file':<20}", f"{ended.list} {quoted(ended.value)} {what} {ended.at}")


def _counted(counted: QuotesCounted) -> Iterator[str]:
    yield from wrapped(f"{'quotes':<20}", counted_text(counted))
    for (before, after), count in sorted(counted.moves.items()):
        yield from wrapped(" " * 20, f"{count}: {before} -> {after}")


def counted_text(counted: QuotesCounted) -> str:
    """How many were judged, and how many are worth something else now."""
    left = f"; of {counted.not_judged} keysets the quote was not judged" if counted.not_judged else ""
    return f"{counted.judged} judged then and now, {counted.changed} are worth something else now{left}"


def since_text(changed: Changed) -> str:
    """Since when, by whose word, and what it came to then."""
    by = {"asked": "as you asked", "signers": "by the signers' own clocks alone"}.get(
        changed.by, f"by {changed.by}"
    )
    whose = "your own collateral" if changed.own_collateral else "the archived collateral, judged now"
    level = changed.level or "none reached"
    return (
        f"{changed.then} ({by}); then tier {changed.tier}, level {level}, exit code {changed.exit_code}; "
        f"quotes judged again with {whose}"
    )


def _said(state: str, tier: str | None) -> str:
    return state if tier is None else f"{state} {tier}"


def _quote(quote: QuoteChanged) -> str:
    appeared = f"; advisories appeared: {advisories_text(quote)}" if quote.appeared else ""
    whose = "" if quote.session is None else f"session {quoted(quote.session)}, "
    when = "" if quote.then is None else f"at {quote.then} "
    epoch = "" if quote.epoch == 0 else f" after restriction {quote.epoch}"
    worths = f"{worth_text(quote.before)} -> {worth_text(quote.after)}"
    return f"{whose}key {quoted(quote.key)}{epoch}: {when}{worths}{appeared}"


def worth_text(worth: Worth) -> str:
    """TCB status and what refused it, with the collateral that says so."""
    status = "no TCB status" if worth.tcb is None else f"TCB {worth.tcb}"
    refused = "" if worth.refused is None else f", [{worth.refused}] {worth.detail}"
    said = "" if worth.issued is None else f" (evaluation {worth.evaluation}, issued {worth.issued})"
    return f"{status}{said}{refused}"


def advisories_text(quote: QuoteChanged) -> str:
    """Those that appeared, bounded."""
    more = len(quote.appeared) - _MAX_SHOWN
    return ", ".join(quote.appeared[:_MAX_SHOWN]) + (f" and {more} more" if more > 0 else "")
