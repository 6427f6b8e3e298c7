"""Renders the review page: one file that loads nothing, for a browser, a screen reader or a printer.

The templates beside this module hold all markup. Every expression in them is escaped, after :func:`plain` has masked
and bounded it; an undefined name is an error. The same review gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Undefined
from markupsafe import Markup

from affiant.html_page import whole_page
from affiant.policy.review.changes import changes
from affiant.policy.review.flows import flows
from affiant.policy.review.page_text import plain
from affiant.policy.review.review import Review
from affiant.policy.review.summary import summary
from affiant.policy.review_page.introduction import editions, numbers
from affiant.policy.review_page.matrix_tables import matrix
from affiant.policy.review_page.pictures import pictures
from affiant.policy.review_page.rules import rules
from affiant.policy.review_page.source import source
from affiant.policy.review_page.warnings import warned

__all__ = ["TEMPLATES", "environment", "render_review"]

TEMPLATES: Final = Path(__file__).parent / "templates"


def render_review(review: Review) -> str:
    """HTML 5, in UTF-8."""
    source_name = plain(review.new.profiles.source)
    return whole_page(
        f"Policy review: {source_name[:120]}{'...' * (len(source_name) > 120)}",
        style=_text("style.css"),
        body=environment().get_template("page.html.j2").render(_views(review)),
        script=_text("filter.js"),
    )


def _views(review: Review) -> Mapping[str, object]:
    """What the templates may name, by section."""
    return {
        "file": review.new.profiles.source,
        "old_file": None if review.old is None else review.old.profiles.source,
        "builder": review.builder,
        "left_out": review.left_out,
        "numbers": numbers(review),
        "editions": editions(review),
        "at": review.at or "",
        "changes": changes(review),
        "summary": summary(review),
        "warnings": warned(review),
        "matrix": matrix(review),
        "flows": flows(review),
        "pictures": pictures(review),
        "rules": rules(review),
        "documents": source(review),
    }


@cache
def environment() -> Environment:
    """The templates of the page, with escaping that cannot be left out."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printed,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


def _printed(value: object) -> str | int:
    """The value of an expression, on its way to being escaped; markup comes from macros only."""
    match value:
        case Markup() | int():
            return value
        case str():
            return plain(value)
        case Undefined():
            return str(value)  # raises UndefinedError, which names it
        case _:
            raise TypeError(
                f"a template prints a value of type {type(value).__name__}; expected text or a number"
            )


def _text(name: str) -> str:
    return "\n" + (TEMPLATES / name).read_text("utf-8")
