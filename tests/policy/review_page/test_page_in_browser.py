"""A real Chromium shows the page: it complains about nothing, fits, prints, and its filter works."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser import Browser, browser
from tests.policy.review_page.conftest import made_review, policy_file
from tests.policy.review_page.examples import NEW, OLD, many

from affiant.policy.review.review import review_of
from affiant.policy.review_page.page import render_review

pytestmark = pytest.mark.slow

ROWS = "[...document.querySelectorAll('table.matrix tbody tr:not(.plane)')].filter((row) => row.offsetParent).length"
HEADS = "[...document.querySelectorAll('table.matrix thead th')].filter((head) => head.offsetParent).length"


@pytest.fixture(scope="module")
def shown() -> Iterator[Browser]:
    with browser() as found:
        yield found


def opened(shown: Browser, folder: Path, text: str, old: str | None = None, *, width: int = 1280) -> None:
    page = folder / "report.html"
    page.write_text(render_review(made_review(text, old)), encoding="utf-8")
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    shown.call("Emulation.setDeviceMetricsOverride", **size)
    shown.events.clear()
    shown.open(page)


def complaints(shown: Browser) -> list[dict[str, Any]]:
    shown.evaluate("new Promise((done) => setTimeout(done, 50))")
    wrong = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
    return [event for event in shown.events if event.get("method") in wrong]


def wanted(shown: Browser, field: str, text: str) -> None:
    shown.evaluate(
        f"{{const field = document.getElementById('{field}'); field.value = '{text}';"
        " field.dispatchEvent(new Event('input', {bubbles: true}))}"
    )


def test_nothing_is_blocked_and_nothing_is_asked_for(shown: Browser, tmp_path: Path) -> None:
    opened(shown, tmp_path, NEW, OLD)
    assert complaints(shown) == []
    requests = [event for event in shown.events if event.get("method") == "Network.requestWillBeSent"]
    assert [event["params"]["request"]["url"].split("/")[-1] for event in requests] == ["report.html"]
    assert shown.evaluate("getComputedStyle(document.querySelector('h1')).fontWeight") == "700"


def test_another_script_or_style_would_be_blocked(shown: Browser, tmp_path: Path) -> None:
    """The check above can fail: the policy holds in this browser."""
    opened(shown, tmp_path, NEW)
    shown.evaluate(
        "{const style = document.createElement('style'); style.textContent = 'h1{color:red}';"
        " document.head.append(style)}"
    )
    assert any("Content Security Policy" in str(event) for event in complaints(shown))


@pytest.mark.parametrize("width", [1280, 800])
def test_the_page_is_as_wide_as_its_window(shown: Browser, tmp_path: Path, width: int) -> None:
    for text, old in ((NEW, OLD), (many(30, rules=20), None)):
        opened(shown, tmp_path, text, old, width=width)
        assert shown.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_long_names_widen_nothing(shown: Browser, tmp_path: Path) -> None:
    agent, tool, path = "a" * 64, "t" * 128, "/w/" + "p" * 900
    text = f"agent_configs: {{{agent}: {{tools: [{tool}], filesystem_access: read:{path}}}}}"
    review = review_of(policy_file(text, name="n" * 200 + ".yaml"), builder="b")
    (tmp_path / "report.html").write_text(render_review(review))
    for width in (1280, 800):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        shown.call("Emulation.setDeviceMetricsOverride", **size)
        shown.open(tmp_path / "report.html")
        assert shown.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_the_filter_leaves_rows_and_agents_that_hold_the_text(shown: Browser, tmp_path: Path) -> None:
    opened(shown, tmp_path, many(30, rules=20))
    every, agents = shown.evaluate(ROWS), shown.evaluate(HEADS)
    assert agents == 30
    wanted(shown, "find-row", "h7.EXAMPLE")
    assert 0 < shown.evaluate(ROWS) < every
    assert shown.evaluate("document.getElementById('found').textContent").startswith("Filtered: ")
    wanted(shown, "find-row", "")
    wanted(shown, "find-agent", "agent_29")
    assert shown.evaluate(HEADS) == 1
    assert shown.evaluate("document.querySelectorAll('.wide[hidden]').length") == 1
    wanted(shown, "find-agent", "")
    assert (shown.evaluate(ROWS), shown.evaluate(HEADS)) == (every, 30)
    assert shown.evaluate("document.getElementById('found').textContent") == ""


def test_a_link_leads_to_its_line(shown: Browser, tmp_path: Path) -> None:
    opened(shown, tmp_path, NEW, OLD)
    shown.evaluate("document.querySelector('#warnings').parentElement.querySelector('a.place').click()")
    line = shown.evaluate("location.hash.slice(2)")
    assert shown.evaluate("document.querySelector('li:target').value || location.hash") == f"#n{line}"
    assert complaints(shown) == []


def test_heads_stay_in_sight(shown: Browser, tmp_path: Path) -> None:
    opened(shown, tmp_path, many(30, rules=20))
    shown.evaluate("document.documentElement.style.scrollBehavior")
    shown.evaluate(
        "window.scrollTo({top: document.querySelector('#matrix').offsetTop + 900, behavior: 'instant'})"
    )
    top = "Math.round(document.querySelector('table.matrix thead th').getBoundingClientRect().top)"
    assert shown.evaluate(top) == 0


def test_paper_has_everything_that_the_screen_has(shown: Browser, tmp_path: Path) -> None:
    opened(shown, tmp_path, NEW, OLD)
    shown.call("Emulation.setEmulatedMedia", media="print")
    try:
        size = {"width": 690, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        shown.call("Emulation.setDeviceMetricsOverride", **size)
        cut = (
            "[...document.querySelectorAll('table,svg,pre,dl,p')]"
            ".filter((each) => each.getBoundingClientRect().right > innerWidth + 1).length"
        )
        assert shown.evaluate(cut) == 0
        assert shown.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    finally:
        shown.call("Emulation.setEmulatedMedia", media="")
