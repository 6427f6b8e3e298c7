"""The page about a file of profiles, whole: one file that loads nothing, for a browser, a screen reader or a printer.

In its order: what it is, what changed, each agent in a sentence, warnings, who may do what, where secrets can flow, a
picture, the rules, the source. The same review gives the same bytes.
"""

from __future__ import annotations

from affiant.html_page import whole_page
from affiant.policy.review.changes import changes
from affiant.policy.review.elements import element, plain, text
from affiant.policy.review.flows import flows
from affiant.policy.review.review import Review
from affiant.policy.review.summary import summary
from affiant.policy.review_page.introduction import contents, opening
from affiant.policy.review_page.limits_of_page import reading
from affiant.policy.review_page.matrix_tables import matrix
from affiant.policy.review_page.picture import picture, pictures
from affiant.policy.review_page.rules import rules
from affiant.policy.review_page.script import SCRIPT
from affiant.policy.review_page.source import source
from affiant.policy.review_page.style import STYLE
from affiant.policy.review_page.warnings import warned

__all__ = ["render_review"]


def render_review(review: Review) -> str:
    """HTML 5, in UTF-8."""
    main = element(
        "main",
        changes(review),
        summary(review),
        warned(review),
        matrix(review),
        flows(review),
        picture(review),
        rules(review, pictures(review)),
        source(review),
        reading(),
        id="main",
        tabindex=-1,
    )
    skip = element("a", text("Skip to the content"), href="#main", cls="skip")
    footer = element("footer", element("p", text(f"affiant policy report, {review.builder}")))
    body = "\n".join((skip, opening(review), contents(review), main, footer))
    title = f"Policy review: {plain(review.new.profiles.source, limit=120)}"
    return whole_page(title, style=STYLE, body=body, script=SCRIPT)
