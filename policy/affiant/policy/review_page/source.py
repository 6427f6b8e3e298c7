"""Makes the source section: the files line by line, so that every place in the page is a link to its line.

Lines are shown as an error message shows them (``shown_lines``): what may be a pasted secret is ``***``, everything
under ``secrets_access`` among it; comments are left out. The file itself has those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from affiant.policy.loading.shown_lines import ShownDocument
from affiant.policy.review.edition import MAX_LINES, Document
from affiant.policy.review.page_text import LongText
from affiant.policy.review.review import Review

__all__ = ["source"]


def source(review: Review) -> Sequence[Mapping[str, object]]:
    """Every document of both versions."""
    found = [
        _document(each, "" if review.old is None else " (this version)") for each in review.new.documents
    ]
    if review.old is not None:
        found += [_document(each, " (the version compared with)") for each in review.old.documents]
    return found


def _document(document: Document, which: str) -> Mapping[str, object]:
    shown = ShownDocument(document.data)
    count = document.data.count(b"\n") + (not document.data.endswith(b"\n"))
    numbers = range(1, min(count, MAX_LINES) + 1)
    return {
        "name": document.name,
        "which": which,
        "prefix": document.prefix,
        "lines": [(number, LongText(shown.line(number, 1).text)) for number in numbers],
        "left_out": max(0, count - MAX_LINES),
    }
