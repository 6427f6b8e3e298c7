"""Makes the source section: the files line by line, so that every place in the page is a link to its line.

Each value is shown that its field allows (``shown_lines``, of a file that loads): the forms of secrets' headers and
placeholders are ``***``, and so is what has the form of a service's tokens. Comments are left out; the file has those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from affiant.policy.loading.shown_lines import ShownDocument
from affiant.policy.review.edition import MAX_LINES, Document
from affiant.policy.review.page_text import PublicText
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
    shown = ShownDocument(document.data, loaded=True)
    count = document.data.count(b"\n") + (not document.data.endswith(b"\n"))
    numbers = range(1, min(count, MAX_LINES) + 1)
    return {
        "name": document.name,
        "which": which,
        "prefix": document.prefix,
        "lines": [(number, PublicText(shown.line(number, 1).text)) for number in numbers],
        "left_out": max(0, count - MAX_LINES),
    }
