"""Whatever stands in a policy stays text: in tables, picture, differences and source; so does the file's name."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policy.review_page.conftest import Page, made_review, policy_file
from tests.properties import thorough

from affiant.errors import AffiantError
from affiant.policy.review.review import review_of
from affiant.policy.review_page.page import render_review

GRANT = "network_egress: allowed:a.com, secrets_access: [{name: K, "
SECRET = "ghp_0123456789abcdefABCDEF0123456789abcd"
MARKUP = "</code></td><script>alert(1)</script><img src=x onerror=1>\"'&{}--><style>*{}</style>"
SHAPE = re.compile(r"[A-Za-z0-9 .,:;#/_+=()'-]*\Z")
"""What may stand in an attribute of the page's body: our own words, numbers, links into the page."""


def shape_of(page: Page) -> list[tuple[str, tuple[str, ...]]]:
    """Elements and the names of their attributes, in order; in the picture, a long name has another line."""
    return [(tag, tuple(attributes)) for tag, attributes in page.elements if tag != "text"]


def text_of(value: str, path: str, target: str, form: str) -> str:
    """A profile in which hostile strings stand wherever the format allows any."""
    return f"""\
agent_configs:
  dev:
    tools: [{{name: t, args: {{a: {{one_of: [{json.dumps(value)}]}}, b: {{under: /w}}}}}}]
    filesystem_access: [read:/w, {{path: {json.dumps("/w/" + path)}, mode: read-write}}]
    network_egress: [{{host: www.a.com, paths: [{json.dumps("/" + target)}]}}]
    secrets_access: [{{name: K, hosts: [www.a.com], inject: {{header: x-k, format: {json.dumps(form)}}}}}]
"""


PLAIN = text_of("x", "y", "z", "k {}")
SHAPE_OF_PLAIN = shape_of(Page(render_review(made_review(PLAIN))))
printable = st.text("<>&\"'=/`;:#%!()x -\u05d0\u0301", min_size=1, max_size=24)


@thorough(30)
@given(
    value=st.text(max_size=30) | printable,
    path=printable,
    target=st.text("%3CE2x;&()@", max_size=12),
    form=printable,
)
def test_no_string_adds_an_element_or_an_attribute(value: str, path: str, target: str, form: str) -> None:
    """The page has the elements that it has with harmless strings: the only difference is in its texts."""
    tried = {"value": value, "path": path, "target": target, "form": f"{form}{{}}"}
    plain = {"value": "x", "path": "y", "target": "z", "form": "k {}"}
    for key in list(tried):  # what the format refuses is tried no further
        try:
            policy_file(text_of(**{**plain, key: tried[key]}))
        except (AffiantError, UnicodeEncodeError):
            tried[key] = plain[key]
    page = Page(render_review(made_review(text_of(**tried))))
    assert shape_of(page) == SHAPE_OF_PLAIN
    for tag, attributes in page.elements:
        for given_name, attribute in attributes.items():
            if tag not in ("meta", "path"):
                assert SHAPE.match(attribute or ""), (tag, given_name, attribute)


def test_markup_in_every_place_that_allows_it_is_shown_as_written() -> None:
    text = text_of(MARKUP, "a&b;(c)%d#1@me", "%3Cb%3E&x", '"];"<img src=x>|`{}`#1')
    review = made_review(text, PLAIN)
    page = Page(render_review(review))
    assert not page.all("img")
    assert len(page.all("script")) == len(page.all("style")) == 1
    assert "&lt;script&gt;alert(1)" in page.source
    assert "/w/a&b;(c)%d#1@me" in page.text


def test_a_files_name_is_only_a_name() -> None:
    name = "<b>\u202e\n\"'&.yaml"
    page = Page(render_review(review_of(policy_file(PLAIN, name=name), builder="b")))
    assert not page.all("i")
    assert "\u202e" not in page.source
    assert "&lt;b&gt;\\u202e\\n" in page.source
    assert '<a class="place" href="#n3">' in page.source


def test_right_to_left_letters_reorder_nothing() -> None:
    """They are shown as they are; the style overrides the direction of every element."""
    page = Page(render_review(made_review(text_of("x", "\u05d0\u05d1/x", "z", "{}"))))
    assert "/w/\u05d0\u05d1/x" in page.text
    assert "body *{direction:ltr;unicode-bidi:isolate-override}" in page.source


@pytest.mark.parametrize(
    "text",
    [
        f"agent_configs: {{dev: {{tools: [{SECRET}]}}}}",
        f"agent_configs: {{{SECRET}: {{tools: [x]}}}}",
        f"agent_configs: {{dev: {{models: [{SECRET}]}}}}",
        f"agent_configs: {{dev: {{filesystem_access: read:/w/{SECRET}}}}}",
        f"agent_configs: {{dev: {{tools: [{{name: t, args: {{a: {{const: {SECRET}}}}}}}]}}}}",
        f"agent_configs: {{dev: {{network_egress: [{{host: a.com, paths: [/{SECRET}]}}]}}}}",
        f'agent_configs: {{dev: {{{GRANT}inject: {{header: x-k, format: "{SECRET} {{}}"}}}}]}}}}',
        f"# {SECRET}\nagent_configs: {{}}",
    ],
)
def test_a_pasted_secret_is_nowhere_in_the_page(text: str) -> None:
    for old in (None, PLAIN):
        assert not shows(render_review(made_review(text, old)))
    assert not shows(render_review(made_review(PLAIN, text)))


def test_no_part_of_a_pasted_secret_is_left_where_names_are_cut() -> None:
    """Many agents: names in heads of narrow columns, pictures of their own."""
    agents = ", ".join(f"a{at}: {{tools: [x]}}" for at in range(7))
    path = "/w/" + "x" * 50 + f"/{SECRET}/" + "y" * 50
    text = f"agent_configs: {{{agents}, {SECRET}: {{tools: [{SECRET}], filesystem_access: read:{path}}}}}"
    assert not shows(render_review(made_review(text)))
    name = f"{SECRET}.yaml"
    assert not shows(render_review(review_of(policy_file(text, name=name), builder="b")))


def shows(page: str) -> bool:
    """Whether eight characters of the secret stand beside each other; in digests none of these do."""
    digests = re.sub(r"sha(256|384):[0-9a-f]+|sha256-[A-Za-z0-9+/=]+", "", page)
    return any(SECRET[at : at + 8] in digests for at in range(len(SECRET) - 8))


def test_a_pasted_value_that_reads_like_none_is_not_shown_where_values_are_pasted() -> None:
    """Formats and shapes of secrets hold free text: a short password reads like any word."""
    old = f'agent_configs: {{dev: {{{GRANT}inject: {{header: x-k, format: "{{}}"}}}}]}}}}'
    pasted = 'inject: {header: x-k, format: "hunter2 {}"}, shape: "swordfish{30}"'
    new = f"agent_configs: {{dev: {{{GRANT}{pasted}}}]}}}}"
    page = Page(render_review(made_review(new, old)))
    assert "hunter2" not in page.source
    assert "swordfish" not in page.source
    assert "format of K" in page.text
    assert "within a text of its own" in page.text
