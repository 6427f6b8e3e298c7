"""What changed since a bundle's own time, as a section of a page."""

from __future__ import annotations

from collections.abc import Iterator

from affiant.attestation.verdict.since_archived import Changed, QuotesCounted
from affiant.attestation.verifier.report.page import hostile
from affiant.attestation.verifier.report.text_changed import (
    advisories_text,
    counted_text,
    since_text,
    worth_text,
)

__all__ = ["changed_section"]


def changed_section(changed: Changed) -> Iterator[str]:
    """Rows, quotes and entries of the trust file."""
    yield f"<p>Since {hostile(since_text(changed))}.</p>"
    if changed.checks:
        yield "<table><tr><th>Check</th><th>Then</th><th>Now</th><th>What was found now</th></tr>"
        for row in changed.checks:
            reason = "" if row.reason is None else f" <code>[{hostile(row.reason)}]</code>"
            yield (
                f"<tr><td><code>{hostile(row.code)}</code></td><td>{row.state_before} {row.tier_before or ''}</td>"
                f"<td><b>{row.state_after} {row.tier_after or ''}</b></td><td>{hostile(row.detail)}{reason}</td></tr>"
            )
        yield "</table>"
    else:
        yield "<p>No check came out otherwise.</p>"
    if changed.counted is not None:
        yield from _counted(changed.counted)
    yield "<table><tr><th>Quote of</th><th>Then</th><th>Now</th><th>Advisories that appeared</th></tr>"
    for quote in changed.quotes:
        session = "" if quote.session is None else f" <code>{hostile(quote.session)}</code>, key"
        epoch = "" if quote.epoch == 0 else f", after narrowing {quote.epoch}"
        when = "" if quote.then is None else f"{hostile(quote.then)}: "
        yield (
            f"<tr><td>{hostile(quote.role)}{session} <code>{hostile(quote.key)}</code>{epoch}</td>"
            f"<td>{when}{hostile(worth_text(quote.before))}</td><td><b>{hostile(worth_text(quote.after))}</b></td>"
            f"<td>{hostile(advisories_text(quote))}</td></tr>"
        )
    yield "</table>"
    if changed.counted is not None and changed.counted.unnamed:
        yield f"<p><b>{changed.counted.unnamed} quotes more that changed are not shown.</b></p>"
    if changed.ended:
        yield "<p>Entries of your trust file that have ended since:</p><ul>"
        for ended in changed.ended:
            what = "ended" if ended.why == "until" else "was revoked"
            yield f"<li>{hostile(ended.list)} <code>{hostile(ended.value)}</code> {what} {hostile(ended.at)}</li>"
        yield "</ul>"


def _counted(counted: QuotesCounted) -> Iterator[str]:
    yield f"<p>Quotes: {hostile(counted_text(counted))}.</p>"
    yield "<table><tr><th>Then</th><th>Now</th><th>Quotes</th></tr>"
    for (before, after), count in sorted(counted.moves.items()):
        yield f"<tr><td>{hostile(before)}</td><td><b>{hostile(after)}</b></td><td>{count}</td></tr>"
    yield "</table>"
