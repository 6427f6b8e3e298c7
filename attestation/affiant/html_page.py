"""The frame of every page that a command writes: a policy that forbids everything that is not in the page, by digest.

``default-src 'none'`` lets nothing load, run or send; the one style, and the one script where there is one, are named
by their SHA-256 (Content Security Policy level 3, section 2.3.1), so that no string in the page can become either.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Undefined
from markupsafe import Markup

from affiant.command_line import printable

__all__ = ["hostile", "template_environment", "whole_page"]

_TEMPLATES: Final = Path(__file__).parent / "templates"
_MAX_TEXT: Final = 400


def hostile(text: str, *, limit: int = _MAX_TEXT) -> str:
    """``text`` escaped for the terminal's tricks first, then for HTML, and bounded."""
    shown = printable(text, limit=limit)
    return escape(shown, quote=True)


def template_environment(folder: Path) -> Environment:
    """The Jinja2 templates in ``folder``: every value is masked, bounded and escaped; an undefined name is an error."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printed,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


def _printed(value: object) -> str | int:
    """A value on its way to being escaped; markup comes from the templates' own macros only."""
    match value:
        case Markup() | int():
            return value
        case str():
            return printable(value, limit=_MAX_TEXT)
        case Undefined():
            return str(value)  # raises UndefinedError, which names it
        case _:
            raise TypeError(
                f"a template prints a value of type {type(value).__name__}; expected text or a number"
            )


def whole_page(title: str, *, style: str, body: str, script: str = "") -> str:
    """The page around ``body``, which is markup already; ``style`` and ``script`` are our own and constant.

    Args:
        title: text, escaped here.
    """
    policy = ["default-src 'none'", f"style-src '{_digest(style)}'"]
    policy += [f"script-src '{_digest(script)}'", "require-trusted-types-for 'script'"] if script else []
    policy += ["base-uri 'none'", "form-action 'none'"]
    page = template_environment(_TEMPLATES).get_template("page.html.j2")
    ours = {name: Markup(text) for name, text in (("style", style), ("body", body), ("script", script))}  # noqa: S704
    return page.render(title=title, policy="; ".join(policy), **ours) + "\n"


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode("utf-8")).digest()).decode("ascii")
