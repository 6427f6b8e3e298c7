"""The files themselves, line by line, so that every place in the page leads to its line.

Lines are shown as a refusal shows them (``shown_lines``): what may be a pasted secret is ``***``,
everything under ``secrets_access`` among it; comments are left out. Whoever needs those opens the file.
"""

from __future__ import annotations

from affiant.policy.loading.shown_lines import ShownDocument
from affiant.policy.review.edition import MAX_LINES, Document, Edition
from affiant.policy.review.elements import NOTHING, Html, element, heading, name, text
from affiant.policy.review.review import Review

__all__ = ["source"]

_MAX_COLUMNS = 2000


def source(review: Review) -> Html:
    """Every document of both versions."""
    lead = (
        "With *** in place of whatever may be a pasted secret: everything under secrets_access, and everything below "
        "names that are not the format's own, such as a tool's arguments. Without comments."
    )
    return element(
        "section",
        heading(2, text("Source"), anchor="source"),
        element("p", text(lead), cls="dim"),
        *_edition(review.new, "" if review.old is None else " (this version)"),
        *(() if review.old is None else _edition(review.old, " (the version compared with)")),
        aria_labelledby="source",
    )


def _edition(edition: Edition, which: str) -> list[Html]:
    return [_document(document, which) for document in edition.documents]


def _document(document: Document, which: str) -> Html:
    shown = ShownDocument(document.data)
    count = document.data.count(b"\n") + (not document.data.endswith(b"\n"))
    lines = (
        element(
            "li",
            element("code", text(shown.line(number, 1).text, limit=_MAX_COLUMNS)),
            id=f"{document.prefix}{number}",
        )
        for number in range(1, min(count, MAX_LINES) + 1)
    )
    more = element("p", element("strong", text(f"{count - MAX_LINES} lines more are not shown.")))
    anchor = f"{document.prefix}0"
    return element(
        "section",
        heading(3, name(document.name), text(which), anchor=anchor),
        element("ol", *lines, cls="source"),
        more if count > MAX_LINES else NOTHING,
    )
