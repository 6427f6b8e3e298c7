"""A page lets nothing run or load but the one style and the one script that it names."""

from __future__ import annotations

import base64
import hashlib
import re
from html import unescape

from affiant.html_page import hostile, whole_page


def directives(page: str) -> dict[str, str]:
    policy = unescape(re.findall(r'Content-Security-Policy" content="([^"]*)"', page)[0])
    return dict(rule.split(" ", 1) for rule in policy.split("; "))


def named(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def test_a_page_without_a_script_allows_none() -> None:
    page = whole_page("t", style="p{}", body="<p></p>")
    assert directives(page) == {
        "default-src": "'none'",
        "style-src": named("p{}"),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert "<script" not in page


def test_a_pages_one_script_is_named_by_its_digest() -> None:
    page = whole_page("t", style="p{}", body="<p></p>", script="void 0")
    assert directives(page)["script-src"] == named("void 0")
    assert directives(page)["require-trusted-types-for"] == "'script'"
    assert page.endswith("<script>void 0</script>\n</body>\n</html>\n")


def test_a_title_is_text() -> None:
    assert "<title>&lt;b&gt;\\u202e</title>" in whole_page("<b>\u202e", style="", body="")
    assert hostile('"x' + "y" * 500) == "&quot;x" + "y" * 398 + "..."
