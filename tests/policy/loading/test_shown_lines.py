"""The line that a refusal shows holds what explains the mistake, and never what may be a secret."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.errors import AffiantError
from affiant.policy.loading import shown_lines
from affiant.policy.loading.all_errors import MOST_REFUSALS, every_refusal
from affiant.policy.loading.load import load_profiles
from affiant.policy.loading.shown_lines import ShownDocument


def shown(text: str, floor: bytes | None = None) -> list[str]:
    """Place, line and caret of the refusal of ``text``."""
    with pytest.raises(AffiantError) as caught:
        load_profiles(text.encode(), source="p.yaml", floor=floor)
    assert caught.value.excerpt is not None
    return [caught.value.where or "", *caught.value.excerpt.lines(width=80)]


def test_a_wrong_value_is_shown_with_a_caret_under_it() -> None:
    text = (
        "agent_configs:\n  dev:\n    network_egress:\n      - {host: a.b.com, methods: [GET, post]}  # ours\n"
    )
    assert shown(text) == [
        "p.yaml:4:40",
        "  4 |       - {host: a.b.com, methods: [GET, post]}",
        "    |                                        ^",
    ]
    assert shown("agent_configs:\n  dev:\n    resources: {cpus: 1, pids: many}\n")[1:] == [
        "  3 |     resources: {cpus: 1, pids: many}",
        "    |                                ^",
    ]


def test_below_a_key_that_is_not_known_no_value_is_shown() -> None:
    assert shown("agent_configs:\n  dev:\n    secret_access: [hunter2, b]\n")[1:] == [
        "  3 |     secret_access: [*** ***",
        "    |     ^",
    ]
    assert shown("agent_configs:\n  dev:\n    name: hunter2\n")[1] == "  3 |     name: ***"


def test_a_document_that_is_not_yaml_shows_keys_alone() -> None:
    assert shown("agent_configs:\n  dev:\n    tools: [hunter2\n")[1] == "  4 |"
    assert shown("agent_configs:\n  dev:\n    tools: [hunter2]]\n")[1] == "  3 |     tools: ***"
    assert shown("agent_configs:\n  dev:\n    tools: [a]\n    tools: hunter2\n")[1] == "  4 |     tools: ***"
    assert shown("agent_configs:\n  hunter2 x\n  dev: 1")[1] == "  3 |   ***"


def test_a_line_that_begins_within_a_secret_is_not_shown() -> None:
    text = "agent_configs:\n  dev: {secrets_access: ['ab\n    hunter2 x'], tools: [a b]}\n"
    with pytest.raises(AffiantError) as caught:
        load_profiles(text.encode())
    assert caught.value.excerpt is not None
    assert "hunter" not in caught.value.excerpt.text
    line = ShownDocument(text.encode()).line(3, 5)
    assert line.text == "    *** tools: [a b]}"


def test_characters_that_look_like_others_are_shown_escaped() -> None:
    assert shown("agent_configs:\n  dev:\n    tools: ['r\u0435ad']\n")[1:] == [
        "  3 |     tools: ['r\\u0435ad']",
        "    |            " + " ^",
    ]
    for char in "\u202e\u200b\x1b\t\r":
        assert all(line.isascii() and line.isprintable() for line in shown(f"agent_configs: {{'{char}': 1}}"))


def test_the_floor_shows_its_own_line() -> None:
    assert shown("agent_configs: {dev: {}}", b"tools:\n  - run\n") == [
        "floor.yaml:2:5",
        "  2 |   - run",
        "    |     ^",
    ]


VOCABULARY = st.text("abk:-[]{},'\"# \n\u00e9\u202e\\", max_size=40)


@thorough(200)
@given(VOCABULARY, VOCABULARY, st.integers(0, 6), st.integers(1, 60))
def test_what_stands_below_secrets_access_is_on_no_line(
    before: str, after: str, number: int, column: int
) -> None:
    text = f"agent_configs:\n  dev: {{secrets_access: [{before}ZQ7{after}]}}\n"
    assert "ZQ7" not in ShownDocument(text.encode()).line(number, column).text


@thorough(150)
@given(
    st.binary(max_size=120)
    | st.text("abs:-[]{},'\"# \n\u00e9\u202e\\", max_size=80).map(
        lambda text: f"agent_configs:\n {text}".encode()
    )
)
def test_every_refusal_has_a_line_and_a_column_that_exist(data: bytes) -> None:
    try:
        load_profiles(data, source="p.yaml")
    except AffiantError as error:
        assert re.fullmatch(r"p\.yaml:[1-9][0-9]*:[1-9][0-9]*", error.where or "")
        assert error.excerpt is not None


def test_a_line_is_drawn_once_however_many_refusals_are_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of one line, and everything in it wrong, would else cost its length for each mistake."""
    drawn, draw = [], shown_lines._draw
    monkeypatch.setattr(shown_lines, "_draw", lambda *given: (drawn.append(given), draw(*given)))
    agents = ", ".join(f"a{number}: {{bad: 1}}" for number in range(30))
    refusals = every_refusal(f"agent_configs: {{{agents}}}".encode(), source="p.yaml")
    excerpts = [refusal.excerpt for refusal in refusals if refusal.excerpt is not None]
    assert len(excerpts) == len({excerpt.column for excerpt in excerpts}) == MOST_REFUSALS
    assert {excerpt.text[excerpt.column - 1 :][:3] for excerpt in excerpts} == {"bad"}
    assert len(drawn) == 2  # by the loader, and once for all that are listed
